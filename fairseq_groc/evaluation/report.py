"""An honest report: every token counted once, the impossible as infinite, known words, new words and ``<unk>`` apart."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.adapters.base import ADAPTERS, CACHES, switch_of
from fairseq_groc.dictionary import UNK
from fairseq_groc.evaluation.characters import Size
from fairseq_groc.evaluation.results import aligned
from fairseq_groc.modules.probabilities import is_impossible, perplexity

NAMES = {"all": "overall", "known": "known words", "new": "new words", "unk": "<unk>"}


def parts_of(targets: Tensor, known: Tensor) -> dict[str, Tensor]:
    """Return the masks (n) of the parts of a report; ``<unk>`` is no word, known or new.

    Args:
        targets: (n)
        known: mask (V) of the words that the training text has
    """
    is_known, is_unk = known[targets], targets == UNK
    return {"all": torch.ones_like(is_unk), "known": is_known & ~is_unk, "new": ~is_known & ~is_unk, "unk": is_unk}


def losses_of(lprobs: Tensor) -> Tensor:
    """Return the losses of log-probabilities, nats in double precision; infinite where a token is impossible."""
    return torch.where(is_impossible(lprobs), math.inf, -lprobs.double())


def perplexities(adapted: Tensor, own: Tensor, parts: Mapping[str, Tensor], size: Size | None) -> dict[str, Any]:
    """Return perplexities and shares of parts, bits per character and byte of all; infinite where a token is impossible.

    Args:
        adapted, own: as in ``TokenScores``, (n) each
        parts: of the tokens, as ``parts_of`` has them
        size: of the raw text; None: nobody knows, and there are no bits per character and byte
    """
    losses, of_model = losses_of(adapted), losses_of(own)
    report: dict[str, Any] = {}
    for part, chosen in parts.items():
        tokens = int(chosen.sum())
        report[part] = {
            "tokens": tokens,
            "share": tokens / max(len(losses), 1),
            "impossible": int(losses[chosen].isinf().sum()),
            "perplexity": perplexity(float(losses[chosen].sum()), tokens),
            "model_perplexity": perplexity(float(of_model[chosen].sum()), tokens),
        }
    bits, (characters, total) = float(losses.sum()) / math.log(2), size or (None, None)
    return {
        **report,
        "characters": characters,
        "bytes": total,
        "bits_per_character": bits / characters if characters else None,
        "bits_per_byte": bits / total if total else None,
    }


def text_table(report: dict[str, Any]) -> str:
    """Return the report as lines of text; ``<unk>`` has one if the text has it."""
    rows = []
    for name, r in ((name, report[part]) for part, name in NAMES.items() if part != "unk" or report[part]["tokens"]):
        numbers = f"{r['tokens']:,}", f"{r['share']:.1%}", f"{r['impossible']:,}"
        rows.append([name, *numbers, _shown(r["perplexity"]), _shown(r["model_perplexity"])])
    table = aligned(["", "tokens", "share", "impossible", "perplexity", _own(report)], rows)
    if not report["characters"]:
        return table
    return f"{table}\nbits per character {report['bits_per_character']:.4f}, per byte {report['bits_per_byte']:.4f}"


def texts_table(reports: Mapping[str, dict[str, Any]]) -> str:
    """Return a row for each text, by its name."""
    rows = []
    for name, report in reports.items():
        whole, bits = report["all"], report["bits_per_character"]
        figures = (whole["perplexity"], report["known"]["perplexity"], report["new"]["perplexity"], whole["model_perplexity"])
        counts = f"{whole['tokens']:,}", f"{report['new']['share']:.1%}", f"{whole['impossible']:,}"
        rows.append([name, *counts, *map(_shown, figures), "-" if bits is None else f"{bits:.4f}"])
    own = _own(next(iter(reports.values())))
    columns = ["", "tokens", "new", "impossible", "perplexity", "known words", "new words", own, "bits per character"]
    return aligned(columns, rows)


def _shown(figure: float) -> str:
    return "-" if math.isnan(figure) else f"{figure:,.2f}"  # of no tokens


def _own(report: dict[str, Any]) -> str:
    """Return what a table calls the figures without caches and the like: other adapters change the model itself."""
    others = (report["settings"]["adapters"].get(switch_of(name)) for name in ADAPTERS.keys() - CACHES.keys())
    return "model as it learns" if any(others) else "model alone"
