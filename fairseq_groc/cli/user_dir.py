"""Print the folder to give to fairseq's --user-dir."""

from fairseq_groc.programs import FOLDER


def add_arguments(parser) -> None:
    pass


def run(args) -> None:
    print(FOLDER)
