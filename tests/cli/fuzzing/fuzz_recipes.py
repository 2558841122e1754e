"""What is fuzzed: commands over a small folder of every kind of file that they read."""

import gzip
import json
import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from cli_helpers import COMPOSED, PLUGIN, ROOT, TRAINING

from fairseq_groc.adapters import OPTIONS
from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModelConfig
from fairseq_groc.registry import flag
from fairseq_groc.tasks.config import WordnetLexiconConfig

LEXICON = "--lexicon-path lexicon.tsv"
MODEL = "--path model.pt --data data"
EVERY_CACHE = "--local-weight 0.1 --unigram-weight 0.1 --unbounded-weight 0.1 --uniform-weight 0.05 --cache-text remembered"


@dataclass(frozen=True)
class Recipe:
    """A command, run in the folder.

    Args:
        typed: after ``python -m fairseq_groc``, or from ``fairseq-`` on
        reads: patterns of what it reads, below the folder
        writes: patterns of what it may change or make there
        numbers: options that take one, beside those that the command's parser says
        stdin: what it is given on the standard input
        figures: pattern of the results in its output; empty: all of it
    """

    typed: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ("out*",)
    numbers: tuple[str, ...] = ()
    stdin: str = ""
    figures: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.typed.split())

    @property
    def command(self) -> str:
        return self.words[0]


def own_fields():
    """Return the fields of the task's and the model's options that training takes."""
    found = (*fields(WordnetLexiconConfig), *fields(GrocLSTMLanguageModelConfig))
    return {field.name: field for field in found if field.name not in OPTIONS and field.name != "seed"}.values()


