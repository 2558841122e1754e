"""Results: tables as text, numbers as JSON, pictures with matplotlib."""

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from fairseq_groc.errors import OptionError, imported
from fairseq_groc.files import check_place, replace_file

# of Okabe and Ito, whom colour-blind readers thank; a model has the same colour in every picture
_COLORS = {
    "groc + corrections": "#D55E00",
    "groc": "#E69F00",
    "tied": "#444444",
    "bilinear": "#0072B2",
    "deep residual": "#009E73",
    "adaptive": "#CC79A7",
    "convolutional": "#56B4E9",
    "lookup": "#999999",
    "factorcell": "#D55E00",
    "concatcell": "#0072B2",
    "softmaxbias": "#009E73",
    "unadapted": "#444444",
}
_OTHERS = ("#0072B2", "#CC79A7", "#009E73", "#56B4E9", "#D55E00", "#E69F00", "#999999", "#444444", "#882255", "#AADD55")


def color_of(label: str, number: int = 0) -> str:
    """Return the colour of a model in pictures: its own, by the beginning of its label, or that of a place in a list."""
    known = [name for name in _COLORS if label.lower().startswith(name)]
    return _COLORS[known[0]] if known else _OTHERS[number % len(_OTHERS)]


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """Return a table as text: the first columns, of *names*, begin at the left, those of numbers end at the right."""
    sides = ["left"] * names + ["right"] * (len(columns) - names)
    return tabulate(rows, columns, tablefmt="plain", colalign=sides, disable_numparse=True)


def out_file(text: str, drawn: bool = True) -> Path:
    """Return the file for numbers and, where one is drawn, the picture beside them, if both can be written.

    Raises:
        OptionError: no .json, a place that cannot be written to, or no matplotlib.
    """
    path = Path(text)
    if path.suffix != ".json":
        raise OptionError(f"--out {path}: expected a name that ends in .json")
    check_place("--out", path)
    if drawn:
        check_place("--out", path.with_suffix(".png"))
        pyplot()
    return path


def write_json(path: Path, value: Any) -> None:
    """Write numbers; "inf" and "-inf" stand for what is infinite and null for what is no number, since JSON has neither.

    An interrupted write leaves what was there.
    """
    with replace_file(path) as file:
        file.write(json.dumps(_plain(value), indent=1, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def machine() -> str:
    """Return a line on hardware and versions, for beside the numbers."""
    import fairseq
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{_processor()}, {torch.get_num_threads()} threads"
    versions = f"fairseq {fairseq.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"
    return f"{device}, {versions}"


def _processor() -> str:
    """Return the name of the CPU where Linux tells it."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)", info.read_text(), re.MULTILINE) if info.exists() else []
    without = ", no bfloat16" if bf16_is_emulated() else ""
    return f"CPU {names[0]} ({os.cpu_count()} cores{without})" if names else f"CPU{without}"


def bf16_is_emulated() -> bool:
    """Return whether torch says that this CPU multiplies no bfloat16 itself; False where torch cannot tell."""
    import torch

    known = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}  # younger than the oldest torch
    told = [known[name] for name in ("avx512_bf16", "amx_bf16", "bf16") if name in known]
    return bool(told) and not any(told)


def label_log_axis(axis: Any) -> None:
    """Write the numbers of a logarithmic axis of matplotlib in full, and no more of them than there is room for."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    steps = 2 if high < 4 * low else 1  # from one leading digit to the next
    every = [part / steps for part in range(steps, 10 * steps)]
    axis.set_major_locator(LogLocator(subs=every if high < 10 * low else (1, 2, 5)))
    axis.set_major_formatter("{x:,.6g}")
    axis.set_minor_formatter(NullFormatter())


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture, in the format that the name says, and close it."""
    with replace_file(path, "wb") as file:
        figure.tight_layout()
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=120)
    pyplot().close(figure)


def pyplot() -> Any:
    """Return matplotlib's pyplot, for pictures in files.

    Raises:
        OptionError: matplotlib is not installed.
    """
    missing = OptionError("pictures are drawn with matplotlib, which is not installed: pip install matplotlib")
    imported("matplotlib", missing).use("Agg")
    return imported("matplotlib.pyplot", missing)
