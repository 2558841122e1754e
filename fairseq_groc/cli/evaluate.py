"""Score binarised texts: counts, perplexity of known and new words, bits per character, as text and JSON."""

import logging
import multiprocessing
import signal
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.utils import import_user_module
from numpy.typing import NDArray
from torch import Tensor

from fairseq_groc.arguments import (
    add_adapter_arguments,
    add_break_mode,
    add_out,
    add_texts,
    beside,
    named_texts,
    natural,
    positive,
)
from fairseq_groc.data.fingerprint import trained_words
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.data.text import read_lines
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.characters import BYTE, SYMBOLS, Pieces, Size, check_raw, check_symbol, pieces_of, raw_lines, size_of
from fairseq_groc.evaluation.line_losses import sums_by_line, write_losses
from fairseq_groc.evaluation.loading import open_model, read_split
from fairseq_groc.evaluation.report import parts_of, perplexities, text_table, texts_table
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.evaluation.scoring import Place, TokenScores, score
from fairseq_groc.files import check_place, digest
from fairseq_groc.logs import begin_worker

logger = logging.getLogger(__name__)
LARGEST_ERROR, PER_WORD = 1e-5, 1e-9  # of a sum of probabilities in float32, and more for each: 2e-5 was seen of 44,000 words


def add_arguments(parser: ArgumentParser) -> None:
    add_texts(parser)
    parser.add_argument("--streams", type=positive, default=1, help="contiguous streams, as fairseq's --batch-size")
    parser.add_argument("--workers", type=positive, default=1, help="processes that share the streams, on the CPU")
    add_break_mode(parser)
    add_out(parser, drawn=False)
    what = "write what each line lost, in nats, for compare; of several texts to a file each, with its name before the suffix"
    parser.add_argument("--losses", type=Path, metavar="FILE", help=what)
    what = "sum all probabilities in every N-th block: report the largest |1 - sum|, and the probability of new words"
    parser.add_argument("--verify-normalization", type=natural, default=0, metavar="N", help=what)
    parser.add_argument("--no-corrections", action="store_true", help="score with what words are composed of alone")
    text = parser.add_mutually_exclusive_group()
    text.add_argument(
        "--remove-bpe",
        choices=(*SYMBOLS, "none"),
        nargs="?",
        const="@@ ",
        help="count the characters of the text that these pieces of words make up (fairseq's option); none: of what is there",
    )
    text.add_argument("--raw", type=Path, metavar="FILE", help="count the characters of this file: the lines as they were")
    add_adapter_arguments(parser)


def run(args: Namespace) -> None:
    if args.streams % args.workers:
        raise OptionError(f"--streams {args.streams} must be a multiple of --workers {args.workers}")
    if args.no_corrections and args.dynamic_rate:
        raise OptionError("--no-corrections and --dynamic-rate: gradient statistics are of the whole model. Give one.")
    texts = named_texts(args.split)
    if args.raw and len(texts) > 1:
        raise OptionError(f"--raw {args.raw} is one text, and --split names {len(texts)}: give one, or --remove-bpe")
    losses = {name: beside(args.losses, name) for name in texts} if args.losses else {}
    for path in losses.values():
        check_place("--losses", path)
    args.cpu |= args.workers > 1  # each would put the model on the GPU
    if args.workers == 1:
        shares = [share(args, 0)]
    else:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers inherit it: Ctrl-C ends the command, which ends them
        with multiprocessing.get_context("spawn").Pool(args.workers, begin_worker, (args.verbose,)) as pool:
            signal.signal(signal.SIGINT, handler)
            shares = pool.starmap(share, [(args, worker) for worker in range(args.workers)])
            pool.close()  # they end by themselves: those that are killed leave semaphores, of which Python would warn
            pool.join()
    reports, sums = {}, {}
    for name, split in texts.items():
        first, *_ = of_text = [found[name] for found in shares]
        arrays = map(np.concatenate, zip(*(found["scores"] for found in of_text), strict=True))  # one share after the other
        scores = TokenScores(*map(torch.from_numpy, arrays))
        parts = parts_of(scores.targets, torch.from_numpy(first["known"]))
        reports[name] = make_report(args, split, scores, parts, of_text)
        if args.losses:
            sums[name] = sums_by_line(scores.adapted, scores.places, parts, first["ends"])
    print(text_table(reports[""]) if "" in reports else texts_table(reports))
    for name, report in reports.items():
        print_notes(f"{name}: " if name else "", report, shares[0][name]["pieces"])
    for name, path in losses.items():  # a disk that is full costs no printed figure
        write_losses(path, sums[name], shares[0][name]["words"])
    if args.out:
        write_json(args.out, reports.get("", {"texts": reports}))
    for report in reports.values():
        check_sums(report)


def print_notes(whose: str, report: dict[str, Any], pieces: Pieces | None) -> None:
    """Print what the table of a text has not."""
    if pieces is not None:
        print(f"{whose}bits per character: {pieces.refusal()}")
    if "largest_sum_error" in report:
        error = report["largest_sum_error"]
        print(f"{whose}largest |1 - sum| of {report['verified_positions']:,} positions: {error:.1e}")
        masses = "{new_mass:.2%} on new words, the model alone {model_new_mass:.2%}".format(**report)
        print(f"{whose}probability at these positions: {masses}; their share of the text: {report['new']['share']:.2%}")


def check_sums(report: dict[str, Any]) -> None:
    """Refuse probabilities that do not sum to 1, where they were verified.

    Raises:
        DataError: by how much.
    """
    largest, error = LARGEST_ERROR + PER_WORD * report["vocabulary"], report.get("largest_sum_error", 0.0)
    if not error <= largest:
        raise DataError(f"probabilities do not sum to 1: {error:.1e} off, more than {largest:.1e}")


