"""Search the settings of a cache, the uniform distribution and the discount on validation texts, in a pass of the model each."""

import math
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_groc.adapters import ADAPTERS, CACHES, OPTIONS, AdapterSettings, Cache
from fairseq_groc.adapters.base import idle_options, switch_of, takers_of
from fairseq_groc.arguments import add_break_mode, add_out, add_texts, beside, named_texts, positive
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.grid import VALUES, WEIGHTS, Grid
from fairseq_groc.evaluation.loading import open_model, read_split
from fairseq_groc.evaluation.results import aligned, pyplot, save_figure, write_json
from fairseq_groc.evaluation.scoring import Place
from fairseq_groc.evaluation.stored import TUNED, store_tuned
from fairseq_groc.evaluation.tuning import States, best, heat_map, read, remember, search
from fairseq_groc.files import check_place
from fairseq_groc.registry import FOLDER, check_options, flag, shown_value
from fairseq_groc.tasks.adapting import check_text

Search = Callable[[Grid, dict[AdapterSettings, float]], Iterable[tuple[AdapterSettings, float]]]  # of what was not tried


def _short(name: str) -> str:
    """Return an option's name here."""
    return OPTIONS[name].several or name


def add_arguments(parser: ArgumentParser) -> None:
    add_texts(parser, "valid")
    parser.add_argument("--cache", choices=("none", *CACHES), default="local", help="what remembers the text; none: nothing")
    weights = "W of the cache in (1 - W) p + W p_cache; 0: without it"
    parser.add_argument("--weights", type=float, nargs="+", default=WEIGHTS, help=weights)
    for name, option in OPTIONS.items():
        if option.kind == FOLDER:
            parser.add_argument(flag(name), help=option.help)
        elif _short(name) != "weights":
            values = VALUES.get(name, (option.default,))
            parser.add_argument(flag(_short(name)), type=type(option.default), nargs="+", default=values, help=option.help)
    parser.add_argument("--no-extend", action="store_true", help="try no others where the best value is the first or the last")
    parser.add_argument("--streams", type=positive, default=1, help="contiguous streams")
    add_break_mode(parser)
    add_out(parser, "JSON file for the whole grid")
    parser.add_argument("--no-store", action="store_true", help="do not make the best the default for this model and data")


def run(args: Namespace) -> None:
    texts = named_texts(args.split)
    pictures = {name: beside(args.out.with_suffix(".png"), name) for name in texts} if args.out else {}
    for path in pictures.values():
        check_place("--out", path)
    if args.cache != "none" and CACHES[args.cache].after_block is not Cache.after_block:
        raise OptionError(f"--cache {args.cache} learns, and tune has the model read the text once: compare settings by evaluate")
    if len(texts) > 1 and not args.no_store:
        raise OptionError(
            f"--split names {len(texts)} texts, and the best of one becomes the default: give --no-store, or one text"
        )
    given = values_of(args)
    hub = open_model(args)
    most = max(Grid.of_passes(given).settings(), key=lambda settings: len(settings.adapters()))
    hub.task.adapter_for(hub.models[0].decoder, most)  # what it lacks, it says before the work
    datasets = {name: read_split(hub, split) for name, split in texts.items()}
    if not args.no_store:
        check_place("--data", Path(args.data) / TUNED)
    tried: dict[str, dict[AdapterSettings, float]] = {}
    for name, dataset in datasets.items():
        if name:
            print(f"{name}:")
        tried[name] = tune_text(args, given, hub, dataset)
    if len(texts) > 1:
        rows = [[name, f"{best(found)[1]:,.2f}", best(found)[0].shown()] for name, found in tried.items()]
        print(aligned(["", "perplexity", "with"], rows, names=1))
    if args.out:
        reports = {name: report(texts[name], datasets[name], found) for name, found in tried.items()}
        write_json(args.out, reports.get("", {"texts": reports}))
        for name, found in tried.items():
            if drawn := heat_map(found, args.cache):
                draw(*drawn, pictures[name])
    if not args.no_store:
        ((name, found),) = tried.items()
        settings, ppl = best(found)
        about = {"split": texts[name], "perplexity": ppl, "tokens": datasets[name].num_tokens_total}
        store_tuned(Path(args.data), hub.models[0].decoder, settings, **about)
        print(f"the default from now on for this model over {args.data}")


def report(split: str, dataset: StreamDataset, tried: Mapping[AdapterSettings, float]) -> dict[str, Any]:
    """Return the whole grid of a text, and the best of it."""
    settings, ppl = best(tried)
    about = {"split": split, "tokens": dataset.num_tokens_total, "best": {"perplexity": ppl, **settings.values()}}
    return {**about, "grid": [{"perplexity": p, **s.values()} for s, p in tried.items()]}


def tune_text(
    args: Namespace, given: Mapping[str, Sequence[Any]], hub: Any, dataset: StreamDataset
) -> dict[AdapterSettings, float]:
    """Return the perplexity of a text with every setting that was tried, and print them and the best.

    Raises:
        OptionError: none is finite.
    """
    known: set[AdapterSettings] = set()

    def search_passes(passes: Grid, tried: Any) -> Iterator[tuple[AdapterSettings, float]]:
        for model in passes.settings():
            if model not in known:
                known.add(model)
                yield from tune(args, hub, dataset, Grid.of(args.cache, given, model)).items()

    tried = search_all(Grid.of_passes(given), dataset.num_tokens_total, not args.no_extend, search_passes)
    settings, ppl = best(tried)
    if ppl == math.inf:
        raise OptionError("with every setting a token is impossible: give --uniform some weights above 0")
    print(f"best: {ppl:,.2f}  {settings.shown()}")
    return tried


