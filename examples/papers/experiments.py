"""The papers' experiments as data: which presets make a table's rows, and what a scale changes."""

from typing import Any, NamedTuple

from fairseq_groc.encoders import ENCODERS
from fairseq_groc.options import SHARED_OPTIONS, TRAINING
from fairseq_groc.options import options_of as taken_by
from fairseq_groc.presets import PRESETS

KNESER_NEY, ORDER = "Kneser-Ney 4-gram", 4  # a row of every table that no training makes


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
    test: float | None = None
    fixed: tuple[str, ...] = ()

    def settings(self, grid: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return those of a scale's grid that differ in what may be chosen here."""
        chosen = [{key: value for key, value in setting.items() if key not in self.fixed} for setting in grid]
        return [setting for place, setting in enumerate(chosen) if setting not in chosen[:place]]


class Experiment(NamedTuple):
    """Rows of a table, each trained and scored.

    Args:
        title: the paper's
        rows: its models
        datasets: which texts the paper has
        varied: whether the others are the first row with a change each
    """

    title: str
    rows: list[Row]
    datasets: tuple[str, ...] = ("ptb", "wikitext2")
    varied: bool = False


class Scale(NamedTuple):
    """How large the models are and how they are trained.

    Args:
        sizes: options in place of the presets'
        training: options of fairseq-train; {updates} stands for their number
        compositional: options of the models that compute their word embeddings, besides
        corrected: options of those that correct them, besides
        grid: settings that are tried; the best on validation text is the row's
        updates: of a run; None: until the schedule ends it
        share: of the training text that is read, from its beginning; the vocabulary is that of the whole
    """

    sizes: dict[str, Any]
    training: str
    compositional: str
    corrected: str
    grid: list[dict[str, Any]]
    updates: int | None = None
    share: float = 1.0


_BASELINE = {
    name: Row(name.replace("_", " "), f"groc_lstm_lm_{{data}}_{name}")
    for name in ("lookup", "convolutional", "tied", "bilinear", "deep_residual", "adaptive")
}
_GROC = Row("GroC", "groc_lstm_lm_{data}")
_OURS = _GROC._replace(published=False)
_BOTH = "--corrections both"  # of what is read and of what is predicted
_CORRECTED = Row("GroC + corrections", "groc_lstm_lm_{data}{plain}", options=f"{_BOTH} --output-query linear", published=False)
_ABLATIONS = ["", "no relations", "no definitions", "surface"]
# the paper's main model has an output network on WikiText-2 and none on Penn Treebank: what presets of the other kind are called
VARIANTS = {"ptb": {"plain": "", "out": "_out"}, "wikitext2": {"plain": "_plain", "out": ""}}
# share of the entries: the published test perplexity, Table 4, row train; 82% of the words have an entry
_TABLE_4 = {0.0: 72.4, 0.2: 70.0, 0.4: 70.4, 0.6: 69.6, 0.8: 70.7}
_DRILL = [name for name, preset in PRESETS.items() if preset.source.startswith("DRILL, Table 4")]


def _ablated(kind: str, name: str) -> Row:
    label = "GroC + out" if kind == "out" else "GroC"
    suffix = f"_{name.replace(' ', '_')}" if name else ""
    return Row(f"{label}, {name}" if name else label, f"groc_lstm_lm_{{data}}{{{kind}}}{suffix}")


def _corrected(label: str, options: str) -> Row:
    return _CORRECTED._replace(label=label, options=f"{_CORRECTED.options} {options}")


def _awd(label: str, options: str = "") -> Row:
    return Row(label, "awd_lstm_lm_small", options=options, published=False)


def _on_awd(row: Row) -> Row:
    dropped = PRESETS["awd_lstm_lm_small"].options["weight_dropout"]
    return row._replace(options=f"--prefix-encoder awd_lstm --weight-dropout {dropped} {row.options}".strip(), published=False)


def _drill(name: str) -> Row:
    # a row that is about a kind of dropout has it; how much the others have is chosen, as in the paper
    fixed = ("output_dropout",) if "output_dropout_kind" in PRESETS[name].options else ()
    return Row(name.removeprefix("drill_lstm_lm_").replace("_", " "), name, fixed=fixed)


EXPERIMENTS: dict[str, Experiment] = {
    "table-2": Experiment(
        "GroC, Tables 2 and 9: closed vocabulary",
        [*_BASELINE.values(), _GROC, _CORRECTED],
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
            _OURS._replace(label="senses nouns first", tables="--lexicon-path wordnet_nouns_first"),
            _OURS._replace(label="synonyms by the alphabet", tables="--lexicon-path synonyms"),
            _OURS._replace(label="full updates", options="--sampled-update-fraction 1"),
        ],
        ("ptb",),
        varied=True,
    ),
    "corrections": Experiment(
        "What of corrections is worth what",
        [
            _CORRECTED,
            *(_corrected(f"left out with a chance of {q:g}", f"--correction-dropout {q:g}") for q in (0.0, 0.1, 0.5)),
            *(_corrected(f"{width} numbers a word", f"--correction-dim {width}") for width in (16, 32, 64)),
            # as many parameters as those three have
            *(
                _BASELINE["tied"]._replace(label=f"tied, d = {d}", options=f"--decoder-embed-dim {d}", published=False)
                for d in (48, 64, 88)
            ),
            _corrected("words that training has three times", "--correction-min-count 3"),
            _OURS._replace(label="no map of h", options=_BOTH),
            _OURS._replace(label="an output network in place of the map", preset="groc_lstm_lm_{data}{out}", options=_BOTH),
            _corrected("of the input alone", "--corrections input"),
            _corrected("of the output alone", "--corrections output"),
            _corrected("twice as many words composed in a step", "--sampled-update-fraction 0.1"),
            _corrected("no relations, no definitions", "--lexicon-parts none"),
            _corrected("composed words learn as fast as the rest", "--composed-lr-scale 1"),
        ],
        ("ptb",),
        varied=True,
    ),
    "awd-averages": Experiment("AWD-LSTM: when the averaging of its weights begins", [_awd("AWD-LSTM")], ("ptb",)),
    "awd": Experiment(
        "AWD-LSTM (Merity et al. 2018, Table 4): what each part of its training is worth",
        [
            _awd("AWD-LSTM"),
            _awd("no dropped weights", "--weight-dropout 0"),
            _awd("no embedding dropout", "--embedding-dropout 0"),
            _awd("no locked dropout", "--dropout-in 0 --dropout 0 --dropout-out 0"),
            _awd("no activation penalties", "--activation-regularization 0 --temporal-activation-regularization 0"),
            _awd("no weight decay", "--weight-decay 0"),
        ],
        ("ptb",),
        varied=True,
    ),
    "awd-heads": Experiment(
        "Heads on AWD-LSTM",
        [_on_awd(_BASELINE[name]) for name in ("tied", "bilinear", "deep_residual")] + [_on_awd(_OURS), _on_awd(_CORRECTED)],
    ),
    "drill-table-4": Experiment(
        "DRILL, Table 4: output layers",
        [_drill(name) for name in _DRILL],
        ("ptb",),
    ),
}


