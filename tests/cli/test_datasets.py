"""``preprocess --dataset``: the public archives, stood in for by small ones of the same form."""

import gzip
import hashlib
import http.client
import http.server
import io
import logging
import runpy
import sys
import tarfile
import threading
import zipfile
from argparse import Namespace
from functools import partial
from urllib.request import BaseHandler
from urllib.response import addinfourl

import pytest
from cli_helpers import ROOT, WORDS, tokens_of, write

from fairseq_groc.data import archives, cross_domain
from fairseq_groc.data.archives import DATASETS, Published
from fairseq_groc.data.cross_domain import SOURCES, Source, sizes_of
from fairseq_groc.errors import DataError

SPLITS = ("train", "valid", "test")


@pytest.fixture
def web(tmp_path):
    """Serve a folder by http; return it and its address."""
    folder = tmp_path / "web"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("dataset", ["ptb", "wikitext-2"])
def test_a_public_text_is_downloaded(ours, web, tmp_path, dataset, monkeypatch):
    folder, address = web
    files = {split: write(folder / f"ptb.{split}.txt", WORDS, 20, i) for i, split in enumerate(SPLITS)}
    found = {split: Published(f"{address}/{path.name}", digest(path)) for split, path in files.items()}
    if dataset == "wikitext-2":
        zipped = archive(folder, "wikitext-2-v1.zip", {f"wikitext-2/wiki.{s}.tokens": p.read_text() for s, p in files.items()})
        found = {split: Published(f"{address}/{zipped.name}", digest(zipped), f"wiki.{split}.tokens") for split in SPLITS}
    monkeypatch.setitem(DATASETS, dataset, found)
    options = ["preprocess", "--dataset", dataset, "--dest", tmp_path / "data", "--lexicon-path", "none"]
    output = ours(*options)
    for split, path in files.items():
        assert [split, "20", f"{tokens_of(path)}"] in [line.split()[:3] for line in output.splitlines()]
    before = (tmp_path / "data" / "train.bin").read_bytes()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes() + b"more")
    error = ours(*options, code=1)
    assert f"SHA-256 {digest(folder / found['train'].file)}, expected {found['train'].sha256}" in error
    for path in folder.iterdir():
        path.unlink()
    error = ours(*options, code=1)
    assert "cannot download http" in error and "give --from FOLDER" in error
    assert (tmp_path / "data" / "train.bin").read_bytes() == before  # what was there stays


def test_what_is_published_is_asked_for_by_https_and_has_a_digest_where_one_is_known():
    published = {p for of in DATASETS.values() for p in of.values()} | {source.published for source in SOURCES.values()}
    assert {p.url.split(":")[0] for p in published} == {"https"}
    unknown = {p.file for p in published if not p.sha256}
    assert unknown == {SOURCES["web"].published.file, *(SOURCES[f"news-{year}"].published.file for year in range(2007, 2012))}
    assert {len(p.sha256) for p in published} == {0, 64}


def test_a_file_without_a_known_digest_is_named_by_the_one_it_has(web, tmp_path, caplog):
    folder, address = web
    write(folder / "text.txt", WORDS, 20, 1)
    with caplog.at_level(logging.INFO):
        path = archives.fetch(Published(f"{address}/text.txt"), tmp_path / "got", "text.txt")
    assert path.read_bytes() == (folder / "text.txt").read_bytes()
    assert f"text.txt: SHA-256 {digest(path)}; no published one is known" in caplog.text
    local = archives.fetch(Published((folder / "text.txt").as_uri()), tmp_path / "again", "text.txt")
    assert local.read_bytes() == path.read_bytes()


class Redirecting(BaseHandler):
    """Answers https with a redirection, without a network."""

    handler_order = 1

    def https_open(self, request):
        headers = http.client.HTTPMessage()
        headers["Location"] = "http://example.org/text.txt"
        answer = addinfourl(io.BytesIO(), headers, request.full_url, 302)
        answer.msg = "Found"
        return answer


def test_a_redirection_from_https_to_http_is_not_followed(tmp_path):
    with pytest.raises(DataError, match="redirected to http://example.org/text.txt, which is not https"):
        archives.fetch(Published("https://example.org/text.txt"), tmp_path, "text.txt", Redirecting)
    assert not list(tmp_path.iterdir())


def test_a_download_that_ends_early_is_refused(tmp_path):
    class Short(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"the cat")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Short) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(DataError, match=r"cannot download .*7 of 100 bytes"):
            archives.fetch(Published(f"http://127.0.0.1:{server.server_port}/text.txt"), tmp_path, "text.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.zip", "a.tgz", "a.gz"])
def test_archives_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch, name):
    text = "the cat\n" * 1000
    path = archive(tmp_path, name, text if name == "a.gz" else {"big.txt": text, "wanted.txt": text})
    assert len(list(archives.read_archive(path, "wanted.txt"))) == 1000
    monkeypatch.setattr(archives, "MAX_UNPACKED", 7000)
    with pytest.raises(DataError, match=f"{name} unpacks to more than 7,000 bytes"):
        list(archives.read_archive(path, "wanted.txt"))
    monkeypatch.setattr(archives, "MAX_UNPACKED", 70_000)
    endless = "cat " * 1000
    archive(tmp_path, name, endless if name == "a.gz" else {"wanted.txt": endless})
    monkeypatch.setattr(archives, "MAX_LINE", 3000)
    with pytest.raises(DataError, match=f"{name} has a line of more than 3,000 bytes"):
        list(archives.read_archive(path, "wanted.txt"))


