"""examples/papers from a text to its results."""

import itertools
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cli_helpers import PLUGIN, ROOT, WORDS, environment, header_of, write
from fairseq import options
from fairseq.data.data_utils import load_indexed_dataset
from filelock import FileLock

from fairseq_groc.__main__ import _parser as main_parser
from fairseq_groc.embeddings.sampled_updates import is_frozen
from fairseq_groc.presets import PRESETS

PAPERS = ROOT / "examples" / "papers"
RUN = ["python", PAPERS / "run.py"]


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for split, count in (("train", 60), ("valid", 20), ("test", 20)):
        write(folder / f"{split}.txt", WORDS, count, count)
    return folder


def test_rows_are_trained_chosen_scored_and_skipped_when_done(commands, texts, tmp_path):
    table = [*RUN, "table-2", "--from", texts, "--workdir", tmp_path / "work", "--updates", "4", "--scale", "quarter"]
    command = [*table, "--settings", "2", "--seeds", "1", "2", "--rows"]
    mistyped = [tmp_path / "none" if part == texts else part for part in command]
    assert "none/train.txt" in commands.fails(*mistyped, "tied")  # which is not held against the right one
    output = commands.ok(*command, "tied")
    assert "tied: " in output and "(paper, at its size: 86.2)" in output
    saved = json.loads((tmp_path / "work" / "table-2-ptb-quarter.json").read_text())
    assert list(saved["rows"]) == ["tied"] and saved["scale"] == "quarter"
    row = saved["rows"]["tied"]
    assert [run["setting"]["lr"] for run in row["tried"]] == [0.006, 0.003]
    assert row["setting"] == min(row["tried"], key=lambda run: run["valid"])["setting"]
    for seed, found in enumerate(row["runs"], 1):
        assert found["seed"] == seed and found["curve"][-1][0] == found["updates"] == 4 and found["test"] > 1
        assert (tmp_path / "work" / found["checkpoint"]).exists()
        grid = json.loads((tmp_path / "work" / found["checkpoint"]).with_name("uniform.json").read_text())["grid"]
        best = min(grid, key=lambda tried: (tried["perplexity"], tried["uniform_weight"]))
        assert found["uniform"]["weight"] == best["uniform_weight"] and found["uniform"]["valid"] == best["perplexity"]
        assert found["uniform"]["tried"] == len(grid) >= 7
        assert found["cost"]["seconds"] > 0 and 0.1 < found["cost"]["peak_gib"] < 20 and found["cost"]["disk_mib"] > 1
    assert row["runs"][0]["valid"] != row["runs"][1]["valid"]
    again = commands.ok(*command, "tied")
    assert "timed_train" not in again and "evaluate" not in again
    other_length = [6 if part == "4" else part for part in command]
    assert "tied was trained for 4 updates: give these, or another --workdir" in commands.fails(*other_length, "lookup")
    elsewhere = [tmp_path if part == texts else part for part in command]
    assert f"has the text of {texts}: leave out --from {tmp_path}" in commands.fails(*elsewhere, "tied")
    typed = commands.ok(*table, "--setting", "lr=0.003,output_dropout=0,init_range=0.2", "--rows", "tied")
    assert "timed_train" not in typed  # the same as the grid's second
    fewer = commands.ok(*table, "--settings", "1", "--rows", "tied")
    assert "timed_train" not in fewer and json.loads((tmp_path / "work" / "table-2-ptb-quarter.json").read_text()) == saved
    ngram = ngram_of(commands, table, tmp_path / "work")
    analyses_of(commands, [*table, "--settings", "1"], tmp_path / "work")
    made = tmp_path / "work" / Path(row["runs"][1]["checkpoint"]).parent / "made.json"
    made.write_text(made.read_text().replace("--clip-norm 0.25", "--clip-norm 0.5"))
    assert "was trained with other options (--batch-size 20 " in commands.fails(*command, "tied")
    reported = commands.ok("python", PAPERS / "report.py", tmp_path / "work")
    size, setting = row["runs"][0]["parameters"], row["setting"]
    names = [f"{name}-ptb-quarter" for name in ("table-2", "figure-3", "coverage", "figure-7")]
    assert [Path(line).name for line in reported.splitlines()[-5:]] == [*(f"{name}.md" for name in names), "README.md"]
    index = (tmp_path / "work" / "README.md").read_text()
    assert all(f"]({name}.md)" in index for name in names) and "| tied | 86.2 | " in index
    assert f"| Kneser-Ney 4-gram |  | {ngram['test']:.1f} |" in index
    page, bins, coverage, grid = ((tmp_path / "work" / f"{name}.md").read_text() for name in names)
    first = row["runs"][0]  # GroC has one seed, so the first of tied's is compared with it
    figures = " | ".join(f"{value:.1f}" for value in (first["uniform"]["test"], first["test"], first["valid"]))
    assert f"| tied | {size / 1e6:.2f} | {figures} | " in page and "Seeds of every perplexity: 1." in page
    assert f"| Kneser-Ney 4-gram |  | {ngram['test']:.1f} |  | {ngram['valid']:.1f} |" in page
    assert "--rows 'Kneser-Ney 4-gram'\n" in page
    (line,) = re.findall(r"^\| tied \|.*", page, re.MULTILINE)
    assert "| 86.2 | 2 |" in line and f"{first['uniform']['weight']:g}" in line + page.partition("In all rows: ")[2]
    assert "| 0.034 | " in grid
    best, other = sorted(found["valid"] for found in row["tried"])
    for found in row["tried"]:
        figure = f"**{best:.1f}**" if found["setting"] == setting else f"{other:.1f}"
        assert f"| lr {found['setting']['lr']:g}, output dropout 0, init range 0.2 | {figure} |" in page
    assert "| tied | > 2,500 |" not in bins and re.search(r"\| tied \| 1 to 50 \| \d+ \|", bins)
    assert re.search(r"\| 0% \| 0% \| 0% \| [\d.]+ \|", coverage) and re.search(r"\| 100% \| [1-9]\d?% \|", coverage)
    for name, text in zip(names, (page, bins, coverage, grid), strict=True):
        assert f"]({name}.png)" in text and (tmp_path / "work" / f"{name}.png").stat().st_size > 1000
    whole, quarter = (tmp_path / "work" / "data" / name for name in ("ptb", "ptb-0.25"))
    assert (quarter / "dict.txt").read_text() == (whole / "dict.txt").read_text()
    assert lines_in(quarter, "train") == lines_in(whole, "train")[:15] and lines_in(quarter, "test") == lines_in(whole, "test")


