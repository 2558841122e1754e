"""The texts of the papers' tables, binarised, with what a row has of the lexicon; and what an n-gram makes of them."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments import ORDER
from fairseq.data.data_utils import load_indexed_dataset

from fairseq_groc.__main__ import in_process
from fairseq_groc.dictionary import load_dictionary
from fairseq_groc.programs import ROOT, held, run

DOWNLOADED = "downloaded"  # in place of the folder of the text
DATASETS = {"ptb": "ptb", "wikitext2": "wikitext-2"}  # names that preprocess.sh knows, and folders of background.py's --texts


def record_of(args) -> Path:
    """Return the file that says where the text in the folder is from."""
    return args.workdir / "data" / f"{args.dataset}-source.txt"


def prepare(args, tables: str = "", share: float = 1.0) -> Path:
    """Return the data folder of the text with what a row has of the lexicon, made if it is not there.

    A text that is not the one in the folder is refused: it would not be read.

    Args:
        args: of the program: dataset, workdir, source
        tables: options of preprocess.sh; {data}: the folder with the whole lexicon
        share: of the training text's lines
    """
    data = args.workdir / "data" / (args.dataset + (f"-{share:g}" if share < 1 else "") + suffix(tables))
    with held(data):
        if not (data / "binarised.json").exists():
            preprocess(args, data, tables, share)
    record = record_of(args)
    if args.source and record.exists() and (source := record.read_text()) != str(args.source.resolve()):
        text = "the text that was downloaded" if source == DOWNLOADED else f"the text of {source}"
        sys.exit(f"{args.workdir} has {text}: leave out --from {args.source}, or give another --workdir")
    return data


def preprocess(args, data: Path, tables: str, share: float) -> None:
    """Make a data folder; see *prepare*."""
    lexicon = [part.format(data=prepare(args, share=share)) if "{" in part else part for part in tables.split()]
    if share < 1:
        whole = prepare(args)
        with tempfile.TemporaryDirectory() as folder:
            train, valid, test = (text_of(whole, split, folder, share) for split in ("train", "valid", "test"))
            texts = ["--train", train, "--valid", valid, "--test", test, "--vocabulary", whole / "dict.txt"]
            run(ROOT / "scripts" / "preprocess.sh", *texts, *lexicon, "--dest", data)
    else:
        source = ["--from", args.source] if args.source else []
        record_of(args).write_text(str(args.source.resolve()) if args.source else DOWNLOADED)
        run(ROOT / "scripts" / "preprocess.sh", "--dataset", DATASETS[args.dataset], *source, *lexicon, "--dest", data)


def text_of(data: Path, split: str, folder: str, share: float) -> Path:
    """Write the text of a split in *folder*, of that of training a share of the lines from the beginning; return the file."""
    dictionary, lines = load_dictionary(data / "dict.txt"), load_indexed_dataset(str(data / split))
    count = round(share * len(lines)) if split == "train" else len(lines)
    path = Path(folder, f"{split}.txt")
    path.write_text("".join(f"{dictionary.string(lines[i])}\n" for i in range(count)), encoding="utf-8")
    return path


def suffix(options: str) -> str:
    """Return what options add to the name of a folder."""
    return "".join(f"-{part.strip('-')}" for part in options.split() if "/" not in part)


def ngram_alone(args, share: float) -> dict[str, Any]:
    """Return the perplexities of the texts by an n-gram of the training text, or of a share of it."""
    data = prepare(args, share=share)
    folder = args.workdir / "ngrams" / data.name
    report = folder / "report.json"
    with held(folder):
        if not report.exists():
            folder.mkdir(parents=True, exist_ok=True)
            in_process("ngram", "--data", data, "--order", ORDER, "--dest", folder, "--out", report)
    texts = json.loads(report.read_text())["texts"]
    return {"order": ORDER, **{of: texts[of]["all"]["perplexity"] for of in ("valid", "test")}}
