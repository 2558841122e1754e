"""Show what a word is made of: characters, relations, gloss words, and where each came from."""

import textwrap
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from fairseq_groc.arguments import add_lexicon_options, add_out
from fairseq_groc.data.lexicon_tables import lexicon_of
from fairseq_groc.data.text import escaped
from fairseq_groc.evaluation.results import pyplot, save_figure, write_json
from fairseq_groc.lexicon.base import Entry


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("word", nargs="+")
    add_out(parser)
    add_lexicon_options(parser)


def run(args: Namespace) -> None:
    lexicon = lexicon_of(args)
    explained = [parts_of(word, lexicon.lookup(word, args.max_relations, args.max_definition)) for word in args.word]
    for word in explained:
        print(explain(word, lexicon.name))
    if args.out:
        write_json(args.out, {"lexicon": lexicon.name, "words": explained})
        draw(explained, args.out.with_suffix(".png"))


def parts_of(word: str, entry: Entry) -> dict[str, Any]:
    """Return what the word encoder reads of a word, and where it came from."""
    characters = ["^", *(letter if letter != " " else "<U+0020>" for letter in map(escaped, word)), "$"]
    relations = [{"word": relation.word, "source": relation.source} for relation in entry.relations]
    definition = {"words": list(entry.definition), "source": entry.definition_source}
    return {"word": word, "characters": characters, "relations": relations, "definition": definition}


def explain(word: dict[str, Any], lexicon: str) -> str:
    """Return the explanation as lines of text."""
    relations, definition = word["relations"], word["definition"]
    lines = [word["word"], f"  characters   {' '.join(word['characters'])}"]
    lines += [f"  relation     {r['word']}  ({r['source']})" for r in relations]
    if definition["words"]:
        lines.append(f"  definition   {' '.join(definition['words'])}  ({definition['source']})")
    if not relations and not definition["words"]:
        lines.append(f"  nothing of the lexicon ({lexicon}): its spelling alone")
    return "\n".join(map(escaped, lines))


def draw(explained: list[dict[str, Any]], path: Path) -> None:
    """Save a row a word: the word, and its surface, relational and definitional parts."""
    figure, axes = pyplot().subplots(len(explained), squeeze=False, figsize=(9, 2.2 * len(explained)))
    for axis, word in zip(axes[:, 0], explained, strict=True):
        relations = ", ".join(relation["word"] for relation in word["relations"])
        definition = " ".join(word["definition"]["words"])
        parts = {"surface": " ".join(word["characters"]), "relational": relations, "definitional": definition}
        axis.set(xlim=(0, 1), ylim=(-0.5, 2.5))
        axis.axis("off")
        axis.text(0.02, 1, escaped(word["word"]), fontsize=14, fontweight="bold", va="center", parse_math=False)
        for number, (name, text) in enumerate(parts.items()):
            place, color = 2 - number, f"C{number}" if text else "0.6"
            axis.plot([0.2, 0.3], [1, place], color=color)
            axis.text(0.31, place, name, color=color, va="center")
            shown = textwrap.fill(textwrap.shorten(escaped(text), 150), 62) or "(none)"
            axis.text(0.47, place, shown, color="black" if text else color, va="center", fontsize=9, parse_math=False)
    save_figure(figure, path)