def ngram_of(commands, table, work):
    """Put the n-gram beside the rows, which stay; return its figures, those of the command on the text that the rows read."""
    results = work / "table-2-ptb-quarter.json"
    before = json.loads(results.read_text())
    output = commands.ok(*table, "--rows", "Kneser-Ney 4-gram")
    found = json.loads(results.read_text())
    ngram = found.pop("ngram")
    assert found == before and f"Kneser-Ney 4-gram: validation {ngram['valid']:.1f}, test {ngram['test']:.1f}" in output
    made = ["python", "-m", "fairseq_groc", "ngram", "--data", work / "data" / "ptb-0.25", "--dest", work / "again"]
    assert re.findall(r"^(\w+): .*perplexity ([\d.]+) over", commands.ok(*made), re.MULTILINE) == [
        (of, f"{ngram[of]:.2f}") for of in ("test", "valid")
    ]
    return ngram


def analyses_of(commands, table, work):
    """Train a GroC model beside tied, and make what is found out about both."""
    analysis, about = ["python", PAPERS / "analyses.py"], ["--scale", "quarter", "--workdir", work]
    assert "table-2-ptb-quarter.json has no GroC: run " in commands.fails(*analysis, "figure-3", *about)
    (work / "foreign").mkdir()
    (work / "foreign" / "figure-3-ptb-quarter.json").write_text("{}")
    foreign = commands.fails("python", PAPERS / "report.py", work / "foreign")
    assert "figure-3-ptb-quarter.json: not made by run.py, analyses.py or examples/adaptation" in foreign
    commands.ok(*table, "--rows", "GroC")
    other = commands.fails(*table, "--rows", "GroC", "--lexicon-path", "wordnet_nouns_first")
    assert "GroC was trained without --lexicon-path: leave it out, or give another --workdir" in other
    rounded = commands.fails(*table, "--rows", "GroC", "--in-bf16")
    assert "GroC was trained without --in-bf16: leave it out, or give another --workdir" in rounded
    for name in ("figure-3", "coverage", "figure-7"):
        made = commands.ok(*analysis, name, *about)
        assert f"{name}-ptb-quarter.json" in made and "+ fairseq_groc" in made
    assert "+ fairseq_groc" not in commands.ok(*analysis, "figure-3", *about)
    checkpoint = json.loads((work / "table-2-ptb-quarter.json").read_text())["rows"]["tied"]["runs"][0]["checkpoint"]
    (work / checkpoint).touch()  # as if it were another model
    assert "+ fairseq_groc" in commands.ok(*analysis, "figure-3", *about)
    assert sorted(path.name for path in work.iterdir() if path.name.startswith("tmp")) == []


