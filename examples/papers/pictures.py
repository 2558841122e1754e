"""Pictures of results: each curve with its name at its end, each model in its own colour."""

import math
import re
import statistics
from pathlib import Path
from typing import Any

from cells import compared, smoothed

from fairseq_groc.evaluation.results import color_of, label_log_axis, pyplot, save_figure

CURVES = ("table-2", "awd-heads", "awd-averages")  # other tables have variants of one model, whose curves would hide each other
NEUTRAL = "#777777"
LEAST_RANGE = 0.1  # of an axis, in the perplexities of the model
Curve = list[tuple[float, float]]


def is_drawn(experiment: str, rows: dict[str, Any]) -> bool:
    """Say whether a picture shows more of a table's rows than two figures do."""
    return experiment in CURVES or len(rows) > 2


def draw_rows(experiment: str, rows: dict[str, Any], path: Path) -> None:
    """Save the picture of a table of models."""
    if experiment in CURVES:
        draw_curves({label: row["runs"][0]["curve"] for label, row in rows.items()}, "updates", path)
    else:
        draw_dots({label: [smoothed(run) for run in compared(rows, row)] for label, row in rows.items()}, path)


def draw_curves(curves: dict[str, Curve], across: str, path: Path) -> None:
    """Save learning curves, first seeds', with time or updates across."""
    figure, axes = pyplot().subplots(figsize=(7, 4.2))
    for number, (label, curve) in enumerate(curves.items()):
        axes.plot(*zip(*curve, strict=True), marker="o", markersize=3, color=color_of(label, number))
    ends = [curve[-1][1] for curve in curves.values()]
    highest = max(max(y for _, y in curve) for curve in curves.values())
    axes.set(xlabel=across, ylabel="validation perplexity (log scale)", yscale="log")
    axes.set_ylim(0.93 * min(ends), min(1.05 * highest, 3.2 * min(ends)))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    label_log_axis(axes.yaxis)
    label_ends(figure, axes, {label: (curve[-1], color_of(label, n)) for n, (label, curve) in enumerate(curves.items())})
    save_figure(figure, path)


def label_ends(figure: Any, axes: Any, ends: dict[str, tuple[tuple[float, float], str]]) -> None:
    """Write the name of each curve, in its colour, at its end; names move apart where ends are close."""
    order = sorted(ends.items(), key=lambda item: item[1][0][1])
    heights = [axes.transData.transform(place)[1] * 72 / figure.dpi for _, (place, _) in order]
    for (label, (place, color)), height, apart in zip(order, heights, spaced(heights), strict=True):
        style = {"color": color, "va": "center", "fontsize": 9}
        axes.annotate(label, place, (6, apart - height), textcoords="offset points", **style)
    bare(axes)


def spaced(heights: list[float], gap: float = 10) -> list[float]:
    """Return heights, from the lowest, that are a gap apart and as near to the given ones as that leaves them."""
    apart = list(heights)
    for _ in range(100 * len(apart)):
        for k in range(1, len(apart)):
            missing = gap - (apart[k] - apart[k - 1])
            if missing > 0:
                apart[k - 1], apart[k] = apart[k - 1] - missing / 2, apart[k] + missing / 2
    return apart


