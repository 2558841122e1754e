"""Pictures of contexts: what they show against sums of their own, and no text on another."""

import itertools
from argparse import Namespace
from html.parser import HTMLParser

import numpy as np
import pytest

from fairseq_groc.cli import likelihood_ratio
from fairseq_groc.data.text import escaped
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation import context_pictures, likelihood_ratios
from fairseq_groc.evaluation.context_pictures import draw_boosts, draw_map, nearest
from fairseq_groc.evaluation.likelihood_ratios import draw_ratios, ratio_page, ratio_table

pyplot = pytest.importorskip("matplotlib.pyplot")
WORDS = ["the", "<script>alert(1)</script>", "a&b", '"quoted"', "lovely", "$x^2$", "bad\u202e", "dirty"]
RATIOS = {"Factor<Cell>": np.array([0.0, 0.5, -0.5, 1.0, 2.0, -1.0, 0.1, -2.0]), "ConcatCell": np.zeros(8)}
BETWEEN = ("stars=5", "stars=1&2")


@pytest.fixture
def figure(monkeypatch, tmp_path):
    """Return a function that draws and returns the figure as it was saved."""
    from fairseq_groc.evaluation.results import save_figure

    def draw(function, *arguments, **options):
        drawn = []
        for module in (context_pictures, likelihood_ratios):
            monkeypatch.setattr(module, "save_figure", lambda figure, path: (drawn.append(figure), save_figure(figure, path)))
        path = tmp_path / "picture.png"
        function(*arguments, path, **options)
        assert path.stat().st_size > 0
        return drawn[0]

    yield draw
    pyplot.close("all")


