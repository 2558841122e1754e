"""How many multiply-adds and bytes does a training step of GroC take: on Penn Treebank, WikiText-2, or any number of words?

    python benchmarks/arithmetic.py --tables NAME=SHAPE=FOLDER ... [--size 200000 --out DIR]

FOLDER is a folder from scripts/preprocess.sh; SHAPE is one of scaling.py's. Bytes are those of the operands and results of the
matrix products in float32, each counted once. Backward takes two products of the size of each forward one.
"""

import argparse
from pathlib import Path

from scaling import SHAPES, shapes_of_products
from vocabularies import vocabulary_of

from fairseq_groc.dictionary import load_dictionary
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.lexicon.tables_file import load_tables

PARTS = ["conv 1", "conv 2", "conv 3", "conv 4", "conv 5", "conv 6", "highway", "projection", "composition"]
LSTM = [f"LSTM {layer}, {part}" for layer in (1, 2, 3) for part in ("input", "recurrent")]


def from_folder(folder: Path) -> Vocabulary:
    return Vocabulary(load_tables(folder, load_dictionary(folder / "dict.txt").symbols), range(1, 7))


def report(name: str, vocabulary: Vocabulary, shape: str) -> None:
    """Print a Markdown table."""
    products = shapes_of_products(vocabulary, **SHAPES[shape])
    own = SHAPES[shape]
    names = [*PARTS, *["output network"] * bool(own["depth"]), *LSTM[: 2 * own["layers"]], "softmax"]
    print(f"\n{name}: V = {vocabulary.num_words:,}, {vocabulary.num_forms:,} forms\n")
    print("| part | product (m x k x n) | G multiply-adds, forward | forward and backward | MB, forward |")
    print("| --- | --- | --- | --- | --- |")
    total, size = 0.0, 0.0
    for part, (m, k, n, times) in zip(names, products, strict=True):
        work, moved = m * k * n * times / 1e9, 4 * (m * k + k * n + m * n) * times / 1e6
        total, size = total + work, size + moved
        shape_text = f"{m:,} x {k} x {n:,}" + (f", {times} times" if times > 1 else "")
        print(f"| {part} | {shape_text} | {work:.2f} | {3 * work:.2f} | {moved:,.0f} |")
    print(f"| all | | {total:.2f} | {3 * total:.2f} | {size:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=[], metavar="NAME=SHAPE=FOLDER")
    parser.add_argument("--size", type=int, help="also a made-up vocabulary of so many words, at the ptb shape")
    parser.add_argument("--out", type=Path, help="where its tables are kept")
    args = parser.parse_args()
    for entry in args.tables:
        name, shape, folder = entry.split("=")
        report(name, from_folder(Path(folder)), shape)
    if args.size:
        report("made up", vocabulary_of(args.size, range(1, 7), args.out), "ptb")


if __name__ == "__main__":
    main()
