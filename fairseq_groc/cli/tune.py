"""Search the settings of a cache, the uniform distribution and the discount on validation text, in one pass of the model."""

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_groc.adapters import CACHES, OPTIONS, Adapter, AdapterSettings, Cache
from fairseq_groc.arguments import add_break_mode, add_out, add_text, positive
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.grid import PASSES, VALUES, WEIGHTS, Grid, model_settings
from fairseq_groc.evaluation.loading import open_split
from fairseq_groc.evaluation.results import check_out, pyplot, save_figure, write_json
from fairseq_groc.evaluation.scoring import Place
from fairseq_groc.evaluation.stored import TUNED, store_tuned
from fairseq_groc.evaluation.tuning import Pass, States, best, heat_map, read, remember, search
from fairseq_groc.files import check_place
from fairseq_groc.registry import flag, shown_value
from fairseq_groc.tasks.adapting import check_order, check_remembered

SHORT = {  # names of options here
    "new_word_discount": "discounts",
    "uniform_weight": "uniform",
    "cache_theta": "thetas",
    "cache_size": "sizes",
    "cache_neighbors": "neighbors",
    "dynamic_rate": "dynamic_rates",
    "dynamic_decay": "dynamic_decays",
}


def _short(name: str) -> str:
    """Return an option's name here."""
    return "weights" if name in [f"{cache}_weight" for cache in CACHES] else SHORT.get(name, name)


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser, "valid")
    parser.add_argument("--cache", choices=("none", *CACHES), default="local")
    weights = "of the cache, 1 - lambda of the paper; 0: without it"
    parser.add_argument("--weights", type=float, nargs="+", default=WEIGHTS, help=weights)
    for name, option in OPTIONS.items():
        if _short(name) != "weights":
            values = VALUES.get(name, (option.default,))
            parser.add_argument(flag(_short(name)), type=type(option.default), nargs="+", default=values, help=option.help)
    parser.add_argument(
        "--no-extend", action="store_true", help="do not go beyond the values given where the best is at their edge"
    )
    parser.add_argument("--streams", type=positive, default=1, help="contiguous streams")
    add_break_mode(parser)
    add_out(parser, "JSON file for the whole grid; a heat map is drawn beside it")
    parser.add_argument("--no-store", action="store_true", help="do not make the best the default for this model and data")
    parser.add_argument("--cache-text", help="folder of a text that the unbounded cache sees, too")
    parser.add_argument("--dynamic-statistics", help="folder of gradient statistics; default: --data")


def run(args: Namespace) -> None:
    check_out(args.out)
    if args.cache_text and args.cache != "unbounded":
        raise OptionError("--cache-text does nothing without --cache unbounded: give both, or leave it out")
    if args.cache != "none" and CACHES[args.cache].after_block is not Cache.after_block:
        raise OptionError(f"--cache {args.cache} learns, and tune has the model read the text once: compare settings by evaluate")
    grids = grids_of(args)
    hub, dataset = open_split(args)
    if not args.no_store:
        check_place("--data", Path(args.data) / TUNED)
    tried: dict[AdapterSettings, float] = {}
    for grid in grids:
        tried.update(tune(args, hub, dataset, grid))
    settings, ppl = best(tried)
    if ppl == math.inf:
        raise OptionError("with every setting a token is impossible: give --uniform some weights above 0")
    tell_edges(args, settings)
    print(f"best: {ppl:,.2f}  {describe(settings)}")
    if args.out:
        rows = [{"perplexity": p, **vars(s)} for s, p in tried.items()]
        about = {"split": args.split, "tokens": dataset.num_tokens_total, "best": {"perplexity": ppl, **vars(settings)}}
        write_json(args.out, {**about, "grid": rows})
        drawn = heat_map(tried, args.cache)
        if drawn:
            draw(*drawn, args.out.with_suffix(".png"))
    if not args.no_store:
        text = str(Path(args.cache_text).resolve()) if args.cache_text and settings.unbounded_weight else None
        folder = str(Path(args.dynamic_statistics or args.data).resolve()) if settings.dynamic_rate else None
        known = {"split": args.split, "perplexity": ppl, "tokens": dataset.num_tokens_total}
        decoder = hub.models[0].decoder
        store_tuned(Path(args.data), decoder, settings, cache_text=text, dynamic_statistics=folder, **known)
        print(f"the default from now on for this model over {args.data}")


def tell_edges(args: Namespace, settings: AdapterSettings) -> None:
    """Say where the best of what takes a pass each is the first or last value: there the grid does not grow by itself."""
    for name in ("dynamic_rate", "dynamic_decay"):
        values = sorted({*getattr(args, _short(name))})
        if len(values) > 1 and getattr(settings, name) in (values[0], values[-1]):
            print(f"best at the edge of {flag(_short(name))}: better ones may lie beyond it")


