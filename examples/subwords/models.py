"""The models that are compared, and how they are trained: all for the same time on a core."""

from typing import NamedTuple

WORDS = "words"
LSTM = "--batch-size 20 --batch-size-valid 20"
TRANSFORMER = (
    "--arch transformer_lm --decoder-embed-dim 128 --decoder-input-dim 128 --decoder-output-dim 128 "
    "--decoder-ffn-embed-dim 512 --decoder-layers 2 --decoder-attention-heads 4 --batch-size 16 --batch-size-valid 16"
)
CORRECTED = (
    "--output-head compositional_output --char-filters [16,32,48,64,96,128] --corrections both --sampled-update-fraction 0.05"
)
TRAINING = (
    "--optimizer adam --clip-norm 0.25 --lr-scheduler polynomial_decay --criterion chunked_cross_entropy --no-epoch-checkpoints "
    "--num-workers 0 --log-format simple --log-interval 25"
)
BLOCK = 35  # words of the text in a block, as many pieces as they are


class Model(NamedTuple):
    """A model.

    Args:
        vocabulary: WORDS, or how many pieces
        head: in tables
        options: of fairseq-train
        rates: learning rates that are tried; validation text chooses
        block: tokens in a block, in training and scoring; 0: as many as make ``BLOCK`` words in training, and 100 in scoring
    """

    vocabulary: str
    head: str
    options: str
    rates: tuple[str, ...] = ("0.006", "0.003")
    block: int = 0

    @property
    def label(self) -> str:
        encoder = "transformer, " if self.block else ""
        return f"{encoder}{self.head}, " + (WORDS if self.vocabulary == WORDS else f"{int(self.vocabulary):,} pieces")


def models(sizes: list[int], transformer: bool) -> list[Model]:
    """Return the models: of words, and of so many pieces; with a transformer in place of the LSTM, too, those of pieces."""
    tied, composed = "--arch groc_lstm_lm_small --output-head tied", "--arch groc_lstm_lm_small"
    corrected = "--arch groc_lstm_lm_small_corrected --sampled-update-fraction 0.05"
    found = [
        Model(WORDS, "tied", f"{tied} {LSTM}"),
        Model(WORDS, "GroC", f"{composed} --output-head compositional_output --sampled-update-fraction 0.1 {LSTM}"),
        Model(WORDS, "GroC + corrections", f"{corrected} {LSTM}"),
    ]
    for size in map(str, sizes):
        found += [Model(size, "tied", f"{tied} {LSTM}"), Model(size, "GroC + corrections", f"{corrected} {LSTM}")]
        if transformer:
            more = dict(rates=("0.003", "0.001"), block=64)
            found.append(Model(size, "tied", f"{TRANSFORMER} --output-head tied", **more))
            found.append(Model(size, "GroC + corrections", f"{TRANSFORMER} {CORRECTED}", **more))
    return found
