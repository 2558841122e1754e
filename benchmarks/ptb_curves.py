"""GroC against tied on Penn Treebank with the small preset, at equal updates: table, JSON and picture.

    python benchmarks/ptb_curves.py DATA --out DIR [--updates 660]

DATA is a folder from scripts/preprocess.sh --dataset ptb. Each model takes its better learning rate on validation text.
"""

import argparse
import json
import re
from pathlib import Path

from common import PLUGIN, fairseq_train, parameters

RATES = (0.002, 0.004)
HEADS = ("tied", "compositional_output")
OPTIONS = (
    "--arch groc_lstm_lm_small --batch-size 20 --tokens-per-sample 35 --batch-size-valid 20 --optimizer adam "
    "--clip-norm 0.25 --no-save --log-interval 50"
).split()


def train(data: Path, head: str, rate: float, updates: int, out: Path) -> dict:
    """Train one model; return its validation curve, as (updates, perplexity, seconds of training)."""
    log = out / f"{head}-{rate:g}.log"
    options = [*PLUGIN, *OPTIONS, "--output-head", head, "--lr", rate, "--max-update", updates]
    options += ["--validate-interval-updates", max(updates // 6, 1), "--save-dir", out]
    output = log.read_text() if log.exists() and "done training" in log.read_text() else fairseq_train(data, options, log)
    valid = re.findall(r"\| valid \| .* ppl ([\d.]+) .*num_updates (\d+)", output)
    wall = float(re.findall(r"train_wall ([\d.]+)", output)[-1])
    curve = sorted({int(n): float(perplexity) for perplexity, n in valid}.items())
    return {"head": head, "lr": rate, "parameters": parameters(output), "curve": curve, "ms_per_update": 1000 * wall / updates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=660)
    args = parser.parse_args()
    runs = []
    for head in HEADS:
        for rate in RATES:
            runs.append(train(args.data, head, rate, args.updates, args.out))
            print(f"{head:<22} lr {rate:g}  " + "  ".join(f"{n}: {p:,.0f}" for n, p in runs[-1]["curve"]), flush=True)
    for head in HEADS:
        best = min((r for r in runs if r["head"] == head), key=lambda r: r["curve"][-1][1])
        print(
            f"best {head:<22} lr {best['lr']:g}  validation perplexity {best['curve'][-1][1]:,.1f} after {args.updates} "
            f"updates, {best['parameters']:,} parameters, {best['ms_per_update']:,.0f} ms an update"
        )
    (args.out / "ptb_curves.json").write_text(json.dumps(runs, indent=1) + "\n")
    draw(runs, args.out / "ptb_curves.png")


def draw(runs, path: Path) -> None:
    """Save the curves against updates."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 4))
    for run in runs:
        groc = run["head"] == "compositional_output"
        style = "-" if run["lr"] == RATES[0] else "--"
        label = f"{'GroC' if groc else 'tied'}, lr {run['lr']:g}"
        axis.plot(*zip(*run["curve"]), style, color="C1" if groc else "C0", marker="o", label=label)
    axis.set(xlabel="updates", ylabel="validation perplexity", yscale="log", title="Penn Treebank, small preset, equal updates")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