def test_names_in_archives_are_not_followed(tmp_path):
    (tmp_path / "in").mkdir()
    path = archive(tmp_path / "in", "a.zip", {"../../wanted.txt": "the cat\n", "/wanted.txt": "a dog\n"})
    assert list(archives.read_archive(path, "wanted.txt")) == [b"the cat\n"]
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "a.zip"]


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


def cut(tmp_path, name, tokens, seed=1):
    """Return the text of each split of a set."""
    slices = cross_domain.cut(name, tmp_path / "sources", sizes_of(tokens), seed)
    return ["".join(f"{line}\n" for line in lines) for _, lines in slices]


def test_news_is_cut_into_lines_that_follow_each_other(tmp_path):
    archive(tmp_path / "sources", "news.2008.en.shuffled.gz", NEWS)
    train, valid, test = cut(tmp_path, "news-2008", "10,11,9")
    assert train == "the dog sat .\ndon 't run !\n"  # 5 + 5: exactly so many
    assert valid == "\na cat ( old ) < s > ran .\n"  # 1 + 11: the line that reaches 11 is whole
    assert test == "the end of it\n\u00e9 & \u00fc\n"  # 5 + 4; the rest is left
    assert cut(tmp_path, "news-2008", "11,1,2")[:2] == [train + "\n", "a cat ( old ) < s > ran .\n"]  # 5 + 5 + 1


def test_the_web_is_shuffled_within_each_split_with_one_end_a_line(tmp_path):
    web_archive(tmp_path / "sources")
    lines = [f"line {i} , of the web ." for i in range(40)]
    splits = cut(tmp_path, "web", "80,40,160")
    for split, expected in zip(splits, (lines[:10], lines[10:15], lines[15:35]), strict=True):
        assert split.endswith(".\n") and "\n\n" not in split
        found = split[:-1].split("\n")
        assert sorted(found) == sorted(expected) and found != expected
    assert cut(tmp_path, "web", "80,40,160") == splits
    assert cut(tmp_path, "web", "80,40,160", seed=2) != splits


def test_wiki_takes_what_its_valid_and_test_texts_lack_from_its_train_text(tmp_path, caplog):
    wiki_archive(tmp_path / "sources")
    train, valid, test = cut(tmp_path, "wiki", "5,8,10")
    assert train == "\n= a =\n"  # 1 + 4
    assert valid == "v < unk >\nb b b\n"  # 5 + 4: its own text and the train text's next line
    assert test == "t @ - @ t\nc c c\n"  # 6 + 4
    assert cut(tmp_path, "wiki", "5,5,6") == [train, "v < unk >\n", "t @ - @ t\n"]
    assert cut(tmp_path, "wiki", "5,8,19")[2].count("\n") == 4  # 6 + 4 + 4 + 4
    assert "warning: wiki test should have 19 tokens, but " in caplog.text and "has no more than 18" in caplog.text


def test_sources_that_cannot_be_cut_are_one_line_and_nothing_changes(tmp_path, monkeypatch):
    sources, target = tmp_path / "sources", tmp_path / "target"
    target.mkdir()
    (target / "train.txt").write_text("kept\n")

    def error(name, tokens="8,8,8"):
        script = ROOT / "examples" / "adaptation" / "cut.py"
        monkeypatch.setattr(sys, "argv", [str(script), name, str(sources), str(target), "--tokens", tokens])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
        assert [path.name for path in target.iterdir()] == ["train.txt"] and (target / "train.txt").read_text() == "kept\n"
        return ended.value.code

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


def test_a_set_of_another_domain_becomes_data_with_the_words_of_both(ours, web, tmp_path, monkeypatch):
    folder, address = web
    for name in ("web", "wiki"):
        source = SOURCES[name]
        local = Published(f"{address}/{source.published.file}", source.published.sha256, source.published.text)
        monkeypatch.setitem(SOURCES, name, Source(local, source.first, source.shuffled))
    web_archive(folder)
    base = tmp_path / "base"
    base.mkdir()
    (base / "dict.txt").write_text("the 3\nof 2\nnews 1\n. 1\n")
    data = tmp_path / "data"
    options = ["preprocess", "--dataset", "web", "--tokens", "80,40,160", "--dest", data]
    union = ["--splits", "valid,test", "--vocabulary-from", base, "--lexicon-path", "none"]
    output = ours(*options, *union)
    # line N , of the web . </s>: N, line, "," and web are new
    counted = [line.split() for line in output.splitlines()[1:3]]
    assert counted == [["valid", "5", "40", "11", "0.00%", "50.00%"], ["test", "20", "160", "26", "0.00%", "50.00%"]]
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
        assert message in ours(*options, *wrong, code=1)
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
