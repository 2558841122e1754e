"""Show word by word in which of two contexts the lines of a file are more probable: text, HTML page and picture."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_groc.arguments import add_model, add_out, positive
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.data.text import checked, read_lines
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.in_context import in_context, token_scores
from fairseq_groc.evaluation.likelihood_ratios import END, draw_ratios, ratio_page, ratio_table
from fairseq_groc.evaluation.loading import load_as
from fairseq_groc.evaluation.results import write_json

MEAN = "mean"  # what is said of several models


class Lines(list[torch.Tensor]):
    """Lines of tokens, as binarised ones are read."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([len(line) for line in self])


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="file of tokenised lines")
    parser.add_argument("--between", nargs=2, required=True, metavar="NAME=VALUE,...", help="two contexts")
    add_model(parser, context=False)
    parser.add_argument("--more-paths", nargs="+", default=[], metavar="CHECKPOINT", help="other models, shown beside it")
    parser.add_argument("--batch-size", type=positive, default=50, help="lines at a time")
    add_out(parser, "JSON file to write; a page (.html) is written beside it")


def run(args: Namespace) -> None:
    if args.out and args.text.resolve() in (args.out.with_suffix(end).resolve() for end in (".json", ".html", ".png")):
        raise OptionError(f"--out {args.out} would overwrite {args.text}: give another name")
    texts = list(checked(read_lines(args.text), str(args.text)))
    words = [word for text in texts for word in (*text.split(), END)]
    ratios: dict[str, NDArray[np.float64]] = {}
    for path in dict.fromkeys((args.path, *args.more_paths)):
        hub = load_as(args, path)
        if hub.task.schema is None:
            raise OptionError(f"{path}: this model reads no contexts. Give one that was trained with --context-dim.")
        folder = Path(path).resolve().parent.name  # checkpoints of several models have one file name
        name = path if folder in (*ratios, MEAN) else folder
        ratios[name] = ratios_of(hub, texts, args.between, args.batch_size)
    if len(ratios) > 1:
        ratios[MEAN] = np.mean(list(ratios.values()), axis=0)
    print(ratio_table(words, ratios))
    if args.out:
        between = (args.between[0], args.between[1])
        written = {name: values.tolist() for name, values in ratios.items()}
        write_json(args.out, {"between": between, "words": words, "ratios": written})
        args.out.with_suffix(".html").write_text(ratio_page(words, ratios, between), encoding="utf-8")
        draw_ratios(words, ratios, between, args.out.with_suffix(".png"))


def ratios_of(hub: Any, texts: Sequence[str], between: Sequence[str], batch_size: int) -> NDArray[np.float64]:
    """Return the log-likelihood ratio between two contexts of each word of the lines, and of each line's end.

    New words are composed of their spellings by models that can; others have ``<unk>`` for them.
    """
    dictionary = hub.task.dictionary
    if hub.models[0].decoder.matrices.embedding.computes:
        words = (word for text in texts for word in text.split())
        hub.models[0].add_words([word for word in dict.fromkeys(words) if word not in dictionary.indices])
    lines = Lines(dictionary.encode_line(text, add_if_not_exist=False, append_eos=True).long() for text in texts)
    dataset = StreamDataset(lines, "lines", dictionary, independent_lines=True)
    found = []
    for given in between:
        parts: dict[int, list[torch.Tensor]] = {}
        with in_context(dataset, hub.task.schema.parse(given)):
            for numbers, targets, lprobs in token_scores(hub.models[0], dataset, batch_size, hub.task.block_length()):
                for number, words, values in zip(numbers.tolist(), targets, lprobs, strict=True):
                    parts.setdefault(number, []).append(values[words != dictionary.pad()])
        found.append(torch.cat([part for number in range(len(lines)) for part in parts[number]]).double().cpu().numpy())
    return found[0] - found[1]
