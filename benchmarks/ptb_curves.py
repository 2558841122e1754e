"""How fast does GroC learn Penn Treebank beside tied, in updates and in seconds?

    python benchmarks/ptb_curves.py DATA --out DIR [--runs tied groc groc-sampled-0.1 ...] [--updates 660] [--seconds 300] \
      [--init-range 0.05]

The models are of the small preset.
DATA is a folder from scripts/preprocess.sh --dataset ptb, or one of a part of its training text. Runs: tied, groc,
groc-sampled-RHO (sampled updates) and groc-sparse-P (the paper's sparse updates); -bf16 behind a name for
products in bfloat16. Each with several learning rates, constant after 100 updates of warm-up or (--decay) falling linearly to
zero over --updates, and several seeds. Seconds are updates times the median update's, so that a
disturbance in one run does not count. A run goes on past --updates until it has trained for --seconds, so that all can
be compared at equal updates and at equal seconds. Runs that are done are not repeated: give the same DIR to go on, and
another one after a change of the code.
"""

import argparse
import json
import re
import statistics
from pathlib import Path

import numpy as np
from common import fairseq_train, keep_memory

from fairseq_groc.evaluation.results import aligned, label_log_axis, machine, pyplot, save_figure
from fairseq_groc.evaluation.training_log import read_parameters
from fairseq_groc.programs import PLUGIN

OPTIONS = (
    "--arch groc_lstm_lm_small --batch-size 20 --tokens-per-sample 35 --batch-size-valid 20 --optimizer adam "
    "--clip-norm 0.25 --warmup-updates 100 --log-interval 15"
).split()


def model_options(name: str) -> list[str]:
    """Return the options of a run by its name."""
    rounded = ["--autocast-bf16"] * name.endswith("-bf16")
    name = name.removesuffix("-bf16")
    if name == "tied":
        return ["--output-head", "tied", *rounded]
    options = ["--output-head", "compositional_output", *rounded]
    kind, _, value = name.replace("groc", "").strip("-").partition("-")
    flags = {"": [], "sampled": ["--sampled-update-fraction", value], "sparse": ["--full-update-prob", value]}
    if kind not in flags:
        raise SystemExit(f"unknown run {name}: tied, groc, groc-sampled-RHO or groc-sparse-P, with or without -bf16")
    return options + flags[kind]


def train(data: Path, name: str, rate: float, seed: int, args) -> dict:
    """Train one model; return its validation curve as (updates, seconds of training, perplexity)."""
    curve: list[tuple[int, float, float]] = []
    updates, output = args.updates, ""
    while not curve or (curve[-1][1] < args.seconds and updates > curve[-1][0]):
        output = trained(data, name, rate, seed, updates, args)
        curve = curve_of(output)
        n, seconds, _ = curve[-1]
        updates = max(n, int(n * args.seconds / seconds / args.interval + 1) * args.interval)
    return {"run": name, "lr": rate, "seed": seed, "parameters": read_parameters(output), "curve": curve}


def trained(data: Path, name: str, rate: float, seed: int, updates: int, args) -> str:
    """Train from where the last call stopped up to *updates*; return the output of all calls."""
    save = args.out / f"{name}-lr{rate:g}-seed{seed}-init{args.init_range:g}"
    save.mkdir(parents=True, exist_ok=True)
    log = save / f"{updates}.log"
    options = [*PLUGIN, *OPTIONS, *model_options(name), "--lr", rate, "--seed", seed, "--max-update", updates]
    options += ["--init-range", args.init_range]
    options += (
        ["--lr-scheduler", "polynomial_decay", "--total-num-update", updates] if args.decay else ["--lr-scheduler", "fixed"]
    )
    options += ["--save-dir", save, "--validate-interval-updates", args.interval, "--no-epoch-checkpoints"]
    if not (log.exists() and "done training" in log.read_text()):
        fairseq_train(data, options, log)
    return "".join(path.read_text() for path in sorted(save.glob("*.log"), key=lambda path: int(path.stem)))


