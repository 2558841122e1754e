"""The papers' tables of models: train every row, choose its settings on validation text, score the test text.

    python examples/papers/run.py table-2 --dataset ptb --scale cpu --workdir papers [--from FOLDER] [--rows GroC tied]

Everything is done by commands of fairseq and of the package. A run that was interrupted goes on, what is done is skipped, and
WORKDIR/EXPERIMENT-DATASET-SCALE.json has what tables are made from (examples/papers/report.py).
"""

import argparse
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from experiments import EXPERIMENTS, KNESER_NEY, PROGRAM, Row, preset_of
from pictures import draw_rows
from preparing import DATASETS, ngram_alone, prepare, suffix
from scales import SCALES, Scale, options_of
from timed_train import codes_of

from fairseq_groc.__main__ import in_process
from fairseq_groc.arguments import positive
from fairseq_groc.evaluation.results import machine, write_json
from fairseq_groc.evaluation.training_log import read_clock, read_curves, read_parameters
from fairseq_groc.heads import HEADS
from fairseq_groc.presets import PRESETS
from fairseq_groc.programs import BIN, MEMORY, PLUGIN, held, run
from fairseq_groc.registry import flag

UNIFORM = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)  # weights of the uniform distribution that are tried on validation text
WORKDIR = "WORKDIR"  # in options, for the folder of work
MADE, COST, LOG = "made.json", "cost.json", "train.log"  # of a run: how and on what; what training and validation took
SETTABLE = {key for scale in SCALES.values() for setting in scale.grid for key in setting}


class Plan(NamedTuple):
    """What all runs of a row have in common.

    Args:
        name: of their folders, before what sets them apart
        model: options of the model
        lexicon: --lexicon-path of the tables, or None
        begins: runs of another row whose checkpoints it begins with, by seed; none: it begins anew
    """

    name: str
    data: Path
    program: str
    model: list[str]
    scale: Scale
    lexicon: str | None
    begins: dict[int, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--dataset", choices=DATASETS, default="ptb")
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--from", dest="source", type=Path, help="folder of train.txt, valid.txt, test.txt; else downloaded")
    parser.add_argument("--rows", nargs="+", help="only these")
    parser.add_argument("--updates", type=int, help="of a run, in place of the scale's")
    parser.add_argument("--validations", type=positive, default=10, help="of a run, besides those at the end of every epoch")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--settings", type=int, help="try so many of the scale's grid, from its beginning; else all")
    which.add_argument(
        "--setting", type=setting_of, nargs="+", help="try these in place of the grid: lr=0.003,output_dropout=0.2"
    )
    parser.add_argument("--lexicon-path", help="for rows that read a lexicon and name none (default: this machine's WordNet)")
    parser.add_argument("--in-bf16", action="store_true", help="matrix products in bfloat16, on CPUs that have it")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="each a run with the settings that the first one chose")
    parser.add_argument("--code-changed", action="store_true", help="go on with runs that other code began; made.json tells")
    args = parser.parse_args()
    experiment, scale = EXPERIMENTS[args.experiment], SCALES[args.scale]
    labels = [row.label for row in experiment.rows]
    wanted = args.rows or [*labels, KNESER_NEY]
    if args.dataset not in experiment.datasets:
        parser.error(f"{args.experiment} has no {args.dataset}: {', '.join(experiment.datasets)}")
    if unknown := set(wanted) - {*labels, KNESER_NEY}:
        parser.error(f"--rows {' '.join(sorted(unknown))}: expected some of {', '.join([*labels, KNESER_NEY])}")
    scale = scale._replace(updates=args.updates or scale.updates, grid=args.setting or scale.grid)
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}", "CODE_CHANGED": "1" * args.code_changed})
    results = args.workdir / f"{args.experiment}-{args.dataset}-{args.scale}.json"
    rows_in(results, scale)
    about = {
        "experiment": args.experiment,
        "title": experiment.title,
        "dataset": args.dataset,
        "scale": args.scale,
        "machine": machine(),
    }
    if KNESER_NEY in wanted:
        found = ngram_alone(args, scale.share)
        with held(results):
            write_json(results, {**about, "rows": {}, **kept(results), "ngram": found})
        print(f"{KNESER_NEY}: validation {found['valid']:.1f}, test {found['test']:.1f}", flush=True)
    for row in experiment.rows:
        if row.label in wanted:
            with held(results.with_name(f"{results.stem} {row.label}")):
                made = figures_of(args, row, scale, rows_in(results, scale))
                with held(results):
                    rows = {**rows_in(results, scale), row.label: made}
                    rows = {label: rows[label] for label in labels if label in rows}
                    write_json(results, {**kept(results), **about, "rows": rows})
                    draw_rows(args.experiment, rows, results.with_suffix(".png"))
            print(line(row.label, rows[row.label]), flush=True)


