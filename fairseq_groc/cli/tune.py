"""Search the settings of a cache, the uniform distribution and the discount on validation text, in one pass of the model."""

import math
from pathlib import Path
from typing import List

from fairseq_groc.cli.evaluate import add_break_mode, open_split
from fairseq_groc.cli.results import check_out, pyplot, write_json
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.scoring import Place
from fairseq_groc.evaluation.stored import store_tuned
from fairseq_groc.evaluation.tuning import Grid, best, heat_map, read, search
from fairseq_groc.modules.adapters import CACHES, OPTIONS, AdapterSettings
from fairseq_groc.options import flag
from fairseq_groc.tasks.adapting import check_remembered

NAMED = ("cache_theta", "cache_size", "cache_neighbors")  # options whose values have short names here


def add_arguments(parser) -> None:
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--data", required=True, help="data folder with the text and the vocabulary")
    parser.add_argument("--split", default="valid", help="which text of it")
    parser.add_argument("--cache", choices=("none", *CACHES), default="local")
    parser.add_argument("--weights", type=float, nargs="+", default=Grid.weights, help="of the cache: 1 - lambda of the paper")
    parser.add_argument("--thetas", type=float, nargs="+", default=Grid.thetas)
    parser.add_argument("--sizes", type=int, nargs="+", default=Grid.sizes, help="N")
    parser.add_argument("--neighbors", type=int, nargs="+", default=Grid.neighbors, help="K")
    for name in _others():
        option = OPTIONS[name]
        parser.add_argument(flag(name), type=type(option.default), nargs="+", default=[option.default], help=option.help)
    parser.add_argument("--uniform", type=float, nargs="+", default=Grid.uniform, help="weights of the uniform distribution")
    parser.add_argument("--discounts", type=float, nargs="+", default=Grid.discounts, help="factors on new words")
    parser.add_argument("--streams", type=int, default=1, help="contiguous streams")
    parser.add_argument("--tokens-per-sample", type=int, default=0, help="block length; 0: the checkpoint's")
    add_break_mode(parser)
    parser.add_argument("--out", type=Path, help="JSON file for the whole grid; a heat map is drawn beside it")
    parser.add_argument("--no-store", action="store_true", help="do not make the best the default for this model and data")
    parser.add_argument("--cache-text", help="folder of a text that the unbounded cache sees, too")


def run(args) -> None:
    check_out(args.out)
    if args.streams < 1:
        raise OptionError(f"--streams {args.streams}: expected a positive number")
    if args.cache_text and args.cache != "unbounded":
        raise OptionError("--cache-text does nothing without --cache unbounded: give both, or leave it out")
    more = {name: getattr(args, name) for name in _others()}
    grid = Grid(args.cache, args.weights, args.thetas, args.sizes, args.neighbors, args.uniform, args.discounts, more)
    check(grid)
    if args.out:
        pyplot()  # before the work, not after it
    hub, dataset = open_split(args)
    model, task = hub.models[0], hub.task
    place = Place(args.streams, task.block_length())
    discount = next((factor for factor in args.discounts if factor != 1), 1.0)  # it needs to know which words are new
    adapter = task.adapter_for(model.decoder, AdapterSettings(new_word_discount=discount), args.cache_text)
    check_remembered(task.cfg, adapter, dataset)
    found = read(model, dataset, place, adapter, grid)
    tried = list(search(found, grid))
    for settings, ppl in tried:
        print(f"{ppl:>12,.2f}  {describe(settings)}")
    settings, ppl = best(tried)
    if ppl == math.inf:
        raise OptionError("with every setting a token is impossible: give --uniform some weights above 0")
    if math.isnan(ppl):
        raise DataError("the perplexity is no number: the checkpoint is broken")
    print(f"best: {ppl:,.2f}  {describe(settings)}")
    if args.out:
        rows = [{"perplexity": p, **vars(s)} for s, p in tried]
        write_json(args.out, {"split": args.split, "tokens": len(found.lprobs), "grid": rows})
        drawn = heat_map(tried, grid)
        if drawn:
            draw(*drawn, args.out.with_suffix(".png"))
    if not args.no_store:
        text = str(Path(args.cache_text).resolve()) if args.cache_text and settings.unbounded_weight else None
        about = {"split": args.split, "perplexity": ppl, "tokens": len(found.lprobs)}
        store_tuned(Path(args.data), model.decoder, settings, cache_text=text, **about)
        print(f"the default from now on for this model over {args.data}")


def _others() -> List[str]:
    """Return the options of caches that have no short name here."""
    return [name for cache in CACHES.values() for name in cache.options if name not in NAMED]


def check(grid: Grid) -> None:
    """Refuse values out of range.

    Raises:
        OptionError: with the option.
    """
    if not all(0 < value < 1 for value in grid.weights):
        raise OptionError(f"--weights {' '.join(map(str, grid.weights))}: expected numbers above 0 and below 1")
    if not all(0 <= value < 1 for value in grid.uniform):
        raise OptionError(f"--uniform {' '.join(map(str, grid.uniform))}: expected numbers from 0 to below 1")
    if not all(0 < value < math.inf for value in [*grid.discounts, *grid.sizes, *grid.neighbors]):
        raise OptionError("--discounts, --sizes and --neighbors are above 0")


def describe(settings: AdapterSettings) -> str:
    """Return what is not a default."""
    return ", ".join(f"{flag(name)} {value:g}" for name, value in settings.changes().items()) or "the model alone"


def draw(axis: str, across, lambdas, perplexities, path: Path) -> None:
    """Save a heat map of perplexities like GroC's Figures 6 and 7."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(1.6 + 0.9 * len(across), 1.4 + 0.6 * len(lambdas)))
    image = axes.imshow(perplexities, cmap="viridis_r", aspect="auto")
    for i, row in enumerate(perplexities):
        for j, value in enumerate(row):
            color = "white" if image.norm(value) > 0.5 else "black"  # the lowest are the lightest
            axes.text(j, i, f"{value:,.1f}", ha="center", va="center", color=color, fontsize=8)
    axes.set_xticks(range(len(across)), [f"{a:g}" for a in across])
    axes.set_yticks(range(len(lambdas)), [f"{v:.3f}" for v in lambdas])
    axes.set(xlabel={"cache_theta": "theta", "cache_neighbors": "K"}[axis], ylabel="lambda", title="validation perplexity")
    figure.colorbar(image)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plot.close(figure)