def share(args: Namespace, worker: int) -> dict[str, dict[str, Any]]:
    """Score one worker's streams of every text and return what the reports need of them, by text.

    Raises:
        DataError: nothing in the folder says which words the training text has.
    """
    import_user_module(args)  # a worker is a new process
    torch.set_num_threads(max(1, torch.get_num_threads() // args.workers))
    hub, texts = open_model(args), named_texts(args.split)
    datasets = {name: read_split(hub, split) for name, split in texts.items()}
    known = trained_words(Path(args.data), len(hub.task.dictionary))
    if known is None:
        raise DataError(f"{args.data}: nothing says which words the training text has. Make it with scripts/preprocess.sh.")
    return {name: share_of(args, hub, dataset, known, worker) for name, dataset in datasets.items()}


def share_of(args: Namespace, hub: Any, dataset: StreamDataset, known: NDArray[np.bool_], worker: int) -> dict[str, Any]:
    """Score one worker's streams of a text.

    Args:
        known: mask (V) of the words that the training text has
    """
    task, decoder = hub.task, hub.models[0].decoder
    block, symbols = task.block_length(), task.dictionary.symbols
    pieces = None if args.raw or args.remove_bpe else pieces_of(symbols)
    size = None if pieces or worker else text_size(args, dataset)
    possible, new = ~decoder.matrices.impossible.cpu().numpy(), decoder.real_words().cpu() & ~torch.from_numpy(known)
    place = Place(args.streams, block, worker, args.workers)
    began = time.perf_counter()
    scores = score(hub.models[0], dataset, place, args.verify_normalization, new)
    seconds = time.perf_counter() - began
    return {
        "scores": [part.numpy() for part in scores],  # tensors would come by shared memory, of which there may be too little
        "known": known,
        "ends": dataset.ends,
        "words": list(raw_lines(dataset.lines, symbols)) if args.losses and worker == 0 else [],
        "size": size,
        "pieces": pieces,
        "vocabulary": int(possible.sum()),
        "known_vocabulary": int((known & possible).sum()),
        "adapters": decoder.adapter.settings.values() if decoder.adapter else {},
        "opened": decoder.adapter.about() if decoder.adapter else {},
        "block": block,
        "device": decoder.matrices.impossible.device.type,
        "seconds": seconds,
    }


def text_size(args: Namespace, dataset: StreamDataset) -> Size:
    """Return the characters and bytes of the raw text, as the options say where it is.

    Raises:
        OptionError: the file has other lines, or the vocabulary no such pieces.
    """
    symbols, symbol = dataset.dictionary.symbols, args.remove_bpe or "none"
    if not args.raw:
        check_symbol(symbol, symbols)
        of_bytes = [number for number, word in enumerate(symbols) if BYTE.fullmatch(word)]
        if symbol == "sentencepiece" and np.isin(dataset.text, of_bytes).any():
            raise OptionError("--remove-bpe does not put pieces of bytes (<0xE2>) together: give --raw FILE")
        return size_of(raw_lines(dataset.lines, symbols, symbol))
    lines = list(read_lines(args.raw))
    if len(lines) != len(dataset):
        raise OptionError(f"--raw {args.raw}: {len(lines):,} lines, and the text of '{dataset.name}' has {len(dataset):,}")
    pieces = pieces_of(symbols)
    marked = "none" if pieces is None else pieces.symbol
    if marked is not None:  # other marks are no letters of the text
        check_raw(lines, raw_lines(dataset.lines, symbols, marked), str(args.raw), dataset.dictionary.unk_word)
    return size_of(lines)


def make_report(
    args: Namespace, split: str, scores: TokenScores, parts: dict[str, Tensor], shares: list[dict[str, Any]]
) -> dict[str, Any]:
    """Put together what is known of a text and its scores.

    Raises:
        DataError: the tokens scored are not the text's.
    """
    first, tokens, unknown = shares[0], len(scores.targets), int(parts["unk"].sum())
    if tokens != first["ends"][-1]:
        raise DataError(f"{tokens:,} tokens were scored of a text of {first['ends'][-1]:,}: this is a bug, report it")
    if unknown:
        only = "bits per character are comparable only over vocabularies that have all words"
        logger.warning(f"{unknown:,} tokens are <unk>: {only}")
    report = {
        "tokens_in_text": int(first["ends"][-1]),
        "tokens_scored": tokens,
        **perplexities(scores.adapted, scores.own, parts, first["size"]),
        "seconds_of_scoring": max(s["seconds"] for s in shares),
        "unknown_tokens": unknown,
        "vocabulary": first["vocabulary"],
        "vocabulary_of_training": first["known_vocabulary"],
        "settings": {
            "split": split,
            "streams": args.streams,
            "block": first["block"],
            "device": first["device"],
            "adapters": first["adapters"],
            "opened": first["opened"],
            "remove_bpe": args.remove_bpe,
            "raw": str(args.raw) if args.raw else None,
            "corrections": not args.no_corrections,
        },
        "checkpoint": {"path": args.path, "sha256": digest(Path(args.path))},
        "data": {"path": args.data, "sha256": digest(Path(args.data, f"{split}.bin"), Path(args.data, "dict.txt"))},
    }
    if args.verify_normalization:
        report["largest_sum_error"] = float((1 - scores.sums).abs().max())  # NaN stays
        report["verified_positions"] = len(scores.sums)
        report["new_mass"], report["model_new_mass"] = scores.masses.mean(0).tolist()
    return report