def _grid_of(*rates: float) -> list[dict[str, Any]]:
    # within the papers' range, for models of four times the units, most heads with rows learn frequencies alone for a long time
    return [{"lr": rate, "output_dropout": dropout, "init_range": 0.2} for dropout in (0.0, 0.2) for rate in rates]


_SAMPLED = "--sampled-update-fraction 0.1 --refresh-interval 20"
_FALLING = "--lr-scheduler polynomial_decay --warmup-updates 100 --total-num-update {updates}"
_CPU = Scale(
    sizes={
        "decoder_layers": 2,
        "decoder_hidden_size": 256,
        "decoder_embed_dim": 128,
        "dropout": 0.2,
        "dropout_in": 0.2,
        "weight_dropout": 0.2,
        "correction_dim": 128,
        # the paper's word encoder alone has more parameters than a whole model of this size with tied rows
        "char_filters": PRESETS["groc_lstm_lm_small"].options["char_filters"],
    },
    training=f"--batch-size 20 --tokens-per-sample 35 --optimizer adam --clip-norm 0.25 {_FALLING}",
    compositional=_SAMPLED,
    # no highway layer, and composed words learn more slowly than the rest
    corrected="--highway-layers 0 --char-filters [16,32,48,64,64,32] --composed-lr-scale 0.3 --sampled-update-fraction 0.05",
    grid=_grid_of(0.006, 0.003, 0.01),
    updates=6_640,  # five epochs of Penn Treebank
)

