"""Contexts of lines as users type them: one figure through every door, and what each door refuses."""

import json
import math
import random
import re

import numpy as np
import pytest
import torch
from cli_helpers import ARCHITECTURES, PLUGIN, SMALL, TRAINING, evaluated, perplexity
from test_resume_and_workers import SHIFT, as_killed, two_workers, weights

from fairseq_groc.adapters.store import open_store
from fairseq_groc.cli import contexts
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.context_pictures import draw_map
from fairseq_groc.evaluation.loading import load

WORDS = {"sports": "run runs sat dog cat lion".split(), "arts": "green blue red big small old".split()}
KNOWS = (
    "--prefix-encoder factor_cell --context-dim 4 --context-adaptation factor --context-rank 2 --sample-break-mode eos".split()
)
HEADS = {
    "tied": ["--output-head", "tied", "--context-bias", "rows"],
    "groc": ["--output-head", "compositional_output", "--corrections", "both"],
}
ENCODERS = {
    "awd_lstm": [*SMALL, "--prefix-encoder", "awd_lstm", "--weight-dropout", "0.2"],
    "transformer_lm": ["--arch", *ARCHITECTURES["transformer_lm"].split(), "--decoder-output-dim", "16"],
}


def make(folder, count, seed, topics=("sports", "arts")):
    """Write lines whose words tell their topic, and tables of contexts."""
    rng = random.Random(seed)
    rows = [(topic, rng.randint(1990, 2000)) for topic in (rng.choice(topics) for _ in range(count))]
    lines = [" ".join(rng.choice(["the", *WORDS[topic]]) for _ in range(rng.randint(3, 7))) for topic, _ in rows]
    folder.with_suffix(".txt").write_text("\n".join(lines) + "\n")
    folder.with_suffix(".tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [("topic", "year"), *rows]))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory, commands):
    folder = tmp_path_factory.mktemp("contexts")
    options = []
    for split, count, seed in (("train", 300, 1), ("valid", 30, 2), ("test", 40, 3)):
        made = make(folder / split, count, seed)
        options += [f"--{split}", made.with_suffix(".txt"), f"--context-{split}", made.with_suffix(".tsv")]
    mini = ["--lexicon-path", "none"]
    commands.preprocess(*options, *mini, "--context-numeric", "year", "--dest", folder / "data")
    make(folder / "other", 20, 4)
    other = ["--vocabulary-from", folder / "data", "--test", folder / "other.txt"]
    commands.preprocess(*other, *mini, "--dest", folder / "without")
    return folder


@pytest.fixture(scope="module", params=HEADS)
def model(request, tmp_path_factory, data, commands):
    save = tmp_path_factory.mktemp(request.param)
    learns = ["--lr", "0.03", "--batch-size", "20", "--max-update", "120", "--validate-interval-updates", "120"]
    commands.train(data / "data", save, *HEADS[request.param], *KNOWS, *learns, "--lexicon-parts", "none") if (
        request.param == "groc"
    ) else commands.train(data / "data", save, *HEADS[request.param], *KNOWS, *learns)
    return save / "checkpoint_best.pt"


def figure_of(ours, model, data, out, *options):
    ours("evaluate", "--path", model, "--data", data, "--sample-break-mode", "eos", "--streams", "4", "--out", out, *options)
    return json.loads(out.read_text())["all"]["perplexity"]


def test_one_figure_through_every_door(commands, ours, data, model, tmp_path):
    lines = ["--sample-break-mode", "eos", "--batch-size", "4"]
    figure = figure_of(ours, model, data / "data", tmp_path / "own.json")
    printed = pytest.approx(figure, abs=0.006)
    assert evaluated(commands.eval_lm(data / "data", model, *lines))[1] == printed
    validate = ["fairseq-validate", data / "data", *PLUGIN, "--path", model, "--valid-subset", "test", *lines]
    assert perplexity(commands.ok(*validate)) == printed
    hub = load(str(model), str(data / "data"))
    texts = (data / "test.txt").read_text().splitlines()
    rows = [
        dict(zip(("topic", "year"), row.split("\t"), strict=True)) for row in (data / "test.tsv").read_text().splitlines()[1:]
    ]
    scores = hub.score(texts, context=rows)
    tokens = sum(len(text.split()) + 1 for text in texts)
    assert sum(float(s["positional_scores"].sum()) for s in scores) / tokens == pytest.approx(-math.log(figure), abs=1e-5)
    missing = figure_of(ours, model, data / "data", tmp_path / "missing.json", "--context", "missing")
    assert missing > 1.1 * figure  # the topic says much


@pytest.mark.parametrize("encoder", ENCODERS)
def test_other_encoders_in_context(commands, ours, data, tmp_path, encoder):
    knows = ["--context-dim", "4", "--context-adaptation", "concat", "--context-bias", "shift", "--output-head", "tied"]
    trains = [*TRAINING, *ENCODERS[encoder], *knows, "--sample-break-mode", "eos", "--max-update", "20"]
    commands.ok("fairseq-train", data / "data", *PLUGIN, *trains, "--save-dir", tmp_path)
    model = tmp_path / "checkpoint_last.pt"
    figure = figure_of(ours, model, data / "data", tmp_path / "own.json")
    lines = ["--sample-break-mode", "eos", "--batch-size", "4"]
    assert evaluated(commands.eval_lm(data / "data", model, *lines))[1] == pytest.approx(figure, abs=0.006)
    other = figure_of(ours, model, data / "data", tmp_path / "sports.json", "--context", "topic=sports")
    assert abs(other - figure) > 1e-3
    hub, text = load(str(model), str(data / "data")), (data / "test.txt").read_text().splitlines()
    rows = [row.split("\t") for row in (data / "test.tsv").read_text().splitlines()[1:]]
    scores = hub.score(text, context=[dict(zip(("topic", "year"), row, strict=True)) for row in rows])
    found = torch.cat([one["positional_scores"] for one in scores])
    assert math.exp(-found.mean()) == pytest.approx(figure, rel=1e-4)


def test_a_context_for_all_lines(commands, ours, data, model, tmp_path):
    sports = figure_of(ours, model, data / "without", tmp_path / "s.json", "--context", "topic=sports,year=1995")
    given = ["--context", "topic=sports,year=1995"]
    text = ours("score", data / "other.txt", "--path", model, "--data", data / "without", *given)
    total = sum(float(line.split("\t")[0]) for line in text.splitlines())
    tokens = sum(int(line.split("\t")[1]) for line in text.splitlines())
    assert -total / tokens == pytest.approx(math.log(sports), abs=1e-4)
    lines = ["--sample-break-mode", "eos", "--batch-size", "4"]
    output = commands.fails("fairseq-eval-lm", data / "without", *PLUGIN, "--path", model, *lines)
    assert re.search(r"has no contexts \(topic, year\): preprocess with --context-train", output)
    assert evaluated(commands.eval_lm(data / "without", model, *lines, *given))[1] == pytest.approx(sports, abs=0.006)
    output = commands.fails("fairseq-eval-lm", data / "without", *PLUGIN, "--path", model, "--context", "colour=red")
    assert "the model has no such variable. It has topic, year" in output


def with_fields(data, path):
    """Write the test lines between their contexts; return the lines and the contexts."""
    texts = (data / "test.txt").read_text().splitlines()
    rows = [row.split("\t") for row in (data / "test.tsv").read_text().splitlines()[1:]]
    path.write_text("".join(f"{topic}\t{text}\t{year}\n" for text, (topic, year) in zip(texts, rows, strict=True)))
    return texts, [{"topic": topic, "year": year} for topic, year in rows]


def scores_of(printed):
    return [float(line.split("\t")[0]) for line in printed.splitlines()]


def test_lines_that_say_their_contexts(ours, data, model, tmp_path):
    """Every line has the hub's score, and stays as it came; what has no field is as --context says."""
    lines = tmp_path / "lines.tsv"
    texts, contexts = with_fields(data, lines)
    hub = load(str(model), str(data / "data"))
    score = ["score", lines, "--path", model, "--data", data / "data", "--field", "2", "--context-fields"]
    for options, year in (
        (["topic=1,year=3"], {}),
        ([" topic = 1", "--context", "year=1993"], {"year": 1993}),
        (["topic=1"], None),
    ):
        wanted = [{"topic": one["topic"]} if year is None else {**one, **year} for one in contexts]
        expected = [float(one["positional_scores"].sum()) for one in hub.score(texts, context=wanted)]
        printed = ours(*score, *options)
        assert scores_of(printed) == pytest.approx(expected, abs=7e-5)  # four decimals are printed
        assert [line.split("\t", 2)[2] for line in printed.splitlines()] == lines.read_text().splitlines()


@pytest.mark.parametrize("header, fields", [("topic\ttext\tborn\tid\n", "topic text born id"), ("", "1 2 3 4")])
def test_hypotheses_that_say_their_contexts(ours, data, model, tmp_path, header, fields):
    """Every one has its score in its context, and no other column is taken for a score."""
    lines, nbest, scored = (tmp_path / name for name in ("lines.tsv", "nbest.tsv", "scores"))
    texts, contexts = with_fields(data, lines)
    nbest.write_text(header + "".join(f"{line}\tu{n // 3}\n" for n, line in enumerate(lines.read_text().splitlines())))
    topic, text, year, utterance = fields.split()
    names = ["--text-field", text, "--id-field", utterance, "--context-fields"]
    rescore = ["rescore", nbest, "--path", model, "--data", data / "data", "--scores", scored, "--out", tmp_path / "best"]
    hub = load(str(model), str(data / "data"))
    ours(*rescore, *names, f"topic={topic}, year = {year}")
    expected = [float(one["positional_scores"].sum()) for one in hub.score(texts, context=contexts)]
    assert scores_of(scored.read_text()) == pytest.approx(expected, abs=7e-5)
    best = [max(range(n, min(n + 3, len(texts))), key=expected.__getitem__) for n in range(0, len(texts), 3)]
    assert (tmp_path / "best").read_text() == "".join(f"u{n}\t{texts[i]}\n" for n, i in enumerate(best))
    for both, of_all, message in (
        (f"topic={topic},year={year}", "topic=arts", "--context and --context-fields both say topic"),
        (f"topic={topic},year={text}", "missing", ": context year="),
        (f"topic={topic},town={year}", "missing", "context 'town': the model has no such variable"),
    ):
        assert message in ours(*rescore, *names, both, "--context", of_all, code=1)


def test_lines_of_a_running_text_that_say_their_contexts(ours, data, model, tmp_path):
    """Also in blocks that do not end where lines do, as dynamic evaluation wants them."""
    lines = tmp_path / "lines.tsv"
    tokens = sum(len(text.split()) + 1 for text in with_fields(data, lines)[0])
    where = ["--path", model, "--data", data / "data"]
    ours("gradient-statistics", *where, "--dynamic-parameters", "features", "--streams", "4", "--dest", tmp_path)
    learns = ["--dynamic-rate", "0.1", "--dynamic-parameters", "features", "--dynamic-statistics", tmp_path]
    for more in ([], [*learns, "--dynamic-block", "7"]):
        ours("evaluate", *where, "--streams", "1", "--out", tmp_path / "own.json", *more)
        figure = json.loads((tmp_path / "own.json").read_text())["all"]["perplexity"]
        found = ours("score", lines, *where, "--running", "--field", "2", "--context-fields", "topic=1,year=3", *more)
        assert -sum(scores_of(found)) / tokens == pytest.approx(math.log(figure), abs=5e-5)


def test_a_text_is_remembered_in_its_contexts(ours, data, model, tmp_path):
    """By h alone: a softmax bias of contexts is not in the cache."""
    where = ["--path", model, "--data", data / "data"]
    assert " words stored" in ours("remember", tmp_path / "text", *where, "--split", "valid")
    refused = ours("remember", tmp_path / "text", *where, "--split", "valid", "--context", "missing", code=1)
    assert f"error: {tmp_path / 'text'}: its contexts is " in refused
    decoder = load(str(model), str(data / "data")).models[0].decoder
    keys, words = open_store(tmp_path / "text", decoder).entries()
    assert keys.shape == (len(words), decoder.embed_tokens.embedding_dim)
    h = []
    for given in ("sports", "arts"):
        ours("remember", tmp_path / given, *where, "--split", "valid", "--context", f"topic={given}")
        h.append(open_store(tmp_path / given, decoder).entries()[0])
    assert not np.allclose(h[0], h[1], atol=0.01) and not np.allclose(h[0], keys, atol=0.01)
    seen = ["--unbounded-weight", "0.2", "--cache-text", tmp_path / "text"]
    ours("evaluate", *where, "--streams", "1", "--out", tmp_path / "own.json", *seen)
    found = json.loads((tmp_path / "own.json").read_text())
    lines = tmp_path / "lines.tsv"
    tokens = sum(len(text.split()) + 1 for text in with_fields(data, lines)[0])
    scored = ours("score", lines, *where, "--running", "--field", "2", "--context-fields", "topic=1,year=3", *seen)
    assert -sum(scores_of(scored)) / tokens == pytest.approx(math.log(found["all"]["perplexity"]), abs=5e-5)
    if "groc" in model.parent.name:  # without corrections it is another model
        assert "text: its model or vocabulary is " in ours("evaluate", *where, "--no-corrections", *seen, code=1)
        ours("evaluate", *where, "--streams", "1", "--no-corrections", "--out", tmp_path / "composed.json")
        composed = json.loads((tmp_path / "composed.json").read_text())
        assert composed["all"]["perplexity"] != pytest.approx(found["all"]["model_perplexity"], rel=1e-3)


def test_fields_that_say_no_context(ours, data, model, tmp_path, monkeypatch, caplog):
    if "groc" in model.parent.name:
        pytest.skip("whatever the head")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.tsv").write_text("sports\tthe dog\t1990\nharps\tthe cat\tnever\n")
    where = ["score", "t.tsv", "--path", model, "--data", data / "data"]
    fields = [*where, "--field", "2", "--context-fields"]
    for command, message in (
        ([*where, "--context-fields", "topic=1"], "--context-fields: the text is one field of several. Give --field, which says"),
        ([*fields, "topic"], "--context-fields topic: expected NAME=FIELD,NAME=FIELD, each name once"),
        ([*fields, "missing"], "--context-fields missing: expected NAME=FIELD,NAME=FIELD"),
        ([*fields, "topic="], "--context-fields topic=: expected NAME=FIELD,NAME=FIELD"),
        ([*fields, "topic=1,topic=3"], "--context-fields topic=1,topic=3: expected NAME=FIELD,NAME=FIELD, each name once"),
        ([*fields, "topic=0"], "--context-fields 0: expected a whole number, 1 or more"),
        ([*fields, "topic=1,year=4"], "t.tsv:1: 3 tab-separated fields, --context-fields year=4 asked for"),
        ([*fields, "town=1"], "context 'town': the model has no such variable. It has topic, year"),
        ([*fields, "topic=1", "--context", "topic=arts"], "--context and --context-fields both say topic. Leave one of them out"),
        ([*fields, "topic=1,year=3"], "t.tsv:2: context year='never': expected a finite number"),
    ):
        refused = ours(*command, code=1)
        said = [line for line in refused.splitlines() if not line.startswith("warning: ")]
        assert len(said) == 1 and said[0].startswith(f"error: {message}"), refused
    first, second = scores_of(ours(*fields, "topic=1"))
    assert math.isfinite(first) and math.isfinite(second) and "context topic='harps': the model does not know" in caplog.text


def test_words_are_generated_in_context(commands, ours, data, model):
    hub = load(str(model), str(data / "data"))
    for topic, other in (("sports", "arts"), ("arts", "sports")):
        said = [hub.sample("the", beam=1, sampling=True, max_len_b=8, context={"topic": topic, "year": 1995}) for _ in range(8)]
        words = [word for line in said for word in line.split()[1:]]
        assert sum(word in WORDS[topic] for word in words) > 3 * sum(word in WORDS[other] for word in words)
    both = hub.sample(["the", "the"], beam=2, max_len_b=8, min_len=3, context=[{"topic": "sports"}, {"topic": "arts"}])
    assert any(w in WORDS["sports"] for w in both[0].split()) and any(w in WORDS["arts"] for w in both[1].split())
    options = ["--path", model, "--beam", "2", "--max-len-b", "8", "--sample-break-mode", "eos", "--batch-size", "4"]
    assert len(re.findall(r"^H-", commands.ok("fairseq-generate", data / "data", *PLUGIN, *options), re.M)) == 40
    typed = data / "typed.txt"
    typed.write_text("topic=sports\tthe\ntopic=arts\tthe\nthe\n")
    read = ["--input", typed, "--buffer-size", "3", "--path", model, "--beam", "1", "--max-len-b", "8", "--context", "topic=arts"]
    output = commands.ok("fairseq-interactive", data / "data", *PLUGIN, *read)
    said = [re.findall(rf"^H-{i}\t\S+\t(.*)$", output, re.M)[0].split() for i in range(3)]
    assert said[1] == said[2] and any(word in WORDS["sports"] for word in said[0])


def test_the_hub_takes_a_context_for_each_line_or_one_for_all(data, model):
    hub, sports, arts = load(str(model), str(data / "data")), {"topic": "sports"}, {"topic": "arts"}
    lines, contexts = ["the", "dog runs", "green", "blue red big", "cat sat"], [sports, arts, arts, sports, arts]

    def best(lines, context):
        found = hub.generate([hub.encode(line) for line in lines], beam=3, max_len_b=8, context=context, nbest=2)
        return [[(hypo["tokens"].tolist(), pytest.approx(float(hypo["score"]), abs=1e-5)) for hypo in hypos] for hypos in found]

    assert best(lines, contexts) == [best([line], context)[0] for line, context in zip(lines, contexts, strict=True)]
    for wrong, message in (
        ([], "expected {NAME: VALUE, ...} for all lines, or a list with one for each"),
        (3, "expected {NAME: VALUE, ...} for all lines"),
        ([sports, arts, sports], "3 contexts for 2 lines: expected one for each, or one for all"),
    ):
        for ask in (hub.sample, hub.score):
            with pytest.raises(OptionError, match=re.escape(message)):
                ask(["the", "the"], context=wrong)
    hub.score("the", context=sports)
    for ask in (hub.score, lambda text: hub.models[0](hub.encode(text).unsqueeze(0))):  # the last batch's is forgotten
        with pytest.raises(OptionError, match="in Python, context="):
            ask("the")


def test_a_line_that_is_a_whole_text_is_gone_on_from(commands, data, model, tmp_path):
    (tmp_path / "one.txt").write_text("the dog\n")
    (tmp_path / "one.tsv").write_text("topic\tyear\nsports\t1991\n")
    text = ["--test", tmp_path / "one.txt", "--context-test", tmp_path / "one.tsv", "--context-numeric", "year"]
    commands.preprocess("--vocabulary-from", data / "data", *text, "--lexicon-path", "none", "--dest", tmp_path / "one")
    options = ["--path", model, "--beam", "2", "--max-len-b", "8"]
    found = [
        re.findall(r"^H-0\t.*$", commands.ok("fairseq-generate", tmp_path / "one", *PLUGIN, *options, *more), re.M)
        for more in ([], ["--sample-break-mode", "eos"])
    ]
    assert found[0] == found[1] and len(found[0]) == 1


def test_a_typed_line_without_a_context_is_refused_whatever_comes_with_it(commands, data, model):
    typed = data / "some.txt"
    typed.write_text("topic=sports\tthe\nthe dog\n")
    for size in ("1", "2"):
        read = ["--input", typed, "--buffer-size", size, "--path", model, "--beam", "1", "--max-len-b", "8"]
        output = commands.fails("fairseq-interactive", data / "data", *PLUGIN, *read)
        assert "'the dog': expected NAME=VALUE,... and a tab before it, or --context for such lines" in output


def test_a_model_that_reads_no_contexts(commands, ours, data, tmp_path):
    """It says that a text's are not read, and refuses one that is given."""
    trained = commands.train(data / "data", tmp_path, "--output-head", "tied", "--max-update", "2")
    assert "train: the contexts of its lines are not read (--context-dim 0)" in trained
    refused, nothing = "--context topic=sports: this model reads none", "--context-threshold does nothing without --context-dim"
    for option, value, said in (("--context", "topic=sports", refused), ("--context-threshold", "2", nothing)):
        assert said in commands.fails(
            "fairseq-train", data / "data", *PLUGIN, "--arch", "groc_lstm_lm_small", "--output-head", "tied", "--batch-size", "2",
            "--optimizer", "sgd", "--lr", "1", "--max-update", "1", "--save-dir", tmp_path / "not", option, value,
        )  # fmt: skip
    given = ["--path", tmp_path / "checkpoint_last.pt", "--data", data / "data", "--context", "topic=sports"]
    for command in (["evaluate"], ["score", data / "other.txt"], ["tune", "--split", "valid"]):
        assert refused in ours(*command, *given, code=1)
    fields = ["--field", "1", "--context-fields", "topic=1"]
    printed = ours("score", data / "other.txt", *given[:-2], *fields, code=1)
    assert printed == "error: --context-fields: this model reads no contexts (--context-dim 0). Leave it out.\n"
    assert refused in commands.fails("fairseq-eval-lm", data / "data", *PLUGIN, *given[:2], *given[4:])


def test_models_that_number_contexts_in_other_ways_are_no_ensemble(commands, data, model, tmp_path):
    if "groc" in model.parent.name:
        pytest.skip("whatever the head")
    same = ["--output-head", "tied", "--context-dim", "2", "--max-update", "2", "--no-epoch-checkpoints"]
    for name, options in (("alike", []), ("other", ["--context-variables", "topic"])):
        commands.train(data / "data", tmp_path / name, *same, *options)
    lines = ["--sample-break-mode", "eos", "--batch-size", "4", "--beam", "2", "--max-len-b", "4"]
    paths = {name: f"{model}:{tmp_path / name / 'checkpoint_last.pt'}" for name in ("alike", "other")}
    assert commands.ok("fairseq-generate", data / "data", *PLUGIN, "--path", paths["alike"], *lines).count("\nH-") == 40
    output = commands.fails("fairseq-generate", data / "data", *PLUGIN, "--path", paths["other"], *lines)
    assert "the models of an ensemble have numbered contexts each in its own way" in output


def test_topics_are_guessed(ours, data, model, tmp_path):
    out = tmp_path / "classified.json"
    printed = ours(
        "classify",
        "--path",
        model,
        "--data",
        data / "data",
        "--variable",
        "topic",
        "--baseline",
        "--calibrate",
        "valid",
        "--out",
        out,
    )
    found = json.loads(out.read_text())
    assert found["accuracy"] > 0.9 and found["lines"] == 40 and "naive Bayes" in printed
    assert sum(map(sum, found["confusion"])) == 40
    right = sum(guess == label for guess, label in zip(found["guesses"], found["labels"], strict=True))
    assert right == round(40 * found["accuracy"])
    hub, texts = load(str(model), str(data / "data")), (data / "test.txt").read_text().splitlines()[:3]
    years = [row.split("\t")[1] for row in (data / "test.tsv").read_text().splitlines()[1:4]]
    for place, topic in enumerate(found["values"]):  # Bayes' rule has what every other door gives
        scores = hub.score(texts, context=[{"topic": topic, "year": year} for year in years])
        expected = [float(one["positional_scores"].sum()) for one in scores]
        assert [line[place] for line in found["likelihoods"][:3]] == pytest.approx(expected, abs=1e-4)
    sports, empty = make(tmp_path / "sports", 20, 5, topics=("sports",)), make(tmp_path / "empty", 20, 5)
    empty.with_suffix(".txt").write_text("\n" * 20)
    for made in (sports, empty):
        one, texts = tmp_path / f"{made.name}-data", [("train", made), ("test", data / "test")]
        given = [part for split, path in texts for part in (f"--{split}", f"{path}.txt", f"--context-{split}", f"{path}.tsv")]
        known = ["--known", data / "data", "--vocabulary", data / "data" / "dict.txt", "--lexicon-path", "none"]
        ours("preprocess", *given, *known, "--context-numeric", "year", "--dest", one)
        refused = ours("classify", "--path", model, "--data", one, "--variable", "topic", "--baseline", code=1)
        assert f"--baseline: the lines of 'train' in {one} have fewer than two values of topic, or no words" in refused
    refused = ours("classify", "--path", model, "--data", data / "data", "--variable", "year", code=1)
    assert "this model's contexts have topic" in refused
    table = tmp_path / "candidates.tsv"
    table.write_text("topic\tyear\nsports\t1995\narts\t1995\n")
    ours("classify", "--path", model, "--data", data / "data", "--variable", "topic", "--candidates", table, "--out", out)
    assert json.loads(out.read_text())["accuracy"] > 0.9
    genres = {"topic": "genre", "sports": "ball", "arts": "stage"}  # of a variable that the model does not have
    rows = [row.split("\t") for row in (data / "test.tsv").read_text().splitlines()]
    (tmp_path / "genres.tsv").write_text("".join(f"{genres[topic]}\t{year}\n" for topic, year in rows))
    given = ["--test", data / "test.txt", "--context-test", tmp_path / "genres.tsv", "--context-numeric", "year"]
    ours("preprocess", *given, "--vocabulary-from", data / "data", "--lexicon-path", "none", "--dest", tmp_path / "genres")
    table.write_text("genre\ttopic\nball\tsports\nstage\tarts\n")
    where = ["--path", model, "--data", tmp_path / "genres", "--variable", "genre", "--candidates", table]
    ours("classify", *where, "--out", tmp_path / "genres.json")
    guessed = json.loads((tmp_path / "genres.json").read_text())
    assert guessed["accuracy"] > 0.9 and sum(map(sum, guessed["confusion"])) == 40
    table.write_text("town\nthere\n")
    refused = ours("classify", "--path", model, "--data", data / "data", "--variable", "topic", "--candidates", table, code=1)
    assert "expected columns topic and variables" in refused
    for rows in ("", "sports\t1995\n", "sports\t1995\nsports\t1996\n", "sports\t1995\n\t1995\n"):
        table.write_text(f"topic\tyear\n{rows}")
        refused = ours("classify", "--path", model, "--data", data / "data", "--variable", "topic", "--candidates", table, code=1)
        assert "expected two or more values of topic to guess, each in a row of its own" in refused


def test_finetuning_on_one_new_value(commands, ours, data, model, tmp_path):
    """Values that the text lacks stay known, whatever the order of columns and though a number does not vary."""
    made = make(tmp_path / "train", 100, 7, ("sports",))
    made.with_suffix(".tsv").write_text("year\ttopic\n" + "1999\tmusic\n" * 100)
    options = [part for split in ("train", "valid") for part in (f"--{split}", made.with_suffix(".txt"))]
    options += [part for split in ("train", "valid") for part in (f"--context-{split}", made.with_suffix(".tsv"))]
    known = ["--vocabulary-from", data / "data", "--lexicon-path", "none", "--context-numeric", "year"]
    commands.preprocess(*options, *known, "--dest", tmp_path / "d")
    head = next(options for name, options in HEADS.items() if name in str(model.parent.name))
    more = ["--lexicon-parts", "none"] if "groc" in str(model.parent.name) else []
    finetune = [*head, *KNOWS, *more, "--finetune-from-model", model]
    commands.train(tmp_path / "d", tmp_path / "s", *finetune, "--max-update", "6")
    commands.train(tmp_path / "d", tmp_path / "still", *finetune, "--max-update", "1", "--lr", "0")

    def figure(path, context):
        return figure_of(ours, path, tmp_path / "d", tmp_path / "r.json", "--split", "valid", "--context", context)

    still, learned = (tmp_path / name / "checkpoint_best.pt" for name in ("still", "s"))
    for known in ("topic=sports,year=1999", "topic=arts"):  # a value's vector has come along by its name
        assert figure(still, known) == pytest.approx(figure(model, known), rel=1e-5)
    assert figure(learned, "topic=music,year=1999") < figure(still, "topic=music,year=1999")


RUNNING = "--prefix-encoder factor_cell --context-dim 4 --context-adaptation factor --context-rank 2 --lexicon-parts none".split()


@pytest.mark.parametrize("bias, lines", [("rows", []), ("shift", ["--sample-break-mode", "eos"])])
def test_two_workers_equal_one_and_resume(commands, data, tmp_path, bias, lines):
    """On running text, where lines with other contexts follow each other in a stream, and on lines by themselves."""
    options = ["--context-bias", bias, *lines, *RUNNING, "--save-interval-updates", "4", "--max-update", "10"]
    options += ["--dropout", "0", "--dropout-in", "0", "--optimizer", "sgd", "--lr", "0.1", "--update-freq", "2"]
    commands.train(data / "data", tmp_path / "one", *options, "--batch-size", "4")
    two_workers(data / "data", tmp_path / "two", *options, "--batch-size", "2")
    single, double = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max((single[name] - double[name]).abs().max() for name in single if name != SHIFT) <= 1e-6
    as_killed(tmp_path / "resumed", next((tmp_path / "two").glob("checkpoint_*_4.pt")))
    output = two_workers(data / "data", tmp_path / "resumed", *options, "--batch-size", "2")
    resumed = weights(tmp_path / "resumed")
    assert "no state is carried" not in output and all(torch.equal(double[name], resumed[name]) for name in double)


def boosted_alone(ours, where, folder):
    ours("boosted", *where, "--contexts", "topic=sports", "--top", "8", "--out", folder / "boosted.json")
    assert (folder / "boosted.png").exists()
    return folder / "boosted.json"


def gains_by_hand(decoder):
    """Return what topic=sports adds to each word's score more than to the mean one's, of the year that is known of nothing."""
    embedding, layers = decoder.contexts.embedding, decoder.contexts
    with torch.no_grad():
        c = embedding(torch.tensor([[1 + embedding.variables[0].values.index("sports")], [0]]), torch.full((2, 1), math.nan))
        outputs = decoder.matrices()[1]
        rows = outputs[:, -layers.embedding.dim :] if layers.appended else outputs @ layers.shift.weight
        gains = rows @ (c[0] - c[1])
        gains -= gains[[symbol[0] != "<" and "madeup" not in symbol for symbol in decoder.dictionary.symbols]].mean()
    return dict(zip(decoder.dictionary.symbols, gains.tolist(), strict=True))


def test_other_commands_read_contexts(ours, data, model, tmp_path):
    where = ["--path", model, "--data", data / "data"]
    shown = ours("boosted", *where, "--contexts", "topic=sports", "topic=arts", "--top", "3")
    for line, topic in zip(shown.splitlines(), ("sports", "arts"), strict=True):
        assert line.startswith(f"topic={topic}: ") and all(w.split()[0] in WORDS[topic] for w in line.split(": ")[1].split(", "))
    words = {word.split()[0]: float(word.split()[1]) for word in shown.splitlines()[0].split(": ")[1].split(", ")}
    alone = json.loads(boosted_alone(ours, where, tmp_path).read_text())["contexts"]["topic=sports"]
    assert {one["word"]: pytest.approx(one["gain"], abs=0.006) for one in alone[:3]} == words  # whatever else is listed
    decoder = load(str(model), str(data / "data")).models[0].decoder
    expected = gains_by_hand(decoder)
    assert {one["word"]: pytest.approx(one["gain"], abs=1e-4) for one in alone} == {
        one["word"]: expected[one["word"]] for one in alone
    }
    measured = ours("boosted", *where, "--measured", "--contexts", "topic=sports", "missing", "--min-count", "2")
    assert measured.splitlines()[1] == "missing: no word"  # against itself
    seldom = ours("boosted", *where, "--measured", "--contexts", "topic=sports", "--min-count", "1000", code=1)
    assert "no word gains in them" in seldom
    text = tmp_path / "lines.txt"
    text.write_text("the dog zigzags\nred green\n")
    (tmp_path / "page.html").write_text("the dog\n")
    given = ["--between", "topic=sports", "topic=arts", *where, "--out", tmp_path / "page.json"]
    error = f"error: --out {tmp_path / 'page.json'} would overwrite {tmp_path / 'page.html'}: give another name\n"
    assert ours("likelihood-ratio", tmp_path / "page.html", *given, code=1) == error
    ratio = ["likelihood-ratio", text, "--between", "topic=sports", "topic=arts", *where]
    ours(*ratio, "--more-paths", model, "--out", tmp_path / "ratios.json")
    found = json.loads((tmp_path / "ratios.json").read_text())
    assert len(found["ratios"]) == 1  # a checkpoint counts once
    assert found["words"] == ["the", "dog", "zigzags", "</s>", "red", "green", "</s>"]
    between = [{"topic": topic} for topic in ("sports", "arts")]
    hub = load(str(model), str(data / "data"))
    if "groc" in model.parent.name:
        hub.models[0].add_words(["zigzags"])
    one, other = (hub.score("the dog zigzags", context=context)["positional_scores"] for context in between)
    assert next(iter(found["ratios"].values()))[:4] == pytest.approx((one - other).tolist(), abs=1e-4)
    ratios = dict(zip(found["words"], next(iter(found["ratios"].values())), strict=True))
    assert ratios["dog"] > 0 > ratios["green"] and (tmp_path / "ratios.html").exists() and (tmp_path / "ratios.png").exists()
    assert "sports: arts" in ours("contexts", *where, "--variable", "topic", "--out", tmp_path / "map.json")
    ours("export", tmp_path / "words.txt", *where)
    embeddings = load(str(model), str(data / "data")).models[0].decoder.embed_tokens.embedding_dim
    assert (tmp_path / "words.txt").read_text().split()[1] == str(embeddings)  # without what meets contexts
    tuned = ours("tune", *where, "--split", "valid", "--weights", "0.1", "--thetas", "0.3", "--no-store")
    assert "local_weight" in tuned or "local-weight" in tuned


def test_words_without_a_row_are_not_boosted(commands, ours, data, model, tmp_path):
    if "groc" in model.parent.name:
        pytest.skip("every word has an embedding")
    (tmp_path / "new.txt").write_text("zigzags the dog\n")
    text = ["--vocabulary-from", data / "data", "--test", tmp_path / "new.txt", "--lexicon-path", "none"]
    commands.preprocess(*text, "--dest", tmp_path / "new")
    where = ["--path", model, "--data", tmp_path / "new", "--split", "test", "--context", "missing"]
    shown = ours("boosted", *where, "--contexts", "topic=sports", "topic=arts", "--top", "50")
    assert "dog" in shown and "nan" not in shown and "zigzags" not in shown
    refused = ours("boosted", *where[:-1], "topic=arts", "--contexts", "topic=sports", "topic=arts", code=1)
    assert refused == "error: --context topic=arts: --contexts says which are compared. Leave it out, or give missing.\n"


def test_a_vector_learns_from_a_text_without_contexts(ours, data, model, tmp_path):
    make(data / "sports", 60, 9, ("sports",))
    text = tmp_path / "text"
    options = ["--vocabulary-from", data / "data", "--test", data / "sports.txt", "--lexicon-path", "none"]
    ours("preprocess", *options, "--dest", text)
    known = ["--path", model, "--data", data / "data", "--dynamic-parameters", "context", "--dest", tmp_path]
    ours("gradient-statistics", *known, "--streams", "4")
    scored = ["evaluate", "--path", model, "--data", text, "--context", "missing"]
    learns = [
        "--dynamic-rate",
        "0.02",
        "--dynamic-decay",
        "0",
        "--dynamic-parameters",
        "context",
        "--dynamic-statistics",
        tmp_path,
    ]
    found = []
    for name, more in (("fixed", []), ("learns", learns)):
        ours(*scored, *more, "--out", tmp_path / f"{name}.json")
        found.append(json.loads((tmp_path / f"{name}.json").read_text())["all"]["perplexity"])
    assert found[1] < 0.97 * found[0]


def test_an_open_vocabulary_in_context(ours, data, model, tmp_path):
    if "groc" not in model.parent.name:
        pytest.skip("a row for every word")
    text = tmp_path / "lines.txt"
    text.write_text("the dog zigzags\nthe zigzags sat\n")
    where = ["--path", model, "--data", data / "data", "--open-vocabulary", "--lexicon-path", "none"]
    scores = [ours("score", text, *where, "--context", f"topic={topic}") for topic in ("sports", "arts")]
    first, second = ([float(line.split("\t")[0]) for line in part.splitlines()] for part in scores)
    assert sum(first) > sum(second)
    pairs = tmp_path / "lines.tsv"
    own = ["--field", "2", "--context-fields", "topic=1"]
    for topics in (("sports", "arts"), ("arts", "sports")):
        lines = zip(topics, text.read_text().splitlines(), strict=True)
        pairs.write_text("".join(f"{topic}\t{line}\n" for topic, line in lines))
        expected = (first[0], second[1]) if topics[0] == "sports" else (second[0], first[1])
        assert scores_of(ours("score", pairs, *where, *own)) == pytest.approx(expected, abs=1e-4)
    pairs.write_text("".join(f"sports\t{line}\n" for line in text.read_text().splitlines()))
    running = ours("score", text, *where, "--running", "--context", "topic=sports")
    assert scores_of(ours("score", pairs, *where, "--running", *own)) == scores_of(running) != first
    pairs.write_text("sports\tthe dog\nsports\n")
    refused = ours("score", pairs, *where, *own, code=1)
    assert f"error: {pairs}:2: 1 tab-separated fields, --field 2 asked for\n" in refused


def test_a_map_of_values_by_what_a_table_says_of_them(ours, data, model, tmp_path, monkeypatch):
    if "groc" in model.parent.name:
        pytest.skip("whatever the head")
    drawn = []
    monkeypatch.setattr(contexts, "draw_map", lambda *given: drawn.append(given) or draw_map(*given))
    table = tmp_path / "kinds.tsv"
    table.write_text("kind\ttopic\nbody\tsports\nmind\tchess\n")
    command = ["contexts", "--path", model, "--data", data / "data", "--variable", "topic", "--out", tmp_path / "map.json"]
    ours(*command, "--group-by", f"{table}:kind")
    ((_, names, picture, groups),) = drawn
    assert dict(zip(names, groups, strict=True)) == {"sports": "body", "arts": ""} and picture.stat().st_size > 1000
    assert json.loads(picture.with_suffix(".json").read_text())["groups"] == {"sports": "body"}
    (tmp_path / "two.tsv").write_text("kind\ttopic\nbody\tsports\nmind\tsports\n")
    (tmp_path / "none.tsv").write_text("kind\ttopic\nbody\tchess\n")
    for given, message in (
        (f"{table}:colour", f"{table} has no column colour. It has kind, topic."),
        ("kind", "--group-by kind: expected FILE:COLUMN"),
        (f"{tmp_path}/two.tsv:kind", "two.tsv:kind: 'sports' is in 'body' and in 'mind'"),
        (f"{tmp_path}/none.tsv:kind", "none.tsv:kind: none of the model's values of topic, such as "),
    ):
        refused = ours(*command, "--group-by", given, code=1)
        assert message in refused and refused.count("\n") == 1
    assert "--group-by: groups are drawn in the picture" in ours(*command[:-2], "--group-by", f"{table}:kind", code=1)
