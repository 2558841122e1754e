"""Models that learn from what they score, at the smallest sizes."""

import torch

from fairseq_groc.adapters import Adapter, AdapterSettings, Statistics

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra", "wolf", "run"]
BLOCK, RATE, DECAY, EPSILON = 5, 5e-3, 0.3, 1e-3
SETTINGS = AdapterSettings(
    dynamic_rate=RATE, dynamic_decay=DECAY, dynamic_epsilon=EPSILON, dynamic_block=BLOCK, dynamic_parameters="all"
)
PAD, EOS = 1, 2


def random_statistics(leaves, seed=7):
    random = torch.Generator().manual_seed(seed)
    rms = {name: (torch.rand(one.shape[-2:], generator=random).to(one) + 0.2) * 1e-2 for name, one in leaves.tensors.items()}
    return Statistics(rms, sum(float(one.mean()) for one in rms.values()) / len(rms))


def settings_of(choice, **others):
    """Return settings under which that choice makes a difference, however small a part of these models it is."""
    rate = {"features": 10, "encoder": 4}.get(choice, 1) * RATE
    return SETTINGS.replaced(dynamic_parameters=choice, dynamic_rate=rate, **others)


def adapt(model, settings=SETTINGS):
    decoder = model.decoder
    new = torch.arange(len(decoder.dictionary)) >= 10
    statistics = random_statistics(decoder.leaves(settings.dynamic_parameters))
    decoder.adapter = Adapter(settings, decoder.real_words(), new, {"dynamic": statistics})
    return model


@torch.no_grad()
def scores_of(model, batches):
    """Return log p of every target of the adapted model, as ``evaluate`` has it."""
    found = []
    for sample in batches:
        adapted, _ = model.decoder.losses(*model.decoder.without_scores(model, sample["net_input"]), sample["target"], 5)
        found.append(-adapted[sample["target"] != PAD])
    return torch.cat(found)
