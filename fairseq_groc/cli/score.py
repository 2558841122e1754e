"""Score the lines of a file with a checkpoint: tab-separated log-probability, tokens, line."""

import logging
import math
import os
import sys
import textwrap
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Tuple

import torch

from fairseq_groc.cli import open_vocabulary
from fairseq_groc.cli.numbers import positive
from fairseq_groc.data.streams import Block
from fairseq_groc.data.text import check_lines, read_lines
from fairseq_groc.errors import DataError, GrocError, shown
from fairseq_groc.files import check_archive
from fairseq_groc.modules.probabilities import LOG_ZERO, numbers_of
from fairseq_groc.options import flag
from fairseq_groc.tasks.checks import check_needed
from fairseq_groc.tasks.config import adapter_fields

logger = logging.getLogger(__name__)


def add_arguments(parser) -> None:
    parser.add_argument("text", help="a file of tokenised lines, - for the standard input; with --field, tab-separated")
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--data", required=True, help="data folder with the vocabulary to score with")
    parser.add_argument("--field", type=positive, help="the text is this field of each line, from 1 (an n-best list, say)")
    parser.add_argument("--running", action="store_true", help="one running text: do not begin anew at each line")
    add_adapter_arguments(parser)
    add_any_lexicon(parser)
    open_vocabulary.add_arguments(parser)
    parser.add_argument("--tokens-per-sample", type=positive, default=512, help="tokens at a time")


def run(args) -> None:
    open_vocabulary.check(args)
    lines: Iterable[str] = _lines(args)
    if not args.open_vocabulary:
        lines = list(lines)  # bad input is refused before anything is scored
    hub = load(args.path, args.data, **adapter_options(args), any_lexicon=args.any_lexicon)
    if args.limit_vocabulary:
        open_vocabulary.limit(hub.models[0], args)
    if args.open_vocabulary:
        open_vocabulary.run(hub.models[0], ((line, _field(line, args.field, 0, args.text)) for line in lines), args)
        return
    texts = [_field(line, args.field, i, args.text) for i, line in enumerate(lines, start=1)]
    _report_unknown(texts, hub.task.dictionary, args.data)
    impossible = 0
    for line, (score, tokens) in zip(lines, score_lines(hub, texts, args.running, args.tokens_per_sample)):
        impossible += score == -math.inf
        open_vocabulary.write_score(score, tokens, line)
    if impossible:
        why = "words beyond --limit-vocabulary, or " if args.limit_vocabulary else "words "
        logger.warning(
            f"{impossible:,} of {len(texts):,} lines have {why}that the model has no row for, and probability 0. "
            "Give --uniform-weight W to mix in the uniform distribution."
        )


def _lines(args) -> Iterator[str]:
    """Yield the lines of the text, those of the standard input as they come.

    Raises:
        DataError: there are none.
    """

    def text_of(line: str, number: int) -> str:
        return _field(line, args.field, number, args.text)

    if args.text != "-":
        yield from read_lines(Path(args.text), text_of)
        return
    empty = True
    for line in check_lines(sys.stdin.buffer, "-", text_of):
        empty = False
        yield line
    if empty:
        raise DataError("- is empty: nothing to score")


def add_adapter_arguments(parser) -> None:
    """Add the task's options of adapters."""
    group = parser.add_argument_group("adapters, as in the task")
    for option in adapter_fields():
        switch = option.type is bool
        kind: Dict[str, Any] = {"action": "store_true"} if switch else {"type": str if option.default is None else option.type}
        group.add_argument(flag(option.name), default=option.default, help=option.metadata["help"], **kind)


def add_any_lexicon(parser) -> None:
    """Add the option to take data of another lexicon than the checkpoint's; ``load`` takes it as ``any_lexicon``."""
    parser.add_argument("--any-lexicon", action="store_true", help="the data's lexicon may be another than the checkpoint's")


def adapter_options(args) -> Dict[str, Any]:
    """Return the options of adapters, as given or by default; a command without them takes tuned ones if told to."""
    if not hasattr(args, "uniform_weight"):
        return {"no_tuned_adapters": not getattr(args, "tuned_adapters", False)}
    check_needed(args)
    return {option.name: getattr(args, option.name) for option in adapter_fields()}


