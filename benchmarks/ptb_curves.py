"""GroC against tied on Penn Treebank with the small preset: validation perplexity against updates and against seconds.

    python benchmarks/ptb_curves.py DATA --out DIR [--runs tied groc groc-sampled-0.1 ...] [--updates 660]

DATA is a folder from scripts/preprocess.sh --dataset ptb. Runs: tied, groc, groc-sampled-RHO (sampled updates) and
groc-sparse-P (the paper's sparse updates); each takes its better learning rate on validation text. Seconds are those of
training alone, as fairseq logs them. Runs that are done are not repeated: give the same DIR to go on.
"""

import argparse
import json
import re
from pathlib import Path
from typing import List

from common import PLUGIN, fairseq_train, parameters

RATES = (0.002, 0.004)
OPTIONS = (
    "--arch groc_lstm_lm_small --batch-size 20 --tokens-per-sample 35 --batch-size-valid 20 --optimizer adam "
    "--clip-norm 0.25 --lr-scheduler fixed --warmup-updates 100 --no-save --log-interval 20"
).split()


def model_options(name: str) -> List[str]:
    """Return the options of a run by its name."""
    if name == "tied":
        return ["--output-head", "tied"]
    options = ["--output-head", "compositional_output"]
    kind, _, value = name.replace("groc", "").strip("-").partition("-")
    flags = {"": [], "sampled": ["--sampled-update-fraction", value], "sparse": ["--full-update-prob", value]}
    if kind not in flags:
        raise SystemExit(f"unknown run {name}: tied, groc, groc-sampled-RHO or groc-sparse-P")
    return options + flags[kind]


def train(data: Path, name: str, rate: float, updates: int, out: Path) -> dict:
    """Train one model; return its validation curve as (updates, seconds of training, perplexity)."""
    log = out / f"{name}-lr{rate:g}-{updates}.log"
    options = [*PLUGIN, *OPTIONS, *model_options(name), "--lr", rate, "--max-update", updates]
    options += ["--validate-interval-updates", max(updates // 4, 1), "--save-dir", out]
    done = log.exists() and "done training" in log.read_text()
    output = log.read_text() if done else fairseq_train(data, options, log)
    inner = re.findall(r"train_inner \|.* num_updates=(\d+),.* train_wall=([\d.]+)", output)
    valid = re.findall(r"\| valid \| .* ppl ([\d.]+) .*num_updates (\d+)", output)
    curve = {int(n): (int(n), sum(float(s) for at, s in inner if int(at) <= int(n)), float(ppl)) for ppl, n in valid}
    return {"run": name, "lr": rate, "parameters": parameters(output), "curve": sorted(curve.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", nargs="+", default=["tied", "groc"])
    parser.add_argument("--updates", type=int, default=660)
    parser.add_argument("--tied-updates", type=int, help="more for tied, to compare at equal seconds (default: --updates)")
    args = parser.parse_args()
    best = []
    for name in args.runs:
        updates = (args.tied_updates or args.updates) if name == "tied" else args.updates
        tried = [train(args.data, name, rate, updates, args.out) for rate in RATES]
        for run in tried:
            points = "  ".join(f"{n}: {ppl:,.0f} ({s:.0f} s)" for n, s, ppl in run["curve"])
            print(f"{name:<18} lr {run['lr']:g}  {points}", flush=True)
        best.append(min(tried, key=lambda run: run["curve"][-1][2]))
    print(f"\n{'best of each':<18}{'lr':>7}{'parameters':>12}{'updates':>9}{'seconds':>9}{'ms/update':>11}{'valid ppl':>11}")
    for run in best:
        n, seconds, ppl = run["curve"][-1]
        ms = 1000 * seconds / n
        print(f"{run['run']:<18}{run['lr']:>7g}{run['parameters']:>12,}{n:>9,}{seconds:>9,.0f}{ms:>11,.0f}{ppl:>11,.1f}")
    (args.out / "ptb_curves.json").write_text(json.dumps(best, indent=1) + "\n")
    draw(best, args.out / "ptb_curves.png")


def draw(runs, path: Path) -> None:
    """Save the curves against updates and against seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, column, label in zip(panels, (0, 1), ("updates", "seconds of training")):
        for run in runs:
            points = [(point[column], point[2]) for point in run["curve"]]
            axis.plot(*zip(*points), marker="o", markersize=4, label=f"{run['run']}, lr {run['lr']:g}")
        axis.set(xlabel=label, yscale="log")
    panels[0].set(ylabel="validation perplexity")
    panels[0].legend()
    figure.suptitle("Penn Treebank, small preset")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
