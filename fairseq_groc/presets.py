"""The papers' models by name: options, where they come from, and the figure that was published.

Data alone: architectures, YAML and the table in docs/presets.md are made from it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """A named configuration.

    Args:
        options: of the model, by name
        source: table and row; what of it is ours
        parameters: published number of parameters, in millions; None: not published
        valid: published validation perplexity; None: not published
        test: published test perplexity; None: not published
    """

    options: dict[str, Any]
    source: str
    parameters: float | None = None
    valid: float | None = None
    test: float | None = None


_ENCODER = {"decoder_layers": 2, "decoder_hidden_size": 1024, "dropout": 0.65, "dropout_in": 0.4, "dropout_out": 0.0}
# d, and the cut-offs and corrections of Table 8
_SETS: dict[str, dict[str, Any]] = {
    "ptb": {**_ENCODER, "decoder_embed_dim": 300, "output_cutoffs": [2000, 7000], "correction_dim": 128},
    "wikitext2": {**_ENCODER, "decoder_embed_dim": 256, "output_cutoffs": [6000, 21000], "correction_dim": 182},
}


def _groc(data: str, head: str, dropout: float, depth: int = 0, activation: str = "relu", **options: Any) -> dict[str, Any]:
    network = {"output_head": head, "output_dropout": dropout, "output_depth": depth, "output_activation": activation}
    return {**_SETS[data], **network, **options}


# r of Table 8; millions of parameters, validation and test perplexity of Table 9: Penn Treebank, WikiText-2
_TABLE_9: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "lookup": ((0.1, 13, 93.5, 90.8), (0.2, 23, 113.8, 108.3)),
    "convolutional": ((0.1, 13, 104.0, 101.6), (0.1, 23, 121.2, 116.6)),
    "tied": ((0.0, 10, 88.6, 86.2), (0.0, 15, 101.0, 97.3)),
    "bilinear": ((0.5, 10, 87.0, 83.7), (0.4, 15, 101.3, 95.9)),
    "deep_residual": ((0.5, 10, 84.0, 80.5), (0.6, 15, 100.1, 94.7)),
    "adaptive": ((0.3, 8, 84.0, 79.3), (0.2, 9, 95.8, 90.7)),
}


def _baselines(data: str, column: int, depth: int) -> dict[str, Preset]:
    """Return the rows of Tables 2 and 9 but GroC's; *depth* is deep residual's."""
    presets = {}
    for head, columns in _TABLE_9.items():
        rate, *published = columns[column]
        network = (depth, "selu") if head == "deep_residual" else ()
        source = f"GroC, Tables 2 and 8: {head.replace('_', ' ')}"
        presets[f"groc_lstm_lm_{data}_{head}"] = Preset(_groc(data, head, rate, *network), source, *published)
    return presets


_TABLE_3: dict[str, dict[str, Any]] = {
    "": {},
    "no_relations": {"lexicon_parts": "definitions"},
    "no_definitions": {"lexicon_parts": "relations"},
    "surface": {"lexicon_parts": "none"},
}


def _table_3(data: str, suffix: str, rows: Sequence[tuple[Any, ...]]) -> dict[str, Preset]:
    """Return the four rows of one half of Table 3; each is (validation and test perplexity, r, k or 0, activation or relu).

    Without a suffix it is the better half.
    """
    tuned = "Table 3, r of Table 8" if suffix else "Tables 3 and 8"
    presets: dict[str, Preset] = {}
    for (ablation, options), (valid, test, *network) in zip(_TABLE_3.items(), rows, strict=True):
        name = f"groc_lstm_lm_{data}{suffix}" + (f"_{ablation}" if ablation else "")
        chosen = _groc(data, "compositional_output", *network, **options)
        what = f"GroC{' + out' if chosen['output_depth'] else ''}{', ' + ablation.replace('_', ' ') if ablation else ''}"
        parameters = None if suffix or ablation else 9  # Table 2's
        presets[name] = Preset(chosen, f"GroC, {tuned}: {what}", parameters, valid, test)
    return presets


_SMALL = {
    "decoder_layers": 2,
    "decoder_hidden_size": 256,
    "dropout": 0.2,
    "dropout_in": 0.2,
    "dropout_out": 0.0,
    "decoder_embed_dim": 128,
    "char_filters": [16, 32, 48, 64, 96, 128],
    "output_depth": 0,
    "output_dropout": 0.0,
    "init_range": 0.2,
}
# without a highway layer and with fewer filters words are cheaper to compose, and with corrections nothing is lost by it
_CORRECTED = {
    **_SMALL,
    "char_filters": [16, 32, 48, 64, 64, 32],
    "output_head": "compositional_output",
    "corrections": "both",
    "highway_layers": 0,
    "output_query": "linear",
    "composed_lr_scale": 0.3,
}
# of the commands that AWD-LSTM was released with, whose program DRILL's is made from
_AWD: dict[str, Any] = {
    "prefix_encoder": "awd_lstm",
    "decoder_embed_dim": 400,
    "decoder_hidden_size": 1150,
    "decoder_layers": 3,
    "dropout_out": 0.4,
    "embedding_dropout": 0.1,
    "weight_dropout": 0.5,
    "init_range": 0.1,
}
_AWD_SETS: dict[str, dict[str, Any]] = {
    "ptb": {**_AWD, "dropout": 0.25, "dropout_in": 0.4},
    "wikitext2": {**_AWD, "dropout": 0.2, "dropout_in": 0.65},
}
_AWD_SMALL = {
    **_AWD,
    "decoder_embed_dim": 200,
    "decoder_hidden_size": 400,
    "dropout": 0.1,
    "dropout_in": 0.2,
    "dropout_out": 0.2,
    "embedding_dropout": 0.05,
    "weight_dropout": 0.2,
    "output_head": "tied",
}


def _awd(data: str, parameters: float, valid: float, test: float) -> dict[str, Preset]:
    table = 1 if data == "ptb" else 2
    source = f"AWD-LSTM (Merity et al. 2018), figures as in DRILL's Table {table}"
    return {f"awd_lstm_lm_{data}": Preset({**_AWD_SETS[data], "output_head": "tied"}, source, parameters, valid, test)}


def _groc_awd(data: str, **network: Any) -> dict[str, Preset]:
    options = {**_AWD_SETS[data], "output_head": "compositional_output", "feature_dropout": 0.0, **network}
    return {f"groc_awd_lstm_lm_{data}": Preset(options, "ours: GroC's words and head on AWD-LSTM")}


def _drill(name: str, row: str, parameters: float, valid: float, test: float, head: str, **options: Any) -> dict[str, Preset]:
    chosen = {**_AWD_SETS["ptb"], "output_head": head, **options}
    return {f"drill_lstm_lm_{name}": Preset(chosen, f"DRILL, Table 4: {row}", parameters, valid, test)}


# the program drops what the label network's layers read, and h with AWD-LSTM's dropout of 0.4 alone
_DEEP: dict[str, Any] = {
    "output_activation": "sigmoid",
    "output_dropout": 0.6,
    "output_dropout_at": "inputs",
    "feature_dropout": 0.0,
}


def _deep(name: str, row: str, parameters: float, valid: float, test: float, depth: int, **options: Any) -> dict[str, Preset]:
    return _drill(name, row, parameters, valid, test, "deep_residual", output_depth=depth, **options, **_DEEP)


# e, d, k, r, and the chance to drop of Table 2, the middle where it has a range; test perplexities of the four models
_TABLE_2: dict[str, tuple[tuple[int, int, int, int, float], tuple[float, float, float, float]]] = {
    "agnews": ((150, 110, 2, 12, 0.5), (96.2, 95.1, 93.8, 92.3)),
    "dbpedia": ((117, 173, 12, 19, 0.0), (44.1, 40.4, 39.5, 37.7)),
    "eurotwitter": ((37, 250, 4, 2, 0.03), (6.35, 6.29, 6.17, 6.07)),
    "geotwitter": ((46, 250, 16, 20, 0.005), (4.64, 4.63, 4.54, 4.52)),
    "tripadvisor": ((100, 200, 25, 12, 0.015), (51.6, 48.8, 48.3, 48.2)),
    "yelp": ((200, 200, 2, 9, 0.0), (67.1, 66.9, 66.8, 66.2)),
}
# what of the model a context changes
_IN_CONTEXT = {"unadapted": (0, "none"), "softmax_bias": (1, "none"), "concat": (1, "concat"), "factor": (1, "factor")}


def _factor_cell(data: str, sizes: tuple[int, int, int, int, float], published: tuple[float, ...]) -> dict[str, Preset]:
    dim, width, size, rank, dropped = sizes
    presets = {}
    for (name, (reads, adaptation)), test in zip(_IN_CONTEXT.items(), published, strict=True):
        options = {
            "prefix_encoder": "factor_cell",
            "decoder_layers": 1,
            "decoder_embed_dim": dim,
            "decoder_output_dim": width,
            **dict.fromkeys(("dropout", "dropout_in", "dropout_out"), 0.0),
            "recurrent_dropout": dropped,
            "output_head": "tied",
            "context_dim": reads * size,
            "context_adaptation": adaptation,
            **({"context_rank": rank} if adaptation == "factor" else {}),
            "context_bias": "rows",
        }
        title = "".join(part.capitalize() for part in name.split("_"))
        source = f"FactorCell, Table 2: {title if reads == 0 or '_' in name else title + 'Cell'}"
        presets[f"factor_cell_lm_{data}_{name}"] = Preset(options, source, test=test)
    return presets


PRESETS_IN_CONTEXT = {name: preset for data, row in _TABLE_2.items() for name, preset in _factor_cell(data, *row).items()}

_DRILL_WIKITEXT2 = {
    **_AWD_SETS["wikitext2"],
    **_DEEP,
    "output_head": "deep_residual",
    "output_depth": 4,
    "output_activation": "relu",
    "output_dropout_kind": "standard",
}

PRESETS: dict[str, Preset] = {
    # half of Table 3 is Table 8's best of each row; the other half differs from it in k alone
    **_table_3("ptb", "", [(72.5, 69.5, 0.2), (74.2, 70.8, 0.3), (74.4, 71.1, 0.2), (76.3, 73.2, 0.3)]),
    **_table_3("ptb", "_out", [(75.0, 71.4, 0.2, 1), (77.1, 72.7, 0.3, 1), (75.6, 72.0, 0.2, 1), (79.8, 75.8, 0.3, 1)]),
    **_table_3(
        "wikitext2", "", [(87.0, 82.5, 0.2, 1), (90.2, 85.3, 0.3, 1, "selu"), (88.6, 84.3, 0.3, 2), (94.3, 89.8, 0.3, 1, "selu")]
    ),
    **_table_3(
        "wikitext2", "_plain", [(88.7, 84.1, 0.2), (93.0, 88.0, 0.3, 0, "selu"), (87.6, 83.1, 0.3), (94.5, 89.5, 0.3, 0, "selu")]
    ),
    **_baselines("ptb", 0, 4),
    **_baselines("wikitext2", 1, 1),
    **_drill("lookup", "full softmax", 43.8, 69.9, 66.8, "lookup", decoder_output_dim=1150, lookup_width="encoder"),
    **_drill("tied", "weight tying", 24.2, 60.0, 57.3, "tied"),
    **_drill("bilinear", "bilinear mapping", 24.3, 60.7, 58.5, "bilinear"),
    **_drill("dual_nonlinear", "dual nonlinear mapping", 24.5, 58.8, 56.4, "dual_nonlinear", output_activation="sigmoid"),
    **_deep("1_layer", "DRILL 1-layer", 24.3, 58.8, 56.2, 1),
    **_deep("2_layers", "DRILL 2-layers", 24.5, 58.7, 56.0, 2),
    **_deep("3_layers", "DRILL 3-layers", 24.7, 58.5, 55.9, 3),
    **_deep("4_layers", "DRILL 4-layers", 24.8, 58.2, 55.7, 4),
    **_deep("residuals", "+ residuals between layers", 24.8, 59.6, 57.5, 4, output_residual="input+previous"),
    **_deep("standard_dropout", "- no variational dropout", 24.8, 63.4, 60.7, 4, output_dropout_kind="standard"),
    "drill_lstm_lm_wikitext2": Preset(_DRILL_WIKITEXT2, "DRILL, Table 2: AWD-LSTM-DRILL", 34, 64.9, 61.9),
    **_awd("ptb", 24.2, 60.0, 57.3),
    **_awd("wikitext2", 33, 68.6, 65.8),
    # the network of GroC's best model on each; h has AWD-LSTM's dropout
    **_groc_awd("ptb", output_depth=0),
    **_groc_awd("wikitext2", output_depth=1, output_activation="relu", output_dropout=0.2),
    **PRESETS_IN_CONTEXT,
    "awd_lstm_lm_small": Preset(_AWD_SMALL, "ours, for CPUs: AWD-LSTM's recipe for a fifth of its parameters"),
    "factor_cell_lm_small": Preset(
        {
            **PRESETS_IN_CONTEXT["factor_cell_lm_agnews_factor"].options,
            "context_dim": 8,
            "context_bias": "shift",
            **dict.fromkeys(("dropout_in", "dropout_out", "recurrent_dropout"), 0.2),
            "init_range": 0.2,
        },
        "ours, for CPUs: FactorCell's sizes for AG News, a context in the scores without a row for each word",
    ),
    "groc_lstm_lm_small_corrected": Preset(_CORRECTED, "ours, for CPUs: words that training has read are corrected"),
    "groc_lstm_lm_small": Preset(_SMALL, "ours, for CPUs: a few hundred milliseconds a step at V = 10,000"),
}