def setting_of(text: str) -> dict[str, float]:
    """Return what was typed as a setting; it has a learning rate, and other things of the grids."""
    try:
        setting = {key: float(value) for key, value in (part.split("=") for part in text.split(","))}
    except ValueError:
        setting = {}
    if "lr" not in setting or not SETTABLE.issuperset(setting) or not all(map(math.isfinite, setting.values())):
        raise argparse.ArgumentTypeError(f"{text!r}: expected lr=NUMBER, and any of {', '.join(sorted(SETTABLE - {'lr'}))}")
    return setting


def kept(results: Path) -> dict[str, Any]:
    """Return what is in the file of results; nothing if there is none yet."""
    found: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    return found


def rows_in(results: Path, scale: Scale) -> dict[str, Any]:
    """Return the rows that are done; refuse to put rows of another length beside them."""
    rows: dict[str, Any] = kept(results).get("rows", {})
    for label, row in rows.items():
        if others := {found["made"]["updates"] for found in row["runs"]} - {scale.updates}:
            sys.exit(f"{results}: {label} was trained for {others.pop()} updates: give these, or another --workdir")
    return rows


def figures_of(args, row: Row, scale: Scale, rows: dict[str, Any]) -> dict[str, Any]:
    """Choose a setting on validation text, train with every seed, score the test text; return all figures.

    Args:
        rows: as they were: this one's settings and seeds stay, others are added
    """
    before = rows.get(row.label, {"tried": [], "runs": []})
    preset, scale = preset_of(row, args.dataset), scale_of(row, scale)
    corrected = scale.corrected.split() if "--corrections" in row.options else []
    model = [*model_options(args, preset, scale), *corrected, *row.options.split()]
    lexicon = args.lexicon_path if reads_lexicon(preset, row) else None
    for name, value in (("in_bf16", args.in_bf16), ("lexicon_path", lexicon)):
        if others := {found["made"].get(name) for found in before["runs"]} - {value}:
            given = others.pop()
            how, what = ("with", "give it") if given else ("without", "leave it out")
            option = f"{flag(name)} {given}" if isinstance(given, str) else flag(name)
            sys.exit(f"{row.label} was trained {how} {option}: {what}, or give another --workdir")
    tables = row.tables if lexicon is None else f"{row.tables} --lexicon-path {lexicon}".strip()
    published = PRESETS[preset] if row.published else PRESETS[preset]._replace(parameters=None, valid=None, test=row.test)
    paper = {"parameters_millions": published.parameters, "valid": published.valid, "test": published.test}
    name = preset + suffix(tables) + suffix(row.options) + suffix(row.without.replace("--", "--no-"))
    name += suffix(row.program.removeprefix(PROGRAM))
    plan = Plan(name, prepare(args, tables, scale.share), row.program, model, scale, lexicon, begins_of(args, row, rows))
    grid = with_new([found["setting"] for found in before["tried"]], scale.grid[: args.settings])
    first, *others = with_new([found["seed"] for found in before["runs"]], args.seeds)
    tried = [trained(args, plan, setting, first) for setting in grid]
    setting = grid[tried.index(min(tried, key=lambda found: found["valid"]))]
    runs = []
    for seed in (first, *others):
        found = trained(args, plan, setting, seed)
        runs.append({**found, **scored(args.workdir / found["checkpoint"], plan.data)})
    return {"preset": preset, "setting": setting, "paper": paper, "runs": runs, "tried": tried}


