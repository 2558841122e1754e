"""Print the table of presets: options, source, published figures."""

from fairseq_groc.presets import PRESETS
from fairseq_groc.registry import flag

ENCODER = ("decoder_embed_dim", "decoder_hidden_size", "decoder_layers", "dropout", "dropout_in", "dropout_out")


def add_arguments(parser) -> None:
    """The command has no options."""


def run(args) -> None:
    print(table())


def table() -> str:
    """Return the table in Markdown."""
    columns = ("`--arch`", "source", "d", "head and its options", "parameters (M)", "validation perplexity", "test perplexity")
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for name, preset in PRESETS.items():
        options = {key: value for key, value in preset.options.items() if key not in ENCODER}
        options = {key: value for key, value in options.items() if not _unused(key, preset.options)}
        head = " ".join(f"{flag(key)} {str(value).replace(' ', '')}" for key, value in options.items())
        published = (preset.parameters, preset.valid, preset.test)
        figures = " | ".join(f"{figure:g}" if figure is not None else "" for figure in published)
        dim = preset.options["decoder_embed_dim"]
        lines.append(f"| `{name}` | {preset.source} | {dim} | `{head}` | {figures} |")
    return "\n".join(lines)


def _unused(key: str, options: dict) -> bool:
    head = options.get("output_head")
    network = head in ("deep_residual", "compositional_output", None) and bool(options.get("output_depth"))
    used = {
        "output_cutoffs": head == "adaptive",
        "correction_dim": head == "convolutional" or options.get("corrections", "none") != "none",
        "output_activation": network or head == "dual_nonlinear",
        "output_depth": head in ("deep_residual", "compositional_output", None),
    }
    return not used.get(key, True)
