"""Likelihood ratios of words between two contexts: as a table, a page and a picture (Jaech and Ostendorf 2018, Figure 2)."""

import html
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.data.text import escaped
from fairseq_groc.evaluation.results import aligned, pyplot, save_figure

Floats = NDArray[np.float64]
LINE = 88  # characters of a line of words
END = "</s>"
CHARACTER, HEIGHT = 0.602 * 9, 16.0  # width and height of one of DejaVu Sans Mono at 9 points, in points


def ratio_table(words: Sequence[str], ratios: Mapping[str, Floats]) -> str:
    """Return a line a word with its differences of log-probabilities.

    Args:
        words: of a text, (T)
        ratios: nats by model, (T) each
    """
    rows = zip(words, *ratios.values(), strict=True)
    return aligned(["word", *ratios], [[escaped(word), *(f"{value:+.2f}" for value in values)] for word, *values in rows])


def ratio_page(words: Sequence[str], ratios: Mapping[str, Floats], between: tuple[str, str]) -> str:
    """Return an HTML page, complete in itself, with the words of a text coloured once for each model.

    Args:
        words: of a text, (T)
        ratios: nats by model, (T) each
        between: the context that blue words are more probable in, and that of red ones
    """
    paint, limit = _painter(ratios)
    first, second = map(html.escape, between)
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">',
        f"<title>{first} against {second}</title>",
        "<style>body { font: 16px/1.8 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; background: #fff; "
        "color: #000 } span { padding: 2px 3px; border-radius: 3px } h2 { font-size: 1em; margin: 1.5em 0 0 }</style>",
        f'<p><span style="{_style(paint(limit))}">blue</span> is more probable with {first}, '
        f'<span style="{_style(paint(-limit))}">red</span> with {second}; the darkest is {limit:.2f} nats.</p>',
    ]
    for model, values in ratios.items():
        spans = (
            f'<span style="{_style(paint(value))}" title="{value:+.2f}">{html.escape(escaped(word))}</span>'
            + "<br>" * (word == END)
            for word, value in zip(words, values, strict=True)
        )
        parts += [f"<h2>{html.escape(model)}</h2>", "<p>" + "\n".join(spans) + "</p>"]
    return "\n".join([*parts, "</html>\n"])


def draw_ratios(words: Sequence[str], ratios: Mapping[str, Floats], between: tuple[str, str], path: Path) -> None:
    """Save the words of a text, coloured once for each model; arguments as those of ``ratio_page``."""
    paint, limit = _painter(ratios)
    shown = [word if len(word) <= LINE else f"{word[: LINE - 3]}..." for word in map(escaped, words)]
    places = _wrapped(shown)
    block = places[-1][1] + 2.5  # lines of a model, with its name
    height = HEIGHT * (block * len(ratios) + 0.5) / 72
    figure, (axes, bar) = pyplot().subplots(
        2, 1, figsize=(CHARACTER * (LINE + 2) / 72 + 0.4, height + 0.9), height_ratios=[height, 0.12]
    )
    axes.axis("off")

    def put(text: str, column: int, line: float, **style: Any) -> None:
        at = (CHARACTER * column, -HEIGHT * (line + 0.5))
        where = {"xy": (0, 1), "xycoords": "axes fraction", "xytext": at, "textcoords": "offset points", "parse_math": False}
        note = axes.annotate(text, **where, fontsize=9, va="center_baseline", annotation_clip=False, **style)
        note.set_in_layout(False)  # the room is reckoned here

    for number, (model, values) in enumerate(ratios.items()):
        put(model, 0, number * block, fontweight="bold")
        for word, (column, line), value in zip(shown, places, values, strict=True):
            color = paint(value)
            box = {"facecolor": color, "edgecolor": "none", "pad": 1.5}
            put(word, column, number * block + line + 1, family="monospace", color=_ink(color), bbox=box)
    colors = pyplot().cm.ScalarMappable(pyplot().Normalize(-limit, limit), "RdBu")
    figure.colorbar(colors, cax=bar, orientation="horizontal")
    bar.tick_params(labelsize=8)
    bar.set_xlabel(f"log p(word | {between[0]}) - log p(word | {between[1]}), nats", fontsize=9, parse_math=False)
    save_figure(figure, path)


def _painter(ratios: Mapping[str, Floats]) -> tuple[Any, float]:
    """Return a function from a number to its colour (hex), and the largest number, for which the scale is symmetric."""
    values = np.concatenate([np.asarray(row, dtype=np.float64) for row in ratios.values()])
    limit = float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0
    palette = pyplot().get_cmap("RdBu").with_extremes(bad="white")  # what has no number
    hexadecimal = import_module("matplotlib.colors").to_hex
    return lambda value: hexadecimal(palette(np.clip((value / limit + 1) / 2, 0, 1))), limit


def _ink(color: str) -> str:
    """Return black or white, whichever is legible on a colour (relative luminance of WCAG, from gamma 2.2)."""
    red, green, blue = ((int(color[place : place + 2], 16) / 255) ** 2.2 for place in (1, 3, 5))
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"


def _style(color: str) -> str:
    return f"background: {color}; color: {_ink(color)}"


def _wrapped(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the column and line of each word in lines of LINE characters, of which one ends after each </s>."""
    places, column, line = [], 0, 0
    for before, word in zip(["", *words], words, strict=False):
        if before == END:
            column, line = 0, line + 1
        if column and column + len(word) > LINE:
            column, line = 0, line + 1
        places.append((column, line))
        column += len(word) + 1
    return places
