"""A fairseq dataset of contiguous streams, each token predicted exactly once."""

import itertools
import logging
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import ConcatDataset, Dictionary, FairseqDataset, data_utils, indexed_dataset
from numpy.typing import NDArray

from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.fingerprint import check_binarised
from fairseq_groc.data.streams import BatchPlan, plan_streams, similar_lengths, split_streams
from fairseq_groc.dictionary import ADD_WORDS
from fairseq_groc.errors import DataError, OptionError

logger = logging.getLogger(__name__)


def open_text(path: Path, combine: bool = False) -> Any:
    """Open binarised text.

    Args:
        path: without .bin
        combine: with its further parts, whose names end in 1, 2 and so on

    Raises:
        DataError: missing, empty or damaged.
    """
    parts: list[Any] = []
    for number in itertools.count():
        prefix = f"{path}{number or ''}"
        if not (os.path.exists(prefix + ".idx") and os.path.exists(prefix + ".bin")) or (number and not combine):
            break
        if os.path.getsize(prefix + ".bin") == 0:
            raise DataError(f"{prefix}.bin holds no text. Was the raw file empty? Preprocess it again or leave the split out.")
        try:
            _check_files(prefix)
            check_binarised(Path(prefix))
        except OSError as error:  # a folder, say
            raise DataError(f"{error.filename}: {error.strerror}") from None
        parts.append(indexed_dataset.MMapIndexedDataset(prefix))
    if not parts:
        raise DataError(f"{path}.bin or {path}.idx not found. Preprocess the split (scripts/preprocess.sh) or name another one.")
    return ConcatDataset(parts) if len(parts) > 1 else parts[0]


def _check_files(prefix: str) -> None:
    """Refuse a text that is cut or garbled, as far as its index shows; fairseq would fail somewhere, without a name.

    The index of fairseq-preprocess: 9 bytes of name, 8 of version, 1 of the type, 8 of the number of lines, their sizes in
    tokens (int32), and where they begin in the text in bytes (int64).
    """
    head = struct.Struct("<9sQBQ")
    with open(prefix + ".idx", "rb") as file:
        start = file.read(head.size)
    if start.startswith(b"TNTIDX"):
        raise DataError(f"{prefix}.idx is of an older form than mmap. Binarise the text again: scripts/preprocess.sh.")
    magic, version, kind, count = head.unpack(start) if len(start) == head.size else (b"", 0, 0, 0)
    kinds = {code: np.dtype(of) for code, of in indexed_dataset._code_to_dtype.items() if np.issubdtype(of, np.integer)}
    known = magic.startswith(b"MMIDIDX") and version == 1 and kind in kinds
    if not known or os.path.getsize(prefix + ".idx") != head.size + 12 * count:
        raise DataError(f"{prefix}.idx is cut or garbled. Binarise the text again: scripts/preprocess.sh.")
    sizes = np.fromfile(prefix + ".idx", np.int32, count, offset=head.size).astype(np.int64)
    begins = np.fromfile(prefix + ".idx", np.int64, count, offset=head.size + 4 * count)
    ends = np.cumsum(sizes) * kinds[kind].itemsize
    if count and (sizes.min() < 0 or begins[0] != 0 or not np.array_equal(begins[1:], ends[:-1])):
        raise DataError(f"{prefix}.idx is cut or garbled. Binarise the text again: scripts/preprocess.sh.")
    if os.path.getsize(prefix + ".bin") != (ends[-1] if count else 0):
        raise DataError(f"{prefix}.bin is not the text of {prefix}.idx, or is cut. Binarise it again: scripts/preprocess.sh.")


def text_of(lines: Any) -> NDArray[Any]:
    """Return the tokens of all lines, one after the other; those of one binarised text are not copied."""
    if isinstance(lines, ConcatDataset):
        return np.concatenate([text_of(part) for part in lines.datasets])
    if isinstance(lines, indexed_dataset.MMapIndexedDataset):
        # a map of its own: fairseq's is closed together with the lines
        return np.asarray(np.memmap(indexed_dataset.data_file_path(lines._path), lines._index.dtype, "r"))
    return torch.cat(list(lines)).numpy()


