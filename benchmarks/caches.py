"""How much does a full cache slow scoring down, and how many true neighbours does the approximate search find?

    python benchmarks/caches.py --out DIR [--sizes 10000 200000] [--entries 200000 | --large 10000000 | --store FOLDER]

Speed: the paper's Penn Treebank shape (20 streams x 35, 2 layers of 1,024 and 300 units), random words with Zipf's frequencies,
a tied model; the targets' probabilities alone, and all words' (what fairseq-eval-lm asks for). The cache holds N = 10,000 words
of each stream. Runs take turns; medians and spread. Recall: of the K nearest of random clusters of keys, the share that the index
of faiss finds, against all keys compared; with --store of a model's keys, in a folder from `python -m fairseq_groc remember`: its
last tenth asks, the rest is searched.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from common import keep_memory, peak

from fairseq_groc.adapters import Adapter, AdapterSettings, Memory
from fairseq_groc.adapters.search import EXACT, Search
from fairseq_groc.adapters.store import Entries, EntryStore, read_header
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.evaluation.results import machine
from fairseq_groc.modules.chunked_loss import chunked_cross_entropy

STREAMS, BLOCK, DIM, HIDDEN, REMEMBERED = 20, 35, 300, 1024, 10_000
RUNS = {
    "no cache": AdapterSettings(),
    "unigram": AdapterSettings(unigram_weight=0.05),
    "local": AdapterSettings(local_weight=0.05, cache_size=REMEMBERED),
    "unbounded": AdapterSettings(unbounded_weight=0.05),
}


class Scorer:
    """A tied model without fairseq, and the memory of one kind of cache, full."""

    def __init__(self, settings: AdapterSettings, size: int):
        torch.manual_seed(1)
        self.embeddings = torch.randn(size, DIM) / DIM**0.5
        self.bias = torch.zeros(size)
        self.encoder = LSTMEncoder(DIM, HIDDEN, 2, 0.0, 0.0, 0.0).eval()
        everything = torch.ones(size, dtype=torch.bool)
        self.memory = Memory(Adapter(settings, everything, ~everything))
        self.state = None
        if settings.caches():
            for _ in range(0, REMEMBERED, 2_000):
                self.memory.see(torch.randn(STREAMS, 2_000, DIM) / 2, text(size, 2_000), -1)

    def block(self, tokens, targets, whole: bool):
        h, _, self.state = self.encoder(torch.nn.functional.embedding(tokens.t(), self.embeddings), self.state)
        h = h.transpose(0, 1)
        view = self.memory.see(h, tokens, -1)
        if whole:
            lprobs = torch.log_softmax(torch.nn.functional.linear(h, self.embeddings, self.bias), -1)
            return view.adapt(lprobs).gather(2, targets.unsqueeze(2))
        losses = chunked_cross_entropy(h.flatten(0, 1), self.embeddings, self.bias, targets.flatten(), -1)
        return view.adapt_at(-losses.view(targets.shape), targets)


def text(size: int, length: int) -> torch.Tensor:
    """Return random words (B, T), as frequent as in text: Zipf's law."""
    return (torch.rand(STREAMS, length).mul(torch.tensor(float(size - 4)).log()).exp().long() + 3).clamp(max=size - 1)


@torch.no_grad()
def speed(size: int, rounds: int) -> dict:
    """Return milliseconds a block of every run, by way of scoring."""
    found = {}
    scorers = {name: Scorer(settings, size) for name, settings in RUNS.items()}
    for whole in (False, True):
        seconds = {name: [] for name in scorers}
        for _ in range(rounds + 2):
            said = text(size, BLOCK + 1)
            tokens, targets = said[:, :-1], said[:, 1:]
            for name, scorer in scorers.items():
                begin = time.perf_counter()
                scorer.block(tokens, targets, whole)
                seconds[name].append(1000 * (time.perf_counter() - begin))
        found["all words" if whole else "targets"] = {name: ms[2:] for name, ms in seconds.items()}
    return found


