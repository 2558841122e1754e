"""The papers' experiments as data: which presets make a table's rows, and what a scale changes."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from fairseq_groc.presets import PRESETS


class Row(NamedTuple):
    """A model of a table.

    Args:
        label: in the table
        preset: with ``{data}`` for the name of the text
        keep: share of the lexicon's entries that it is trained and scored with; None: all
        test: published test perplexity, where it is not the preset's
    """

    label: str
    preset: str
    keep: Optional[float] = None
    test: Optional[float] = None


class Experiment(NamedTuple):
    """Rows of a table, each trained and scored.

    Args:
        title: the paper's
        rows: its models
        datasets: which texts the paper has
    """

    title: str
    rows: List[Row]
    datasets: Tuple[str, ...] = ("ptb", "wikitext2")


class Scale(NamedTuple):
    """How large the models are and how they are trained.

    Args:
        sizes: options in place of the presets'
        training: options of fairseq-train; {updates} stands for their number
        compositional: options of the models that compute their word embeddings, besides
        grid: settings that are tried; the best on validation text is the row's
        updates: of a run; None: until the schedule ends it
    """

    sizes: Dict[str, Any]
    training: str
    compositional: str
    grid: List[Dict[str, Any]]
    updates: Optional[int] = None


_BASELINES = ["lookup", "convolutional", "tied", "bilinear", "deep_residual", "adaptive"]
_GROC = Row("GroC", "groc_lstm_lm_{data}")
_ABLATIONS = ["no relations", "no definitions", "surface"]
_COVERAGE = {
    0.0: 72.4,
    0.2: 70.0,
    0.4: 70.4,
    0.6: 69.6,
    0.8: 70.7,
}  # of the entries, 82% of the words have one; Table 4, row train
_DRILL = [name for name in PRESETS if name.startswith("drill_lstm_lm_")]

EXPERIMENTS: Dict[str, Experiment] = {
    "table-2": Experiment(
        "GroC, Tables 2 and 9: closed vocabulary",
        [*(Row(name.replace("_", " "), f"groc_lstm_lm_{{data}}_{name}") for name in _BASELINES), _GROC],
    ),
    "table-3": Experiment(
        "GroC, Table 3: ablations",
        [_GROC, *(Row(f"GroC, {name}", f"groc_lstm_lm_{{data}}_{name.replace(' ', '_')}") for name in _ABLATIONS)],
    ),
    "table-4": Experiment(
        "GroC, Table 4: trained with a share of the lexicon's entries",
        [*(Row(f"{keep:.0%}", _GROC.preset, keep, test) for keep, test in _COVERAGE.items()), _GROC._replace(label="100%")],
        ("ptb",),
    ),
    "drill-table-4": Experiment(
        "DRILL, Table 4: output layers, with our LSTM",
        [Row(name.removeprefix("drill_lstm_lm_").replace("_", " "), name) for name in _DRILL],
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
    ),
    "cpu": Scale(
        sizes={
            "decoder_layers": 2,
            "decoder_hidden_size": 256,
            "decoder_embed_dim": 128,
            "dropout": 0.2,
            "dropout_in": 0.2,
        },
        training="--batch-size 20 --tokens-per-sample 35 --optimizer adam --clip-norm 0.25 --lr-scheduler polynomial_decay "
        "--warmup-updates 100 --total-num-update {updates}",
        compositional="--sampled-update-fraction 0.1",
        grid=[{"lr": rate, "output_dropout": dropout} for dropout in (0.0, 0.2) for rate in (0.003, 0.004, 0.002)],
        updates=6_640,  # five epochs of Penn Treebank
    ),
}


class Analysis(NamedTuple):
    """What is found with the models of a table.

    Args:
        title: the paper's
        table: the experiment whose models it takes
        model: the row that is analysed
        command: of the package, from the path of the model, the paths of all other rows' models, and the data folder
        paper: what was published, in words
    """

    title: str
    table: str
    model: str
    command: Callable[[Any, Dict[str, Any], Any], List[Any]]
    paper: str


def _bins(path, others, data) -> List[Any]:
    named = [f"{label.replace(' ', '-')}={other}" for label, other in others.items()]
    return ["frequency-bins", "--path", path, "--data", data, "--baselines", *named]


def _coverage(path, others, data) -> List[Any]:
    return ["coverage", "--path", path, "--data", data, "--tokens-per-sample", 500]


def _grid(path, others, data) -> List[Any]:
    weights = (0.034, 0.067, 0.1, 0.133, 0.167)  # appendix C.2: lambda from 0.833 to 0.966, theta from 0 to 1
    grid = ["--weights", *weights, "--thetas", 0, 0.25, 0.5, 0.75, 1, "--sizes", 5000, "--no-store"]
    return ["tune", "--path", path, "--data", data, "--cache", "local", *grid]


ANALYSES: Dict[str, Analysis] = {
    "figure-3": Analysis(
        "GroC, Figure 3: loss by frequency",
        "table-2",
        "GroC",
        _bins,
        "GroC is better in nearly every bin, most of all where words are rare (medians, its Figure 3a).",
    ),
    "coverage": Analysis(
        "GroC, Table 4: scored with a share of the lexicon's entries",
        "table-2",
        "GroC",
        _coverage,
        "187.8, 159.3, 128.5, 102.6, 83.5, 69.5 where 0, 16, 32, 48, 64 and 82% of the words are covered; 73.1 trained without.",
    ),
    "figure-7": Analysis(
        "GroC, Figure 7: the local cache's grid",
        "table-2",
        "tied",
        _grid,
        "a picture alone; the best for its news text is lambda 0.966 (a weight of 0.034), theta 0.5 (appendix C.2).",
    ),
    "drill-figure-3": Analysis(
        "DRILL, Figure 3: loss by frequency",
        "drill-table-4",
        "4 layers",
        _bins,
        "most of the gain in words of 1 to 100 occurrences (means, its section 4.1).",
    ),
}


def options_of(preset: str, scale: Scale) -> Dict[str, Any]:
    """Return the model's options at a scale."""
    return {**PRESETS[preset].options, **scale.sizes}
