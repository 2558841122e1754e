"""What the options of ``wordnet_lexicon`` may be: each check raises OptionError."""

import logging
import os
from typing import Any

import torch
from fairseq.distributed.utils import get_global_world_size

from fairseq_groc.adapters import ADAPTERS, OPTIONS, AdapterSettings
from fairseq_groc.adapters.base import idle_options, switch_of, takers_of
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.results import bf16_is_emulated
from fairseq_groc.registry import check_options, expect, flag

logger = logging.getLogger(__name__)


def check_machine(cfg: Any) -> None:
    """Refuse what this machine cannot run, and warn of what is slower on it."""
    on_cpu = cfg.cpu or not torch.cuda.is_available()
    if cfg.autocast_bf16 and on_cpu and bf16_is_emulated():
        logger.warning("--autocast-bf16: this CPU has no bfloat16 of its own (AVX512-BF16, AMX): products stay in float32")
    if cfg.autocast_bf16 and (cfg.fp16 or cfg.bf16 or cfg.amp):
        raise OptionError("--autocast-bf16, --fp16, --amp and common.bf16 are four ways to round: give one")
    if cfg.fp16 and on_cpu:
        raise OptionError("--fp16 needs a GPU: leave it out, or use fairseq-hydra-train with common.bf16=true")
    if cfg.amp and on_cpu:
        logger.warning("--amp does nothing without a GPU: products stay in float32. On CPUs give --autocast-bf16.")
    if cfg.tpu:
        raise OptionError("--bf16 (which fairseq takes for a TPU) and --tpu: use fairseq-hydra-train with common.bf16=true")


def check_updates(cfg: Any) -> None:
    """Refuse ways of updating that do not go together."""
    expect("share", full_update_prob=cfg.full_update_prob, sampled_update_fraction=cfg.sampled_update_fraction)
    expect("count", correction_min_count=cfg.correction_min_count, context_threshold=cfg.context_threshold)
    if cfg.full_update_prob < 1 and (cfg.fp16 or cfg.bf16):
        raise OptionError("--full-update-prob cannot freeze the parameter copies of --fp16 and bf16: use --amp")
    if cfg.full_update_prob < 1 and cfg.sampled_update_fraction < 1:
        raise OptionError("--full-update-prob and --sampled-update-fraction are two ways to save time: give one")


def check_use(cfg: Any) -> None:
    """Refuse numbers out of range."""
    expect("count", refresh_interval=cfg.refresh_interval, encoding_chunk=cfg.encoding_chunk)
    if cfg.seed is not None:
        expect("natural", seed=cfg.seed)
    if cfg.add_bos_token:
        raise OptionError("--add-bos-token: every text begins with </s> here. Leave it out.")
    check_options(OPTIONS, {name: getattr(cfg, name) for name in OPTIONS})


def check_needed(cfg: Any) -> None:
    """Refuse options of adapters that do not act. Not for a checkpoint's own: it keeps the defaults of when it was made."""
    idle = idle_options(adapter for adapter in ADAPTERS if getattr(cfg, switch_of(adapter)))
    for name in OPTIONS:
        if name in idle and getattr(cfg, name) != OPTIONS[name].default:
            needed = " or ".join(flag(switch_of(adapter)) for adapter in takers_of(name))
            raise OptionError(f"{flag(name)} does nothing without {needed}: give both, or leave it out")


def check_training(cfg: Any) -> None:
    """Refuse what makes no sense in training."""
    if cfg.export_embeddings:
        raise OptionError("--export-embeddings is for scoring: leave it out of training")
    AdapterSettings.of(cfg).refuse("training")
    if cfg.vary_bptt and str(cfg.sample_break_mode) == "eos":
        raise OptionError(
            "--vary-bptt varies the blocks of a running text, and lines are read whole: leave out one of "
            "--vary-bptt and --sample-break-mode eos"
        )
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and get_global_world_size() == 1:
        raise OptionError(
            f"{os.environ['WORLD_SIZE']} workers were started, but are not connected, as fairseq leaves them without GPUs: each "
            "would train a model of its own. Start each with --distributed-world-size, --distributed-rank, "
            "--distributed-init-method and --distributed-backend gloo (docs/training.md)."
        )


def check_criterion(cfg: Any) -> None:
    """Refuse fairseq's criteria whose loss is no number here."""
    if getattr(cfg, "label_smoothing", None) is not None:  # 0 times inf is no number either
        raise OptionError("label smoothing spreads over words of probability 0, and its loss is inf: use cross_entropy")
    if getattr(cfg, "_name", None) == "adaptive_loss":
        raise OptionError(
            "--criterion adaptive_loss is for fairseq's adaptive softmax: leave it out, and give --output-head adaptive "
            "--adaptive-scoring bins"
        )


def check_streams(dataset: StreamDataset, streams: int, workers: int) -> None:
    """Refuse to train on more streams than the text has tokens."""
    tokens, asked = dataset.num_tokens_total, streams * workers
    if asked > tokens:
        raise OptionError(
            f"--batch-size {streams}: '{dataset.name}' has {tokens:,} tokens, too few for {asked:,} streams. "
            f"Give at most {tokens // workers}."
        )
