"""fairseq-train with the blocks of the released AWD-LSTM: `python released_blocks.py SEED DATA ... --vary-bptt ...`.

That program draws lengths by numpy's first generator, seeded once. It cuts an epoch's last block short, takes it at the rate of
the length that was drawn, and validates next; --vary-bptt takes every block at the rate of what it reads.
"""

import argparse
import sys

import numpy as np
import timed_train

from fairseq_groc.data import streams
from fairseq_groc.tasks.wordnet_lexicon import WordnetLexiconTask


class Blocks:
    """The lengths of every epoch.

    Args:
        seed: of the released program
    """

    def __init__(self, seed: int):
        self.rng = np.random.RandomState(seed)
        self.drawn: list[list[int]] = []  # of every epoch

    def lengths(self, longest: int, block: int, _seed: int, epoch: int) -> list[int]:
        """Return the lengths of an epoch's blocks, in place of data/streams.py's."""
        while len(self.drawn) < epoch:
            self.drawn.append([])
            while sum(self.drawn[-1]) < longest - 3:  # its streams are two words shorter, and it leaves their last one out
                mean = block if self.rng.random_sample() < 0.95 else block / 2
                self.drawn[-1].append(max(5, int(self.rng.normal(mean, 5))))
        *before, _ = self.drawn[epoch - 1]
        return [*before, longest - sum(before)]

    def train_step(self, train_step, task, sample, **more):
        """Train on a block as the task does; an epoch's last one at the rate of the length that was drawn."""
        found = train_step(task, sample=sample, **more)
        block = sample["net_input"]["block"]
        *before, last = self.drawn[block.epoch - 1]
        if block.begin == sum(before):
            task._block_lengths[-1] = last
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("seed", type=int, help="of the released program")
    args, sys.argv[1:] = parser.parse_known_args()
    if "--vary-bptt" not in sys.argv:
        parser.error("it says how --vary-bptt varies: give that, or a --scale that has it")
    blocks, train_step = Blocks(args.seed), WordnetLexiconTask.train_step
    streams.varied_lengths = blocks.lengths
    WordnetLexiconTask.train_step = lambda task, **given: blocks.train_step(train_step, task, **given)
    timed_train.main()


if __name__ == "__main__":
    main()
