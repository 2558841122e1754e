"""The options of ``wordnet_lexicon``."""

from dataclasses import Field, dataclass, field, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import II

from fairseq_groc.adapters import OPTIONS
from fairseq_groc.embeddings.compositional import DEFAULT_CHUNK
from fairseq_groc.embeddings.sampled_updates import REFRESH_INTERVAL
from fairseq_groc.options import HeadConfig, as_fields
from fairseq_groc.tasks.resuming import ResumingConfig

TASK = "wordnet_lexicon"
DEFAULT_BLOCK = 35  # GroC, appendix B.1


@dataclass
class TunedConfig(FairseqDataclass):
    """Adapters that nobody gives."""

    no_tuned_adapters: bool = field(
        default=False, metadata={"help": "do not take the adapters that python -m fairseq_groc tune has found for model and data"}
    )


# adapters act wherever a trained model's probabilities are read, never in training
AdapterConfig = make_dataclass("AdapterConfig", as_fields(OPTIONS), bases=(TunedConfig,))


@dataclass
class WordnetLexiconConfig(HeadConfig, AdapterConfig, ResumingConfig):  # type: ignore[misc]
    """Options of the task; word embedding, head and adapters are inherited."""

    data: Optional[str] = field(default=None, metadata={"help": "folder of binarised data and lexicon tables"})
    tokens_per_sample: int = field(
        default=0, metadata={"help": f"block length; 0: the checkpoint's in evaluation, {DEFAULT_BLOCK} in training"}
    )
    sample_break_mode: ChoiceEnum(["none", "eos"]) = field(
        default="none", metadata={"help": "none: running text, the state carried over; eos: every line independent"}
    )
    vary_bptt: bool = field(default=False, metadata={"help": "draw block lengths in training as AWD-LSTM does"})
    full_update_prob: float = field(
        default=1.0, metadata={"help": "sparse updates: with 1 minus this the word embeddings stay frozen for a step"}
    )
    sampled_update_fraction: float = field(
        default=1.0, metadata={"help": "sampled updates: encode the batch's words and this fraction of the others a step"}
    )
    refresh_interval: int = field(
        default=REFRESH_INTERVAL, metadata={"help": "sampled updates: encode all words once in so many steps"}
    )
    correction_min_count: int = field(
        default=1, metadata={"help": "words that the training text has less often get no correction (--corrections)"}
    )
    context: Optional[str] = field(
        default=None,
        metadata={"help": "NAME=VALUE,...: what is known of all lines, in place of what the data say; missing: nothing"},
    )
    context_variables: Optional[str] = field(
        default=None, metadata={"help": "NAME,...: which columns of the data a model reads, in this order; default: all of them"}
    )
    context_threshold: int = field(
        default=1, metadata={"help": "values that fewer lines of the training text have are as unknown (--context-dim)"}
    )
    draw_new_rows: bool = field(
        default=False,
        metadata={"help": "words without a row: draw one with the mean and covariance of the others, in place of zeros"},
    )
    max_target_positions: Optional[int] = field(
        default=None, metadata={"help": "positions of models that number them; default: the block length"}
    )
    add_bos_token: bool = field(default=False, metadata={"help": "refused: every text begins with </s>"})
    any_lexicon: bool = field(
        default=False, metadata={"help": "use lexicon tables of another lexicon than the checkpoint was trained with"}
    )
    encoding_chunk: int = field(
        default=DEFAULT_CHUNK,
        metadata={"help": "encode so many forms at a time where there are more than twice as many: less memory, more time"},
    )
    autocast_bf16: bool = field(
        default=False,
        metadata={"help": "in training, matrix products in bfloat16: faster on CPUs that have it; others stay in float32"},
    )
    export_embeddings: Optional[str] = field(
        default=None, metadata={"help": "file of all words' embeddings in scoring: read if it fits, else written"}
    )
    seed: int = II("common.seed")
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    amp: bool = II("common.amp")
    tpu: bool = II("common.tpu")
    cpu: bool = II("common.cpu")
    train_subset: str = II("dataset.train_subset")
    dataset_impl: Optional[str] = II("dataset.dataset_impl")


def adapter_fields() -> list[Field[Any]]:
    """Return the task's options of adapters, with those of caches that were registered after it."""
    names = {f.name for f in fields(TunedConfig) if f.name != "_name"} | OPTIONS.keys()
    return [f for f in fields(TASK_DATACLASS_REGISTRY[TASK]) if f.name in names]
