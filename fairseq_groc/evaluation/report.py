"""An honest report: every token counted once, the impossible as infinite, known and new words apart."""

from __future__ import annotations

import math
from typing import Any, Dict, List

import torch
from torch import Tensor

from fairseq_groc.modules.probabilities import LOG_ZERO, perplexity


def tally(targets: Tensor, adapted: Tensor, own: Tensor, known: Tensor) -> Dict[str, Dict[str, Any]]:
    """Return sums over all tokens, those of known words, and those of new ones; workers' are added up.

    Args:
        targets, adapted, own: as in ``TokenScores``, (n) each
        known: mask (V) of the words that the training text has
    """
    is_known = known[targets]
    parts = {"all": torch.ones_like(is_known), "known": is_known, "new": ~is_known}
    return {name: _sums(adapted[chosen].double(), own[chosen].double()) for name, chosen in parts.items()}


def _sums(adapted: Tensor, own: Tensor) -> Dict[str, Any]:
    return {
        "tokens": len(adapted),
        "nats": float(-adapted[adapted > LOG_ZERO / 2].sum()),
        "impossible": int((adapted <= LOG_ZERO / 2).sum()),
        "model_nats": float(-own[own > LOG_ZERO / 2].sum()),
        "model_impossible": int((own <= LOG_ZERO / 2).sum()),
    }


def add(tallies: List[Dict[str, Dict[str, Any]]]) -> Dict[str, Dict[str, Any]]:
    """Return the sums of several workers."""
    return {part: {key: sum(t[part][key] for t in tallies) for key in tallies[0][part]} for part in tallies[0]}


def perplexities(sums: Dict[str, Dict[str, Any]], characters: int, num_bytes: int) -> Dict[str, Any]:
    """Return perplexities, shares, and bits per character and byte; infinite where a token is impossible.

    Args:
        characters, num_bytes: of the text, words apart by a blank, and an end after every line
    """
    whole = sums["all"]
    report: Dict[str, Any] = {}
    for part, s in sums.items():
        share = s["tokens"] / max(whole["tokens"], 1)
        report[part] = {
            "tokens": s["tokens"],
            "share": share,
            "impossible": s["impossible"],
            "perplexity": _perplexity(s["nats"], s["impossible"], s["tokens"]),
            "model_perplexity": _perplexity(s["model_nats"], s["model_impossible"], s["tokens"]),
        }
    bits = math.inf if whole["impossible"] else whole["nats"] / math.log(2)
    return {**report, "bits_per_character": bits / characters, "bits_per_byte": bits / num_bytes}


def _perplexity(nats: float, impossible: int, tokens: int) -> float:
    if not tokens:
        return math.nan
    return math.inf if impossible else perplexity(nats, tokens)


def lengths(words: List[str]) -> Tensor:
    """Return the characters and bytes of every entry of a dictionary with the blank or line end after it, (V, 2).

    ``</s>`` has none: the line end is counted with the line's last word, and an empty line's apart.
    """
    sizes = [(len(w) + 1, len(w.encode("utf-8", "surrogateescape")) + 1) for w in words]
    sizes[2] = (0, 0)
    return torch.tensor(sizes)


def text_table(report: Dict[str, Any]) -> str:
    """Return the report as lines of text."""
    lines = [f"{'':<16}{'tokens':>12}{'share':>9}{'impossible':>12}{'perplexity':>14}{'model alone':>14}"]
    for part, name in (("all", "overall"), ("known", "known words"), ("new", "new words")):
        r = report[part]
        numbers = f"{r['tokens']:>12,}{r['share']:>9.1%}{r['impossible']:>12,}"
        lines.append(f"{name:<16}{numbers}{r['perplexity']:>14,.2f}{r['model_perplexity']:>14,.2f}")
    lines.append(f"bits per character {report['bits_per_character']:.4f}, per byte {report['bits_per_byte']:.4f}")
    return "\n".join(lines)
