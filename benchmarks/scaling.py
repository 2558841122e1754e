"""What does a training step cost as the vocabulary grows, for each head and way of updating?

    python benchmarks/scaling.py --out DIR [--sizes 10000 33000 80000 200000 | --data DATA] [--runs floor tied lookup full ...]

Runs: any head by its name, full (compositional_output), sparse-P, sampled-RHO; corrected-RHO (sampled, with corrections and the
small preset's cheaper word encoder); -bf16 behind a name for products in bfloat16 (on CPUs that have it), -awd for dropout of
the LSTM's weights; and floor: the bare matrix products of a full step, forward and backward, and nothing else.
Time is that of a training step (forward, backward, clipping, Adam), relative to tied at the same V in the same run. Every run is
a process of its own, so its peak memory is its own. --step-by-step times all runs in one process, where a disturbance meets all
alike. The text is random: only speed is measured. Needs WordNet once, for the words; with DIR carried along it needs nothing.
Runs that are done on the same machine are not repeated (after a change of the code give another DIR); the mean of a sparse or
sampled run needs enough steps, 20 or more, to meet full ones or a complete refresh.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import torch
from common import keep_memory, peak
from torch import nn
from vocabularies import take, vocabulary_of

from fairseq_groc.embeddings.compositional import DEFAULT_CHUNK
from fairseq_groc.embeddings.sampled_updates import Updates
from fairseq_groc.encoders import AWDLSTMEncoder, LSTMEncoder
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.results import aligned, machine, pyplot, save_figure
from fairseq_groc.heads import HEADS
from fairseq_groc.models.building import build_corrections, build_embedding, build_head, needs_spellings
from fairseq_groc.models.word_matrices import WordMatrices
from fairseq_groc.options import HeadConfig, head_settings
from fairseq_groc.presets import PRESETS
from fairseq_groc.tasks.building import with_bf16_products

FILTERS = [32, 32, 64, 128, 256, 512]
SHAPES = {
    "ptb": dict(dim=300, hidden=1024, layers=2, depth=0, filters=FILTERS),
    "wikitext2": dict(dim=256, hidden=1024, layers=2, depth=1, filters=FILTERS),
    "awd": dict(dim=400, hidden=1150, layers=3, depth=0, filters=FILTERS),
    "small": dict(dim=128, hidden=256, layers=2, depth=0, filters=PRESETS["groc_lstm_lm_small"].options["char_filters"]),
}
OF_CORRECTED = ("corrections", "highway_layers", "output_query", "char_filters")
CORRECTED = {name: PRESETS["groc_lstm_lm_small_corrected"].options[name] for name in OF_CORRECTED}
STREAMS, BLOCK = 20, 35
BF16, AWD = "-bf16", "-awd"
RUNS = ["floor", "tied", "lookup", "full", "full-bf16", "sparse-0.1", "sampled-0.1", "sampled-0.1-bf16"]


class Model(nn.Module):
    """The language model without fairseq: words, LSTM, and the loss in chunks of the vocabulary."""

    def __init__(self, run, size, folder: Path, dim, hidden, layers, depth, filters, chunk: int = DEFAULT_CHUNK):
        super().__init__()
        kind, _, value = run.removesuffix(AWD).removesuffix(BF16).partition("-")
        depth = PRESETS["groc_lstm_lm_ptb_deep_residual"].options["output_depth"] if kind == "deep_residual" else depth
        options = dict(output_depth=depth, output_dropout=0.2, output_head=kind if kind in HEADS else "compositional_output")
        options |= {"char_filters": filters, "correction_dim": dim, **(CORRECTED if kind == "corrected" else {})}
        settings = {**head_settings(HeadConfig(**options)), "encoding_chunk": chunk}
        words = [str(i) for i in range(size)]
        vocabulary = vocabulary_of(size, range(1, 7), folder) if needs_spellings(settings) else None
        embedding, output = build_embedding(words, dim, settings), build_head(words, dim, settings)
        corrections = build_corrections(words, dim, settings)
        share = float(value) if kind in ("sampled", "corrected") else 1.0
        updates = Updates(float(value) if kind == "sparse" else 1.0, share)
        self.matrices = WordMatrices(embedding, output, vocabulary, torch.arange(size) < 2, corrections, updates)
        sizes_and_rates = dim, hidden, layers, 0.65, 0.4, 0.0
        self.encoder = AWDLSTMEncoder(*sizes_and_rates, 0.5) if run.endswith(AWD) else LSTMEncoder(*sizes_and_rates)
        if corrections is not None:
            corrections.begin(torch.ones(size))
        for parameter in self.encoder.parameters():
            parameter.data.uniform_(-0.05, 0.05)

    def forward(self, source, target, state):
        inputs, outputs, bias = self.matrices()
        h, _, state = self.encoder(nn.functional.embedding(source, inputs), state)
        losses = self.matrices.head.losses(h.flatten(0, 1), outputs, bias, target.flatten(), 1)
        return losses.sum(), [(a.detach(), b.detach()) for a, b in state]


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(function, *arguments) -> float:
    synchronise()
    begin = time.perf_counter()
    function(*arguments)
    synchronise()
    return time.perf_counter() - begin


def timed(function, repeats: int):
    """Return the seconds of each call."""
    return [seconds_of(function, number) for number in range(repeats)]


class Training:
    """Steps of one run on random text."""

    def __init__(self, run: str, size: int, args):
        self.size, self.device = size, "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(1)
        self.model = Model(run, size, args.out, **SHAPES[args.shape], chunk=args.encoding_chunk).to(self.device).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.state = None
        self.compute = with_bf16_products(Model.__call__) if BF16 in run else Model.__call__

    def step(self, number: int) -> None:
        # words as frequent as in text: Zipf's law
        logs = torch.rand(BLOCK + 1, STREAMS).mul(torch.tensor(float(self.size)).log())
        tokens = (logs.exp().long() + 3).clamp(max=self.size - 1).to(self.device)
        matrices = self.model.matrices
        matrices.begin_step(number, tokens.unique())
        self.optimizer.zero_grad()
        loss, self.state = self.compute(self.model, tokens[:-1], tokens[1:], self.state)
        loss.div(STREAMS * BLOCK).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        if matrices.is_frozen():
            for parameter in matrices.parameters():
                parameter.grad = None
        self.optimizer.step()


def training(run: str, size: int, args) -> dict:
    own = Training(run, size, args)
    seconds = timed(own.step, args.steps + 2)[2:]
    speed = scoring(own.model.eval(), size, own.device)
    parameters = sum(p.numel() for p in own.model.parameters())
    return {"seconds": seconds, "scoring_tokens_per_second": speed, "parameters": parameters, "peak_gib": peak()}


def step_by_step(args) -> str:
    """Time the runs of each size in one process, a step of each at a time, and return a table."""
    title = f"{args.shape} shape, {machine()}; ms of a step, runs take turns at every step: median, mean, min, max"
    columns, rows, saved = ["V", "run", "ms", "mean", "min", "max", f"x {args.runs[0]}", "of means"], [], {}
    for size in args.sizes:
        own = {run: Training(run, size, args) for run in args.runs}
        seconds = {run: [] for run in own}
        for number in range(args.rounds * args.steps + 2):
            for run in own:
                seconds[run].append(seconds_of(own[run].step, number))
        found = saved[size] = {run: {**spread(seconds[run][2:]), "seconds": seconds[run][2:]} for run in own}
        for run in own:
            numbers = [f"{found[run][key]:,.0f}" for key in ("ms", "mean", "min", "max")]
            rows.append([f"{size:,}", run, *numbers, *(f"{found[run][k] / found[args.runs[0]][k]:.2f}" for k in ("ms", "mean"))])
    (args.out / f"step-by-step-{args.shape}.json").write_text(json.dumps({"machine": machine(), "runs": saved}, indent=1) + "\n")
    return f"{title}\n{aligned(columns, rows, names=2)}"


@torch.no_grad()
def scoring(model: Model, size: int, device: str) -> float:
    state, tokens = None, torch.randint(3, size, (BLOCK, STREAMS), device=device)

    def step(number: int) -> None:
        nonlocal state
        _, state = model(tokens, tokens, state)

    return STREAMS * BLOCK / statistics.median(timed(step, 12)[2:])


def floor(size: int, folder: Path, shape: dict, steps: int) -> dict:
    """Time the bare products of a full step: (m, k) by (k, n), and its two gradients."""
    vocabulary = vocabulary_of(size, range(1, 7), folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    products = []
    for m, k, n, times in shapes_of_products(vocabulary, **shape):
        a, b, c = (torch.randn(*s, device=device) for s in ((m, k), (k, n), (m, n)))
        products.append((a, b, c, times))

    def step(number: int) -> None:
        for a, b, c, times in products:
            for _ in range(times):
                torch.mm(a, b)
                torch.mm(c, b.t())
                torch.mm(a.t(), c)

    return {"seconds": timed(step, steps + 1)[1:], "peak_gib": peak()}


def shapes_of_products(vocabulary, dim: int, hidden: int, layers: int, depth: int, filters: list[int]):
    """Return (m, k, n, how often) for every product of a full step."""
    forms, words, features, tokens = vocabulary.num_forms, vocabulary.num_words, sum(filters), STREAMS * BLOCK
    convolutions = [(len(vocabulary.spellings(w)[0]), 16 * w, count, 1) for w, count in enumerate(filters, start=1)]
    encoder = [(forms, features, 2 * features, 1), (forms, features, dim, 1), (words, 3 * dim, dim, 1)]
    head = [(words, dim, dim, depth)] if depth else []
    widths = [dim, *[hidden] * (layers - 1), dim]
    lstm = [p for a, b in pairwise(widths) for p in ((tokens, a, 4 * b, 1), (STREAMS, b, 4 * b, BLOCK))]
    return convolutions + encoder + head + lstm + [(tokens, dim, words, 1)]


def summary(rounds: list[dict]) -> dict:
    """Return what the steps of all rounds say together."""
    found = spread([s for r in rounds for s in r["seconds"]])
    return {**rounds[0], **found, "peak_gib": max(r["peak_gib"] for r in rounds), "seconds": [r["seconds"] for r in rounds]}


def spread(seconds: list[float]) -> dict:
    """Return median, mean, least and most, in milliseconds."""
    ms = [1000 * s for s in seconds]
    return {"ms": statistics.median(ms), "mean": statistics.mean(ms), "min": min(ms), "max": max(ms), "steps": len(ms)}


def child(args) -> None:
    shape = SHAPES[args.shape]
    run, size = args.runs[0], args.sizes[0]
    measure = floor(size, args.out, shape, args.steps) if run == "floor" else training(run, size, args)
    print("RESULT " + json.dumps(measure))


def measured(args, run: str, size: int) -> dict:
    """Measure in a process of its own."""
    options = ["--out", args.out, "--runs", run, "--sizes", size, "--shape", args.shape, "--steps", args.steps]
    options += ["--encoding-chunk", args.encoding_chunk, "--child"]
    done = subprocess.run([sys.executable, __file__, *map(str, options)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.split("RESULT ")[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 33_000, 80_000, 200_000])
    parser.add_argument("--data", type=Path, help="binarised text: its vocabulary in place of made-up ones of --sizes")
    parser.add_argument("--runs", nargs="+", default=RUNS)
    parser.add_argument("--shape", choices=SHAPES, default="ptb")
    parser.add_argument("--steps", type=int, default=7, help="timed in each round, after two")
    parser.add_argument("--rounds", type=int, default=3, help="the runs of one size take turns")
    parser.add_argument("--encoding-chunk", type=int, default=DEFAULT_CHUNK, help="forms encoded at a time")
    parser.add_argument("--step-by-step", action="store_true", help="runs take turns at every step, in one process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    keep_memory()
    if args.child:
        return child(args)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.data:
        args.sizes = [take(args.data, args.out)]
    if args.step_by_step:
        return print(step_by_step(args))
    results = args.out / f"scaling-{args.shape}.json"
    saved = json.loads(results.read_text()) if results.exists() else {"runs": {}}
    for size in args.sizes:
        missing = [run for run in args.runs if key_of(args, run, size) not in saved["runs"]]
        rounds = [turn(args, missing, size, number) for number in range(args.rounds)]
        saved["runs"].update({key_of(args, run, size): summary([r[run] for r in rounds]) for run in missing})
        results.write_text(json.dumps(saved, indent=1) + "\n")
    print(table(saved, args))
    try:
        draw(saved, args, results.with_suffix(".png"))
    except OptionError as error:  # the figures are there
        print(error)


def turn(args, runs: list[str], size: int, number: int) -> dict[str, dict]:
    """Measure every run once."""
    measures = {}
    for run in runs:
        print(f"{run} at V = {size:,}, round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        measures[run] = measured(args, run, size)
    return measures


def key_of(args, run: str, size: int) -> str:
    chunk = f" chunk {args.encoding_chunk}" if args.encoding_chunk != DEFAULT_CHUNK else ""
    return f"{run} {size}{chunk} {args.rounds}x{args.steps}, {machine()}"


def table(saved: dict, args) -> str:
    rows = []
    for size in args.sizes:
        runs = {run: saved["runs"][key_of(args, run, size)] for run in args.runs}
        for run, r in runs.items():
            relative = [r["ms"] / runs[other]["ms"] if other in runs else float("nan") for other in ("tied", "floor")]
            speed = f"{r['scoring_tokens_per_second']:,.0f}" if "scoring_tokens_per_second" in r else ""
            numbers = [f"{r[key]:,.0f}" for key in ("ms", "mean", "min", "max")] + [f"{value:.2f}" for value in relative]
            rows.append([f"{size:,}", run, *numbers, f"{r['peak_gib']:.1f}", speed])
    columns = ["V", "run", "ms", "mean", "min", "max", "x tied", "x floor", "peak GiB", "scored tokens/s"]
    return f"{args.shape} shape, {machine()}; ms of a step: median, mean, min, max\n{aligned(columns, rows, names=2)}"


def draw(saved: dict, args, path: Path) -> None:
    """Save time and memory against V."""
    figure, panels = pyplot().subplots(1, 2, figsize=(10, 4))
    for axis, key, label in zip(panels, ("ms", "peak_gib"), ("ms a training step", "peak memory, GiB"), strict=True):
        for run in args.runs:
            values = [saved["runs"][key_of(args, run, size)][key] for size in args.sizes]
            axis.plot(args.sizes, values, marker="o", markersize=4, label=run)
        axis.set(xlabel="words in the vocabulary", ylabel=label, xscale="log", yscale="log" if key == "ms" else "linear")
    panels[1].legend(loc="upper left")
    figure.suptitle(f"Cost of a training step, {args.shape} shape: {machine()}")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