def grids_of(args: Namespace) -> list[Grid]:
    """Return the grids that the options say, one for each pass of the model.

    Raises:
        OptionError: a value that its option does not take.
    """
    given = {name: getattr(args, _short(name)) for name in OPTIONS}
    for name, values in given.items():
        for value in values:
            expected = OPTIONS[name].refusal(value)
            if expected:
                raise OptionError(f"{flag(_short(name))} {value}: expected {expected}")
    idle = [] if any(given["dynamic_rate"]) else [name for name in PASSES if list(given[name]) != [OPTIONS[name].default]]
    if idle or (args.dynamic_statistics and not any(given["dynamic_rate"])):
        typed = flag(_short(idle[0])) if idle else "--dynamic-statistics"
        raise OptionError(f"{typed} does nothing without --dynamic-rates above 0: give both, or leave it out")
    return [Grid.of(args.cache, given, model) for model in model_settings(given)]


def tune(args: Namespace, hub: Any, dataset: StreamDataset, grid: Grid) -> dict[AdapterSettings, float]:
    """Let the model read the text as the grid wants it, and return the perplexity of every setting."""
    model, task = hub.models[0], hub.task
    discount = next((factor for factor in args.discounts if factor != 1), 1.0)  # it needs to know which words are new
    known = task.adapter_for(
        model.decoder, grid.model.replaced(new_word_discount=discount), args.cache_text, args.dynamic_statistics
    )
    check_remembered(task.cfg, known, dataset)
    check_order(known, dataset)
    adapter = known.with_settings(grid.model)
    block = grid.model.block_length() or task.block_length()
    with States(model, dataset, Place(args.streams, block)) as states:
        found = read(states, adapter, args.cache)
        return search_all(found, states, adapter, grid, extend=not args.no_extend)


def search_all(found: Pass, states: States, adapter: Adapter, grid: Grid, extend: bool) -> dict[AdapterSettings, float]:
    """Return the perplexity of every setting of a grid, which grows where the best is at its edge; print what is done.

    Raises:
        DataError: a perplexity is no number.
    """
    tried: dict[AdapterSettings, float] = {}
    first = grid
    largest = len(found.lprobs) + (adapter.remembered.store.count if adapter.remembered else 0)
    while True:
        remember(found, states, adapter, grid)
        for settings, ppl in search(found, grid, tried):
            if math.isnan(ppl) and not grid.model.adapters():
                raise DataError("the perplexity is no number: the checkpoint is broken")
            ppl = math.inf if math.isnan(ppl) else ppl  # steps that were too large
            print(f"{ppl:>12,.2f}  {describe(settings)}")
            tried[settings] = ppl
        settings, ppl = best(tried)
        if ppl == math.inf:
            return tried
        edges = [f"{flag(_short(name))} {shown_value(getattr(settings, name))}" for name in grid.edges(settings, largest)]
        more = grid.grown(settings, largest, first) if extend else None
        if edges:
            then = "trying values beyond it" if more else "better ones may lie beyond it"
            print(f"best so far: {ppl:,.2f} at the edge of the grid ({', '.join(edges)}): {then}")
        if more is None:
            return tried
        grid = more


def describe(settings: AdapterSettings) -> str:
    """Return what acts."""
    return ", ".join(f"{flag(name)} {shown_value(value)}" for name, value in settings.acting().items()) or "the model alone"


def draw(axis: str, across: Sequence[float], lambdas: Sequence[float], perplexities: Any, path: Path) -> None:
    """Save a heat map of perplexities like GroC's Figures 6 and 7."""
    figure, axes = pyplot().subplots(figsize=(1.6 + 0.9 * len(across), 1.4 + 0.6 * len(lambdas)))
    image = axes.imshow(perplexities, cmap="viridis_r", aspect="auto")
    for i, row in enumerate(perplexities):
        for j, value in enumerate(row):
            color = "white" if image.norm(value) > 0.5 else "black"  # the lowest are the lightest
            axes.text(j, i, f"{value:,.1f}", ha="center", va="center", color=color, fontsize=8)
    axes.set_xticks(range(len(across)), [f"{a:g}" for a in across])
    axes.set_yticks(range(len(lambdas)), [f"{v:.3f}" for v in lambdas])
    axes.set(xlabel={"cache_theta": "theta", "cache_neighbors": "K"}[axis], ylabel="lambda", title="validation perplexity")
    figure.colorbar(image)
    save_figure(figure, path)
