"""A fairseq dataset of contiguous streams, each token predicted exactly once."""

from __future__ import annotations

import os
from typing import List, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils

from fairseq_groc.data.streams import BatchPlan, plan_lines, plan_text
from fairseq_groc.errors import DataError


def open_text(path: str, dictionary: Dictionary, dataset_impl: Optional[str], combine: bool):
    """Open binarised text at the prefix *path*.

    Raises:
        DataError: missing or empty.
    """
    if os.path.exists(path + ".bin") and os.path.getsize(path + ".bin") == 0:
        raise DataError(f"{path}.bin holds no text. Was the raw file empty? Preprocess it again or leave the split out.")
    lines = data_utils.load_indexed_dataset(path, dictionary, dataset_impl, combine=combine)
    if lines is None:
        raise DataError(f"{path}.bin not found. Preprocess the split (scripts/preprocess.sh) or name another one.")
    return lines


class StreamDataset(FairseqDataset):
    """Text as streams; an item is one batch.

    The target of every row is its piece of the text; the input is the text one token earlier, ``</s>`` at the
    beginning of a stream.

    Args:
        lines: an indexed dataset, one tensor of tokens a line
        name: of the split, for messages and carried states
        dictionary: of the data
        independent_lines: every line is a stream of its own
        carries_state: whether the model carries states (then the order of blocks in training is theirs)
    """

    def __init__(self, lines, name: str, dictionary: Dictionary, independent_lines: bool, carries_state: bool):
        self.lines = lines
        self.name = name
        self.dictionary = dictionary
        self.independent_lines = independent_lines
        self.carries_state = carries_state
        self._ends = np.cumsum(np.asarray(lines.sizes, dtype=np.int64))
        self.num_tokens_total = int(self._ends[-1]) if len(self._ends) else 0
        if self.num_tokens_total == 0:
            raise DataError(f"split '{name}' holds no text. Preprocess it again or leave it out.")

    def plan(
        self, epoch: int, batch_size: int, num_shards: int, block: int, vary: bool = False, shuffle: bool = False, seed: int = 1
    ) -> List[BatchPlan]:
        """Return the batches of one pass, those of all shards interleaved."""
        if not self.independent_lines:
            plans = plan_text(self.name, epoch, self.num_tokens_total, batch_size, num_shards, block, vary, seed)
            if shuffle and not self.carries_state:  # without a state, blocks need no order
                plans = [plans[i] for i in np.random.default_rng((seed, epoch)).permutation(len(plans))]
            return plans
        sizes = np.asarray(self.lines.sizes)
        order = np.random.default_rng((seed, epoch)).permutation(len(sizes)) if shuffle else np.argsort(-sizes, kind="stable")
        spans = list(zip((self._ends - sizes).tolist(), self._ends.tolist()))
        return plan_lines(self.name, epoch, spans, batch_size, num_shards, block, order.tolist())

    def tokens(self, begin: int, end: int) -> torch.Tensor:
        """Return tokens [begin, end) of the text."""
        if begin >= end:
            return torch.empty(0, dtype=torch.long)
        first = int(np.searchsorted(self._ends, begin, side="right"))
        last = int(np.searchsorted(self._ends, end, side="left"))
        pieces = torch.cat([self._line(i) for i in range(first, last + 1)])
        offset = int(self._ends[first]) - int(self.lines.sizes[first])
        return pieces[begin - offset : end - offset]

    def _line(self, index: int) -> torch.Tensor:
        line = self.lines[index].long()
        if bool((line[:-1] == self.dictionary.eos()).any()):
            raise DataError(
                f"split '{self.name}', line {index + 1}: contains {self.dictionary.eos_word} as a word, which means the end of a "
                "line. Remove it from the raw text and preprocess again."
            )
        return line

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, plan: BatchPlan) -> dict:
        return self._batch(plan)

    def collater(self, samples: List[dict]) -> dict:
        return samples[0]

    def _batch(self, plan: BatchPlan) -> dict:
        pad, eos = self.dictionary.pad(), self.dictionary.eos()
        shape = (len(plan.rows), plan.block.end - plan.block.begin)
        source, target = torch.full(shape, pad), torch.full(shape, pad)
        for row, ((begin, end), stream) in enumerate(zip(plan.rows, plan.streams)):
            if begin == end:
                continue
            text = self.tokens(max(begin - 1, stream), end)
            self._check(text)
            target[row, : end - begin] = text[-(end - begin) :]
            source[row, : end - begin] = text[:-1] if begin > stream else torch.cat([text.new_tensor([eos]), text[:-1]])
        net_input: dict = {"src_tokens": source, "src_lengths": target.ne(pad).sum(1), "block": plan.block}
        return {
            "id": torch.tensor(self._ids(plan)),
            "nsentences": len(plan.rows),
            "ntokens": int(target.ne(pad).sum()),
            "net_input": net_input,
            "target": target,
        }

    def _ids(self, plan: BatchPlan) -> List[int]:
        """Return what fairseq prints beside the words: a stream's first token, or a line's number (-1 for no line)."""
        if not self.independent_lines:
            return list(plan.streams)
        numbers = np.searchsorted(self._ends, plan.streams, side="right").tolist()
        return [-1 if row == (0, 0) else number for row, number in zip(plan.rows, numbers)]

    def _check(self, text: torch.Tensor) -> None:
        if int(text.max()) >= len(self.dictionary):
            raise DataError(
                f"split '{self.name}' has words beyond the {len(self.dictionary):,} of dict.txt: it was binarised with another "
                "dictionary. Binarise it again: scripts/preprocess.sh."
            )
        for special in (self.dictionary.pad(), self.dictionary.bos()):
            if bool((text == special).any()):
                raise DataError(
                    f"split '{self.name}' contains the special symbol {self.dictionary[special]!r} as a word, which cannot "
                    "be predicted. Remove it from the raw text and preprocess again."
                )

    def num_tokens(self, index: int) -> int:
        return int(self.lines.sizes[index])

    def size(self, index: int) -> int:
        return int(self.lines.sizes[index])

    @property
    def sizes(self) -> np.ndarray:
        return np.asarray(self.lines.sizes)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return False  # block lengths may change with the epoch


class LinesForInference(FairseqDataset):
    """Lines for scoring and generation: each is read from the zero state, ``</s>`` first.

    Unlike fairseq's own, the ``</s>`` at the end of a line is scored as well.
    """

    def __init__(self, tokens: List[torch.Tensor], dictionary: Dictionary):
        self.tokens = tokens
        self.dictionary = dictionary
        self.sizes = np.array([len(t) for t in tokens])

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict:
        return {"id": index, "tokens": self.tokens[index]}

    def collater(self, samples: List[dict]) -> dict:
        pad, eos = self.dictionary.pad(), self.dictionary.eos()
        # prepending </s> and dropping the last token is what move_eos_to_beginning does for lines that end in </s>
        source = [torch.cat([s["tokens"].new_tensor([eos]), s["tokens"][:-1]]) for s in samples]
        target = data_utils.collate_tokens([s["tokens"] for s in samples], pad)
        return {
            "id": torch.tensor([s["id"] for s in samples]),
            "nsentences": len(samples),
            "ntokens": int(sum(len(s["tokens"]) for s in samples)),
            "net_input": {
                "src_tokens": data_utils.collate_tokens(source, pad),
                "src_lengths": torch.tensor([len(s) for s in source]),
            },
            "target": target,
        }

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    def size(self, index: int) -> int:
        return int(self.sizes[index])
