"""The options of ``wordnet_lexicon``."""

from dataclasses import Field, dataclass, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import II

from fairseq_groc.adapters import OPTIONS
from fairseq_groc.embeddings.compositional import DEFAULT_CHUNK
from fairseq_groc.embeddings.sampled_updates import REFRESH_INTERVAL
from fairseq_groc.options import HeadConfig, as_fields, described
from fairseq_groc.tasks.resuming import ResumingConfig

TASK = "wordnet_lexicon"
DEFAULT_BLOCK = 35  # GroC, appendix B.1


UNTUNED = "no_tuned_adapters"
# adapters act wherever a trained model's probabilities are read, never in training
_untuned = described(False, "do not take the adapters that python -m fairseq_groc tune has found for model and data")
AdapterConfig = make_dataclass("AdapterConfig", [(UNTUNED, bool, _untuned), *as_fields(OPTIONS)], bases=(FairseqDataclass,))


@dataclass
class WordnetLexiconConfig(HeadConfig, AdapterConfig, ResumingConfig):  # type: ignore[misc]
    """Options of the task; word embedding, head and adapters are inherited."""

    data: Optional[str] = described(None, "folder of binarised data and lexicon tables")
    tokens_per_sample: int = described(0, f"block length; 0: the checkpoint's in evaluation, {DEFAULT_BLOCK} in training")
    sample_break_mode: ChoiceEnum(["none", "eos"]) = described(
        "none", "none: running text, the state carried over; eos: every line independent"
    )
    vary_bptt: bool = described(False, "draw block lengths in training as AWD-LSTM does")
    full_update_prob: float = described(1.0, "sparse updates: with 1 minus this the word embeddings stay frozen for a step")
    sampled_update_fraction: float = described(
        1.0, "sampled updates: encode the batch's words and this fraction of the others a step"
    )
    refresh_interval: int = described(REFRESH_INTERVAL, "sampled updates: encode all words once in so many steps")
    correction_min_count: int = described(1, "words that the training text has less often get no correction (--corrections)")
    context: Optional[str] = described(
        None, "NAME=VALUE,...: what is known of all lines, in place of what the data say; missing: nothing"
    )
    context_variables: Optional[str] = described(
        None, "NAME,...: which columns of the data a model reads, in this order; default: all of them"
    )
    context_threshold: int = described(1, "values that fewer lines of the training text have are as unknown (--context-dim)")
    draw_new_rows: bool = described(
        False, "words without a row: draw one with the mean and covariance of the others, in place of zeros"
    )
    max_target_positions: Optional[int] = described(None, "positions of models that number them; default: the block length")
    add_bos_token: bool = described(False, "refused: every text begins with </s>")
    any_lexicon: bool = described(False, "use lexicon tables of another lexicon than the checkpoint was trained with")
    encoding_chunk: int = described(
        DEFAULT_CHUNK, "encode so many forms at a time where there are more than twice as many: less memory, more time"
    )
    autocast_bf16: bool = described(
        False, "in training, matrix products in bfloat16: faster on CPUs that have it; others stay in float32"
    )
    export_embeddings: Optional[str] = described(None, "file of all words' embeddings in scoring: read if it fits, else written")
    seed: int = II("common.seed")
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    amp: bool = II("common.amp")
    tpu: bool = II("common.tpu")
    cpu: bool = II("common.cpu")
    train_subset: str = II("dataset.train_subset")


def adapter_fields() -> list[Field[Any]]:
    """Return the task's options of adapters, with those of caches that were registered after it."""
    return [f for f in fields(TASK_DATACLASS_REGISTRY[TASK]) if f.name in (UNTUNED, *OPTIONS)]
