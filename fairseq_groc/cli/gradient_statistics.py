"""Measure the gradients of a training text, which dynamic evaluation divides by (--dynamic-rate)."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from fairseq_groc.adapters import OPTIONS
from fairseq_groc.adapters.statistics import check_part, path_of, save_statistics
from fairseq_groc.arguments import add_text, natural, positive
from fairseq_groc.evaluation.gradients import mean_squares, statistics_of
from fairseq_groc.evaluation.loading import open_split
from fairseq_groc.evaluation.scoring import Place
from fairseq_groc.files import check_place


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser, "train")
    chosen = OPTIONS["dynamic_parameters"]
    parser.add_argument("--dynamic-parameters", choices=chosen.kind, default=chosen.default, help=chosen.help)
    parser.add_argument("--streams", type=positive, default=100, help="contiguous streams")
    parser.add_argument("--max-batches", type=natural, default=0, help="read so many blocks of all streams; 0: the whole text")
    parser.add_argument("--dest", type=Path, help="folder to write to; default: the data folder")


def run(args: Namespace) -> None:
    folder = args.dest or Path(args.data)
    if args.dest:
        args.dest.mkdir(parents=True, exist_ok=True)
    hub, dataset = open_split(args)
    model, decoder = hub.models[0], hub.models[0].decoder
    decoder.adapter = None
    own = hub.task.block_length() if decoder.carried is None else OPTIONS["dynamic_block"].default
    block = args.tokens_per_sample or own
    digest = decoder.rowless_fingerprint()
    path = path_of(folder, digest, args.dynamic_parameters)
    check_place("--dest", path)
    if args.max_batches:
        check_part(path)
    leaves = decoder.leaves(args.dynamic_parameters)
    squares = mean_squares(model, leaves, dataset, Place(args.streams, block), args.max_batches)
    statistics = statistics_of(squares)
    about = {"parameters": args.dynamic_parameters, "split": args.split, "streams": args.streams, "block": block}
    about["max_batches"] = args.max_batches
    save_statistics(path, digest, statistics, decoder, leaves.rows, **about)
    numbers = sum(one.numel() for one in statistics.rms.values())
    print(f"{path}: {numbers:,} numbers in {len(statistics.rms)} tensors, mean size of a gradient {statistics.mean:.3g}")
