"""Pictures of what contexts do: maps of their vectors, and the words they boost.

They are those of Jaech and Ostendorf (2018), Figures 1 and 6; Figure 2 is in ``likelihood_ratios``.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.data.text import escaped
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.classification import scikit_learn
from fairseq_groc.evaluation.results import pyplot, save_figure

Floats = NDArray[np.float64]
PANELS = 4  # side by side
SIGMAS = 1.5  # of an ellipse (Figure 6)
NAMED = 40  # values at most that keep their names beside those of groups
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
# where a text may be beside its point: points to the right and up; the nearest first
PLACES = [(x * away, y * away) for away in (6, 18, 32, 48) for x, y in DIRECTIONS]


class Label(NamedTuple):
    """A text at a place."""

    text: str
    x: float
    y: float
    color: str
    weight: str = "normal"


def nearest(vectors: Floats, names: Sequence[str], count: int) -> dict[str, list[tuple[str, float]]]:
    """Return the values whose vectors have the smallest distances to that of each value, with these.

    Args:
        vectors: (n, k)
        names: of the values, (n)
        count: of neighbours, n - 1 at most
    """
    if len(names) < 2:
        return {name: [] for name in names}
    search = scikit_learn("sklearn.neighbors").NearestNeighbors(n_neighbors=min(count, len(names) - 1)).fit(vectors)
    distances, places = search.kneighbors()  # of the points themselves: none is its own neighbour
    return {
        name: [(names[place], float(distance)) for place, distance in zip(*row, strict=True)]
        for name, row in zip(names, zip(places, distances, strict=True), strict=True)
    }


def draw_map(vectors: Floats, names: Sequence[str], path: Path, groups: Sequence[str] | None = None) -> None:
    """Save context vectors on their two principal axes, with the groups' names and ellipses, and the values' if few.

    Args:
        vectors: (n, k)
        names: of the values, (n)
        groups: that of each value, (n), such as a hotel's city, nothing: it has none; None: every value stands for itself

    Raises:
        OptionError: there are not two axes.
    """
    if min(vectors.shape) < 2:
        raise OptionError(f"context vectors {vectors.shape}: a map is of two values, and of two dimensions")
    projection = scikit_learn("sklearn.decomposition").PCA(2)
    points = projection.fit_transform(vectors)
    shares = projection.explained_variance_ratio_
    figure, axes = pyplot().subplots(figsize=(8, 6))
    labels, colors, named = list[Label](), ["#0072B2"] * len(names), groups is None or len(names) <= NAMED
    if groups is not None:
        order = {group: f"C{number % 10}" for number, group in enumerate(filter(None, dict.fromkeys(groups)))}
        colors = [order.get(group, "darkgrey") for group in groups]
        labels += [_group(axes, points[np.asarray(groups) == group], group, color) for group, color in order.items()]
        axes.set_title(f"ellipses: {SIGMAS} standard deviations of a group of three or more", fontsize=10)
    axes.scatter(*points.T, s=18 if named else 6, c=colors, zorder=3)
    if named:
        labels += [Label(name, x, y, color) for name, (x, y), color in zip(names, points.tolist(), colors, strict=True)]
    axes.margins(0.12)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel=f"first axis ({shares[0]:.0%} of the variance)", ylabel=f"second axis ({shares[1]:.0%})")
    write_labels(axes, labels, points if named else None)
    save_figure(figure, path)


def _group(axes: Any, points: Floats, name: str, color: str) -> Label:
    """Draw a Gaussian's ellipse for a group of three or more points, (n, 2), and return the group's label, at its centre."""
    centre = points.mean(0)
    if len(points) > 2:
        variances, directions = np.linalg.eigh(np.cov(points.T))
        width, height = 2 * SIGMAS * np.sqrt(np.maximum(variances, 0))
        angle = np.degrees(np.arctan2(directions[1, 0], directions[0, 0]))
        patch = import_module("matplotlib.patches").Ellipse
        axes.add_patch(patch(centre, width, height, angle=angle, facecolor=color, alpha=0.15, linewidth=0))
        axes.add_patch(patch(centre, width, height, angle=angle, fill=False, edgecolor=color))
    return Label(name, float(centre[0]), float(centre[1]), color, "bold")


def draw_boosts(contexts: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Save the words that each context boosts, a panel for each with the largest gain (nats) at the top."""
    columns = min(len(contexts), PANELS)
    rows = -(-len(contexts) // columns)
    height = 0.8 + 0.22 * max(1, *map(len, contexts.values()))
    figure, panels = pyplot().subplots(rows, columns, figsize=(2.6 * columns, height * rows), sharex=True, squeeze=False)
    for axes in panels.flat[len(contexts) :]:
        axes.set_visible(False)
    for axes, (text, words) in zip(panels.flat, contexts.items(), strict=False):
        axes.barh(range(len(words)), [one["gain"] for one in words], color="#0072B2")
        axes.set_yticks(range(len(words)), [escaped(one["word"]) for one in words], parse_math=False)
        axes.set_title(escaped(text), fontsize=10, parse_math=False)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("nats gained over an unknown context", fontsize=9)
    save_figure(figure, path)


def write_labels(axes: Any, labels: Sequence[Label], points: Floats | None) -> None:
    """Write texts, each where it covers fewest of the texts before it and of the points; far ones with a line to their point.

    Args:
        points: not to be covered, (n, 2); None: a text may be on its own point, and on others
    """
    Text, halo = import_module("matplotlib.text").Text, import_module("matplotlib.patheffects").withStroke
    figure, taken = axes.figure, list[Any]()
    figure.tight_layout()
    figure.canvas.draw()  # places are final from here on
    pixels = axes.transData.transform(np.empty((0, 2)) if points is None else points)
    for text, x, y, color, weight in labels:
        style = {"color": color, "fontsize": 9, "fontweight": weight, "parse_math": False}
        style["path_effects"] = [halo(linewidth=2, foreground="white")]
        tries = []
        for right, up in PLACES if points is not None else [(0, 0), *PLACES]:
            sides = {"ha": ("center", "left", "right")[np.sign(right)], "va": ("center", "bottom", "top")[np.sign(up)]}
            line = {"arrowstyle": "-", "color": color, "linewidth": 0.5} if max(abs(right), abs(up)) > 6 else None
            where = {"xytext": (right, up), "textcoords": "offset points", "arrowprops": line}
            note = axes.annotate(escaped(text), (x, y), **where, **sides, **style)
            note.update_positions(figure.canvas.get_renderer())
            box = Text.get_window_extent(note).padded(4)  # without the line, with the room of a marker
            outside = not all(axes.bbox.contains(*corner) for corner in (box.min, box.max))
            tries.append((sum(map(box.overlaps, taken)) + box.count_contains(pixels) + 2 * outside, note, box))
            if not tries[-1][0]:
                break
        _, chosen, box = min(tries, key=lambda one: one[0])
        for _, note, _ in tries:
            note.set_visible(note is chosen)
        taken.append(box)