def count_occurrences(lines: Any, size: int) -> torch.Tensor:
    """Return how often each word occurs in all lines, (V)."""
    return torch.from_numpy(np.bincount(text_of(lines), minlength=size))


class StreamDataset(FairseqDataset):
    """Text as streams; an item is one batch.

    The target of every row is its piece of the text; the input is the text one token earlier, ``</s>`` at the
    beginning of a stream.

    Args:
        lines: an indexed dataset, one tensor of tokens a line; of one line or more
        name: of the split, for messages and carried states
        dictionary: of the data
        independent_lines: every line is a stream of its own
        contexts: what is known of each line, or of all, in the model's numbers; None: nothing

    Raises:
        DataError: it has what no text can have.
    """

    def __init__(self, lines: Any, name: str, dictionary: Dictionary, independent_lines: bool, contexts: Contexts | None = None):
        self.lines = lines
        self.name = name
        self.dictionary = dictionary
        self.independent_lines = independent_lines
        self.contexts = contexts
        self.sizes = np.asarray(lines.sizes)  # of lines
        self.ends = np.cumsum(self.sizes, dtype=np.int64)
        self.num_tokens_total = int(self.ends[-1])
        self.text = text_of(lines)
        self._check()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "text": None}  # which a process that is begun anew maps for itself

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, text=text_of(state["lines"]))

    def plan(
        self, epoch: int, batch_size: int, num_shards: int, block: int, vary: bool = False, shuffle: bool = False, seed: int = 1
    ) -> list[BatchPlan]:
        """Return the batches of one pass, those of all shards interleaved.

        Args:
            shuffle: draw their order; blocks of a running text want theirs where a state is carried
        """
        at_a_time, rng = batch_size * num_shards, np.random.default_rng((seed, epoch))
        streams = split_streams(self.num_tokens_total, at_a_time)
        if self.independent_lines:
            order = similar_lengths(self.sizes, at_a_time, rng) if shuffle else np.argsort(-self.sizes, kind="stable")
            streams = list(zip((self.ends - self.sizes)[order].tolist(), self.ends[order].tolist(), strict=True))
        plans = plan_streams(self.name, epoch, streams, batch_size, num_shards, block, vary, seed)
        if shuffle and not self.independent_lines:
            return [plans[i] for i in rng.permutation(len(plans))]
        return plans

    def tokens(self, begin: int, end: int) -> torch.Tensor:
        """Return tokens [begin, end) of the text."""
        return torch.from_numpy(self.text[begin:end].astype(np.int64))

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, plan: BatchPlan) -> dict[str, Any]:
        pad, eos = self.dictionary.pad(), self.dictionary.eos()
        shape = (len(plan.rows), plan.block.end - plan.block.begin)
        source, target = torch.full(shape, pad), torch.full(shape, pad)
        for row, ((begin, end), stream) in enumerate(zip(plan.rows, plan.streams, strict=True)):
            if begin == end:
                continue
            text = self.tokens(max(begin - 1, stream), end)
            target[row, : end - begin] = text[-(end - begin) :]
            source[row, : end - begin] = text[:-1] if begin > stream else torch.cat([text.new_tensor([eos]), text[:-1]])
        net_input = {"src_tokens": source, "src_lengths": target.ne(pad).sum(1), "block": plan.block, **self._attributes(plan)}
        return {
            "id": torch.tensor(self._ids(plan)),
            "nsentences": len(plan.rows),
            "ntokens": int(target.ne(pad).sum()),
            "net_input": net_input,
            "target": target,
        }

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        return samples[0]

    def _attributes(self, plan: BatchPlan) -> dict[str, Any]:
        """Return what else the model is told of a batch: ``context``, of its lines, or of the lines of its targets."""
        if self.contexts is None:
            return {}
        if self.independent_lines:
            positions = np.array(plan.streams)
        else:
            steps = np.arange(plan.block.end - plan.block.begin)
            begins, ends = np.array(plan.rows).T[:, :, None]
            positions = np.clip(begins + steps, 0, np.maximum(ends - 1, 0))  # where there is no target, the last one's line
        return {"context": self.contexts.of_lines(np.searchsorted(self.ends, positions, side="right"))}

    def _ids(self, plan: BatchPlan) -> list[int]:
        """Return what fairseq prints beside the words: a stream's first token, or a line's number (-1 for no line)."""
        if not self.independent_lines:
            return list(plan.streams)
        numbers = np.searchsorted(self.ends, plan.streams, side="right").tolist()
        return [-1 if row == (0, 0) else number for row, number in zip(plan.rows, numbers, strict=True)]

    def _check(self) -> None:
        if int(self.text.max()) >= len(self.dictionary):
            raise DataError(
                f"split '{self.name}' has words beyond the {len(self.dictionary):,} of dict.txt: it was binarised with another "
                "dictionary. Binarise it again: scripts/preprocess.sh."
            )
        for special in (self.dictionary.pad(), self.dictionary.bos()):
            if (self.text == special).any():
                raise DataError(
                    f"split '{self.name}' contains the special symbol {self.dictionary[special]!r} as a word, which cannot "
                    "be predicted. Remove it from the raw text and preprocess again."
                )
        ends = np.flatnonzero(self.text == self.dictionary.eos())
        lines = np.searchsorted(self.ends, ends, side="right")
        if len(within := lines[ends != self.ends[lines] - 1]):
            raise DataError(
                f"split '{self.name}', line {within[0] + 1}: contains {self.dictionary.eos_word} as a word, which means the end "
                "of a line. Remove it from the raw text and preprocess again."
            )

    def warn_of_unknown(self) -> None:
        """Say how many words of the text are ``<unk>``: which they were, binarised text does not tell."""
        if count := int((self.text == self.dictionary.unk()).sum()):
            logger.warning(
                f"{count:,} of {self.num_tokens_total:,} tokens of '{self.name}' are read as {self.dictionary.unk_word}. "
                f"If dict.txt lacks these words: {ADD_WORDS}"
            )


