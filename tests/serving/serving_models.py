"""The models whose scorers are tested."""

from decoders import DECODERS

WORDS = ["cat", "lion", "swim", "feline", "zebra", "run", "madeupword0000"]
ANY_MODEL = [("groc_lstm_lm", head) for head in ("compositional_output", "tied", "mixture_of_softmaxes", "bins")]
ANY_MODEL += [(arch, "compositional_output") for arch in DECODERS]
