"""A source distribution and a wheel, and installing them beside a fairseq of the user's own."""

import ast
import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib import metadata

import pytest
from cli_helpers import BIN, COMPOSED, ROOT, SYSTEM_PATH, TRAINING, WORDS, write
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fairseq_groc

PACKAGE = ROOT / "fairseq_groc"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
PIP = [sys.executable, "-m", "pip", "--quiet"]
OFFLINE = ["--no-deps", "--no-index"]
OF_FAIRSEQ = {"fairseq", "hydra", "omegaconf"}  # whichever distribution brings it brings the others


def test_a_missing_or_broken_fairseq_is_one_clear_message(tmp_path):
    broken = tmp_path / "fairseq"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ValueError('mutable default')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", "import fairseq_groc"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    message = done.stderr.splitlines()[-1]
    assert done.returncode and "needs a working fairseq" in message and "mutable default" in message
    assert "pip install fairseq-fixed" in message


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source distribution of the repository, and the wheel that pip makes of it."""
    folder = tmp_path_factory.mktemp("distributions")
    skipped = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "quickstart-run", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=skipped)
    subprocess.run([sys.executable, "-c", BUILD, folder], check=True, cwd=folder / "source", stdout=subprocess.DEVNULL)
    shutil.rmtree(folder / "source")
    (sdist,) = folder.glob("*.tar.gz")
    subprocess.run([*PIP, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", folder, sdist], check=True)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def described(distributions):
    """What the wheel says of itself: version, requirements and the like."""
    with zipfile.ZipFile(distributions[1]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(wheel.read(name))


def test_both_have_every_module_and_no_test(distributions):
    files = {f"fairseq_groc/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")} | {"fairseq_groc/py.typed"}
    with zipfile.ZipFile(distributions[1]) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == files
    with tarfile.open(distributions[0]) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames() if not name.endswith(".egg-info")}
    assert {name for name in held if name.endswith(".py")} == files - {"fairseq_groc/py.typed"} | {"setup.py"}
    assert held >= {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"}


def test_the_wheel_says_version_and_licence(described):
    assert described["Version"] == fairseq_groc.__version__
    assert described["License-Expression"] == "MIT" and described.get_all("License-File") == ["LICENSE"]


def required(described):
    """Return the requirements by name, those of extras too."""
    found = [Requirement(text) for text in described.get_all("Requires-Dist")]
    by_name = {canonicalize_name(one.name): one for one in found}
    assert len(by_name) == len(found), "a library is declared once"
    return by_name


def test_fairseq_is_never_a_requirement(described):
    always = {name for name, one in required(described).items() if one.marker is None}
    assert "torch" in always
    assert not any(name.startswith(("fairseq", "ve-fairseq")) for name in always)


def modules_of(name):
    """Return what a library's modules are called; as the library, where it is an extra that is not installed."""
    try:
        return {path.parts[0].partition(".")[0] for path in metadata.files(name)}
    except metadata.PackageNotFoundError:
        return {name}


def test_every_library_that_is_imported_is_declared(described):
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported |= {name.partition(".")[0] for name in names}
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "imported" and isinstance(node.args[0], ast.Constant):
                imported.add(node.args[0].value.partition(".")[0])
    imported -= sys.stdlib_module_names | OF_FAIRSEQ | {"fairseq_groc"}
    assert {"torch", "faiss", "numba", "matplotlib", "kenlm", "jiwer"} <= imported
    brought = set().union(*map(modules_of, required(described)))
    assert imported - brought == set()


def test_refusals_name_the_versions_that_are_declared(described):
    """scikit-learn is imported by name, where an analysis needs it; what it says then is what the extra installs."""
    sources = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    named = [Requirement(text) for text in re.findall(r"pip install '([\w-]+>=[\d.]+)'", sources)]
    declared = required(described)
    assert "scikit-learn" in {one.name for one in named}
    assert [one.specifier for one in named] == [declared[canonicalize_name(one.name)].specifier for one in named]
    assert 'extra == "analyses"' in str(declared["scikit-learn"].marker)


@pytest.fixture(scope="module")
def clean(distributions, tmp_path_factory):
    """The Python of a virtual environment with the wheel, which reads other packages where they are, and knows no repository."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([*PIP, "--python", python, "install", *OFFLINE, distributions[1]], check=True)
    # a folder that a .pth file names has none of its own .pth files read, such as that of an editable installation
    (site,) = folder.glob("lib/*/site-packages")
    (site / "others.pth").write_text("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))
    return python


def test_an_installed_wheel_prepares_and_trains(clean, tmp_path):
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"PATH": f"{clean.parent}:{SYSTEM_PATH}", "OMP_NUM_THREADS": "1"}

    def output(*arguments):
        command = [str(part) for part in (clean, *arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    user_dir = output("-m", "fairseq_groc", "user-dir").splitlines()[-1]
    (site,) = clean.parents[1].glob("lib/*/site-packages")
    assert user_dir == str(site / "fairseq_groc")
    text, data = write(tmp_path / "train.txt", WORDS, 30, 1), tmp_path / "data"
    prepared = output("-m", "fairseq_groc", "preprocess", "--train", text, "--dest", data, "--lexicon-path", "none")
    assert "dictionary" in prepared
    options = ["--user-dir", user_dir, "--task", "wordnet_lexicon", *COMPOSED, *TRAINING, "--max-update", "2"]
    trained = output(BIN / "fairseq-train", data, *options, "--disable-validation", "--save-dir", tmp_path / "save")
    assert "done training" in trained