class LinesForInference(FairseqDataset):
    """Lines for scoring and generation: each is read from the zero state, ``</s>`` first.

    Unlike fairseq's own, the ``</s>`` at the end of a line is scored as well.

    Args:
        tokens: of each line
        dictionary: of the model
        contexts: of each line, or one of all, in the model's numbers; None: nothing is known of them

    Raises:
        OptionError: as many contexts as there are no lines.
    """

    def __init__(self, tokens: list[torch.Tensor], dictionary: Dictionary, contexts: Contexts | None = None):
        if contexts is not None and len(contexts.index) not in (1, len(tokens)):
            raise OptionError(
                f"{len(contexts.index):,} contexts for {len(tokens):,} lines: expected one for each, or one for all"
            )
        self.contexts = contexts
        self.tokens = tokens
        self.dictionary = dictionary
        self.sizes = np.array([len(t) for t in tokens])

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"id": index, "tokens": self.tokens[index]}

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        pad, eos = self.dictionary.pad(), self.dictionary.eos()
        tokens, numbers = [s["tokens"] for s in samples], [s["id"] for s in samples]
        return {
            "id": torch.tensor(numbers),
            "nsentences": len(samples),
            "ntokens": sum(map(len, tokens)),
            "net_input": {
                # </s> first, and without the last one, whatever that is
                "src_tokens": data_utils.collate_tokens(tokens, pad, eos, move_eos_to_beginning=True),
                "src_lengths": torch.tensor([*map(len, tokens)]),
                **({} if self.contexts is None else {"context": self.contexts.of_lines(np.array(numbers))}),
            },
            "target": data_utils.collate_tokens(tokens, pad),
        }

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])
