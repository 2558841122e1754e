"""``preprocess.sh --dataset``: the public archives, stood in for by small ones of the same form."""

import os
import stat
import tarfile
import zipfile

import pytest
from cli_helpers import ROOT, WORDS, tokens_of, write

ARCHIVES = {"ptb": "simple-examples.tgz", "wikitext-2": "wikitext-2-v1.zip"}
INSIDE = {"ptb": "simple-examples/data/ptb.{}.txt", "wikitext-2": "wikitext-2/wiki.{}.tokens"}


@pytest.fixture
def curl(tmp_path, monkeypatch):
    """Put a curl in the path that fetches from a folder, and return the folder."""
    folder, program = tmp_path / "web", tmp_path / "bin" / "curl"
    for path in (folder, program.parent):
        path.mkdir()
    program.write_text(
        f"#!/bin/bash\nwhile [ $# -gt 0 ]; do case $1 in http*) url=$1 ;; -o) out=$2 ;; esac; shift; done\n"
        f'cp "{folder}/$(basename "$url")" "$out"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("cli_helpers.SYSTEM_PATH", f"{program.parent}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize("dataset", list(ARCHIVES))
def test_a_public_archive_is_downloaded(commands, curl, tmp_path, dataset):
    files = {split: write(tmp_path / split, WORDS, 20, i) for i, split in enumerate(("train", "valid", "test"))}
    archive = curl / ARCHIVES[dataset]
    if dataset == "ptb":
        with tarfile.open(archive, "w:gz") as tar:
            for split, path in files.items():
                tar.add(path, "./" + INSIDE[dataset].format(split))
    else:
        with zipfile.ZipFile(archive, "w") as zipped:
            for split, path in files.items():
                zipped.write(path, INSIDE[dataset].format(split))
    options = ["--dataset", dataset, "--dest", tmp_path / "data", "--lexicon-path", "none"]
    output = commands.preprocess(*options)
    for split, path in files.items():
        assert f"{split:<8}{20:>11,}{tokens_of(path):>13,}" in output
    archive.unlink()
    output = commands.fails(ROOT / "scripts" / "preprocess.sh", *options)
    assert "cannot download http" in output and "give --from FOLDER" in output
    assert (tmp_path / "data" / "train.bin").exists()  # what was there stays
