"""What the papers find out about their models, most of it with those that run.py has trained.

    python examples/papers/analyses.py figure-3 --dataset ptb --scale cpu --workdir papers

A command of the package does the work. WORKDIR/ANALYSIS-DATASET-SCALE.json has what it found, with a picture beside it; what the
same command has found with the same models is not made again.
"""

import argparse
import itertools
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from experiments import EXPERIMENTS, preset_of
from preparing import DATASETS, prepare
from scales import SCALES, Scale, options_of

from fairseq_groc.__main__ import in_process
from fairseq_groc.embeddings.sampled_updates import is_frozen
from fairseq_groc.evaluation.results import machine, write_json
from fairseq_groc.programs import BIN, MEMORY, held
from fairseq_groc.registry import flag

_SHARES = (0.9, 0.7, 0.5, 0.3, 0.1)  # of full updates; Table 10
_COUNTED = 20  # updates of a round in which speed is measured


class Given(NamedTuple):
    """What an analysis is of.

    Args:
        dataset: the name of the text in presets
        data: its data folder
        scale: of the models
        in_bf16: GroC in bfloat16 as well
        path: of the model that is analysed
        others: the paths of all other rows' models by label
    """

    dataset: str
    data: Any
    scale: Scale
    in_bf16: bool = False
    path: Any = None
    others: dict[str, Any] = {}


class Analysis(NamedTuple):
    """What is found with the models of a table, or about them.

    Args:
        title: the paper's
        command: of the package
        paper: what was published, in words
        table: the experiment whose trained models it takes
        model: the row that is analysed
    """

    title: str
    command: Callable[[Given], list[Any]]
    paper: str
    table: str | None = None
    model: str | None = None


def _bins(given: Given) -> list[Any]:
    named = [f"{label}={other}" for label, other in given.others.items()]
    return ["frequency-bins", "--tuned-adapters", "--path", given.path, "--data", given.data, "--baselines", *named]


def _coverage(given: Given) -> list[Any]:
    return ["coverage", "--path", given.path, "--data", given.data, "--tokens-per-sample", 500]


def _speed(given: Given) -> list[Any]:
    """Compare the rows of Table 10, by the share of full updates that they make, and sampled updates."""
    named = {row.label: _arch(preset_of(row, given.dataset), given.scale) for row in EXPERIMENTS["table-2"].rows}
    groc = named["GroC"]
    seed = _seed_with(_SHARES, _COUNTED)
    named |= {f"GroC, {share:.0%} full updates": f"{groc} --full-update-prob {share} --seed {seed}" for share in _SHARES}
    named["GroC, sampled updates, 10%"] = f"{groc} --sampled-update-fraction 0.1"
    if given.in_bf16:
        named |= {f"{label}, bfloat16": f"{named[label]} --autocast-bf16" for label in ("GroC", "GroC, sampled updates, 10%")}
    options = ["--updates", _COUNTED + 1, "--rounds", 2, "--models", *(f"{label}={arch}" for label, arch in named.items())]
    return ["training-speed", "--data", given.data, *options]


def _seed_with(shares: tuple[float, ...], count: int) -> int:
    """Return a seed with which sparse updates are full in exactly these shares of the updates but for the first."""
    for seed in itertools.count(1):
        full = {share: sum(not is_frozen(share, seed, number) for number in range(1, count + 1)) for share in shares}
        if all(full[share] == round(share * count) for share in shares):
            return seed
    raise AssertionError


def _arch(preset: str, scale: Scale) -> str:
    options = options_of(preset, scale)
    sizes = (shlex.quote(f"{flag(name)}={options[name]}") for name in scale.sizes if name in options)
    return " ".join([preset, *sizes])


def _grid(given: Given) -> list[Any]:
    weights = (0.034, 0.067, 0.1, 0.133, 0.167)  # appendix C.4: lambda from 0.833 to 0.966, theta from 0 to 1
    grid = ["--weights", *weights, "--thetas", 0, 0.25, 0.5, 0.75, 1]
    grid += ["--sizes", "5000", "--uniform", "0", "--no-extend", "--no-store"]
    return ["tune", "--path", given.path, "--data", given.data, "--cache", "local", *grid]