def bare(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def draw_dots(figures: dict[str, list[float]], path: Path) -> None:
    """Save the perplexities of a model and its variants, the best on top; a line marks the model, strokes the seeds."""
    means = {label: statistics.mean(values) for label, values in figures.items()}
    base = next((label for label in ("GroC + corrections", "GroC", "tied") if label in means), next(iter(means)))
    figure, axes = pyplot().subplots(figsize=(7, 1 + 0.32 * len(means)))
    order = sorted(means.items(), key=lambda item: -item[1])
    axes.axvline(means[base], color=color_of(base), linewidth=1, zorder=0)
    for place, (label, value) in enumerate(order):
        color = color_of(base) if label == base else NEUTRAL
        axes.plot(value, place, marker="o", color=color)
        if len(figures[label]) > 1:
            axes.plot(figures[label], [place] * len(figures[label]), marker="|", linestyle="", markersize=10, color=color)
        right, box = max(figures[label]), {"facecolor": "white", "edgecolor": "none", "pad": 1}
        style = {"va": "center", "fontsize": 9, "color": color, "bbox": box}
        axes.annotate(f"{value:.1f}", (right, place), (8, 0), textcoords="offset points", **style)
    axes.set_yticks(range(len(order)), [label for label, _ in order], fontsize=9)
    axes.get_yticklabels()[[label for label, _ in order].index(base)].set_color(color_of(base))
    low, high = min(means.values()), max(means.values())
    room = max(0.12 * (high - low), LEAST_RANGE * means[base] / 2)  # or what is nothing would look like much
    marks = f"line: {base}" + ("; strokes: single seeds" if max(map(len, figures.values())) > 1 else "")
    axes.set(xlabel=f"test perplexity, smoothed (lower is better)\n{marks}", ylim=(-0.6, len(order) - 0.4))
    axes.set_xlim(low - room, high + 1.3 * room)
    bare(axes)
    save_figure(figure, path)


def draw_domains(results: dict[str, Any], path: Path) -> None:
    """Save a panel for each domain: the models as they were trained, and in each way of adapting them that was tried."""
    domains, rows = results["domains"], results["rows"]
    found = {domain: {model: ways_of(rows, model, domain) for model in COMPARED} for domain in domains}
    ways = [way for way in WAYS.values() if any(way in of for models in found.values() for of in models.values())]
    figure, panels = pyplot().subplots(
        1, len(domains), figsize=(1.5 + 0.8 * len(ways) * len(domains), 3.8), sharey=True, squeeze=False
    )
    ends = {}
    for panel, domain in zip(panels[0], domains, strict=True):
        for number, (model, values) in enumerate(found[domain].items()):
            places = [(place, values[way]) for place, way in enumerate(ways) if way in values]
            if not places:
                continue
            panel.plot(*zip(*places, strict=True), "o", markersize=5, color=color_of(model, number))
            ends[model] = places[-1], color_of(model, number)
        own = {place: way.replace(" ", "\n") for place, way in enumerate(ways) if any(way in of for of in found[domain].values())}
        panel.set_xticks(list(own), own.values(), fontsize=8)
        panel.set(title=domain, yscale="log", xlim=(-0.3, len(ways) - 0.7))
        bare(panel)
    panels[0][0].set_ylabel("test perplexity (log scale)")
    label_log_axis(panels[0][0].yaxis)
    label_ends(figure, panels[0][-1], ends)
    save_figure(figure, path)


COMPARED = ("tied", "GroC", "GroC + corrections")  # others would hide them
FINETUNED = ", finetuned"
WAYS = {
    " + uniform": "as trained",
    " + local": "local cache",
    " + dynamic": "dynamic evaluation",
    " + dynamic + local": "both",
    FINETUNED: "finetuned",
}


def ways_of(rows: dict[str, Any], model: str, domain: str) -> dict[str, float]:
    """Return a model's perplexities on a domain by the way it was adapted; of several ways to finetune the best."""
    found: dict[str, float] = {}
    for row, of in rows.items():
        if row.startswith(model) and domain in of:
            rest = row.removeprefix(model)
            way = WAYS.get(FINETUNED if rest.startswith(",") and rest.endswith(FINETUNED) else rest)
            if way:
                found[way] = min(of[domain]["all"]["perplexity"], found.get(way, math.inf))
    return found


def draw_finetuning(results: dict[str, Any], path: Path) -> None:
    """Save the validation perplexity of each domain while models are finetuned on it; dashed: another way of the same model."""
    ways = [row.removesuffix(FINETUNED) for row in results["rows"] if row.endswith(FINETUNED)]
    ways = [way for way in ways if way.split(",")[0] in COMPARED]
    domains = results["finetuning"]
    figure, panels = pyplot().subplots(1, len(domains), figsize=(1.8 + 2.7 * len(domains), 3.6), sharey=True, squeeze=False)
    ends = {}
    for panel, (domain, curves) in zip(panels[0], domains.items(), strict=True):
        runs = {f"{slug(domain)}-{slug(way)}": way for way in ways}
        for curve in (curve for curve in curves if curve["subset"] == domain and curve["run"] in runs):
            way = runs[curve["run"]]
            points = [(x, y) for x, y in curve["points"] if isinstance(y, float)]  # not what is infinite
            if not points:
                continue
            style = "--" if "," in way else "-"
            panel.plot(*zip(*points, strict=True), style, marker="o", markersize=3, color=color_of(way))
            ends[way] = points[-1], color_of(way)
        panel.set(title=domain, xlabel="updates", yscale="log")
        bare(panel)
    panels[0][0].set_ylabel("validation perplexity (log scale)")
    label_log_axis(panels[0][0].yaxis)
    label_ends(figure, panels[0][-1], ends)
    save_figure(figure, path)


def slug(name: str) -> str:
    """Return a name of a domain or of a way of finetuning as those of its runs have it."""
    return "-".join(re.findall(r"[^\s+,/]+", name))
