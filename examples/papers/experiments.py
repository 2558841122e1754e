"""The papers' experiments as data: which presets make a table's rows. What a scale changes is in scales.py."""

from typing import NamedTuple

from fairseq_groc.presets import PRESETS

KNESER_NEY, ORDER = "Kneser-Ney 4-gram", 4  # a row of every table that no training makes
PROGRAM = "timed_train.py"  # fairseq-train that saves more often


class Row(NamedTuple):
    """A model of a table.

    Args:
        label: in the table
        preset: with ``{data}`` for the name of the text
        tables: options of preprocess.sh that say what of the lexicon it is trained and scored with; {data}: the folder with all
        options: of training, besides the preset's and the scale's
        published: whether the preset's figures are this row's
        test: published test perplexity, where the preset's figures are not this row's
        without: a flag of a scale's training that it goes without
        program: of this folder that trains it, with what it reads before fairseq-train's arguments
        after: label of the row whose models, of the same seeds, it begins with
    """

    label: str
    preset: str
    tables: str = ""
    options: str = ""
    published: bool = True
    test: float | None = None
    without: str = ""
    program: str = PROGRAM
    after: str = ""


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


EXPERIMENTS: dict[str, Experiment] = {
    "table-2": Experiment("GroC, Tables 2 and 9: closed vocabulary", [*_BASELINE.values(), _GROC, _CORRECTED]),
    "table-3": Experiment("GroC, Table 3: ablations", [_ablated(kind, name) for kind in ("out", "plain") for name in _ABLATIONS]),
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
        "GroC: choices that the paper leaves open",
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
        "GroC with corrections: what each part is worth",
        [
            _CORRECTED,
            *(_corrected(f"correction dropout {q:g}", f"--correction-dropout {q:g}") for q in (0.0, 0.1, 0.5)),
            *(_corrected(f"corrections of {width} numbers", f"--correction-dim {width}") for width in (16, 32, 64)),
            # as many parameters as those three have
            *(
                _BASELINE["tied"]._replace(label=f"tied, d = {d}", options=f"--decoder-embed-dim {d}", published=False)
                for d in (48, 64, 88)
            ),
            _corrected("corrections of words seen three times", "--correction-min-count 3"),
            _OURS._replace(label="no map of h", options=_BOTH),
            _OURS._replace(label="output network in place of the map", preset="groc_lstm_lm_{data}{out}", options=_BOTH),
            _corrected("corrections of the input alone", "--corrections input"),
            _corrected("corrections of the output alone", "--corrections output"),
            _corrected("twice as many words composed in a step", "--sampled-update-fraction 0.1"),
            _corrected("no relations, no definitions", "--lexicon-parts none"),
            _corrected("composed words learn as fast as the rest", "--composed-lr-scale 1"),
            _corrected("products in bfloat16", "--autocast-bf16"),
        ],
        ("ptb",),
        varied=True,
    ),
    "awd-averages": Experiment(
        "AWD-LSTM trained for longer: averaged and dropped weights",
        [
            _awd("AWD-LSTM"),
            _awd("without averaging", "--optimizer nt_asgd --non-monotonic-interval 1000"),
            _awd("no dropped weights", "--weight-dropout 0"),
        ],
        ("ptb",),
    ),
    "awd-finetuned": Experiment(
        "AWD-LSTM finetuned",
        [
            _awd("AWD-LSTM"),
            _awd("finetuned", "--average-from-start --lr-scheduler until_non_monotonic")._replace(after="AWD-LSTM"),
        ],
        ("ptb",),
    ),
    "awd": Experiment(
        "AWD-LSTM (Merity et al. 2018, Table 4): what each part of its training is worth",
        [
            _awd("AWD-LSTM"),
            _awd("no dropped weights", "--weight-dropout 0"),
            _awd("no embedding dropout", "--embedding-dropout 0"),
            _awd("no locked dropout", "--dropout-in 0 --dropout 0 --dropout-out 0"),
            _awd("no activation penalties", "--activation-regularization 0 --temporal-activation-regularization 0"),
            _awd("blocks of one length")._replace(without="--vary-bptt"),
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
        [Row(name.removeprefix("drill_lstm_lm_").replace("_", " "), name) for name in _DRILL],
        ("ptb",),
    ),
    "released-blocks": Experiment(
        "DRILL, Table 4: tied, with the blocks of the released command's seed",
        [Row("tied", "drill_lstm_lm_tied", program="released_blocks.py 141")],
        ("ptb",),
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