def lines_in(data, split):
    """Return the lines of binarised text as lists of numbers."""
    lines = load_indexed_dataset(str(data / split))
    return [lines[i].tolist() for i in range(len(lines))]


def test_the_published_pages_are_made_of_the_published_numbers(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    made = runpy.run_path(str(PAPERS / "report.py"))["pages"](PAPERS / "results")
    found = {path.name: path.read_text() for path in (PAPERS / "results").glob("*.md")}
    assert made == found, "renew them: make tables"
    words = {path.name for path in (PAPERS / "results" / "words").iterdir()}
    assert words <= found.keys()


def test_commands_of_analyses_are_taken(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "analyses.py"))
    for analysis in names["ANALYSES"].values():
        given = names["Given"]("ptb", "data", names["SCALES"]["cpu"], True, "model.pt", {"deep residual": "other.pt"})
        parsed = main_parser().parse_args([str(part) for part in analysis.command(given)])
        assert str(parsed.data) == "data"
        if analysis.table:
            assert parsed.path == "model.pt"
            assert analysis.model in [row.label for row in names["EXPERIMENTS"][analysis.table].rows]
        assert min(getattr(parsed, "edges", [0])) == 0  # or words that occur would be in no bin


def test_ablations_name_presets_with_and_without_the_output_network(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "run.py"))
    experiments = names["EXPERIMENTS"]
    table_3 = {row.label: [names["preset_of"](row, data) for data in ("ptb", "wikitext2")] for row in experiments["table-3"].rows}
    assert len(table_3) == 8 and table_3["GroC"] == ["groc_lstm_lm_ptb", "groc_lstm_lm_wikitext2_plain"]
    assert table_3["GroC + out, surface"] == ["groc_lstm_lm_ptb_out_surface", "groc_lstm_lm_wikitext2_surface"]
    for presets in table_3.values():
        depths = [PRESETS[preset].options["output_depth"] > 0 for preset in presets]
        assert depths == [presets[0].startswith("groc_lstm_lm_ptb_out")] * 2


def test_speed_is_measured_at_the_shares_that_its_rows_say(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "analyses.py"))
    command = names["ANALYSES"]["table-10"].command(names["Given"]("ptb", "data", names["SCALES"]["cpu"]))
    count = command[command.index("--updates") + 1] - 1
    sparse = re.findall(r"full updates=\S+ .*?--full-update-prob (\S+) --seed (\d+)", "\n".join(map(str, command)))
    assert [share for share, _ in sparse] == ["0.9", "0.7", "0.5", "0.3", "0.1"]
    for share, seed in sparse:
        full = [not is_frozen(float(share), int(seed), number) for number in range(1, count + 1)]
        assert sum(full) == pytest.approx(float(share) * count)


def test_options_of_every_row_and_scale_are_taken(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "run.py"))
    typed = {}  # one of those that differ in numbers alone
    for experiment, scale in itertools.product(names["EXPERIMENTS"].values(), names["SCALES"].values()):
        rows = [row for row in experiment.rows if not row.after or "nt_asgd" in scale.training]
        for row, dataset in itertools.product(rows, experiment.datasets):
            model = names["model_options"](Namespace(in_bf16=True), names["preset_of"](row, dataset), scale)
            training = names["training_options"](row.options.split(), scale, {}, 1, 4)
            words = ["data", *PLUGIN, *map(str, (*model, *training)), "--criterion", "chunked_cross_entropy"]
            typed[frozenset(word for word in words if not re.fullmatch(r"[-\d.e\[\], ]+", word))] = words
    for words in typed.values():
        assert options.parse_args_and_arch(options.get_training_parser(), input_args=words).arch == "groc_lstm_lm"