def values_of(args: Namespace) -> dict[str, tuple[Any, ...]]:
    """Return what is to be tried of each option.

    Raises:
        OptionError: a value that its option does not take, or an option of an adapter that does not act.
    """
    typed = {name: getattr(args, _short(name)) for name in OPTIONS}
    given = {name: (value,) if OPTIONS[name].kind == FOLDER else tuple(value) for name, value in typed.items()}
    for name, values in given.items():
        for value in values:
            check_options({_short(name): OPTIONS[name]}, {_short(name): value})
    refuse_idle(args.cache, given)
    return given


def refuse_idle(cache: str, given: Mapping[str, Sequence[Any]]) -> None:
    """Refuse options of adapters that do not act, but for numbers of other caches: these have several values by default.

    Raises:
        OptionError: with the first of them.
    """
    idle = idle_options(one for one in ADAPTERS if (one == cache if one in CACHES else any(given[switch_of(one)])))
    for name in [name for name in OPTIONS if name in idle and given[name] != (OPTIONS[name].default,)]:
        first = takers_of(name)[0]
        if OPTIONS[name].kind == FOLDER or first not in CACHES:
            needed = f"--cache {first}" if first in CACHES else f"{flag(_short(switch_of(first)))} above 0"
            raise OptionError(f"{flag(_short(name))} does nothing without {needed}: give both, or leave it out")


def tune(args: Namespace, hub: Any, dataset: StreamDataset, grid: Grid) -> dict[AdapterSettings, float]:
    """Let the model read the text as the grid wants it, and return the perplexity of every setting."""
    model, task = hub.models[0], hub.task
    discount = next((factor for factor in args.discounts if factor != 1), 1.0)  # it needs to know which words are new
    most = max(grid.settings(), key=lambda settings: len(settings.adapters()))
    known = task.adapter_for(model.decoder, most.replaced(new_word_discount=discount))
    check_text(task.cfg, known, dataset)
    adapter = known.with_settings(grid.model)
    block = model.decoder.adapter_block(settings=grid.model) or task.block_length()
    with tempfile.TemporaryFile(prefix="groc-tune-") as file:
        states = States(model, dataset, Place(args.streams, block), file)
        found = read(states, adapter, args.cache)
        largest = len(found.lprobs) + sum(read.get("words", 0) for read in adapter.about().values())

        def search_caches(grid: Grid, tried: dict[AdapterSettings, float]) -> Iterator[tuple[AdapterSettings, float]]:
            remember(found, states, adapter, grid)
            for settings, ppl in search(found, grid, tried):
                if math.isnan(ppl) and not grid.model.adapters():
                    raise DataError("the perplexity is no number: the checkpoint is broken")
                ppl = math.inf if math.isnan(ppl) else ppl  # steps that were too large
                print(f"{ppl:>12,.2f}  {settings.shown()}")
                yield settings, ppl

        return search_all(grid, largest, not args.no_extend, search_caches)


def search_all(grid: Grid, tokens: int, extend: bool, search: Search) -> dict[AdapterSettings, float]:
    """Return the perplexity of every setting of a grid, which grows where the best is at its edge; say so.

    Args:
        tokens: what a cache could remember at most
    """
    tried: dict[AdapterSettings, float] = {}
    first = grid
    more: Grid | None = grid
    while more is not None:
        grid = more
        tried.update(search(grid, tried))
        settings, ppl = best(tried)
        edges = [f"{flag(name)} {shown_value(getattr(settings, name))}" for name in grid.edges(settings, tokens)]
        more = grid.grown(settings, tokens, first) if extend and ppl < math.inf else None
        if edges and ppl < math.inf:
            then = "trying values beyond it" if more else "better ones may lie beyond it"
            print(f"best of these: {ppl:,.2f} at the edge of the grid ({', '.join(edges)}): {then}")
    return tried


def draw(axis: str, across: Sequence[Any], lambdas: Sequence[float], perplexities: Any, path: Path) -> None:
    """Save a heat map of perplexities like GroC's Figures 6 and 7."""
    figure, axes = pyplot().subplots(figsize=(1.6 + 0.9 * len(across), 1.4 + 0.6 * len(lambdas)))
    image = axes.imshow(perplexities, cmap="viridis_r", aspect="auto")
    for i, row in enumerate(perplexities):
        for j, value in enumerate(row):
            color = "white" if image.norm(value) > 0.5 else "black"  # the lowest are the lightest
            axes.text(j, i, f"{value:,.1f}", ha="center", va="center", color=color, fontsize=8)
    axes.set_xticks(range(len(across)), map(shown_value, across))
    axes.set_yticks(range(len(lambdas)), [f"{v:.3f}" for v in lambdas])
    label = {"cache_theta": "theta", "cache_neighbors": "K"}.get(axis, axis)
    axes.set(xlabel=label, ylabel="lambda", title="validation perplexity")
    figure.colorbar(image)
    save_figure(figure, path)