DATA = ("data/dict.txt", "data/lexicon-tables*", "data/lexicon-tables/*", "data/binarised.json", "data/adapters.json")
VALID = (*DATA, "data/valid.bin", "data/valid.idx", "model.pt")
SCORE = (*DATA, "model.pt", "text.txt")
SPLIT = f"{MODEL} --split valid"
KNOWN = "--path known.pt --data known"
IN_CONTEXT = ("known/valid.contexts", "known/valid.bin")
PREPARED = ("--threshold", "--max-relations", "--max-definition", "--keep-entries")
PREPROCESS = f"preprocess --train text.txt --valid text.txt --dest dest {LEXICON}"
CONTEXTS = f"{PREPROCESS} --context-train topics.tsv --context-valid topics.tsv --context-numeric year --context-cyclic hour:24"
FROM = f"preprocess --vocabulary-from data --test text.txt --dest dest {LEXICON}"
SLICE = "preprocess --dataset news-2007 --from sources --dest out --lexicon-path none --tokens 30,20,20"
# not those that are a user's own
DEST = ("dest/train.*", "dest/valid.*", "dest/lexicon-tables*", "dest/dict.txt", "dest/binarised.json", "dest/*.log", "dest/.*")
ARRAYS = ("dest/*.contexts",)
LOGGED = r"(?:loss|ppl|Evaluated|Perplexity:) ([\d.,]+\d)"
RECIPES: dict[str, Recipe] = {
    "user-dir": Recipe("user-dir"),
    "presets": Recipe("presets"),
    "presets-yaml": Recipe("presets groc_lstm_lm_small --yaml"),
    "preprocess": Recipe(PREPROCESS, ("text.txt", "lexicon.tsv"), DEST, PREPARED),
    "preprocess-contexts": Recipe(CONTEXTS, ("text.txt", "topics.tsv"), (*DEST, *ARRAYS)),
    "preprocess-from": Recipe(FROM, ("text.txt", "lexicon.tsv", "data/dict.txt", "data/binarised.json"), DEST),
    "preprocess-list": Recipe(
        f"preprocess --vocabulary words.txt --test text.txt --dest dest {LEXICON}",
        ("text.txt", "words.txt"),
        (*DEST, "dest/test.*"),
    ),
    "slice": Recipe(SLICE, ("sources/*",), ("out*",), ("--tokens",)),
    "tables": Recipe(f"tables data {LEXICON}", ("data/dict.txt", "lexicon.tsv"), ("data/*lexicon-tables*",)),
    "tables-jsonl": Recipe("tables data --lexicon-path lexicon.jsonl", ("lexicon.jsonl",), ("data/*lexicon-tables*",)),
    "tables-tab": Recipe("tables data --lexicon-path omw:wn.tab", ("wn.tab",), ("data/*lexicon-tables*",)),
    "tables-forms": Recipe(f"tables data {LEXICON} --forms-from forms.txt", ("forms.txt",), ("data/*lexicon-tables*",)),
    "explain": Recipe(f"explain cat dog {LEXICON} --out out.json", ("lexicon.tsv",)),
    "score": Recipe(f"score text.txt {MODEL}", SCORE),
    "score-raw": Recipe(f"score text.txt {MODEL} --tokenize en --lower", ("text.txt",)),
    "score-tied": Recipe("score text.txt --path tied.pt --data data", (*DATA, "tied.pt", "text.txt")),
    "score-caches": Recipe(f"score text.txt {MODEL} --running {EVERY_CACHE}", ("remembered/*", "text.txt")),
    "score-open": Recipe(f"score - {MODEL} --open-vocabulary {LEXICON}", SCORE, numbers=("--new-word-mass",), stdin="text.txt"),
    "score-limit": Recipe(f"score text.txt {MODEL} --limit-vocabulary limit.txt {LEXICON}", ("limit.txt", "lexicon.tsv")),
    "score-field": Recipe(f"score nbest.txt {MODEL} --field 2", ("nbest.txt",)),
    "score-contexts": Recipe(
        f"score lines.tsv {KNOWN} --field 2 --context-fields topic=1,year=3 --context hour=3", ("lines.tsv", "known.pt")
    ),
    "rescore": Recipe(f"rescore list.txt {MODEL} --out out.tsv --scores out.txt", ("list.txt", *SCORE[:-1])),
    "rescore-tune": Recipe(
        f"rescore list.txt {MODEL} --tune said.txt --tune-ids ids.txt --add-words {LEXICON} --out out.tsv",
        ("list.txt", "said.txt", "ids.txt"),
    ),
    "evaluate": Recipe(f"evaluate {SPLIT} --streams 2 --verify-normalization 2 --out out.json", VALID),
    "evaluate-caches": Recipe(f"evaluate {SPLIT} {EVERY_CACHE}", ("remembered/*", "data/valid.*")),
    "tune": Recipe(
        f"tune {SPLIT} --weights 0.1 --thetas 0.3 --out out.json", VALID, ("out*", "data/adapters.json", "data/.adapters.json*")
    ),
    "remember": Recipe(f"remember out {SPLIT}", VALID),
    "remember-on": Recipe(f"remember remembered {MODEL}", ("remembered/*", "data/train.*"), ("remembered/.lock",)),
    "gradient-statistics": Recipe(
        f"gradient-statistics {MODEL} --streams 3 --max-batches 2 --dest gradients",
        (*DATA, "model.pt", "data/train.bin", "data/train.idx"),
        ("gradients/*",),
    ),
    "evaluate-learning": Recipe(
        f"evaluate {SPLIT} --dynamic-rate 0.001 --dynamic-statistics gradients", ("gradients/*", "data/valid.*")
    ),
    "ngram": Recipe(
        "ngram --data data --order 3 --dest out --arpa out.arpa",
        ("data/dict.txt", "data/binarised.json", "data/train.*", "data/valid.*"),
    ),
    "evaluate-ngram": Recipe(f"evaluate {SPLIT} --ngram-weight 0.3 --ngram-path ngram", ("ngram/*", "data/valid.*")),
    "export": Recipe(f"export out.txt {MODEL}", (*DATA, "model.pt")),
    "evaluate-texts": Recipe(f"evaluate {MODEL} --split a=valid b=valid --losses out.tsv --out out.json", VALID),
    "compare": Recipe(
        "compare ours.losses --against theirs.losses --resamples 200 --out out.json", ("ours.losses", "theirs.losses")
    ),
    "curves": Recipe("curves simple.log json.log --out out.png", ("simple.log", "json.log")),
    "curves-seconds": Recipe("curves simple.log --x seconds --out out.png", ("simple.log",)),
    "frequency-bins": Recipe(
        "frequency-bins --path model.pt --baselines tied=tied.pt --data data --split valid --out out.json",
        (*VALID, "tied.pt", "data/train.bin", "data/train.idx"),
    ),
    "coverage": Recipe(f"coverage {SPLIT} --shares 0 1 {LEXICON} --out out.json", (*VALID, "lexicon.tsv")),
    "nearest": Recipe(f"nearest cat zebra {MODEL} {LEXICON} --out out.json", (*DATA, "model.pt", "lexicon.tsv")),
    "classify": Recipe(f"classify {KNOWN} --variable topic --calibrate valid --out out.json", IN_CONTEXT),
    "boosted": Recipe(f"boosted {KNOWN} --contexts topic=sports topic=world,year=1990 --out out.json", (*IN_CONTEXT, "known.pt")),
    "boosted-measured": Recipe(f"boosted {KNOWN} --measured --min-count 1 --contexts topic=sports missing", IN_CONTEXT),
    "likelihood-ratio": Recipe(
        f"likelihood-ratio text.txt --between topic=sports topic=world {KNOWN} --out out.json", ("text.txt", "known.pt")
    ),
    "contexts": Recipe(f"contexts {KNOWN} --variable topic --group-by kinds.tsv:kind --out out.json", ("kinds.tsv", "known.pt")),
    "evaluate-context": Recipe(f"evaluate {KNOWN} --split valid --sample-break-mode eos", IN_CONTEXT),
    "training-speed": Recipe(
        "training-speed --data data --models a=groc_lstm_lm_ptb_tied --updates 3 --rounds 1", DATA[:1], figures=r"^a +([\d,]+)"
    ),
    "eval-lm": Recipe(
        f"fairseq-eval-lm data {' '.join(PLUGIN)} --path model.pt --gen-subset valid --num-workers 0 {EVERY_CACHE}",
        (*VALID[:-1], "remembered/*"),  # not the checkpoint: fairseq and PyTorch read it before anything of ours
        numbers=tuple(flag(name) for name in OPTIONS),
        figures=LOGGED,
    ),
    "train": Recipe(
        f"fairseq-train data {' '.join([*PLUGIN, *COMPOSED, *TRAINING])} --max-update 2 --save-dir out --no-epoch-checkpoints",
        ("data/train.*", *VALID[:-1]),
        numbers=tuple(flag(field.name) for field in own_fields() if field.type in (int, float)),
        figures=LOGGED,
    ),
}


