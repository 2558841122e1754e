"""What a model's word embeddings and head get from the task: spellings and lexicon tables, and how they are computed."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from omegaconf import OmegaConf, open_dict
from torch import nn

from fairseq_groc.data.fingerprint import piece_mark
from fairseq_groc.data.stream_dataset import count_occurrences, open_text
from fairseq_groc.embeddings.base import WordEmbedding
from fairseq_groc.embeddings.corrections import Corrections
from fairseq_groc.embeddings.sampled_updates import Updates
from fairseq_groc.embeddings.vocabulary import Spelling, Vocabulary
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.results import bf16_is_emulated
from fairseq_groc.lexicon.tables import LexiconTables
from fairseq_groc.lexicon.tables_file import load_tables
from fairseq_groc.models.building import lexicon_parts, needs_spellings, ngram_widths
from fairseq_groc.options import SHARED_OPTIONS

logger = logging.getLogger(__name__)


def lexicon_vocabulary(cfg: Any, dictionary: Any, settings: dict[str, Any]) -> tuple[Vocabulary | None, LexiconTables | None]:
    """Return the spellings, relations and definitions that word embedding and head need, as tensors, and the tables; or None.

    Args:
        cfg: the task's options
        settings: of the head

    Raises:
        TablesError: lexicon tables are needed, and there are none, or not for this dictionary.
    """
    if not needs_spellings(settings):
        return None, None
    folder = Path(utils.split_paths(cfg.data)[0])
    spelled = Spelling(settings["spelling_units"], piece_mark(folder))
    if not any(lexicon_parts(settings)):
        return Vocabulary.of_words(dictionary.symbols, ngram_widths(settings), spelled), None
    tables = load_tables(folder, dictionary.symbols)
    return vocabulary_of_tables(tables, settings, spelled), tables


def vocabulary_of_tables(tables: LexiconTables, settings: dict[str, Any], spelled: Spelling) -> Vocabulary:
    """Return what a model of these settings reads of lexicon tables."""
    return Vocabulary(tables.parts(*lexicon_parts(settings)), ngram_widths(settings), spelled=spelled)


def warn_of_empty_parts(tables: LexiconTables, settings: dict[str, Any]) -> None:
    """Name the part of the embeddings that the tables have nothing for, such as definitions from a lexicon that has none.

    Args:
        settings: of the head, which reads the tables
    """
    chosen = dict(zip(("relations", "definitions"), lexicon_parts(settings), strict=True))
    covered = tables.coverage()
    if empty := [part for part in chosen if chosen[part] and not covered[part]]:
        rest = [part for part in chosen if chosen[part] and covered[part]]
        logger.warning(
            f"no word has {' or '.join(empty)} in the lexicon tables: that part of the embeddings is 0. "
            f"--lexicon-parts {(rest or ['none'])[0]} leaves it out of the model."
        )


def complete(cfg: Any, task_options: Any) -> None:
    """Give the options of a checkpoint's model those that it shares with the task and that are newer than it.

    fairseq fills in a task's options, and a model's only where its name is no architecture's.

    Args:
        cfg: of the model
        task_options: of the task as it was set up, with defaults
    """
    if OmegaConf.is_config(cfg) and "output_head" in cfg:  # no other model shares them
        with open_dict(cfg):
            for name in SHARED_OPTIONS:
                if name not in cfg:
                    cfg[name] = task_options[name]


def computation_of(cfg: Any, embedding: type[WordEmbedding]) -> dict[str, Any]:
    """Return what the task's options say of how word embeddings are computed, as arguments of ``attach_head``.

    Raises:
        OptionError: the file for embeddings is in a folder that is not there.
    """
    file = Path(cfg.export_embeddings) if cfg.export_embeddings else None
    if file is not None and not file.parent.is_dir():  # before the work
        raise OptionError(f"--export-embeddings {file}: there is no folder {file.parent}")
    updates = Updates(cfg.full_update_prob, cfg.sampled_update_fraction, cfg.refresh_interval, cfg.seed)
    if (updates.fraction < 1 and not embedding.can_be_sampled) or (updates.probability < 1 and embedding.is_table):
        given = "--sampled-update-fraction" if updates.fraction < 1 else "--full-update-prob"
        logger.warning(f"{given} changes nothing with word embeddings of this kind ({embedding.__name__})")
    return {"computation": {"encoding_chunk": cfg.encoding_chunk}, "updates": updates, "file": file}


def begin_corrections(corrections: Corrections, cfg: Any, dictionary: Any) -> None:
    """Let the words of the training text, in all its folders, begin to be corrected, those that it has often enough."""
    texts = [open_text(Path(folder, cfg.train_subset), combine=True) for folder in utils.split_paths(cfg.data)]
    counts = torch.stack([count_occurrences(text, len(dictionary)) for text in texts]).sum(0)
    number = corrections.begin(counts, cfg.correction_min_count)
    logger.info(f"corrections: {number:,} of {len(dictionary):,} words of the dictionary get one")


def with_bf16_products(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a model and of what it reads, with matrix products in bfloat16; parameters stay as they are."""

    def computed(model: nn.Module, *given: Any) -> Any:
        # no cache: before PyTorch 2.11 it keeps weights cast under no_grad (sampled updates), and they would have no gradient
        device = next(model.parameters()).device.type
        enabled = device != "cpu" or not bf16_is_emulated()  # that is slower, and without AVX512 oneDNN has no such LSTM
        with torch.autocast(device, torch.bfloat16, enabled, cache_enabled=False):
            return compute(model, *given)

    return computed


@contextmanager
def slowed(embedding: WordEmbedding, scale: float) -> Iterator[None]:
    """Let an optimizer's step move a composed embedding by a share of what it would: a learning rate of its own."""
    slow = [] if scale == 1 or embedding.is_table else list(embedding.parameters())
    before = [parameter.detach().clone() for parameter in slow]
    yield
    with torch.no_grad():
        for parameter, old in zip(slow, before, strict=True):
            parameter.copy_(torch.lerp(old, parameter, scale))