# little text, read often enough for models to stop improving on it, as the paper's do
_QUARTER = _CPU._replace(
    updates=1_992,  # six epochs of it
    share=0.25,
)

_AWD_TRAINING = (
    "--batch-size 20 --tokens-per-sample 70 --vary-bptt --optimizer nt_asgd --clip-norm 0.25 --weight-decay 1.2e-6 "
    "--activation-regularization 2 --temporal-activation-regularization 1"
)
_AWD = _QUARTER._replace(
    sizes={
        **{name: _CPU.sizes[name] for name in ("decoder_layers", "decoder_hidden_size", "decoder_embed_dim")},
        **{name: _CPU.sizes[name] for name in ("char_filters", "correction_dim")},
        **{name: PRESETS["awd_lstm_lm_small"].options[name] for name in ("dropout", "dropout_in", "dropout_out")},
        **{name: PRESETS["awd_lstm_lm_small"].options[name] for name in ("embedding_dropout", "weight_dropout")},
    },
    training=_AWD_TRAINING,
    grid=[{"lr": 30.0}],
    updates=2_490,  # 15 epochs
)

# GroC, appendix B.1; fairseq shrinks the rate when more than --lr-patience epochs in a row brought nothing. Penalties of
# encodings as in the implementation that the paper builds on, and in the released program: without them Adam's first steps, of
# the whole rate for every weight, saturate the last layer (of tied on Penn Treebank), gradients of the LSTM vanish, and after
# three epochs it knows the words' frequencies and no more
_APPENDIX_B = (
    "--batch-size 20 --tokens-per-sample 35 --optimizer adam --clip-norm 0.1 "
    "--activation-regularization 2 --temporal-activation-regularization 1"
)
_PAPER = Scale(
    sizes={"dropout": 0.25},  # between layers, as in the released commands; the text says 0.65
    training=f"{_APPENDIX_B} --lr-scheduler resumable_reduce_lr_on_plateau --lr-patience 3 --lr-shrink 0.1 --patience 8 "
    "--max-epoch 100",
    compositional=_SAMPLED,  # not the paper's: on CPUs a full step takes three times as long
    corrected="",
    grid=[{"lr": 0.001}],
)

SCALES: dict[str, Scale] = {
    "paper": _PAPER,
    # 15 epochs of Penn Treebank; on a GPU a full step takes less time than a sampled one
    "paper-short": _PAPER._replace(
        training=f"{_APPENDIX_B} {_FALLING}",
        compositional="",
        # dropout between layers: the released commands', and the 0.65 of the text
        grid=[{"lr": 0.001}, {"lr": 0.001, "dropout_out": 0.4}, {"lr": 0.001, "dropout": 0.65}],
        updates=19_920,
    ),
    "cpu": _CPU,
    "quarter": _QUARTER,
    "quarter-long": _QUARTER._replace(updates=3_984),
    "awd": _AWD,
    "awd-long": _AWD._replace(updates=8_300),  # 50 epochs
    "awd-paper": _AWD._replace(sizes={}, share=1.0, training=f"{_AWD_TRAINING} --max-epoch 3", updates=None),
    # composed words want Adam
    "awd-adam": _AWD._replace(
        training=f"{_AWD_TRAINING} --nt-asgd-base adam", grid=[{"lr": 0.004, "output_dropout": 0.0, "init_range": 0.2}]
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


def options_of(preset: str, scale: Scale) -> dict[str, Any]:
    """Return the model's options at a scale, without those of other heads and encoders."""
    options = {**PRESETS[preset].options, **scale.sizes}
    if "decoder_output_dim" in options:  # of the full softmax, whose last layer is as wide as the others
        options["decoder_output_dim"] = options["decoder_hidden_size"]
    unused = SHARED_OPTIONS.keys() - {**TRAINING, **taken_by(options["output_head"])}.keys()
    unused |= ENCODERS.options.keys() - ENCODERS.taken[options.get("prefix_encoder", "lstm")].keys()
    return {name: value for name, value in options.items() if name not in unused}
