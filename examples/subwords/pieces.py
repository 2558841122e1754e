"""Byte pairs by sentencepiece: learn them from a text, and cut texts into them without loss."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import sentencepiece


def learn(text: Path, model: Path, size: int) -> None:
    """Learn so many pieces from a text, among them one for each byte: so every text can be cut, and no piece is <unk>.

    Texts are taken as they are: nothing is normalised.
    """
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(model.with_suffix("")),
        vocab_size=size,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        max_sentence_length=1 << 20,  # longer lines would be left out
        num_threads=1,
        minloglevel=1,
    )


def cut(model: Path, texts: Iterable[tuple[Path, Path]]) -> None:
    """Cut texts into pieces, each into a file.

    Raises:
        ValueError: a line does not come back from its pieces.
    """
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for source, target in texts:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        with open(source, encoding="utf-8") as lines, open(part, "w", encoding="utf-8") as file:
            for number, line in enumerate(lines, start=1):
                pieces = processor.encode(line.rstrip("\n"), out_type=str)
                if processor.decode(pieces) != line.rstrip("\n"):
                    raise ValueError(f"{source}:{number}: does not come back from its pieces: {line!r}")
                file.write(" ".join(pieces) + "\n")
        part.replace(target)


def write_dictionary(model: Path, text: Path, path: Path) -> None:
    """Write all pieces that texts can have as a dict.txt, by falling count in a text that is cut; some have none."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    usable = (i for i in range(processor.get_piece_size()) if not (processor.is_control(i) or processor.is_unknown(i)))
    with open(text, encoding="utf-8") as lines:
        counts = Counter(piece for line in lines for piece in line.split())
    counts.update({processor.id_to_piece(i): 0 for i in usable})
    part = path.with_name(f"{path.name}.part")
    part.write_text("".join(f"{piece} {count}\n" for piece, count in counts.most_common()), encoding="utf-8")
    part.replace(path)