ANALYSES: dict[str, Analysis] = {
    "figure-3": Analysis(
        "GroC, Figure 3: loss by frequency",
        _bins,
        "the rarer the words, the more GroC gains (medians), except in Penn Treebank's lowest bin (section 4.3).",
        "table-2",
        "GroC",
    ),
    "figure-3-corrections": Analysis(
        "GroC with corrections: loss by frequency", _bins, "it has no such model.", "table-2", "GroC + corrections"
    ),
    "coverage": Analysis(
        "GroC, Table 4: scored with a share of the lexicon's entries",
        _coverage,
        "on Penn Treebank 187.8, 159.3, 128.5, 102.6, 83.5, 69.5 where 0, 16, 32, 48, 64 and 82% of the words are covered; 73.1 "
        "for a model of the surface alone.",
        "table-2",
        "GroC",
    ),
    "figure-7": Analysis(
        "GroC, Figure 7: the local cache's grid",
        _grid,
        "a picture alone; the best for its news text is lambda 0.966 (a weight of 0.034), theta 0.5 (appendix C.4).",
        "table-2",
        "tied",
    ),
    "drill-figure-3": Analysis(
        "DRILL, Figure 3: loss by frequency",
        # its first band has 4,116 words of the test text, those of 1 to 49 occurrences, its last 16; other edges are not given
        lambda given: [*_bins(given), "--edges", 0, 49, 100, 1000, 5000],
        "most of the gain in words of 1 to 100 occurrences (means, its section 4.1).",
        "drill-table-4",
        "4 layers",
    ),
    "table-10": Analysis(
        "GroC, Table 10: training speed",
        _speed,
        "in times of the lookup table's epoch on Penn Treebank, convolutional 10.3, tied 1.0, bilinear 1.8, deep residual 3.1, "
        "adaptive 1.4, GroC 13.3, with full updates in 90, 70, 50, 30 and 10% of the steps 12.1, 8.9, 6.7, 4.9 and 2.4 (it names "
        "the shares of the frozen ones).",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("analysis", choices=ANALYSES)
    parser.add_argument("--dataset", choices=DATASETS, default="ptb")
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--workdir", type=Path, required=True, help="run.py's")
    parser.add_argument("--in-bf16", action="store_true", help="table-10: GroC in bfloat16, too, for CPUs that have it")
    parser.add_argument("--from", dest="source", type=Path, help="as run.py's, for a text that is not in WORKDIR")
    args = parser.parse_args()
    analysis = ANALYSES[args.analysis]
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}"})
    others = checkpoints(args, analysis) if analysis.table else {}
    path = others.pop(analysis.model) if analysis.model else None
    scale = SCALES[args.scale]
    given = Given(args.dataset, prepare(args, share=scale.share), scale, args.in_bf16, path, others)
    out = args.workdir / f"{args.analysis}-{args.dataset}-{args.scale}.json"
    about = {"analysis": args.analysis, "title": analysis.title, "dataset": args.dataset, "scale": args.scale}
    about |= {"model": analysis.model, "in_bf16": args.in_bf16}
    command = analysis.command(given)
    about["command"] = within(args.workdir, shlex.join(str(part) for part in command))
    with held(out):
        if not is_done(out, about, [given.path, *others.values()] if analysis.table else []):
            with tempfile.TemporaryDirectory(dir=args.workdir) as folder:
                made = Path(folder, out.name)
                in_process(*command, "--out", made)
                made.with_suffix(".png").replace(out.with_suffix(".png"))
                found = json.loads(within(args.workdir, made.read_text()))
            write_json(out, {**about, "machine": machine(), "found": found})
    print(out)


def within(workdir: Path, text: str) -> str:
    """Return a text that is the same wherever WORKDIR is."""
    return text.replace(f"{workdir}{os.sep}", "")


def is_done(out: Path, about: dict[str, Any], models: list[Path]) -> bool:
    """Return whether a file has what the same command found, with models that have not been trained since."""
    kept = json.loads(out.read_text()) if out.exists() else {}
    if any(kept.get(key, "") != value for key, value in about.items()):
        return False
    return all(model.stat().st_mtime < out.stat().st_mtime for model in models)


def checkpoints(args, analysis: Analysis) -> dict[str, Path]:
    """Return the models of the table that is analysed."""
    table = args.workdir / f"{analysis.table}-{args.dataset}-{args.scale}.json"
    rows = json.loads(table.read_text())["rows"] if table.exists() else {}
    if analysis.model not in rows:
        run = f"examples/papers/run.py {analysis.table} --dataset {args.dataset} --scale {args.scale} --workdir {args.workdir}"
        sys.exit(f"{table} has no {analysis.model}: run {run} first")
    return {label: args.workdir / row["runs"][0]["checkpoint"] for label, row in rows.items()}


if __name__ == "__main__":
    main()
