"""Entries on disk: what is reported as stored stays, what is another's is refused, and the nearest are found."""

import json
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from fairseq_groc.adapters import search as search_module
from fairseq_groc.adapters.search import Search
from fairseq_groc.adapters.store import HEADER, Entries, EntryStore
from fairseq_groc.errors import CacheError

KEYS = np.random.default_rng(1).normal(size=(300, 6)).astype(np.float32)
ABOUT = {"model": "m", "text": "t", "block": 35}
WORDS = np.arange(300) * 14_000_000  # beyond 2**31


@pytest.fixture
def store(tmp_path):
    store = EntryStore(tmp_path / "cache", 6, ABOUT)
    store.append(KEYS[:100], WORDS[:100])
    store.append(KEYS[100:200], WORDS[100:200])
    store.commit()
    return store


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_what_is_appended_is_there(store, kind):
    entries = store if kind == "disk" else Entries(6)
    if kind == "memory":
        for a in range(0, 200, 7):
            entries.append(KEYS[a : min(a + 7, 200)], WORDS[a : min(a + 7, 200)])
    keys, words = entries.entries()
    assert np.array_equal(keys, KEYS[:200]) and np.array_equal(words, WORDS[:200]) and entries.count == 200


def test_what_was_not_committed_is_cut_off(store):
    store.append(KEYS[:50], WORDS[:50])
    again = EntryStore(store.folder, 6, ABOUT)
    assert again.count == 200 and np.array_equal(again.entries()[0], KEYS[:200])
    again.append(KEYS[200:], WORDS[200:])
    assert np.array_equal(again.entries()[1], WORDS)


def test_a_reader_leaves_a_writer_alone(store, tmp_path):
    store.append(KEYS[200:250], WORDS[200:250])
    reader = EntryStore(store.folder, 6, ABOUT, reading=True)
    assert reader.count == 200 and np.array_equal(reader.entries()[1], WORDS[:200])
    store.append(KEYS[250:], WORDS[250:])
    assert store.commit() == 300
    assert np.array_equal(EntryStore(store.folder, 6, ABOUT).entries()[0], KEYS)
    header = EntryStore(tmp_path / "empty", 6, ABOUT).folder / HEADER
    file = header.stat().st_ino
    assert EntryStore(header.parent, 6, ABOUT, reading=True).count == 0 and header.stat().st_ino == file


def test_a_killed_writer_loses_nothing_that_it_reported(tmp_path):
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def write():
        store = EntryStore(tmp_path, 4, ABOUT)
        for i in range(1000):
            store.append(np.full((3, 4), i), np.full(3, i))
            if i % 2:
                sender.send(store.commit())
            if i == 10:
                os.kill(os.getpid(), signal.SIGKILL)

    writer = multiprocessing.get_context("fork").Process(target=write)
    writer.start()
    sender.close()
    reported = []
    with pytest.raises(EOFError):
        while True:
            reported.append(receiver.recv())
    writer.join()
    store = EntryStore(tmp_path, 4, ABOUT)
    assert writer.exitcode == -signal.SIGKILL and reported[-1] == 30 and store.count == 30
    assert np.array_equal(store.entries()[1], np.repeat(np.arange(10), 3))


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda s: (s.folder / "header.json").write_text("{"), "header.json is not readable"),
        (lambda s: (s.folder / "header.json").write_text('{"format": 99, "stored": 1}'), "of format 99, expected 4"),
        (lambda s: (s.folder / "header.json").write_text('{"format": 4, "stored": 1}'), "header.json is not readable"),
        (lambda s: (s.folder / "keys.f32").write_bytes(b"\xff" * 4800), "its files are not what was stored, they are damaged"),
        (lambda s: (s.folder / "words.u32").write_bytes(bytes(800)), "its files are not what was stored, they are damaged"),
        (lambda s: (s.folder / "words.u32").write_bytes(b"1234"), "words.u32 is shorter than the 200 entries stored"),
        (lambda s: (s.folder / "keys.f32").unlink(), "keys.f32 is shorter than the 200 entries stored"),
        *((lambda s, n=n: counting(s, n), "its files are not what was stored, they are damaged") for n in (0, 100)),
    ],
)
def test_a_damaged_store_is_refused(store, spoil, message):
    spoil(store)
    files = {path.name: path.read_bytes() for path in store.folder.iterdir()}
    with pytest.raises(CacheError, match=f"{message}.*Give another folder"):
        EntryStore(store.folder, 6, ABOUT)
    assert {path.name: path.read_bytes() for path in store.folder.iterdir()} == files


