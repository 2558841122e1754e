"""Print the table of presets: options, source, published figures."""

from fairseq_groc.options import TRAINING, options_of
from fairseq_groc.presets import PRESETS
from fairseq_groc.registry import flag


def add_arguments(parser) -> None:
    """The command has no options."""


def run(args) -> None:
    print(table())


def table() -> str:
    """Return the table in Markdown."""
    columns = ("`--arch`", "source", "d", "head and its options", "parameters (M)", "validation perplexity", "test perplexity")
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for name, preset in PRESETS.items():
        taken = {**TRAINING, **options_of(preset.options.get("output_head", "compositional_output"))}
        options = {key: value for key, value in preset.options.items() if key in taken}
        if not options.get("output_depth", 1):
            options.pop("output_activation", None)  # of no layer
        if options.get("corrections", "none") == "none" and "corrections" in taken:
            options.pop("correction_dim", None)
        head = " ".join(f"{flag(key)} {str(value).replace(' ', '')}" for key, value in options.items())
        published = (preset.parameters, preset.valid, preset.test)
        figures = " | ".join(f"{figure:g}" if figure is not None else "" for figure in published)
        dim = preset.options["decoder_embed_dim"]
        lines.append(f"| `{name}` | {preset.source} | {dim} | `{head}` | {figures} |")
    return "\n".join(lines)
