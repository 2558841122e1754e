"""The papers' experiments as data: which presets make a table's rows, and what a scale changes."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from fairseq_groc.presets import PRESETS


class Experiment(NamedTuple):
    """Rows of a table, each trained and scored.

    Args:
        title: the paper's
        rows: (label, preset); with ``{data}`` for the name of the text
        datasets: which texts the paper has
    """

    title: str
    rows: List[Tuple[str, str]]
    datasets: Tuple[str, ...] = ("ptb", "wikitext2")


class Scale(NamedTuple):
    """How large the models are and how they are trained.

    Args:
        sizes: options in place of the presets'
        training: options of fairseq-train; {updates} stands for their number
        compositional: options of the models that compute their word embeddings, besides
        grid: settings that are tried; the best on validation text is the row's
        cost: in words
        updates: of a run; None: until the schedule ends it
        try_updates: of the runs that choose among the grid
    """

    sizes: Dict[str, Any]
    training: str
    compositional: str
    grid: List[Dict[str, Any]]
    cost: str
    updates: Optional[int] = None
    try_updates: Optional[int] = None


_BASELINES = ["lookup", "convolutional", "tied", "bilinear", "deep_residual", "adaptive"]
_TABLE_2 = [(name.replace("_", " "), f"groc_lstm_lm_{{data}}_{name}") for name in _BASELINES] + [("GroC", "groc_lstm_lm_{data}")]
_DRILL = [name for name in PRESETS if name.startswith("drill_lstm_lm_")]

EXPERIMENTS: Dict[str, Experiment] = {
    "table-2": Experiment("GroC, Tables 2 and 9: closed vocabulary", _TABLE_2),
    "table-3": Experiment(
        "GroC, Table 3: ablations",
        [("GroC", "groc_lstm_lm_{data}")]
        + [
            (f"GroC, {name}", f"groc_lstm_lm_{{data}}_{name.replace(' ', '_')}")
            for name in ("no relations", "no definitions", "surface")
        ],
    ),
    "drill-table-4": Experiment(
        "DRILL, Table 4: output layers, with our LSTM",
        [(name.removeprefix("drill_lstm_lm_").replace("_", " "), name) for name in _DRILL],
        ("ptb",),
    ),
}

SCALES: Dict[str, Scale] = {
    # GroC, appendix B.1
    "paper": Scale(
        sizes={},
        training="--batch-size 20 --tokens-per-sample 35 --optimizer adam --clip-norm 0.1 --lr-scheduler "
        "resumable_reduce_lr_on_plateau --lr-patience 4 --lr-shrink 0.1 --patience 8 --max-epoch 100",
        compositional="",
        grid=[{"lr": 0.001}],
        cost="not measured: it has not been run",
    ),
    "cpu": Scale(
        sizes={
            "decoder_layers": 2,
            "decoder_hidden_size": 256,
            "decoder_embed_dim": 128,
            "output_dropout": 0.0,
        },
        training="--batch-size 20 --tokens-per-sample 35 --optimizer adam --clip-norm 0.25 --lr-scheduler polynomial_decay "
        "--warmup-updates 100 --total-num-update {updates}",
        compositional="--sampled-update-fraction 0.1",
        grid=[{"lr": rate, "dropout": dropout, "dropout_in": dropout} for dropout in (0.0, 0.2) for rate in (0.002, 0.004)],
        cost="",
        updates=2_656,  # two epochs of Penn Treebank
        try_updates=332,
    ),
}


def options_of(preset: str, scale: Scale) -> Dict[str, Any]:
    """Return the model's options at a scale."""
    return {**PRESETS[preset].options, **scale.sizes}
