"""A trained model in a program: quiet, with the figures of score, in processes; and words that doors read as <unk> by name."""

import concurrent.futures
import logging
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import PLUGIN, environment
from test_open_vocabulary import LEXICON, rows_of

import fairseq_groc
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.loading import load
from fairseq_groc.lexicon import FileLexicon
from fairseq_groc.logs import LIBRARIES, quiet_libraries

LINES = ["the cat sat", "", "the dog saw a hound", "the cat sat on the mat"]


@pytest.fixture
def scorer(corpus, models):
    return fairseq_groc.load(models["compositional_output"], corpus / "data", lexicon_path=str(LEXICON[1]))


def test_nothing_is_said_below_a_warning(corpus, models):
    """Not even where the program's own logs are talkative."""
    program = (
        "import logging; logging.basicConfig(level=logging.INFO); import fairseq_groc; "
        f"scorer = fairseq_groc.load({str(models['tied'])!r}, {str(corpus / 'data')!r}); "
        "scorer.score(['the cat sat'], vocabulary=['the', 'cat']); scorer.stream().score('the'); "
        "scorer.score(['the okapi sat', 'okapi'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert done.stderr.count("\n") == 1 and "WARNING" in done.stderr and "'okapi' is not in the vocabulary" in done.stderr


def test_other_libraries_show_warnings_alone_unless_somebody_asks(monkeypatch):
    loggers = [logging.getLogger(name) for name in LIBRARIES]
    assert all(logger.level == logging.WARNING for logger in loggers)
    for logger, level in zip(loggers, (logging.DEBUG, logging.NOTSET), strict=False):
        monkeypatch.setattr(logger, "level", level)
    quiet_libraries()
    assert [logger.level for logger in loggers[:2]] == [logging.DEBUG, logging.WARNING]


@pytest.mark.parametrize("options", [{}, {"uniform_weight": 0.1, "local_weight": 0.2}])
def test_the_figures_are_those_of_score(ours, corpus, models, options):
    typed = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    for head in ("compositional_output", "tied"):
        where = ["--path", models[head], "--data", corpus / "union"]
        expected = rows_of(ours("score", corpus / "other.txt", *where, *typed))
        scorer = fairseq_groc.load(models[head], corpus / "union", **options)
        found = scorer.score((corpus / "other.txt").read_text(encoding="utf-8").splitlines())
        assert [score.tokens for score in found] == [tokens for _, tokens in expected]
        assert [score.log_probability for score in found] == pytest.approx([score for score, _ in expected], abs=1e-4)
        running = rows_of(ours("score", corpus / "other.txt", "--running", *where, *typed))
        stream = scorer.stream()
        for (score, _), line in zip(running, (corpus / "other.txt").read_text(encoding="utf-8").splitlines(), strict=True):
            assert sum(stream.score([*line.split(), "</s>"])) == pytest.approx(score, abs=2e-4)


def test_an_open_vocabulary_as_score_has_it(ours, corpus, models):
    where = ["--path", models["compositional_output"], "--data", corpus / "data", *LEXICON]
    expected = rows_of(ours("score", corpus / "other.txt", "--open-vocabulary", *where))
    scorer = fairseq_groc.load(*where[1:4:2], open_vocabulary=True, lexicon_path=[str(LEXICON[1])])
    lines = (corpus / "other.txt").read_text(encoding="utf-8").splitlines()
    found = scorer.score(lines[:10]) + pickle.loads(pickle.dumps(scorer)).score(lines[10:])
    assert [score.log_probability for score in found] == pytest.approx([score for score, _ in expected], abs=1e-3)


def figures(scorer, vocabulary):
    """Score lines in another process."""
    return scorer.score(LINES, vocabulary=vocabulary)


def test_processes_get_a_scorer_with_its_words(scorer):
    scorer.add_words(["gnu", "emu"], {"gnu": fairseq_groc.lexicon.Entry((), ("a", "big", "animal"))})
    vocabularies = [None, ["the", "cat", "hound", "okapi"], ["the", "cat", "sat"]]
    expected = [figures(scorer, words) for words in vocabularies]
    again = pickle.loads(pickle.dumps(scorer))
    assert again.words == scorer.words and again.score(["the gnu saw a hound"]) == scorer.score(["the gnu saw a hound"])
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as pool:
        found = list(pool.map(figures, [scorer] * 3, vocabularies))
    for own, theirs in zip(expected, found, strict=True):
        assert [score.log_probability for score in theirs] == pytest.approx([s.log_probability for s in own], abs=1e-5)


def test_a_lexicon_is_found_from_another_folder(corpus, models, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(LEXICON[1]).parent)
    named = ["none", Path(LEXICON[1]).name]
    scorer = fairseq_groc.load(models["compositional_output"], corpus / "data", lexicon_path=named)
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickle.dumps(scorer))
    again.score(["the puppy"], vocabulary=["puppy"])
    assert again.decoder.matrices.added["puppy"].relations