def counting(store, number):
    """Let the header count another number of entries."""
    path = store.folder / "header.json"
    path.write_text(path.read_text().replace('"stored": 200', f'"stored": {number}'))


def test_a_foreign_store_is_refused_and_left_alone(store):
    for dim, about, message in ((5, ABOUT, "its dim is 6, not 5"), (6, {**ABOUT, "text": "other"}, "its text is t, not other")):
        with pytest.raises(CacheError, match=message):
            EntryStore(store.folder, dim, about)
    assert json.loads((store.folder / "header.json").read_text())["stored"] == 200
    assert EntryStore(store.folder, 6, ABOUT).count == 200


def test_a_header_of_the_format_before_is_read(store):
    path = store.folder / "header.json"
    header = {name: value for name, value in json.loads(path.read_text()).items() if name not in ABOUT}
    path.write_text(json.dumps({**header, "format": 3, "fingerprint": "m t 35"}))
    assert EntryStore(store.folder, 6, ABOUT).count == 200


@pytest.mark.parametrize("neighbors", [1, 9, 1000])
def test_the_nearest_of_the_first_entries_are_found(store, neighbors, monkeypatch):
    monkeypatch.setattr(search_module, "CHUNK", 33)
    queries = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
    distances, entries = Search(store).nearest(queries, neighbors, 150)
    reference = (queries.double()[:, None] - torch.from_numpy(KEYS[:150]).double()).square().sum(-1)
    expected, order = reference.sort(1)
    found, places = distances.sort(1)
    torch.testing.assert_close(found.double(), expected[:, :neighbors], rtol=1e-5, atol=1e-6)
    assert torch.equal(entries.gather(1, places), order[:, :neighbors])


@pytest.mark.parametrize("same", [0, 3000])  # what all keys have in common
def test_the_index_finds_most_of_them_and_never_a_later_one(same):
    pytest.importorskip("faiss")
    random = np.random.default_rng(3)
    centres = same + random.normal(size=(50, 8))
    keys = (centres[random.integers(50, size=3000)] + 0.3 * random.normal(size=(3000, 8))).astype(np.float32)
    entries = Entries(8)
    entries.append(keys, np.arange(3000))
    queries = torch.from_numpy((centres[:20] + 0.3 * random.normal(size=(20, 8))).astype(np.float32))
    exact, approximate = Search(entries), Search(entries, exact=1000)
    for count in (500, 1000, 1001, 2999, 1500, 1001):  # the index then holds entries that are too late
        _, true = exact.nearest(queries, 10, count)
        distances, found = approximate.nearest(queries, 10, count)
        shared = sum(len(set(a) & set(b)) for a, b in zip(true.tolist(), found.tolist(), strict=True)) / true.numel()
        assert shared == 1 if count <= 1000 else shared >= 0.8
        assert int(found.max()) < count and bool(distances.isfinite().all())
        measured = (queries[:, None] - torch.from_numpy(keys[found].astype(np.float32))).square().sum(-1)
        torch.testing.assert_close(distances, measured, rtol=1e-4, atol=1e-5)  # distances are the keys' own


def test_threads_that_share_what_is_remembered_index_it_once(monkeypatch):
    class Index:
        ntotal = 0

        def __init__(self, sample):
            time.sleep(0.05)  # as long as training takes, in which other threads ask
            made.append(self)

        def add(self, keys):
            time.sleep(0.05)
            self.ntotal += len(keys)

    made = []
    monkeypatch.setattr(search_module, "_new_index", Index)
    entries = Entries(4)
    entries.append(np.zeros((30, 4)), np.zeros(30))
    search = Search(entries, exact=20)
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(search._grow, [20] * 4)] == [20] * 4
    assert [index.ntotal for index in made] == [20]


def test_without_faiss_a_large_cache_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    entries = Entries(4)
    entries.append(np.zeros((30, 4)), np.zeros(30))
    search = Search(entries, exact=20)
    search.nearest(torch.zeros(1, 4), 3, 20)
    with pytest.raises(CacheError, match=r"more than 20 words needs faiss: pip install faiss-cpu"):
        search.nearest(torch.zeros(1, 4), 3, 30)