def begins_of(args, row: Row, rows: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the runs of the row that this one begins with, by seed; refuse that there is no checkpoint of a seed."""
    if not row.after:
        return {}
    found = {run["seed"]: run for run in rows.get(row.after, {"runs": []})["runs"]}
    if lacking := [seed for seed in args.seeds if seed not in found or not (args.workdir / found[seed]["checkpoint"]).is_file()]:
        sys.exit(f"{row.label} begins with {row.after} of seed {lacking[0]}: train that here first")
    return found


def scale_of(row: Row, scale: Scale) -> Scale:
    """Return the scale without the flag that the row goes without; refuse a scale that has none."""
    parts = scale.training.split()
    if row.without and row.without not in parts:
        sys.exit(f"{row.label}: nothing is trained with {row.without} at this scale: leave the row out")
    return scale._replace(training=" ".join(part for part in parts if part != row.without))


def reads_lexicon(preset: str, row: Row) -> bool:
    """Say whether a row's model is trained with the lexicon that --lexicon-path says."""
    composed = HEADS[PRESETS[preset].options["output_head"]].embedding == "compositional"
    return composed and PRESETS[preset].options.get("lexicon_parts") != "none" and "--lexicon-path" not in row.tables


def scored(checkpoint: Path, data: Path) -> dict[str, Any]:
    """Return a model's test perplexity: smoothed by the uniform weight that validation text chooses, and alone."""

    def made(name: str, command: str, *options: Any) -> dict[str, Any]:
        out = checkpoint.parent / name
        with held(out):
            if not out.exists():
                in_process(command, "--path", checkpoint, "--data", data, *options, "--out", out)
        report: dict[str, Any] = json.loads(out.read_text())
        return report

    tuned = made("uniform.json", "tune", "--cache", "none", "--uniform", *UNIFORM, "--discounts", 1)
    weight, valid = (tuned["best"][key] for key in ("uniform_weight", "perplexity"))
    alone, smoothed = made("test.json", "evaluate", "--no-tuned-adapters"), made("test-uniform.json", "evaluate")
    return {
        "test": alone["all"]["perplexity"],
        "tokens": alone["tokens_scored"],
        "uniform": {"weight": weight, "valid": valid, "test": smoothed["all"]["perplexity"], "tried": len(tuned["grid"])},
    }


def with_new(old: list, more: list) -> list:
    """Return the old ones, and those of the others that are not among them."""
    return old + [one for one in more if one not in old]


def trained(args, plan: Plan, setting: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train one model; return its setting, and what its log says."""
    parts = [plan.name, *(f"{key}{value:g}" for key, value in setting.items()), f"seed{seed}"]
    parts += ["bf16"] if args.in_bf16 else []
    updates = plan.scale.updates
    save = args.workdir / args.scale / "-".join([*parts, str(updates)] if updates else parts)
    options = training_options(plan.model, plan.scale, setting, seed, args.validations)
    begin = plan.begins[seed] if plan.begins else None
    options += ["--finetune-from-model", f"{WORKDIR}/{begin['checkpoint']}"] if begin else []
    made = {"machine": machine(), "updates": updates, "in_bf16": args.in_bf16, "options": shlex.join(options)}
    made |= {"lexicon_path": plan.lexicon} if plan.lexicon else {}
    with held(save):
        made = train_in(save, plan.data, plan.program, options, made)
    checkpoint = str((save / "checkpoint_best.pt").relative_to(args.workdir))
    cost = json.loads((save / COST).read_text()) if (save / COST).exists() else None
    found = figures(save / LOG)
    if begin:  # updates in all
        found["curve"] = [(begin["updates"] + place, ppl) for place, ppl in found["curve"]]
    return {"setting": setting, "seed": seed, **found, "made": made, "cost": cost, "checkpoint": checkpoint}


def train_in(save: Path, data: Path, program: str, options: list[str], made: dict[str, Any]) -> dict[str, Any]:
    """Train in the folder unless that is done; return how it was made."""
    log = save / LOG
    if log.exists():
        kept = json.loads((save / MADE).read_text()) if (save / MADE).exists() else {"options": "not recorded"}
        if kept["options"] != made["options"]:
            sys.exit(f"{save} was trained with other options ({kept['options']}): remove it, or give another --workdir")
        made = kept
    if not (log.exists() and "done training" in log.read_text()):
        resumed = (save / "checkpoint_last.pt").exists()
        save.mkdir(parents=True, exist_ok=True)
        write_json(save / MADE, made)
        where = ["--save-dir", save, "--no-epoch-checkpoints", "--log-format", "simple", "--num-workers", 0]
        where += ["--distributed-world-size", 1]  # the batch is that of one worker
        script, *typed = program.split()
        options = [option.replace(WORKDIR, str(save.parents[1])) for option in options]
        command = (sys.executable, Path(__file__).with_name(script), *typed, data, *PLUGIN, *options, *where)
        begin = time.time()
        peak = run(*command, log=log)  # an interrupted run appends
        seconds = read_clock(log)[-1][1] if resumed else time.time() - begin
        print(f"{save.name}: {seconds:,.0f} s, {peak:.1f} GiB", flush=True)
        write_json(save / COST, {"seconds": seconds, "peak_gib": peak, "disk_mib": disk_mib(save)})
        *before, code = codes_of(save / "checkpoint_last.pt")
        made = {**made, "code": code, **({"code_before": before} if before else {})}
        write_json(save / MADE, made)
    return made


def training_options(model: list, scale: Scale, setting: dict[str, Any], seed: int, validations: int) -> list[str]:
    """Return the options of fairseq-train, but for what it reads and where it writes; a model's own win over the scale's."""
    options = [*scale.training.format(updates=scale.updates).split(), *model, "--seed", seed]
    options += [part for key, value in setting.items() for part in (flag(key), value)]
    if scale.updates:
        interval = max(1, scale.updates // validations)
        options += ["--max-update", scale.updates, "--validate-interval-updates", interval]
        options += ["--save-interval-updates", interval, "--keep-interval-updates", 1]
    return [str(part) for part in (*options, "--batch-size-valid", 20, "--criterion", "chunked_cross_entropy")]


def disk_mib(folder: Path) -> float:
    """Return the size of the files of a folder."""
    return sum(path.stat().st_size for path in folder.iterdir()) / 2**20


def model_options(args, preset: str, scale: Scale) -> list[str]:
    """Return the flags of the model at the scale."""
    options = options_of(preset, scale)
    flags = [str(part) for key, value in options.items() for part in (flag(key), value)]
    if HEADS[options["output_head"]].embedding == "compositional":
        flags += scale.compositional.split()
    return ["--arch", "groc_lstm_lm", *flags, *["--autocast-bf16"] * args.in_bf16]


def figures(log: Path) -> dict[str, Any]:
    """Return validation perplexities by update, the best, and the number of parameters."""
    curve = read_curves(log, "ppl")["valid"]
    parameters = read_parameters(log.read_text())
    return {"valid": min(ppl for _, ppl in curve), "parameters": parameters, "updates": curve[-1][0], "curve": curve}


def line(label: str, row: dict[str, Any]) -> str:
    first, paper = row["runs"][0], row["paper"]["test"]
    valid, test = (", ".join(f"{found[key]:.1f}" for found in row["runs"]) for key in ("valid", "test"))
    smoothed = ", ".join(f"{found['uniform']['test']:.1f}" for found in row["runs"])
    figures_of_row = f"{first['parameters'] / 1e6:.2f}M parameters, validation {valid}, test {test}, smoothed {smoothed}"
    return f"{label}: {figures_of_row}" + (f" (paper, at its size: {paper})" if paper else "")


if __name__ == "__main__":
    main()
