"""Pieces of words: how they are marked, what they spell, and which of them a lexicon can have.

A mark is no letter. It says that one end of a piece is one of its word: sentencepiece marks the pieces that begin a word, and
subword-nmt those that do not end one.
"""

BEGINS, GOES_ON = "\u2581", "@@"  # sentencepiece (Kudo and Richardson 2018), subword-nmt (Sennrich et al. 2016)
MARKS = (BEGINS, GOES_ON)


def letters_of(form: bytes, mark: str) -> tuple[bytes, bool, bool]:
    """Return what a form spells without its mark, and whether as the beginning, and as the end, of a word.

    Args:
        form: in UTF-8
        mark: of pieces; nothing: forms are whole words
    """
    raw = mark.encode()
    if mark == BEGINS:
        return form.removeprefix(raw), form.startswith(raw), True
    if mark == GOES_ON and form.endswith(raw) and form != raw:
        return form.removesuffix(raw), True, False
    return form, True, True


def word_of(piece: str, mark: str) -> str | None:
    """Return the word that a piece may be by itself; None: it is but a part of words."""
    if mark == BEGINS:
        return piece.removeprefix(mark) or None if piece.startswith(mark) else None
    return None if mark == GOES_ON and piece.endswith(mark) and piece != mark else piece


def piece_of(word: str, mark: str) -> str:
    """Return the piece that is a whole word, as ``word_of`` takes it."""
    return mark + word if mark == BEGINS else word


def is_marked(piece: str, mark: str) -> bool:
    """Say whether a piece has the mark."""
    return piece.startswith(mark) if mark == BEGINS else piece.endswith(mark) and piece != mark