def test_a_row_s_options_win_over_the_scale_s(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "run.py"))
    tables, scales = names["EXPERIMENTS"].values(), names["SCALES"].values()
    rows = [(row, scale) for table in tables for row in table.rows for scale in scales]
    assert any("--weight-decay" in row.options and "--weight-decay" in scale.training for row, scale in rows)
    for row, scale in rows:
        words = row.options.split()
        options = names["training_options"](words, scale, {}, 1, 10)
        last = {name: value for name, value in itertools.pairwise(options) if name.startswith("--")}
        assert last.items() >= {name: value for name, value in itertools.pairwise(words) if name.startswith("--")}.items(), (
            row.label
        )


def test_a_row_goes_without_a_flag_of_the_scale(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "run.py"))
    (row,) = (row for row in names["EXPERIMENTS"]["awd"].rows if row.without)
    scale = names["SCALES"]["awd"]
    lengths = ["--vary-bptt"]
    assert scale.training.split() == (before := names["scale_of"](row._replace(without=""), scale).training.split())
    assert [part for part in before if part not in names["scale_of"](row, scale).training.split()] == lengths
    with pytest.raises(SystemExit, match="blocks of one length: nothing is trained with --vary-bptt"):
        names["scale_of"](row, names["SCALES"]["cpu"])


def test_rows_of_other_tables_and_options_have_folders_and_no_published_figures(commands, texts, tmp_path):
    """Commands begin at once in an empty folder, two for one row; another adds its row while they wait to add theirs."""
    row, other = "forms of the vocabulary only", "bias through tanh"
    tmp_path = tmp_path / "with a blank"
    command = [*RUN, "choices", "--from", texts, "--workdir", tmp_path, "--updates", "2", "--settings", "1", "--scale", "quarter"]
    tmp_path.mkdir()
    results = tmp_path / "choices-ptb-quarter.json"
    third = {"runs": [{"made": {"updates": 2}, "curve": [[1, 9], [2, 8]], "test": 8, "uniform": {"test": 8}}]}
    with ThreadPoolExecutor() as both:
        with FileLock(f"{results}.lock"):
            made = [both.submit(commands.ok, *command, "--rows", *label) for label in ((row,), (other,), (other, "--seeds", "2"))]
            while len(list(tmp_path.rglob("test.json"))) < 2 and not any(one.done() for one in made):
                time.sleep(0.1)
            results.write_text(json.dumps({"rows": {"full updates": third}}))
        outputs = [one.result() for one in made]
    assert "".join(outputs).count("preprocess.sh --dataset ptb") == 1
    rows = json.loads(results.read_text())["rows"]
    assert list(rows) == [other, row, "full updates"]  # as the table has them
    assert sorted(found["seed"] for found in rows[other]["runs"]) == [1, 2] and [
        found["seed"] for found in rows[row]["runs"]
    ] == [1]
    assert f"waiting for another command that makes {results.with_name('choices-ptb-quarter bias through tanh')}" in "".join(
        outputs
    )
    found = rows[row]
    assert found["paper"] == {"parameters_millions": None, "valid": None, "test": None}
    assert "groc_lstm_lm_ptb-forms-from-lr0.006" in found["runs"][0]["checkpoint"]
    headers = [header_of(tmp_path / "data" / f"ptb-0.25{name}") for name in ("", "-forms-from")]
    assert "-within-" in headers[1]["lexicon"] and "-within-" not in headers[0]["lexicon"]


def test_a_row_begins_with_the_models_of_another(commands, texts, tmp_path):
    command = [*RUN, "awd-finetuned", "--from", texts, "--workdir", tmp_path, "--scale", "awd-long", "--updates", "2"]
    refused = "finetuned begins with AWD-LSTM of seed 1: train that here first"
    assert refused in commands.fails(*command, "--rows", "finetuned")
    commands.ok(*command, "--rows", "AWD-LSTM", "finetuned")
    rows = json.loads((tmp_path / "awd-finetuned-ptb-awd-long.json").read_text())["rows"]
    (first,), (second,) = (rows[label]["runs"] for label in ("AWD-LSTM", "finetuned"))
    assert second["made"]["options"].endswith(f" --finetune-from-model WORKDIR/{first['checkpoint']}")
    assert [row["curve"][-1][0] for row in (first, second)] == [2, 4] and second["updates"] == 2
    log = (tmp_path / second["checkpoint"]).with_name("train.log").read_text()
    assert f"loading pretrained model from {tmp_path / first['checkpoint']}: " in log


