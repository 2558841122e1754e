"""What the last block of an epoch does to validation perplexity: one more training step, of few words, at a long block's rate.

    python examples/papers/last_block.py --path checkpoint_best.pt --data DIR

A block at a text's end is cut short. The released AWD-LSTM takes it at the rate of the length that was drawn, and validates
next; --vary-bptt takes it at the rate of what is left. The step is plain SGD, of the first words of the training text.
"""

import argparse
import copy
from dataclasses import replace
from typing import Any

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from fairseq_groc.evaluation.scoring import Place, blocks, score
from fairseq_groc.modules.probabilities import perplexity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", required=True, help="checkpoint of --vary-bptt and SGD")
    parser.add_argument("--data", required=True, help="folder of preprocess")
    parser.add_argument("--words", type=int, nargs="+", default=[13, 37, 70], help="of a stream, in the last block")
    args = parser.parse_args()
    (model,), cfg, task = load_model_ensemble_and_task([args.path], {"data": args.data})
    criterion = task.build_criterion(cfg.criterion)
    for split in ("train", "valid"):
        task.load_dataset(split)
    place, trained = Place(cfg.dataset.batch_size, cfg.task.tokens_per_sample), copy.deepcopy(model.state_dict())
    print(f"as trained: {validated(model, task, place):.1f}", flush=True)
    for words in args.words:
        for rated in dict.fromkeys((words, place.block)):
            model.load_state_dict(trained)
            sample = next(blocks(model, task.dataset("train"), replace(place, block=words)))
            step(model, criterion, sample, cfg, rated / place.block)
            print(f"after {words} words at the rate of {rated}: {validated(model, task, place):.1f}", flush=True)


def validated(model: Any, task: Any, place: Place) -> float:
    """Return the perplexity of the validation text."""
    model.eval()
    found = torch.cat(score(model, task.dataset("valid"), place).own)
    return perplexity(-float(found.double().sum()), len(found))


def step(model: Any, criterion: Any, sample: dict[str, Any], cfg: Any, share: float) -> None:
    """Take a step of training on a batch, at a share of the learning rate."""
    model.train()
    torch.manual_seed(1)  # the same words are dropped whatever the rate
    model.zero_grad()
    sgd = torch.optim.SGD(model.parameters(), share * cfg.optimization.lr[0], weight_decay=cfg.optimizer.weight_decay)
    loss, sample_size, _ = criterion(model, sample)
    (loss / sample_size).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.optimization.clip_norm)
    sgd.step()


if __name__ == "__main__":
    main()
