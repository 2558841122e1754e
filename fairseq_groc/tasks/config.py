"""The options of ``wordnet_lexicon``."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import II

from fairseq_groc.modules.adapters import AdapterSettings
from fairseq_groc.modules.compositional import DEFAULT_CHUNK
from fairseq_groc.options import HeadConfig

DEFAULT_BLOCK = 35  # GroC, appendix B.1


@dataclass
class AdapterConfig(FairseqDataclass):
    """Adapters; they act wherever a trained model's probabilities are read, never in training."""

    uniform_weight: float = field(
        default=0.0, metadata={"help": "mix this much of the uniform distribution over all words into the model's"}
    )
    new_word_discount: float = field(
        default=1.0, metadata={"help": "factor on the probability of words that the training text lacks (paper: 0.1)"}
    )
    unigram_weight: float = field(default=0.0, metadata={"help": "mass of a unigram cache: 1 - lambda of the paper"})
    local_weight: float = field(default=0.0, metadata={"help": "mass of a local cache: 1 - lambda of the paper"})
    unbounded_weight: float = field(default=0.0, metadata={"help": "mass of an unbounded cache: 1 - lambda of the paper"})
    cache_theta: float = field(default=AdapterSettings.cache_theta, metadata={"help": "theta of the local cache"})
    cache_size: int = field(default=AdapterSettings.cache_size, metadata={"help": "words that the local cache remembers, N"})
    cache_neighbors: int = field(
        default=AdapterSettings.cache_neighbors, metadata={"help": "nearest words that the unbounded cache takes, K"}
    )
    cache_text: Optional[str] = field(
        default=None,
        metadata={"help": "folder from python -m fairseq_groc remember: a text that the unbounded cache sees, too"},
    )
    no_tuned_adapters: bool = field(
        default=False, metadata={"help": "do not take the adapters that python -m fairseq_groc tune has found for model and data"}
    )


@dataclass
class RobustConfig(FairseqDataclass):
    """What a training step leaves out, so that a model is ready for other words; nothing in evaluation."""

    vocabulary_dropout: float = field(
        default=0.0, metadata={"help": "in training, leave words that are not in the batch out of the softmax with this chance"}
    )
    lexicon_dropout: float = field(
        default=0.0, metadata={"help": "in training, leave out a word's relations with this chance, and so its definition"}
    )


@dataclass
class WordnetLexiconConfig(HeadConfig, AdapterConfig, RobustConfig):
    """Options of the task; word embedding, head, adapters and robust training are inherited."""

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
    refresh_interval: int = field(default=100, metadata={"help": "sampled updates: encode all words once in so many steps"})
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
    encode_in_bf16: bool = field(
        default=False,
        metadata={"help": "in training, the word encoder's products in bfloat16: 3 times faster on CPUs that have it"},
    )
    export_embeddings: Optional[str] = field(
        default=None, metadata={"help": "file of all words' embeddings in scoring: read if it fits, else written"}
    )
    seed: int = II("common.seed")
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    tpu: bool = II("common.tpu")
    cpu: bool = II("common.cpu")
    ema_fp32: bool = II("ema.ema_fp32")
    train_subset: str = II("dataset.train_subset")
    dataset_impl: Optional[str] = II("dataset.dataset_impl")
