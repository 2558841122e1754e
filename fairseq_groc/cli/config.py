"""Print a preset as YAML for fairseq-hydra-train."""

from dataclasses import fields

import yaml
from omegaconf import OmegaConf

from fairseq_groc.options import SHARED_OPTIONS
from fairseq_groc.presets import PRESETS


def add_arguments(parser) -> None:
    parser.add_argument("preset", choices=sorted(PRESETS))


def run(args) -> None:
    print(yaml.safe_dump(preset_config(args.preset), sort_keys=False), end="")


def preset_config(name: str) -> dict:
    """Return the Hydra configuration of a preset: the same model as ``--arch NAME``, and GroC's training."""
    from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModelConfig
    from fairseq_groc.options import HeadConfig

    defaults = OmegaConf.to_container(OmegaConf.structured(HeadConfig()))
    sizes = {f.name: f.default for f in fields(GrocLSTMLanguageModelConfig) if f.name != "_name" and f.name not in SHARED_OPTIONS}
    preset = {**defaults, **sizes, **PRESETS[name].options}
    head = {key: preset[key] for key in SHARED_OPTIONS}
    small = name == "groc_lstm_lm_small"
    return {
        "common": {"user_dir": "fairseq_groc", "log_interval": 100, "seed": 1},
        "task": {"_name": "wordnet_lexicon", "data": "???", "tokens_per_sample": 35, **head},
        "model": {"_name": "groc_lstm_lm", **{key: preset[key] for key in sizes}},  # the head is inherited from the task
        "dataset": {"batch_size": 20, "num_workers": 0},
        "criterion": {"_name": "cross_entropy"},
        "optimizer": {"_name": "adam"},
        "optimization": {"lr": [0.002 if small else 0.001], "clip_norm": 0.1, "max_epoch": 10 if small else 200},
        "lr_scheduler": {"_name": "resumable_reduce_lr_on_plateau", "lr_shrink": 0.1, "lr_patience": 3},
        "checkpoint": {"patience": 8, "no_epoch_checkpoints": True},
        "distributed_training": {"ddp_backend": "legacy_ddp"},
    }