class Page(HTMLParser):
    """The elements of a page, and the texts and attributes of its spans that have a title."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.words, self._open = set(), [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self._open = dict(attributes) if tag == "span" and "title" in dict(attributes) else None

    def handle_data(self, data):
        if self._open is not None:
            self.words.append((data, float(self._open["title"]), self._open["style"]))

    def handle_endtag(self, tag):
        self._open = None


def shades(style):
    """Return red, green and blue of the background and of the text, 0 to 255."""
    colors = [part.split("#")[1] for part in style.split(";")]
    return [[int(color[place : place + 2], 16) for place in (0, 2, 4)] for color in colors]


def test_a_model_in_a_folder_called_mean_is_not_taken_for_the_mean(monkeypatch, tmp_path, capsys):
    (tmp_path / "text").write_text("dog\n")
    paths = [str(tmp_path / folder / "best.pt") for folder in ("mean", "other")]
    options = Namespace(task=Namespace(schema=()))
    monkeypatch.setattr(likelihood_ratio, "load_as", lambda *_: options)
    figures = iter((np.array([1.0, 2.0]), np.array([3.0, 6.0])))
    monkeypatch.setattr(likelihood_ratio, "ratios_of", lambda *_: next(figures))
    asked = {"text": tmp_path / "text", "path": paths[0], "more_paths": paths[1:], "between": ("a=b", "a=c")}
    likelihood_ratio.run(Namespace(out=None, data="", batch_size=1, **asked))
    head, dog, _ = capsys.readouterr().out.splitlines()
    assert head.split() == ["word", paths[0], "other", "mean"] and dog.split() == ["dog", "+1.00", "+3.00", "+2.00"]


def test_a_page_has_every_word_as_text():
    text = ratio_page(WORDS, RATIOS, BETWEEN)
    page = Page(text)
    shown = [word.replace("\u202e", "<U+202E>") for word in WORDS]
    assert [word for word, *_ in page.words] == shown * 2
    assert [value for _, value, _ in page.words] == [*RATIOS["Factor<Cell>"], *RATIOS["ConcatCell"]]
    assert page.tags == {"html", "meta", "title", "style", "p", "span", "h2"}
    assert "Factor&lt;Cell&gt;" in text and "stars=1&amp;2" in text
    assert not any(other in text for other in ("http", "src=", "@import", "url("))


def test_colours_are_symmetric_and_text_is_legible():
    rows = {value: shades(style) for _, value, style in Page(ratio_page(WORDS, RATIOS, BETWEEN)).words}
    for value, ((red, _, blue), ink) in rows.items():
        assert (blue > red) == (value > 0) or value == 0
        assert ink in ([0, 0, 0], [255, 255, 255])
    assert max(rows[0.0][0]) - min(rows[0.0][0]) < 5
    palette = pyplot.get_cmap("RdBu")
    for value in (2.0, -2.0, 1.0):
        assert rows[value][0] == [round(255 * part) for part in palette((value / 2 + 1) / 2)[:3]]
    for (red, green, blue), ink in rows.values():
        light = 0.2126 * (red / 255) ** 2.2 + 0.7152 * (green / 255) ** 2.2 + 0.0722 * (blue / 255) ** 2.2
        assert (light + 0.05) / 0.05 >= 4.5 if ink == [0, 0, 0] else 1.05 / (light + 0.05) >= 4.5


def test_what_has_no_number_is_white():
    rows = {"a": np.array([np.nan, np.inf, -1.0])}
    colors = [shades(part.split('"')[1])[0] for part in ratio_page(["x", "y", "z"], rows, BETWEEN).split("<span style=")[3:]]
    assert colors[0] == [255, 255, 255]
    assert colors[1] == [round(255 * part) for part in pyplot.get_cmap("RdBu")(1.0)[:3]]


def test_a_table_has_a_line_a_word():
    lines = ratio_table(WORDS, RATIOS).splitlines()
    assert lines[0].split() == ["word", "Factor<Cell>", "ConcatCell"]
    assert lines[5].split() == ["lovely", "+2.00", "+0.00"] and len(lines) == 9
    with pytest.raises(ValueError):
        ratio_table(WORDS[1:], RATIOS)


def boxes(figure, axes=0):
    """Return the texts beside and on points, with the room that they take in the saved picture."""
    from matplotlib.text import Text

    figure.set_dpi(120)  # as it was saved
    figure.canvas.draw()
    return [(note.get_text(), Text.get_window_extent(note)) for note in figure.axes[axes].texts if note.get_visible()]


def overlapping(found):
    return [(one[0], other[0]) for one, other in itertools.combinations(found, 2) if one[1].overlaps(other[1])]


def test_words_of_a_picture_are_in_lines_without_overlap(figure):
    words = [*WORDS[:1], *WORDS[2:], "x" * 200] * 6
    drawn = figure(draw_ratios, words, {"a": np.linspace(-1, 3, len(words)), "b": np.zeros(len(words))}, BETWEEN)
    found = boxes(drawn)
    assert len(found) == 2 * len(words) + 2
    assert overlapping([(word, box.padded(3)) for word, box in found]) == []  # a blank is 9 wide
    room = drawn.bbox
    assert all(room.contains(*box.min) and room.contains(*box.max) for _, box in found)
    assert drawn.axes[1].get_xlim() == (-3, 3)


def test_a_line_of_the_text_begins_a_line(figure):
    words = ["one", "</s>", "two", "</s>"]
    placed = dict(boxes(figure(draw_ratios, words, {"model": np.zeros(4)}, BETWEEN)))
    assert placed["two"].x0 == placed["one"].x0 and placed["two"].y1 < placed["one"].y0
    assert ratio_page(words, {"model": np.zeros(4)}, BETWEEN).count("</span><br>") == 2


def vectors(values=30, seed=1):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(values, 6)) * np.array([3, 2, 1, 0.5, 0.3, 0.1]) + 7


def test_a_map_has_the_principal_axes(figure):
    found, names = vectors(), [f"value {number}" for number in range(30)]
    drawn = figure(lambda path: draw_map(found, names, path))
    centred = found - found.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    places = drawn.axes[0].collections[0].get_offsets()
    np.testing.assert_allclose(np.abs(places), np.abs(left[:, :2] * sizes[:2]), atol=1e-10)
    assert f"({sizes[0] ** 2 / (sizes**2).sum():.0%} of the variance)" in drawn.axes[0].get_xlabel()
    labels = boxes(drawn)
    assert {text for text, _ in labels} == set(names) and overlapping(labels) == []


def test_values_of_nearly_one_vector_have_labels_apart(figure):
    found = np.concatenate([np.full((5, 3), 2.0) + 1e-3 * np.eye(5)[:, :3], np.eye(3)])
    drawn = figure(lambda path: draw_map(found, [f"a long name {number}" for number in range(8)], path))
    assert overlapping(boxes(drawn)) == [] and len(boxes(drawn)) == 8


def test_ellipses_are_of_one_and_a_half_standard_deviations(figure):
    from matplotlib.patches import Ellipse

    found, groups = vectors(90), ["near", "far", "far"] * 30
    names = [f"value {number}" for number in range(90)]
    drawn = figure(lambda path: draw_map(found, names, path, [*groups[:-6], *[""] * 4, "pair", "pair"]))
    places = drawn.axes[0].collections[0].get_offsets()
    ellipses = [patch for patch in drawn.axes[0].patches if isinstance(patch, Ellipse) and not patch.get_fill()]
    assert len(ellipses) == 2 and {text for text, _ in boxes(drawn)} == {"near", "far", "pair"}
    own = places[:84:3]  # of near
    turns = np.linspace(0, 2 * np.pi, 9)
    edge = ellipses[0].get_patch_transform().transform(np.stack([np.cos(turns), np.sin(turns)], 1)) - own.mean(0)
    distances = np.sqrt(np.einsum("ij,jk,ik->i", edge, np.linalg.inv(np.cov(own.T)), edge))
    np.testing.assert_allclose(distances, 1.5, rtol=1e-10)


def test_few_values_keep_their_names_beside_those_of_groups(figure):
    from matplotlib.colors import to_hex

    names, groups = [f"value {number}" for number in range(12)], [*["near", "far"] * 5, "pair", ""]
    drawn = figure(lambda path: draw_map(vectors(12), names, path, groups))
    assert {text for text, _ in boxes(drawn)} == {*names, "near", "far", "pair"} and overlapping(boxes(drawn)) == []
    colors = {note.get_text(): to_hex(note.get_color()) for note in drawn.axes[0].texts if note.get_visible()}
    assert [colors[name] for name in names[:11]] == [colors[group] for group in groups[:11]]
    points = [to_hex(color) for color in drawn.axes[0].collections[0].get_facecolors()]
    assert points == [colors[name] for name in names] and len(set(points)) == 4


def test_a_map_needs_two_dimensions(tmp_path):
    for shape in ((5, 1), (1, 5)):
        with pytest.raises(OptionError, match=rf"context vectors \({shape[0]}, {shape[1]}\): a map is of two"):
            draw_map(np.zeros(shape), [""] * shape[0], tmp_path / "map.png")


def test_nearest_values_are_those_of_a_search_by_hand():
    found, names = vectors(), [str(number) for number in range(30)]
    near = nearest(found, names, 4)
    for number, name in enumerate(names):
        distances = {other: float(np.linalg.norm(found[number] - found[int(other)])) for other in names if other != name}
        expected = sorted(distances.items(), key=lambda pair: pair[1])[:4]
        assert [other for other, _ in near[name]] == [other for other, _ in expected]
        assert [distance for _, distance in near[name]] == pytest.approx([distance for _, distance in expected], rel=1e-10)
    assert nearest(found[:1], names[:1], 4) == {"0": []} and len(nearest(found[:3], names[:3], 4)["1"]) == 2


def test_each_context_has_a_panel_of_its_words(figure):
    contexts = {
        f"topic={number}": [{"word": word, "gain": number - 0.1 * i} for i, word in enumerate(WORDS)] for number in range(4)
    }
    panels = figure(draw_boosts, {**contexts, "topic=none": []}).axes
    assert [axes.get_title() for axes in panels if axes.get_visible()] == [*contexts, "topic=none"]
    for axes, words in zip(panels, contexts.values(), strict=False):
        labels, bars = axes.get_yticklabels(), axes.patches
        assert [label.get_text() for label in labels] == [escaped(word) for word in WORDS]
        assert not any(label.get_parse_math() for label in labels)
        assert [bar.get_width() for bar in bars] == [one["gain"] for one in words]
        assert [round(bar.get_y() + bar.get_height() / 2, 6) for bar in bars] == [label.get_position()[1] for label in labels]
        assert axes.yaxis.get_inverted() and axes.get_xlim() == panels[0].get_xlim()  # the first at the top, one measure
