"""Print the folder to give to fairseq's --user-dir."""

from pathlib import Path


def add_arguments(parser) -> None:
    pass


def run(args) -> None:
    print(Path(__file__).resolve().parent.parent)