def _report_unknown(texts: List[str], dictionary, data: str) -> None:
    unknown = [word for text in texts for word in text.split() if word not in dictionary.indices]
    if unknown:
        logger.warning(
            f"{len(unknown):,} words, {shown(unknown[0])} first, are not in the vocabulary of {data} and score as <unk>. "
            "Add them: scripts/preprocess.sh --vocabulary-from DATA --test FILE --dest DIR, then --data DIR."
        )


def load(path: str, data: str, **options):
    """Return a checkpoint with the vocabulary of a data folder, as ``from_pretrained`` does, for evaluation.

    Raises:
        DataError: there is no such checkpoint or folder, or it is broken.
    """
    checkpoint, folder = Path(path), Path(data).resolve()  # fairseq takes ./data for a folder beside the checkpoint
    if not checkpoint.is_file():
        raise DataError(f"{checkpoint}: no such checkpoint")
    if not (folder / "dict.txt").is_file():
        raise DataError(f"{folder}/dict.txt not found: --data wants a folder from scripts/preprocess.sh")
    for name in (checkpoint.name, str(folder)):
        if os.pathsep in name:
            raise DataError(f"{name}: fairseq takes {os.pathsep!r} for the end of a name. Rename it, or make a link to it.")
    from fairseq.models import FairseqLanguageModel

    try:
        check_archive(checkpoint)
        hub = FairseqLanguageModel.from_pretrained(str(checkpoint.parent), checkpoint.name, str(folder), **options).eval()
    except GrocError:
        raise
    except Exception as error:  # whatever torch and fairseq make of a file that is cut, or no checkpoint
        if getattr(error, "filename", None) is not None:  # another file, or one that may not be read
            raise
        reason = textwrap.shorten(f"{type(error).__name__}: {error}", 300)
        raise DataError(f"{checkpoint} cannot be loaded as a checkpoint ({reason}). Give one of fairseq-train.") from error
    check_weights(hub.models[0], checkpoint)
    hub.task.prepare_scoring()
    return hub


def check_weights(model, checkpoint: Path) -> None:
    """Refuse a model that no figure can come from.

    Raises:
        DataError: a parameter, or what it computes of a word, is infinite or not a number.
    """
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            what = f"{int((~parameter.isfinite()).sum()):,} of {name} are no finite numbers"
            raise DataError(f"{checkpoint}: {what}: its training has diverged. Give an earlier checkpoint.")
    with torch.no_grad():
        matrices = model.decoder.words()[:2]  # kept for what comes
    if not all(bool(matrix.isfinite().all()) for matrix in matrices):
        raise DataError(f"{checkpoint}: its word embeddings are no numbers (NaN): the checkpoint is broken. Give another one.")


def _field(line: str, field, number: int, path: str) -> str:
    if field is None:
        return line
    parts = line.split("\t")
    if len(parts) < field:
        raise DataError(f"{path}:{number}: {len(parts)} tab-separated fields, --field {field} asked for")
    return parts[field - 1]


@torch.no_grad()
def score_lines(hub, texts: List[str], running: bool = False, block: int = 512) -> Iterator[Tuple[float, int]]:
    """Yield the log-probability (natural logarithm) and the number of tokens of every line, its ``</s>`` included.

    A line with an impossible word scores -inf.

    Args:
        hub: what ``from_pretrained`` returns
        running: carry the state from line to line; otherwise every line begins from the zero state
    """
    model, dictionary = hub.models[0], hub.task.dictionary
    block = min(block, int(model.decoder.max_positions()))
    previous, begin = dictionary.eos(), 0
    for number, text in enumerate(texts):
        if not running:
            previous, begin = dictionary.eos(), 0
        tokens = dictionary.encode_line(text, add_if_not_exist=False, append_eos=True).long().to(hub.device)
        total = 0.0
        for target in tokens.split(block):
            source = torch.cat([target.new_tensor([previous]), target[:-1]]).unsqueeze(0)  # (1, T)
            place = Block("scored", 0 if running else number, 0, begin, begin + len(target))
            output = model(source, block=place)
            lprobs = model.get_normalized_probs(output, log_probs=True)[0]  # (T, V)
            total += numbers_of("model", lprobs.gather(1, target.unsqueeze(1))).double().sum().item()
            previous, begin = int(target[-1]), place.end
        yield (total if total > LOG_ZERO / 2 else -math.inf), len(tokens)
