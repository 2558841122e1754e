"""Print the folder to give to fairseq's --user-dir."""

from argparse import ArgumentParser, Namespace

from fairseq_groc.programs import FOLDER


def add_arguments(parser: ArgumentParser) -> None:
    pass


def run(args: Namespace) -> None:
    print(FOLDER)