def make_world(folder: Path, corpus: Path, models: dict[str, Path], commands) -> Path:
    """Fill the folder and return it."""
    data = folder / "data"
    shutil.copytree(corpus / "data", data, ignore=shutil.ignore_patterns("valid1*", "*.log"))
    shutil.copytree(data, folder / "dest")
    for name in ("testimony.bin", "validation.idx", "mine.txt"):
        (folder / "dest" / name).write_text("a user's own\n")
    shutil.copy(models["compositional_output"], folder / "model.pt")
    shutil.copy(models["tied"], folder / "tied.pt")
    shutil.copy(models["tied"].parent / "train.log", folder / "simple.log")
    steps = [{"valid_loss": 4.5 - n, "valid_ppl": f"{2 ** (4.5 - n):.2f}", "valid_num_updates": str(n)} for n in (1, 2, 3)]
    (folder / "json.log").write_text("".join(f"2020-01-01 | INFO | valid | {json.dumps(step)}\n" for step in steps))
    rows = [line.split("\t") for line in (ROOT / "tests/fixtures/mini.tsv").read_text(encoding="utf-8").splitlines()]
    entries = [{"word": word, "relations": relations.split(), "definition": gloss} for word, relations, gloss in rows]
    shutil.copy(ROOT / "tests/fixtures/mini.tsv", folder / "lexicon.tsv")
    (folder / "lexicon.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    senses = {"kitty": "02121620", "cat": "02121620", "dog": "02084071", "puppy": "01322604"}  # of WordNet 3.0
    lines = [f"{number}-n\teng:lemma\t{word}\n" for word, number in senses.items()]
    (folder / "wn.tab").write_text("".join(["# Mini\teng\n", *lines]))
    text = "the cat sat on the mat\nthe zebra ran\n\na young dog barked under the old tree\nthe zebra sat\n"
    (folder / "text.txt").write_text(text)
    contexts = "topic year hour/sports 1990 3/world 2000 12/- 1980 23/sports - -/world 1990 0/"
    (folder / "topics.tsv").write_text(contexts.replace(" ", "\t").replace("/", "\n").replace("-", ""))
    (folder / "kinds.tsv").write_text("kind\ttopic\nbody\tsports\nmind\tworld\n")
    topics = [
        "--context-train",
        folder / "topics.tsv",
        "--context-valid",
        folder / "topics.tsv",
        "--context-test",
        folder / "topics.tsv",
    ]
    texts = ["--train", folder / "text.txt", "--valid", folder / "text.txt", "--test", folder / "text.txt"]
    numbers = ["--context-numeric", "year", "--context-cyclic", "hour:24", "--lexicon-path", "none"]
    commands.preprocess(*texts, *topics, *numbers, "--dest", folder / "known")
    knows = ["--output-head", "tied", "--context-dim", "2", "--context-bias", "rows", "--batch-size", "2", "--max-update", "2"]
    commands.train(folder / "known", folder / "trained", *knows, "--no-epoch-checkpoints")
    shutil.move(folder / "trained" / "checkpoint_last.pt", folder / "known.pt")
    shutil.rmtree(folder / "trained")
    (folder / "nbest.txt").write_text("".join(f"0\t{line}\tx\n" for line in text.splitlines()))
    (folder / "lines.tsv").write_text("".join(f"world\t{line}\t199{i}\n" for i, line in enumerate(text.splitlines())))
    said = [line for line in text.splitlines() if line]
    hypotheses = "".join(f"u{i}\t{line}\t-1.5\nu{i}\t{line} mat\t-1\n" for i, line in enumerate(said))
    (folder / "list.txt").write_text(f"id\ttext\tacoustic\n{hypotheses}")
    (folder / "said.txt").write_text("".join(f"u{i}\t{line}\n" for i, line in enumerate(said)))
    (folder / "ids.txt").write_text("u0\nu1\nu2\n")
    (folder / "limit.txt").write_text("the 9\ncat 3\nsat 3\nhound 1\n")
    (folder / "words.txt").write_text("the\ncat\nsat\nhound\n")
    (folder / "forms.txt").write_text("kitty 2\nfast 1\nfoot 1\nhound 1\n")
    (folder / "sources").mkdir()
    with gzip.GzipFile(folder / "sources" / "news.2007.en.shuffled.gz", "wb", mtime=0) as file:
        file.write((text * 8).encode())
    groc = ["python", "-m", "fairseq_groc"]
    where = ["--path", folder / "model.pt", "--data", data]
    commands.ok(*groc, "remember", folder / "remembered", *where, "--split", "train")
    (folder / "gradients").mkdir()
    gradients = ["--streams", "3", "--max-batches", "9", "--dest", folder / "gradients"]
    commands.ok(*groc, "gradient-statistics", *where, *gradients)
    commands.ok(*groc, "ngram", "--data", data, "--order", "3", "--dest", folder / "ngram")
    for name, model in (("ours", "model.pt"), ("theirs", "tied.pt")):
        losses = ["--split", "valid", "--losses", folder / f"{name}.losses"]
        commands.ok(*groc, "evaluate", "--path", folder / model, "--data", data, *losses)
    commands.ok(*groc, "tune", *where, "--weights", "0.1", "--thetas", "0.3")
    for lock in folder.rglob(".*lock"):
        lock.unlink()
    return folder
