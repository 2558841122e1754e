"""A real corpus that needs no download: the usage examples of WordNet, split by part of speech into two domains."""

import random
import re
from pathlib import Path

from fairseq_groc.lexicon import WordNetLexicon, find_wordnet

_TOKEN = re.compile(r"[\w'-]*\w[\w'-]*|[^\w\s]")


def write_corpus(folder: Path) -> dict[str, int]:
    """Write train, valid, test (nouns, adjectives, adverbs) and new (verbs) below *folder*; return their token counts.

    A sentence that occurs twice is kept once, in the first domain that has it, so no test text was trained on.
    """
    source, target = {}, {}
    for pos, example in WordNetLexicon(find_wordnet()).examples():
        line = " ".join(_TOKEN.findall(example.lower()))
        if line:
            (target if pos == "v" else source).setdefault(line)
    lines = list(source)
    random.Random(1).shuffle(lines)
    held_out = len(lines) // 20
    splits = {
        "train": lines[2 * held_out :],
        "valid": lines[:held_out],
        "test": lines[held_out : 2 * held_out],
        "new": [line for line in target if line not in source],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in splits.items():
        (folder / f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    return {name: sum(len(line.split()) + 1 for line in text) for name, text in splits.items()}
