"""Compare checkpoints by how often a word occurs in the training text: where the losses differ."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.arguments import add_out, add_text, named, natural
from fairseq_groc.data.fingerprint import folder_dictionary
from fairseq_groc.data.stream_dataset import count_occurrences, open_text
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.bins import EDGES, Bin, bins_table, by_frequency, draw_bins
from fairseq_groc.evaluation.loading import open_split
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.evaluation.scoring import Place, score
from fairseq_groc.modules.probabilities import is_impossible


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser)
    parser.add_argument("--baselines", required=True, nargs="+", metavar="NAME=CHECKPOINT", help="to compare it with")
    parser.add_argument("--train", metavar="FOLDER", help="data folder whose training text is counted (default: --data)")
    parser.add_argument("--edges", type=natural, nargs="+", default=EDGES, help="bins begin above so many occurrences")
    parser.add_argument("--tuned-adapters", action="store_true", help="every checkpoint with the adapters that tune has found")
    add_out(parser)


def run(args: Namespace) -> None:
    if list(args.edges) != sorted(set(args.edges)):
        raise OptionError(f"--edges {' '.join(map(str, args.edges))}: expected rising numbers")
    baselines = named("--baselines", args.baselines, "NAME=CHECKPOINT")
    train = Path(args.train or args.data)
    if not (train / "train.bin").is_file():
        raise DataError(f"{train}/train.bin not found: the training text says how frequent a word is: give --train FOLDER")
    task, targets, ours = log_probabilities(args, args.path)
    counts = occurrences(train, task)
    compared: dict[str, list[Bin]] = {}
    for name, path in baselines.items():
        _, others, theirs = log_probabilities(args, path)
        assert torch.equal(targets, others)
        impossible = int(is_impossible(torch.minimum(theirs, ours)).sum())
        if impossible:
            raise DataError(
                f"{impossible:,} tokens are impossible for {name} or {args.path}: give a text of words that both have"
            )
        compared[name] = by_frequency(targets, ours, theirs, counts, args.edges)
    print(bins_table(compared))
    if left := len(targets) - sum(b.tokens for b in next(iter(compared.values()))):
        print(f"{left:,} tokens are in no bin: of words that occur, but {args.edges[0]:,} times at most")
    if args.out:
        about = {"path": args.path, "baselines": args.baselines, "data": args.data, "train": str(train), "split": args.split}
        about["tuned_adapters"] = args.tuned_adapters
        bins = {name: [{"label": b.label(), **asdict(b)} for b in found] for name, found in compared.items()}
        write_json(args.out, {**about, "tokens": len(targets), "bins": bins})
        draw_bins(compared, args.out.with_suffix(".png"))


def occurrences(folder: Path, task: Any) -> Tensor:
    """Return how often the training text of a folder has each word of the task's dictionary, (V)."""
    dictionary = folder_dictionary(folder)
    lines = open_text(folder / "train")
    counts = count_occurrences(lines, len(dictionary)).tolist()
    places = (dictionary.indices.get(word) for word in task.dictionary.symbols)
    return torch.tensor([0 if place is None else counts[place] for place in places])


def log_probabilities(args: Namespace, path: str) -> tuple[Any, Tensor, Tensor]:
    """Return a checkpoint's task, the targets of the text, (n), and their log-probabilities, (n)."""
    hub, dataset = open_split(Namespace(**{**vars(args), "path": path}))
    found = score(hub.models[0], dataset, Place(1, hub.task.block_length()))
    return hub.task, found.targets, found.adapted
