"""Installing beside a fairseq of the user's own."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata

import pytest
from cli_helpers import COMPOSED, ROOT, TRAINING, WORDS, environment, write
from setuptools import find_packages


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


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in (ROOT / "fairseq_groc").rglob("*.py")}
    packages = {ROOT / name.replace(".", "/") for name in find_packages(str(ROOT), include=["fairseq_groc", "fairseq_groc.*"])}
    assert folders == packages


def test_fairseq_is_never_a_requirement():
    required = [line for line in metadata.requires("fairseq_groc") if "extra ==" not in line]
    assert any(line.startswith("torch") for line in required)
    assert not any(line.startswith(("fairseq", "ve-fairseq")) for line in required)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what a wheel of the package holds, far from the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    skipped = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "quickstart-run", "tests", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=skipped)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", folder / "wheels", folder / "source"], check=True)
    with zipfile.ZipFile(next((folder / "wheels").glob("*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    shutil.rmtree(folder / "source")
    return folder / "site"


def test_a_wheel_carries_the_plugin(installed, tmp_path):
    variables = {**environment(), "PYTHONPATH": str(installed)}

    def output(program, *arguments):
        command = [shutil.which(program, path=variables["PATH"]), *(str(part) for part in arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    groc = ["python", "-m", "fairseq_groc"]
    user_dir = output(sys.executable, *groc[1:], "user-dir").splitlines()[-1]
    assert user_dir == output(*groc, "user-dir").splitlines()[-1] == str(installed / "fairseq_groc")
    assert "--vocabulary-from DIR" in output(*groc, "preprocess", "--help")
    text, data = write(tmp_path / "train.txt", WORDS, 30, 1), tmp_path / "data"
    assert "dictionary" in output(*groc, "preprocess", "--train", text, "--dest", data, "--lexicon-path", "none")
    options = ["--user-dir", user_dir, "--task", "wordnet_lexicon", *COMPOSED, *TRAINING, "--max-update", "2"]
    trained = output("fairseq-train", data, *options, "--disable-validation", "--save-dir", tmp_path / "save")
    assert "done training" in trained