def test_unknown_rows_and_datasets_are_refused(commands, tmp_path):
    output = commands.fails(*RUN, "table-2", "--workdir", tmp_path, "--rows", "none")
    assert "--rows none: expected some of lookup, convolutional, tied" in output
    for setting in ("lr", "lr=x", "output_dropout=0.2", "lr=0.1,layers=2", "lr=nan"):
        output = commands.fails(*RUN, "table-2", "--workdir", tmp_path, "--setting", setting)
        assert f"'{setting}': expected lr=NUMBER, and any of dropout, dropout_out, init_range, output_dropout" in output
    assert "drill-table-4 has no wikitext2: ptb" in commands.fails(
        *RUN, "drill-table-4", "--dataset", "wikitext2", "--workdir", tmp_path
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a program outlives one that is killed")
def test_a_run_that_is_killed_leaves_nothing_running_and_goes_on(commands, texts, tmp_path):
    options = ["--from", texts, "--scale", "quarter", "--updates", "16", "--settings", "1", "--rows", "tied"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    commands.ok(*RUN, "table-2", *options, "--workdir", whole)
    shutil.copytree(whole / "data", killed / "data")
    command = [sys.executable, RUN[1], "table-2", *options, "--workdir", killed]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(validations(killed)) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    assert len(trainings(killed)) == 1
    process.kill()
    assert process.wait() == -signal.SIGKILL
    for _ in range(100):
        time.sleep(0.1)
        if not trainings(killed):
            break
    assert trainings(killed) == [] and len(validations(killed)) < 16
    (last,) = killed.rglob("checkpoint_last.pt")
    os.truncate(last, last.stat().st_size // 2)  # as if the kill had met its copying
    commands.ok(*RUN, "table-2", *options, "--workdir", killed)
    saved = (json.loads((workdir / "table-2-ptb-quarter.json").read_text()) for workdir in (whole, killed))
    (through,), (interrupted,) = (table["rows"]["tied"]["runs"] for table in saved)
    assert interrupted["cost"]["seconds"] >= 0 and through["cost"]["seconds"] > 0
    assert interrupted["test"] == through["test"] and set(map(tuple, interrupted["curve"])) == set(map(tuple, through["curve"]))


def validations(workdir):
    """Return the lines of a training log that say what validation came to."""
    return re.findall(r"valid on .*", "".join(log.read_text() for log in workdir.rglob("train.log")))


def trainings(workdir):
    """Return the process numbers of what trains in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(errors="replace")
        except OSError:  # it has ended
            continue
        if "timed_train" in words and str(workdir) in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    "table, scale, label, rate, program",
    [
        ("table-2", "paper", "tied", 0.001, "/timed_train.py "),
        ("released-blocks", "awd-paper-short", "tied", 30, "/released_blocks.py 141 "),
    ],
)
def test_models_of_the_papers_sizes_are_trained(commands, texts, tmp_path, table, scale, label, rate, program):
    command = [*RUN, table, "--from", texts, "--workdir", tmp_path, "--scale", scale, "--updates", "2", "--rows", label]
    output = commands.ok(*command)
    assert f"{label}: " in output and program in output
    found = json.loads((tmp_path / f"{table}-ptb-{scale}.json").read_text())["rows"][label]
    assert found["setting"] == {"lr": rate} and found["runs"][0]["updates"] == 2


def test_a_summary_names_models_by_what_they_are(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    summary = runpy.run_path(str(PAPERS / "report.py"))["summary"]

    def table(experiment, dataset, **rows):
        made = {
            label: {"preset": preset, "paper": {"test": paper}, "runs": [{"test": test, "uniform": {"test": test}}]}
            for label, (preset, paper, test) in rows.items()
        }
        return {"experiment": experiment, "dataset": dataset, "scale": "cpu", "rows": made}

    tables = [
        table("table-2", "ptb", tied=("groc_lstm_lm_ptb_tied", 86.2, 1), GroC=("groc_lstm_lm_ptb", 69.5, 2)),
        table("table-2", "wikitext2", GroC=("groc_lstm_lm_wikitext2", 82.5, 3)),
        table("table-3", "ptb", **{"GroC + out": ("groc_lstm_lm_ptb_out", 71.4, 4)}),
        table("table-3", "wikitext2", GroC=("groc_lstm_lm_wikitext2_plain", 84.1, 5)),
    ]
    columns, _, *rows = summary(tables)
    assert columns == "|  | Penn Treebank, published | Penn Treebank, cpu | WikiText-2, published | WikiText-2, cpu |"
    assert set(rows) == {
        "| tied | 86.2 | 1.0 |  |  |",
        "| GroC | 69.5 | 2.0 | 84.1 | 5.0 |",
        "| GroC + out | 71.4 | 4.0 | 82.5 | 3.0 |",
    }


def test_pages_have_the_tables_that_their_json_makes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.delitem(sys.modules, "run", raising=False)  # another example's, of another test
    monkeypatch.setattr(sys, "path", [*sys.path])
    tables = runpy.run_path(str(ROOT / "examples" / "tables.py"))
    texts = {name: (ROOT / name).read_text() for name in tables["PAGES"]}
    used = [name for text in texts.values() for name in re.findall("<!-- table (.*): make tables -->", text)]
    assert sorted(used) == sorted(tables["TABLES"])
    assert {name: tables["renewed"](text) for name, text in texts.items()} == texts, "renew them: make tables"
    assert "| tied | 1 |" not in tables["renewed"]("<!-- table recipes: make tables -->\n| tied | 1 |\n<!-- end -->")


def test_the_recipes_table_counts_runs_whose_cost_was_not_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path])
    results = json.loads((PAPERS / "results" / "choices-ptb-quarter.json").read_text())
    for run in (run for row in results["rows"].values() for run in row["runs"]):
        run["cost"] = None
    (tmp_path / "choices-ptb-quarter.json").write_text(json.dumps(results))
    made = runpy.run_path(str(ROOT / "examples" / "tables.py"))["recipes"](tmp_path)
    assert made.endswith("| Penn Treebank | `quarter` | 4 | 0.0 (of 0) | 0.0, 0 |") and len(made.splitlines()) == 3


def test_curves_at_equal_time_count_updates_in_steps_of_the_first(commands, tmp_path):
    curves = {"tied": [(60, 400.0), (120, 100.0)], "GroC + corrections": [(30, 200.0), (60, 50.0)]}
    rows = {label: {"runs": [{"curve": curve}]} for label, curve in curves.items()}
    (tmp_path / "results.json").write_text(json.dumps({"rows": {**rows, "no price": rows["tied"]}}))
    times = {"tied": {"mean": 50.0}, "corrected-0.05": {"mean": 100.0}}
    (tmp_path / "times.json").write_text(json.dumps({"runs": {"10000": times}}))
    program = ["python", PAPERS / "equal_time.py", tmp_path / "results.json", tmp_path / "times.json"]
    printed = commands.ok(*program, "--out", tmp_path / "picture.png").splitlines()[-4:]
    assert printed[0] == "|  | a step | 20 | 40 | 60 | 80 | 100 | 120 |"
    assert printed[2:] == [
        "| tied | 1.00 |  |  | 400 | 252 | 159 | 100 |",
        "| GroC + corrections | 2.00 |  |  | **200** | **126** | **79** | **50** |",
    ]
    assert (tmp_path / "picture.png").stat().st_size > 5_000


@pytest.mark.parametrize("dataset", ["ptb", "wikitext2"])
def test_corrections_are_as_wide_as_the_words_and_have_no_output_network(monkeypatch, dataset):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "run.py"))
    row = next(row for row in names["EXPERIMENTS"]["table-2"].rows if row.label == "GroC + corrections")
    options = names["options_of"](names["preset_of"](row, dataset), names["SCALES"]["quarter"])
    assert options["correction_dim"] == options["decoder_embed_dim"]
    assert options["output_depth"] == 0
