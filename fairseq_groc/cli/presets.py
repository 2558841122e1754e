"""Print the table of presets: options, source, published figures; or one of them as YAML for fairseq-hydra-train."""

from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from dataclasses import fields
from typing import Any

import yaml
from omegaconf import OmegaConf

from fairseq_groc.encoders import ENCODERS
from fairseq_groc.errors import OptionError
from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModelConfig
from fairseq_groc.options import OF_FACTORS, SHARED_OPTIONS, TRAINING, HeadConfig, options_of
from fairseq_groc.presets import PRESETS
from fairseq_groc.registry import flag


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", choices=sorted(PRESETS), metavar="NAME", help="of one preset (default: all)")
    parser.add_argument("--yaml", action="store_true", help="print the configuration of a training with it")


def run(args: Namespace) -> None:
    if args.yaml and args.name is None:
        raise OptionError("--yaml is for one preset: give its NAME")
    if args.yaml:
        print(yaml.safe_dump(preset_config(args.name), sort_keys=False), end="")
    else:
        print(table([args.name] if args.name else PRESETS))


def preset_config(name: str) -> dict[str, Any]:
    """Return the Hydra configuration of a preset: the same model as ``--arch NAME``, and GroC's training."""
    defaults = OmegaConf.to_container(OmegaConf.structured(HeadConfig()))
    sizes = {f.name: f.default for f in fields(GrocLSTMLanguageModelConfig) if f.name != "_name" and f.name not in SHARED_OPTIONS}
    preset = {**defaults, **sizes, **PRESETS[name].options}
    head = {key: preset.get(key, option.default) for key, option in SHARED_OPTIONS.items()}
    unused = ENCODERS.options.keys() - ENCODERS.taken[preset["prefix_encoder"]].keys()
    small = name == "groc_lstm_lm_small"
    return {
        "common": {"user_dir": "fairseq_groc", "log_interval": 100, "seed": 1},
        "task": {"_name": "wordnet_lexicon", "data": "???", "tokens_per_sample": 35, **head},
        # the head is inherited from the task
        "model": {"_name": "groc_lstm_lm", **{key: preset[key] for key in sizes if key not in unused}},
        "dataset": {"batch_size": 20, "num_workers": 0},
        "criterion": {"_name": "cross_entropy"},
        "optimizer": {"_name": "adam"},
        "optimization": {"lr": [0.002 if small else 0.001], "clip_norm": 0.1, "max_epoch": 10 if small else 200},
        "lr_scheduler": {"_name": "resumable_reduce_lr_on_plateau", "lr_shrink": 0.1, "lr_patience": 3},
        "checkpoint": {"patience": 8, "no_epoch_checkpoints": True},
        "distributed_training": {"ddp_backend": "legacy_ddp"},
    }


def table(names: Collection[str] = PRESETS) -> str:
    """Return the table in Markdown."""
    header = (
        "| `--arch` | source | encoder | d | head and its options | parameters (M) | validation perplexity | test perplexity |"
    )
    lines = [header, "|" + " --- |" * (header.count("|") - 1)]
    for name in names:
        preset = PRESETS[name]
        taken = {*TRAINING, *options_of(preset.options.get("output_head", "compositional_output")), *OF_FACTORS}
        options = {key: value for key, value in preset.options.items() if key in taken}
        if not options.get("output_depth", 1):
            options.pop("output_activation", None)  # of no layer
        if options.get("corrections", "none") == "none" and "corrections" in taken:
            options.pop("correction_dim", None)
        head = " ".join(f"{flag(key)} {str(value).replace(' ', '')}" for key, value in options.items())
        published = (preset.parameters, preset.valid, preset.test)
        figures = " | ".join(f"{figure:g}" if figure is not None else "" for figure in published)
        encoder, dim = preset.options.get("prefix_encoder", "lstm"), preset.options["decoder_embed_dim"]
        lines.append(f"| `{name}` | {preset.source} | `{encoder}` | {dim} | `{head}` | {figures} |")
    return "\n".join(lines)
