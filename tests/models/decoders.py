"""fairseq's language models at the smallest sizes."""

import functools

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

SIZES = "--decoder-embed-dim 8 --decoder-layers 1"
WIDTHS = "--decoder-input-dim 8 --decoder-ffn-embed-dim 8 --decoder-attention-heads 2 --decoder-output-dim"
DECODERS = {
    "transformer_lm": f"{SIZES} {WIDTHS} 6",
    "transformer_lm_gpt": f"{SIZES} {WIDTHS} 6",
    "lstm_lm": f"{SIZES} --decoder-hidden-size 10 --decoder-out-embed-dim 6",
    "fconv_lm": "--decoder-embed-dim 8 --decoder-layers [(8,2)] --decoder-attention False --decoder-out-embed-dim 6",
    "lightconv_lm": f"{SIZES} --decoder-kernel-size-list [3] {WIDTHS} 8",
}


@functools.lru_cache
def arguments(arch):
    """Return the configuration that fairseq-train makes of an architecture and its sizes."""
    command = ["none", "--task", "language_modeling", "--tokens-per-sample", "12", "--arch", arch, *DECODERS[arch].split()]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command)).model
