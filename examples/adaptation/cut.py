"""Cut train.txt, valid.txt and test.txt of a cross-domain set of GroC from its published file.

    python examples/adaptation/cut.py NAME SOURCES FOLDER [--tokens N,N,N] [--seed N]

NAME is news-2007 to news-2011, web or wiki; docs/cross_domain.md says what these are, and where the file in SOURCES is published.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from fairseq_groc.data.cross_domain import SOURCES, cut, sizes_of
from fairseq_groc.errors import GrocError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(SOURCES))
    parser.add_argument("sources", type=Path, help="folder with the published file")
    parser.add_argument("folder", type=Path, help="to write")
    parser.add_argument("--tokens", metavar="N,N,N", help="of train, valid and test (2M, 2M, 10M)")
    parser.add_argument("--seed", type=int, default=1, help="of the shuffling (web)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=args.folder, prefix=".unfinished-") as scratch:
            for split, lines in cut(args.name, args.sources, sizes_of(args.tokens), args.seed):
                with open(Path(scratch, f"{split}.txt"), "w", encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in lines)
            for path in Path(scratch).iterdir():  # all of them, or none
                path.replace(args.folder / path.name)
    except GrocError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