def random_recall(store: Entries, dim: int, entries: int, neighbors: int, queries: int) -> dict:
    """Fill a store with keys around random centres and measure the recall of as many more."""
    torch.manual_seed(1)
    centres = torch.randn(2_000, dim)

    def draw(number: int) -> torch.Tensor:
        return centres[torch.randint(2_000, (number,))] + 0.5 * torch.randn(number, dim)

    while store.count < entries:
        number = min(100_000, entries - store.count)
        store.append(draw(number).numpy(), torch.zeros(number).numpy())
    return recall(store, draw(queries), entries, neighbors)


def stored_recall(folder: Path, neighbors: int, queries: int) -> dict:
    """Measure the recall of a remembered text's last states among those before."""
    store = EntryStore(folder, read_header(folder)["dim"], reading=True)
    begin = store.count * 9 // 10
    places = np.linspace(begin, store.count - 1, queries).astype(int)
    return recall(store, torch.from_numpy(store.entries()[0][places]), begin, neighbors)


def recall(store: Entries, asked: torch.Tensor, entries: int, neighbors: int) -> dict:
    """Return the share of the nearest of the first keys that the index finds, the seconds of both searches, and peak memory."""
    found, seconds = [], []
    for exact in (entries, min(EXACT, entries // 2)):  # all compared; the index
        search = Search(store, exact)
        begin = time.perf_counter()
        search.nearest(asked[:1], neighbors, entries)  # builds the index
        built = time.perf_counter() - begin
        begin = time.perf_counter()
        found.append(search.nearest(asked, neighbors, entries)[1])
        seconds.append(time.perf_counter() - begin)
    same = [len(set(a) & set(b)) / neighbors for a, b in zip(found[0].tolist(), found[1].tolist(), strict=True)]
    measured = {"recall": statistics.mean(same), "exact_s": seconds[0], "faiss_s": seconds[1], "build_s": built}
    return {"entries": entries, "dim": store.dim, "neighbors": neighbors, "queries": len(asked), **measured, "peak_gib": peak()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 200_000])
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--large", type=int, default=0, metavar="N", help="search N entries on disk instead, 20 queries")
    parser.add_argument("--dim", type=int, default=64, help="of these")
    parser.add_argument("--store", type=Path, help="search a remembered text instead")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    keep_memory()
    args.out.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine(), "ms": {size: speed(size, args.rounds) for size in args.sizes}}
    if args.store:
        results["recall"] = [stored_recall(args.store, k, STREAMS * BLOCK) for k in (64, 1_024)]
    elif args.large:
        store = EntryStore(args.out / "entries", args.dim)
        results["recall"] = [random_recall(store, args.dim, args.large, 1_024, 20)]
    else:
        results["recall"] = [random_recall(Entries(DIM), DIM, args.entries, k, STREAMS * BLOCK) for k in (64, 1_024)]
    (args.out / "caches.json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"{machine()}; ms a block of {STREAMS} x {BLOCK}: median (min to max)")
    print(f"{'V':>8} {'scored':<10}{'cache':<11}{'ms':>24}{'x no cache':>12}{'tokens/s':>10}")
    for size, ways in results["ms"].items():
        for way, runs in ways.items():
            base = statistics.median(runs["no cache"])
            for name, ms in runs.items():
                middle = statistics.median(ms)
                spread = f"{middle:.0f} ({min(ms):.0f} to {max(ms):.0f})"
                print(
                    f"{size:>8,} {way:<10}{name:<11}{spread:>24}{middle / base:>12.2f}{1000 * STREAMS * BLOCK / middle:>10,.0f}"
                )
    for r in results["recall"]:
        speeds = (
            f"{r['faiss_s']:.2f} s for {r['queries']} queries, exact {r['exact_s']:.2f} s, index made in {r['build_s']:.0f} s"
        )
        what = f"recall of {r['neighbors']:,} nearest among {r['entries']:,} of {r['dim']} numbers"
        print(f"{what}: {r['recall']:.1%}; {speeds}; peak memory {r['peak_gib']:.1f} GiB")


if __name__ == "__main__":
    main()