def test_words_of_a_call_come_from_the_data_s_lexicon(scorer):
    scorer.score(["the puppy"], vocabulary=["the", "puppy"])
    assert scorer.decoder.matrices.added == {"puppy": FileLexicon(LEXICON[1]).lookup("puppy", 10, 10)}
    assert scorer.decoder.matrices.added["puppy"].relations


@pytest.mark.parametrize(
    "options, message",
    [
        ({"local_wait": 0.1}, "local_wait: no such option"),
        ({"cpu": True}, "cpu: no such option. There are .*device, context, any_lexicon"),
        ({"tokens_per_sample": 5}, "tokens_per_sample: no such option. There are .*uniform_weight"),
        ({"uniform_weight": "a"}, "--uniform-weight a: expected a number from 0 to below 1"),
        ({"cache_theta": 0.1}, "--cache-theta does nothing without --local-weight"),
        ({"open_vocabulary": True, "new_word_mass": 2}, "--new-word-mass 2: expected adaptive"),
        ({"dynamic_rate": 0.1}, "there are no gradient statistics|gradient-statistics"),
    ],
)
def test_options_that_are_none(corpus, models, options, message):
    with pytest.raises((OptionError, DataError), match=message):
        fairseq_groc.load(models["tied"], corpus / "data", **options)
    with pytest.raises(DataError, match="no such checkpoint"):
        fairseq_groc.load("nowhere.pt", corpus / "data")


def test_a_device_that_is_not_there_is_refused_before_the_work():
    for device in ("cuda:99", "gpu"):
        with pytest.raises(OptionError, match=f"device={device}: not on this machine .*Give 'cpu', or 'cuda'"):
            fairseq_groc.load("nowhere.pt", "DATA", device=device)


def test_the_hub_names_words_that_it_reads_as_unk(corpus, models, caplog):
    hub = load(str(models["tied"]), str(corpus / "data"))
    hub.score(["the okapi sat", "okapi"])
    hub.sample("the okapi gnu", beam=1, max_len_b=5)
    found = [r.getMessage() for r in caplog.records if "read as <unk>" in r.getMessage()]
    assert len(found) == 2 and "'okapi' is not" in found[0] and "'gnu' is not" in found[1] and "add_words" in found[0]


def test_fairseq_s_programs_name_or_count_words_that_they_read_as_unk(commands, corpus, models, tmp_path):
    (tmp_path / "text").write_text("the okapi sat\nthe cat\n")
    beam = ["--path", models["tied"], "--beam", "1", "--max-len-b", "5"]
    lines = ["--sample-break-mode", "eos", "--tokens-per-sample", "40", "--batch-size", "2"]
    output = commands.ok("fairseq-interactive", corpus / "data", *PLUGIN, *beam, "--input", tmp_path / "text")
    assert output.count("'okapi' is not in the vocabulary: read as <unk>") == 1 and output.count("H-") == 2
    (tmp_path / "data").mkdir()
    plain = ["--only-source", "--srcdict", corpus / "data" / "dict.txt", "--testpref", tmp_path / "text", "--workers", "1"]
    commands.ok("fairseq-preprocess", *plain, "--destdir", tmp_path / "data")
    generate = ["fairseq-generate", tmp_path / "data", *PLUGIN, *beam, *lines, "--gen-subset", "test"]
    output = commands.ok(*generate)
    assert output.count("1 of 7 tokens of 'test' are read as <unk>") == 1
