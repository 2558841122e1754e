"""The papers' experiments as data: which presets make a table's rows, and what a scale changes."""

import itertools
import shlex
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from fairseq_groc.modules.updates import is_frozen
from fairseq_groc.options import flag
from fairseq_groc.presets import PRESETS


class Row(NamedTuple):
    """A model of a table.

    Args:
        label: in the table
        preset: with ``{data}`` for the name of the text
        tables: options of preprocess.sh that say what of the lexicon it is trained and scored with; {data}: the folder with all
        options: of training, besides the preset's and the scale's
        published: whether the preset's figures are this row's
        test: published test perplexity, where the preset's figures are not this row's
        fixed: options that are the preset's, whatever a scale's grid has
    """

    label: str
    preset: str
    tables: str = ""
    options: str = ""
    published: bool = True
    test: Optional[float] = None
    fixed: Tuple[str, ...] = ()

    def settings(self, grid: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Return those of a scale's grid that differ in what may be chosen here."""
        chosen = [{key: value for key, value in setting.items() if key not in self.fixed} for setting in grid]
        return [setting for place, setting in enumerate(chosen) if setting not in chosen[:place]]


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
        share: of the training text that is read, from its beginning; the vocabulary is that of the whole
    """

    sizes: Dict[str, Any]
    training: str
    compositional: str
    grid: List[Dict[str, Any]]
    updates: Optional[int] = None
    share: float = 1.0


_BASELINES = ["lookup", "convolutional", "tied", "bilinear", "deep_residual", "adaptive"]
_GROC = Row("GroC", "groc_lstm_lm_{data}")
_OURS = _GROC._replace(published=False)
_ABLATIONS = ["", "no relations", "no definitions", "surface"]
# the paper's main model has an output network on WikiText-2 and none on Penn Treebank: what presets of the other kind are called
VARIANTS = {"ptb": {"plain": "", "out": "_out"}, "wikitext2": {"plain": "_plain", "out": ""}}
_TABLE_4 = {
    0.0: 72.4,
    0.2: 70.0,
    0.4: 70.4,
    0.6: 69.6,
    0.8: 70.7,
}  # of the entries, 82% of the words have one; Table 4, row train
_SHARES = (0.9, 0.7, 0.5, 0.3, 0.1)  # of full updates; Table 10
_COUNTED = 20  # updates of a round in which speed is measured
_DRILL = [name for name in PRESETS if name.startswith("drill_lstm_lm_")]


def _ablated(kind: str, name: str) -> Row:
    label = "GroC + out" if kind == "out" else "GroC"
    suffix = f"_{name.replace(' ', '_')}" if name else ""
    return Row(f"{label}, {name}" if name else label, f"groc_lstm_lm_{{data}}{{{kind}}}{suffix}")


def _drill(name: str) -> Row:
    # a row that is about a kind of dropout has it; how much the others have is chosen, as in the paper
    fixed = ("output_dropout",) if "output_dropout_kind" in PRESETS[name].options else ()
    return Row(name.removeprefix("drill_lstm_lm_").replace("_", " "), name, fixed=fixed)


EXPERIMENTS: Dict[str, Experiment] = {
    "table-2": Experiment(
        "GroC, Tables 2 and 9: closed vocabulary",
        [*(Row(name.replace("_", " "), f"groc_lstm_lm_{{data}}_{name}") for name in _BASELINES), _GROC],
    ),
    "table-3": Experiment(
        "GroC, Table 3: ablations",
        [_ablated(kind, name) for kind in ("out", "plain") for name in _ABLATIONS],
    ),
    "table-4": Experiment(
        "GroC, Table 4: trained with a share of the lexicon's entries",
        [
            *(
                _OURS._replace(label=f"{keep:.0%}", tables=f"--keep-entries {keep:g}", test=test)
                for keep, test in _TABLE_4.items()
            ),
            _GROC._replace(label="100%"),
        ],
        ("ptb",),
    ),
    "choices": Experiment(
        "What choices are worth that the paper leaves open, and the way of updating",
        [
            _GROC,
            _OURS._replace(label="bias through tanh", options="--bias-activation tanh"),
            _OURS._replace(label="forms of the vocabulary only", tables="--forms-from {data}/dict.txt"),
            _OURS._replace(label="1 relation, 5 words of the gloss", tables="--max-relations 1 --max-definition 5"),
            _OURS._replace(label="full updates", options="--sampled-update-fraction 1"),
        ],
        ("ptb",),
    ),
    "drill-table-4": Experiment(
        "DRILL, Table 4: output layers, with our LSTM",
        [_drill(name) for name in _DRILL],
        ("ptb",),
    ),
}


def _grid_of(*rates: float) -> List[Dict[str, Any]]:
    # within the papers' range, for models of four times the units, most heads with rows learn frequencies alone for a long time
    return [{"lr": rate, "output_dropout": dropout, "init_range": 0.2} for dropout in (0.0, 0.2) for rate in rates]


_CPU = Scale(
    sizes={
        "decoder_layers": 2,
        "decoder_hidden_size": 256,
        "decoder_embed_dim": 128,
        "dropout": 0.2,
        "dropout_in": 0.2,
    },
    training="--batch-size 20 --tokens-per-sample 35 --optimizer adam --clip-norm 0.25 --lr-scheduler polynomial_decay "
    "--warmup-updates 100 --total-num-update {updates}",
    compositional="--sampled-update-fraction 0.1 --refresh-interval 20",
    grid=_grid_of(0.006, 0.003, 0.01),
    updates=6_640,  # five epochs of Penn Treebank
)

# little text, read often enough for models to stop improving on it, as the paper's do
_QUARTER = _CPU._replace(
    sizes={**_CPU.sizes, "char_filters": PRESETS["groc_lstm_lm_small"].options["char_filters"]},
    updates=1_992,  # six epochs of it
    share=0.25,
)

SCALES: Dict[str, Scale] = {
    # GroC, appendix B.1; fairseq shrinks the rate when more than --lr-patience epochs in a row brought nothing
    "paper": Scale(
        sizes={},
        training="--batch-size 20 --tokens-per-sample 35 --optimizer adam --clip-norm 0.1 --lr-scheduler "
        "resumable_reduce_lr_on_plateau --lr-patience 3 --lr-shrink 0.1 --patience 8 --max-epoch 100",
        compositional="",
        grid=[{"lr": 0.001}],
    ),
    "cpu": _CPU,
    "quarter": _QUARTER,
    "quarter-long": _QUARTER._replace(updates=3_984),
}


class Given(NamedTuple):
    """What an analysis is of.

    Args:
        dataset: the name of the text in presets
        data: its data folder
        scale: of the models
        in_bf16: GroC's products in bfloat16 as well
        path: of the model that is analysed
        others: the paths of all other rows' models by label
    """

    dataset: str
    data: Any
    scale: Scale
    in_bf16: bool = False
    path: Any = None
    others: Dict[str, Any] = {}


class Analysis(NamedTuple):
    """What is found with the models of a table, or about them.

    Args:
        title: the paper's
        command: of the package
        paper: what was published, in words
        table: the experiment whose trained models it takes
        model: the row that is analysed
    """

    title: str
    command: Callable[[Given], List[Any]]
    paper: str
    table: Optional[str] = None
    model: Optional[str] = None


def _bins(given: Given) -> List[Any]:
    named = [f"{label.replace(' ', '-')}={other}" for label, other in given.others.items()]
    return ["frequency-bins", "--path", given.path, "--data", given.data, "--baselines", *named]


def _coverage(given: Given) -> List[Any]:
    return ["coverage", "--path", given.path, "--data", given.data, "--tokens-per-sample", 500]


def _speed(given: Given) -> List[Any]:
    """Compare the rows of Table 10, by the share of full updates that they make, and sampled updates."""
    named = {row.label: _arch(preset_of(row, given.dataset), given.scale) for row in EXPERIMENTS["table-2"].rows}
    groc = named["GroC"]
    seed = _seed_with(_SHARES, _COUNTED)
    named |= {f"GroC, {share:.0%} full updates": f"{groc} --full-update-prob {share} --seed {seed}" for share in _SHARES}
    named["GroC, sampled updates, 10%"] = f"{groc} --sampled-update-fraction 0.1"
    if given.in_bf16:
        named |= {f"{label}, bfloat16": f"{named[label]} --encode-in-bf16" for label in ("GroC", "GroC, sampled updates, 10%")}
    options = ["--updates", _COUNTED + 1, "--rounds", 2, "--models", *(f"{label}={arch}" for label, arch in named.items())]
    return ["training-speed", "--data", given.data, *options]


def _seed_with(shares: Tuple[float, ...], count: int) -> int:
    """Return a seed with which sparse updates are full in exactly these shares of the updates but for the first."""
    for seed in itertools.count(1):
        full = {share: sum(not is_frozen(share, seed, number) for number in range(1, count + 1)) for share in shares}
        if all(full[share] == round(share * count) for share in shares):
            return seed
    raise AssertionError


def _arch(preset: str, scale: Scale) -> str:
    sizes = (shlex.quote(f"{flag(name)}={value}") for name, value in scale.sizes.items())
    return " ".join([preset, *sizes])


def _grid(given: Given) -> List[Any]:
    weights = (0.034, 0.067, 0.1, 0.133, 0.167)  # appendix C.4: lambda from 0.833 to 0.966, theta from 0 to 1
    grid = ["--weights", *weights, "--thetas", 0, 0.25, 0.5, 0.75, 1, "--sizes", 5000, "--no-store"]
    return ["tune", "--path", given.path, "--data", given.data, "--cache", "local", *grid]


ANALYSES: Dict[str, Analysis] = {
    "figure-3": Analysis(
        "GroC, Figure 3: loss by frequency",
        _bins,
        "the rarer the words, the more GroC gains (medians), but for Penn Treebank's lowest bin, an exception (section 4.3).",
        "table-2",
        "GroC",
    ),
    "coverage": Analysis(
        "GroC, Table 4: scored with a share of the lexicon's entries",
        _coverage,
        "on Penn Treebank 187.8, 159.3, 128.5, 102.6, 83.5, 69.5 where 0, 16, 32, 48, 64 and 82% of the words are covered; 73.1 "
        "for a model of the surface alone.",
        "table-2",
        "GroC",
    ),
    "figure-7": Analysis(
        "GroC, Figure 7: the local cache's grid",
        _grid,
        "a picture alone; the best for its news text is lambda 0.966 (a weight of 0.034), theta 0.5 (appendix C.4).",
        "table-2",
        "tied",
    ),
    "drill-figure-3": Analysis(
        "DRILL, Figure 3: loss by frequency",
        # its first band has 4,116 words of the test text, those of 1 to 49 occurrences, its last 16; other edges are not given
        lambda given: [*_bins(given), "--edges", 0, 49, 100, 1000, 5000],
        "most of the gain in words of 1 to 100 occurrences (means, its section 4.1).",
        "drill-table-4",
        "4 layers",
    ),
    "table-10": Analysis(
        "GroC, Table 10: training speed",
        _speed,
        "in times of the lookup table's epoch on Penn Treebank, convolutional 10.3, tied 1.0, bilinear 1.8, deep residual 3.1, "
        "adaptive 1.4, GroC 13.3, with full updates in 90, 70, 50, 30 and 10% of the steps 12.1, 8.9, 6.7, 4.9 and 2.4 (it names "
        "the shares of the frozen ones).",
    ),
}


# examples/adaptation has what belongs to it
TABLE_5 = (
    "GroC alone has 171.0 to 200.4 on news of four later years, 637.9 on web pages, 753.9 on Wikipedia, tied 199.8 to 229.9, "
    "660.6 and 841.1; the local cache brings GroC 4% in news, 23% and 46% far away; finetuned on 2M tokens GroC has 153.7 to "
    "170.6, 239.5 and 216.9, tied 172.8 to 185.4, 212.7 and 242.6."
)


def preset_of(row: Row, dataset: str) -> str:
    """Return the name of a row's preset for a text."""
    return row.preset.format(data=dataset, **VARIANTS[dataset])


def options_of(preset: str, scale: Scale) -> Dict[str, Any]:
    """Return the model's options at a scale."""
    return {**PRESETS[preset].options, **scale.sizes}
