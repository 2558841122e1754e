"""Every head at the paper's Penn Treebank shape: parameters, speed, memory, and perplexity after a few updates.

    python benchmarks/heads.py DATA --out DIR [--updates 60] [--heads tied bilinear ...]

DATA is a folder from scripts/preprocess.sh --dataset ptb. Each head is trained by fairseq-train with its preset of Table 8
(groc_lstm_lm_ptb_HEAD); tokens/s are the median over log intervals, relative to tied in the same run. Heads that are
done are not repeated: give the same DIR to go on.
"""

import argparse
import json
import re
import statistics
from pathlib import Path

from common import fairseq_train, keep_memory, parameters

from fairseq_groc.cli.programs import PLUGIN
from fairseq_groc.cli.results import machine
from fairseq_groc.modules.heads import HEADS
from fairseq_groc.presets import PRESETS

OPTIONS = (
    "--batch-size 20 --tokens-per-sample 35 --batch-size-valid 20 --optimizer adam --lr 0.001 --clip-norm 0.1 --log-interval 5 "
    "--criterion chunked_cross_entropy --no-save"
).split()


def arch_options(head: str):
    """Return the architecture of a head: the paper's preset, or for heads that it does not compare, its sizes."""
    if head == "compositional_output":
        return ["--arch", "groc_lstm_lm_ptb"]
    if f"groc_lstm_lm_ptb_{head}" in PRESETS:
        return ["--arch", f"groc_lstm_lm_ptb_{head}"]
    return ["--arch", "groc_lstm_lm_ptb", "--output-head", head]


def measured(data: Path, head: str, args) -> dict:
    log = args.out / f"{head}.log"
    options = [*PLUGIN, *OPTIONS, *arch_options(head), "--max-update", args.updates, "--save-dir", args.out / "none"]
    output, peak = fairseq_train(data, options, log)
    speeds = [float(wps) for wps in re.findall(r"train_inner \|.* wps=([\d.]+)", output)][1:]  # the first has the warm-up
    return {
        "parameters": parameters(output),
        "tokens_per_second": statistics.median(speeds),
        "slowest": min(speeds),
        "fastest": max(speeds),
        "peak_gib": peak,
        "perplexity": float(re.findall(r"\| valid \| .* ppl ([\d.]+)", output)[-1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--heads", nargs="+", default=list(HEADS), choices=list(HEADS))
    args = parser.parse_args()
    if args.updates < 10:
        parser.error("--updates: 10 or more, since speeds are of every 5")
    keep_memory()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "heads.json"
    saved = json.loads(file.read_text()) if file.exists() else {"machine": machine(), "updates": args.updates, "heads": {}}
    if saved["updates"] != args.updates:
        raise SystemExit(f"{file} is of {saved['updates']} updates: give --updates {saved['updates']} or another --out")
    for head in sorted(args.heads, key=lambda head: head != "tied"):
        if head not in saved["heads"]:
            print(head, flush=True)
            saved["heads"][head] = measured(args.data, head, args)
            file.write_text(json.dumps(saved, indent=1) + "\n")
    tied = saved["heads"].get("tied", {}).get("tokens_per_second", float("nan"))
    print(f"{saved['machine']}; tokens/s: median (slowest to fastest interval)")
    print(
        f"{'head':<22}{'parameters':>12}{'tokens/s':>24}{'x tied':>8}{'peak GiB':>10}{f'valid ppl, {args.updates} updates':>26}"
    )
    for head in args.heads:
        r = saved["heads"][head]
        speed = f"{r['tokens_per_second']:,.0f} ({r['slowest']:,.0f} to {r['fastest']:,.0f})"
        line = f"{head:<22}{r['parameters']:>12,}{speed:>24}{r['tokens_per_second'] / tied:>8.2f}"
        print(f"{line}{r['peak_gib']:>10.1f}{r['perplexity']:>24,.1f}")


if __name__ == "__main__":
    main()