def curve_of(output: str) -> list[tuple[int, float, float]]:
    """Return (updates, seconds, perplexity); seconds are updates times the median over log intervals of an update's."""
    speeds = [float(ups) for ups in re.findall(r"train_inner \|.* ups=([\d.]+)", output)]
    if not speeds:
        raise SystemExit("no speed was logged: give --updates 15 or more")
    valid = re.findall(r"\| valid \| .* ppl ([\d.]+) .*num_updates (\d+)", output)
    curve = {int(n): (int(n), int(n) / statistics.median(speeds), float(ppl)) for ppl, n in valid}
    return sorted(curve.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", nargs="+", default=["tied", "groc"])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.002, 0.004], help="learning rates to choose from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--decay", action="store_true", help="the rate falls linearly to zero over --updates")
    parser.add_argument("--updates", type=int, default=660)
    parser.add_argument("--seconds", type=float, default=0, help="train at least so long")
    parser.add_argument("--interval", type=int, default=165, help="updates between validations")
    parser.add_argument("--init-range", type=float, default=0.2, help="within which weights begin (default: the preset's)")
    parser.add_argument("--title", default="Penn Treebank, small preset")
    args = parser.parse_args()
    if args.decay and args.seconds:
        parser.error("--decay ends with --updates: --seconds would go on without a rate")
    keep_memory()
    runs = []
    for name in args.runs:
        tried = [train(args.data, name, rate, seed, args) for rate in args.rates for seed in args.seeds]
        for run in tried:
            points = "  ".join(f"{n}: {ppl:,.0f} ({s:.0f} s)" for n, s, ppl in run["curve"])
            print(f"{name:<18} lr {run['lr']:g} seed {run['seed']}  {points}", flush=True)
        runs += tried
    rows = []
    for run in runs:
        n, seconds, _ = run["curve"][-1]
        at_updates = next(ppl for n, _, ppl in run["curve"] if n >= args.updates)
        row = [run["run"], f"{run['lr']:g}", str(run["seed"]), f"{run['parameters']:,}", f"{1000 * seconds / n:,.0f}"]
        rows.append([*row, f"{at_updates:,.1f}", *([f"{at_seconds(run['curve'], args.seconds):,.1f}"] * bool(args.seconds))])
    columns = ["validation perplexity", "lr", "seed", "parameters", "ms/update", f"{args.updates} updates"]
    print(f"\n{machine()}\n{aligned([*columns, f'{args.seconds:g} s'][: len(rows[0])], rows)}")
    (args.out / "ptb_curves.json").write_text(json.dumps({"machine": machine(), "runs": runs}, indent=1) + "\n")
    draw(runs, args.title, args.out / "ptb_curves.png")


def at_seconds(curve, seconds: float) -> float:
    """Return the perplexity after so many seconds of training: between two validations on a line through their logarithms."""
    _, times, perplexities = zip(*curve, strict=True)
    return float(np.exp(np.interp(seconds, times, np.log(perplexities))))


def draw(runs, title: str, path: Path) -> None:
    """Save the curves against updates and against seconds."""
    figure, panels = pyplot().subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, column, label in zip(panels, (0, 1), ("updates", "seconds of training"), strict=True):
        for run in runs:
            points = [(point[column], point[2]) for point in run["curve"]]
            axis.plot(
                *zip(*points, strict=True), marker="o", markersize=4, label=f"{run['run']}, lr {run['lr']:g}, seed {run['seed']}"
            )
        axis.set(xlabel=label, yscale="log")
        label_log_axis(axis.yaxis)
    panels[0].set(ylabel="validation perplexity")
    panels[0].legend(fontsize=7, framealpha=0.5)
    figure.suptitle(title)
    save_figure(figure, path)


if __name__ == "__main__":
    main()
