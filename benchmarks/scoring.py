"""Do computed embeddings slow scoring down, and how long do all words take to encode?

    python benchmarks/scoring.py --out DIR [--sizes 10000 33000 200000] [--rounds 20]

The paper's Penn Treebank shape, batches of 20 streams x 35 and of 1 x 35 (fairseq-eval-lm's default). DIR keeps the
made-up vocabularies, as that of scaling.py does.
"""

import argparse
import json
from pathlib import Path

import torch
from common import keep_memory
from scaling import BLOCK, SHAPES, STREAMS, Model, seconds_of, spread

from fairseq_groc.evaluation.results import machine

HEADS = ["tied", "lookup", "full"]


@torch.no_grad()
def measured(size: int, args) -> dict:
    """Return milliseconds a batch of every head and shape, and the seconds that the words of GroC took."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = {head: Model(head, size, args.out, **SHAPES["ptb"]).to(device).eval() for head in HEADS}
    for model in models.values():
        model.matrices.make_generation_fast_()  # as fairseq-eval-lm does
    result = {"encoding_seconds": seconds_of(models["full"].matrices)}
    for streams in (STREAMS, 1):
        tokens = torch.randint(3, size, (BLOCK, streams), device=device)
        times = {head: [] for head in HEADS}
        for _ in range(args.rounds + 2):
            for head, model in models.items():
                times[head].append(seconds_of(model, tokens, tokens, None))
        for head in HEADS:
            result[f"{head} {streams}x{BLOCK}"] = spread(times[head][2:])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 33_000, 200_000])
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    keep_memory()
    args.out.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine(), "sizes": {}}
    print(f"{results['machine']}; ms a batch: median (min to max)")
    print(f"{'V':>8} {'batch':<7}" + "".join(f"{head:>26}" for head in HEADS) + "  full / tied")
    for size in args.sizes:
        r = results["sizes"][size] = measured(size, args)
        for streams in (STREAMS, 1):
            cells = [r[f"{head} {streams}x{BLOCK}"] for head in HEADS]
            spreads = [f"({c['min']:,.1f} to {c['max']:,.1f})" for c in cells]
            text = "".join(f"{c['ms']:>9,.1f} {spread:>16}" for c, spread in zip(cells, spreads, strict=True))
            print(f"{size:>8,} {f'{streams}x{BLOCK}':<7}{text}{cells[2]['ms'] / cells[0]['ms']:>13.2f}")
        print(f"{size:>8,} words encoded in {r['encoding_seconds']:.1f} s", flush=True)
        (args.out / "scoring.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
