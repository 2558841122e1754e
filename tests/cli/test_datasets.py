"""``preprocess.sh --dataset``: the public archives, stood in for by small ones of the same form."""

import gzip
import io
import os
import runpy
import stat
import tarfile
import zipfile
from argparse import Namespace

import pytest
from cli_helpers import ROOT, WORDS, Commands, tokens_of, write
from documented import CURL

from fairseq_groc.__main__ import main

ARCHIVES = {"ptb": "simple-examples.tgz", "wikitext-2": "wikitext-2-v1.zip"}
INSIDE = {"ptb": "simple-examples/data/ptb.{}.txt", "wikitext-2": "wikitext-2/wiki.{}.tokens"}


@pytest.fixture
def curl(tmp_path, monkeypatch):
    """Put a curl in the path that fetches from a folder, and return the folder."""
    folder, program = tmp_path / "web", tmp_path / "bin" / "curl"
    for path in (folder, program.parent):
        path.mkdir()
    program.write_text(CURL.format(published=folder))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("cli_helpers.SYSTEM_PATH", f"{program.parent}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def commands(curl):
    """Run what a user types where that curl is in the path."""
    return Commands()


def test_a_folder_is_not_said_to_be_done_before_all_is_there(commands, tmp_path):
    text = write(tmp_path / "text", WORDS, 20, 1)
    stand_in = tmp_path / "bin" / "mv"  # the fixture's folder, in the path
    stand_in.write_text('#!/bin/sh\n[ "$1" != -f ] || kill -9 $PPID\nexec /bin/mv "$@"\n')  # killed as the first is moved
    stand_in.chmod(0o755)
    options = ["--train", text, "--dest", tmp_path / "data", "--lexicon-path", "none"]
    commands.fails(ROOT / "scripts" / "preprocess.sh", *options)
    assert (tmp_path / "data").is_dir() and not (tmp_path / "data" / "binarised.json").exists()


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


NEWS = "The dog sat.\nDon't run!\n\nA\u2028cat (old) <s> ran.\x85\nThe end of it\n\u00c9 & \u00fc\nOne more"
WEB = [f"Line {i}, of the web." for i in range(40)]  # line N , of the web . </s>: 8 tokens


def archive(folder, name, texts):
    """Write an archive of the published form, and return it."""
    path = folder / name
    folder.mkdir(exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(texts.encode()))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for inside, text in texts.items():
                zipped.writestr(inside, text)
    else:
        with tarfile.open(path, "w:gz") as tar:
            for inside, text in texts.items():
                entry = tarfile.TarInfo(inside)
                entry.size = len(text.encode())
                tar.addfile(entry, io.BytesIO(text.encode()))
    return path


def web_archive(folder):
    texts = {"cs-en.en": "other\n", "de-en.de": "anders\n", "de-en.en": "\n".join(WEB) + "\n", "fr-en.en": "autre\n"}
    return archive(folder, "training-parallel-commoncrawl.tgz", {f"commoncrawl.{name}": text for name, text in texts.items()})


def wiki_archive(folder):
    texts = {"train": " \n = A = \n b b b\n c c c\n d d d\n e e e\n", "valid": " v <unk>\n", "test": " t @-@ t\n"}
    return archive(folder, "wikitext-103-v1.zip", {f"wikitext-103/wiki.{split}.tokens": text for split, text in texts.items()})


def cut(ours, tmp_path, name, tokens, *options):
    """Return the text of each split of a set, cut with the command."""
    target = tmp_path / name
    ours("prepare", "slice", name, tmp_path / "sources", target, "--tokens", tokens, *options)
    assert sorted(path.name for path in target.iterdir()) == ["test.txt", "train.txt", "valid.txt"]
    return [(target / f"{split}.txt").read_text(encoding="utf-8") for split in ("train", "valid", "test")]


def test_news_is_cut_into_lines_that_follow_each_other(ours, tmp_path):
    archive(tmp_path / "sources", "news.2008.en.shuffled.gz", NEWS)
    train, valid, test = cut(ours, tmp_path, "news-2008", "10,11,9")
    assert train == "the dog sat .\ndon 't run !\n"  # 5 + 5: exactly so many
    assert valid == "\na cat ( old ) < s > ran .\n"  # 1 + 11: the line that reaches 11 is whole
    assert test == "the end of it\n\u00e9 & \u00fc\n"  # 5 + 4; the rest is left
    assert cut(ours, tmp_path, "news-2008", "11,1,2")[:2] == [train + "\n", "a cat ( old ) < s > ran .\n"]  # 5 + 5 + 1


def test_the_web_is_shuffled_within_each_split_with_one_end_a_line(ours, tmp_path):
    web_archive(tmp_path / "sources")
    lines = [f"line {i} , of the web ." for i in range(40)]
    splits = cut(ours, tmp_path, "web", "80,40,160")
    for split, expected in zip(splits, (lines[:10], lines[10:15], lines[15:35])):
        assert split.endswith(".\n") and "\n\n" not in split
        found = split[:-1].split("\n")
        assert sorted(found) == sorted(expected) and found != expected
    assert cut(ours, tmp_path, "web", "80,40,160") == splits
    assert cut(ours, tmp_path, "web", "80,40,160", "--seed", 2) != splits


def test_wiki_takes_what_its_valid_and_test_texts_lack_from_its_train_text(ours, tmp_path, capsys):
    wiki_archive(tmp_path / "sources")
    train, valid, test = cut(ours, tmp_path, "wiki", "5,8,10")
    assert train == "\n= a =\n"  # 1 + 4
    assert valid == "v < unk >\nb b b\n"  # 5 + 4: its own text and the train text's next line
    assert test == "t @ - @ t\nc c c\n"  # 6 + 4
    assert cut(ours, tmp_path, "wiki", "5,5,6") == [train, "v < unk >\n", "t @ - @ t\n"]
    short = ["prepare", "slice", "wiki", str(tmp_path / "sources"), str(tmp_path / "wiki"), "--tokens", "5,8,19"]
    assert main(short) == 0
    printed = capsys.readouterr().err.splitlines()
    assert printed[-2] == "wiki test: 18 tokens, 4 lines"  # 6 + 4 + 4 + 4
    assert printed[-1].startswith("warning: wiki test should have 19 tokens, but ") and printed[-1].endswith(" has no more")


def test_sources_that_cannot_be_cut_are_one_line_and_nothing_changes(ours, tmp_path):
    sources, target = tmp_path / "sources", tmp_path / "target"
    target.mkdir()
    (target / "train.txt").write_text("kept\n")

    def error(name, tokens="8,8,8"):
        lines = ours("prepare", "slice", name, sources, target, "--tokens", tokens, code=1).splitlines()
        assert [path.name for path in target.iterdir()] == ["train.txt"] and (target / "train.txt").read_text() == "kept\n"
        assert [line[:7] for line in lines].count("error: ") == 1 and lines[-1].startswith("error: ")
        return lines[-1]

    news, web, wiki = archive(sources, "news.2011.en.shuffled.gz", NEWS), web_archive(sources), wiki_archive(sources)
    assert "news.2007.en.shuffled.gz: no such file. docs/cross_domain.md says where" in error("news-2007")
    assert f"{news} ends before test begins: give smaller --tokens" in error("news-2011", "10,90,10")
    archive(sources, "news.2010.en.shuffled.gz", "fine\n").write_bytes(gzip.compress(b"fine\n\xff\n"))
    assert "news.2010.en.shuffled.gz:2: not UTF-8" in error("news-2010")
    for path in (news, web, wiki):
        path.write_bytes(path.read_bytes()[:-60])
        assert f"{path}: damaged, or no {path.suffix} file" in error(
            {news: "news-2011", web: "web", wiki: "wiki"}[path], "99,99,99"
        )
    archive(sources, web.name, {"commoncrawl.de-en.de": "anders\n"})
    assert f"{web} has no commoncrawl.de-en.en: expected the archive" in error("web")
    archive(sources, wiki.name, {"wikitext-103/wiki.train.tokens": "a\n" * 99})
    assert f"{wiki} has no wiki.valid.tokens" in error("wiki")


def test_a_set_of_another_domain_becomes_data_with_the_words_of_both(commands, curl, tmp_path):
    web_archive(curl)
    base = tmp_path / "base"
    base.mkdir()
    (base / "dict.txt").write_text("the 3\nof 2\nnews 1\n. 1\n")
    script, data = ROOT / "scripts" / "preprocess.sh", tmp_path / "data"
    options = ["--dataset", "web", "--tokens", "80,40,160", "--dest", data]
    union = ["--splits", "valid,test", "--vocabulary-from", base, "--lexicon-path", "none"]
    output = commands.preprocess(*options, *union)
    # line N , of the web . </s>: N, line, "," and web are new
    assert f"{'valid':<8}{5:>11,}{40:>13,}{11:>10,}{0:>13.2%}{4 / 8:>11.2%}" in output
    assert f"{'test':<8}{20:>11,}{160:>13,}{26:>10,}{0:>13.2%}{4 / 8:>11.2%}" in output
    words = [line.split()[0] for line in (data / "dict.txt").read_text().splitlines()]
    assert words[:4] == ["the", "of", "news", "."] and set(words[4:]) == {"line", ",", "web", *map(str, range(10, 35))}
    assert {path.name for path in data.glob("*.bin")} == {"valid.bin", "test.bin"}
    for wrong, message in (
        (["--splits", "train,tset"], "--splits train,tset: expected some of train,valid,test"),
        (["--tokens", "80,40"], "--tokens 80,40: expected those of train, valid and test"),
        (["--dataset", "news-2012"], "expected ptb or wikitext-2, or news-2007 to news-2011, web or wiki"),
        (["--dataset", "ptb"], "--tokens goes with --dataset news-2007"),
        (["--lower"], "web is tokenised and lower-cased already"),
        (["--splits", "test"], "without --train, give --vocabulary FILE"),
        (["--dataset", "wiki"], "Put wikitext-103-v1.zip in a folder and give --from FOLDER"),
    ):
        assert message in commands.fails(script, *options, *wrong)
    assert {path.name for path in data.glob("*.bin")} == {"valid.bin", "test.bin"}  # what was there stays


def test_the_example_reads_a_folder_of_a_set_as_it_is(tmp_path):
    module = runpy.run_path(str(ROOT / "examples" / "adaptation" / "texts.py"))
    for name in ("news-2007", "web"):
        (tmp_path / name).mkdir()
        for split, size in (("train", 4), ("valid", 3), ("test", 2)):
            (tmp_path / name / f"{split}.txt").write_text(f"{name} 's {split}\n" * size)
    args = Namespace(workdir=tmp_path / "work", texts=tmp_path / "news-2007", domain=[f"far={tmp_path / 'web'}"])
    args.train_tokens, args.valid_tokens, args.test_tokens = 8, 5, 0
    texts = {name: {s: path.read_text() for s, path in parts.items()} for name, parts in module["domain_texts"](args).items()}
    assert texts["in-domain"]["train"] == "news-2007 's train\n" * 2  # 4 tokens a line
    assert texts["far"] == {"train": "web 's train\n" * 4, "valid": "web 's valid\n" * 2, "test": "web 's test\n" * 2}
