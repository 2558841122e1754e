"""Find the words whose output embeddings are nearest to those of any strings, words of the vocabulary or not."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.arguments import add_lexicon_path, add_model, add_out, positive
from fairseq_groc.data.text import escaped
from fairseq_groc.errors import OptionError, shown
from fairseq_groc.evaluation.loading import data_lexicon, load_as
from fairseq_groc.evaluation.results import pyplot, save_figure, write_json


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("word", nargs="+", help="any string without blanks")
    add_model(parser, context=False)
    parser.add_argument("--count", type=positive, default=8, help="neighbours to show")
    add_out(parser)
    add_lexicon_path(parser, "of new words: that of the data's tables")


@torch.no_grad()
def run(args: Namespace) -> None:
    decoder = load_as(args).models[0].decoder
    known = ~decoder.matrices.unpredictable()
    decoder.check_words(args.word)
    new = [word for word in args.word if word not in decoder.dictionary.indices]
    numbers = decoder.add_words(args.word, data_lexicon(decoder.origin, args.lexicon_path) if new else None)
    unknown = decoder.matrices.head.unknown()
    for word, number in zip(args.word, numbers, strict=True):
        if unknown is not None and bool(unknown[number]):
            raise OptionError(f"{shown(word)} is not in the vocabulary, and this model has a row a word: it knows no others")
    outputs = torch.nn.functional.normalize(decoder.matrices.output_embeddings().float(), dim=1)
    rows = known.nonzero().squeeze(1)
    found = [neighbours(decoder.dictionary, outputs, rows, number, args.count) for number in numbers]
    for word, near in zip(args.word, found, strict=True):
        print(f"{escaped(word)}{' (new)' if word in new else ''}")
        for row in near:
            print(f"  {row['similarity']:.3f}  {escaped(row['word'])}")
    if args.out:
        listed = [{"word": word, "new": word in new, "nearest": near} for word, near in zip(args.word, found, strict=True)]
        write_json(args.out, {"path": args.path, "data": args.data, "words": listed})
        draw(decoder.dictionary, outputs, args.word, found, args.out.with_suffix(".png"))


def neighbours(dictionary: Any, outputs: Tensor, rows: Tensor, number: int, count: int) -> list[dict[str, Any]]:
    """Return the words with the largest cosines, the word itself left out.

    Args:
        outputs: normalised embeddings, (V, d)
        rows: the numbers of the words to choose from
        number: of the word
    """
    rows = rows[rows != number]
    cosines, places = (outputs[rows] @ outputs[number]).topk(min(count, len(rows)))
    return [{"word": dictionary[int(rows[p])], "similarity": float(c)} for c, p in zip(cosines, places, strict=True)]


def draw(dictionary: Any, outputs: Tensor, words: list[str], found: list[list[dict[str, Any]]], path: Path) -> None:
    """Save the words and their neighbours on the two main axes between them."""
    shown = list(dict.fromkeys([*words, *(row["word"] for near in found for row in near)]))
    rows = outputs[[dictionary.indices[word] for word in shown]]
    centred = rows - rows.mean(0)
    places = (centred @ torch.linalg.svd(centred, full_matrices=False)[2][:2].t()).tolist()
    figure, axes = pyplot().subplots(figsize=(8, 6))
    for word, place in zip(shown, places, strict=True):
        group = next((i for i, near in enumerate(found) if word in [row["word"] for row in near]), 0)
        group = words.index(word) if word in words else group
        axes.plot(*place[:2], marker="o", markersize=3, color=f"C{group % 10}")
        style = {"color": f"C{group % 10}", "fontsize": 9, "fontweight": "bold" if word in words else "normal"}
        axes.annotate(escaped(word), place[:2], xytext=(3, 2), textcoords="offset points", parse_math=False, **style)
    axes.set(title="output embeddings, two main axes", xticks=[], yticks=[])
    save_figure(figure, path)
