"""Installing beside a fairseq of the user's own."""

import os
import subprocess
import sys
from importlib import metadata

from cli_helpers import ROOT
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
    assert "pip install 'fairseq_groc[fairseq]'" in message


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in (ROOT / "fairseq_groc").rglob("*.py")}
    packages = {ROOT / name.replace(".", "/") for name in find_packages(str(ROOT), include=["fairseq_groc", "fairseq_groc.*"])}
    assert folders == packages


def test_fairseq_is_never_a_requirement():
    required = [line for line in metadata.requires("fairseq_groc") if "extra ==" not in line]
    assert any(line.startswith("torch") for line in required)
    assert not any(line.startswith(("fairseq", "ve-fairseq")) for line in required)
