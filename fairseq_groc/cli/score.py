"""Score the lines of a file with a checkpoint: tab-separated log-probability, tokens, line."""

import logging
import math
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Tuple

import torch

from fairseq_groc.cli import open_vocabulary
from fairseq_groc.cli.prepare import check_lines, read_lines
from fairseq_groc.data.streams import Block
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.modules.probabilities import LOG_ZERO
from fairseq_groc.options import flag
from fairseq_groc.tasks.checks import check_needed
from fairseq_groc.tasks.config import adapter_fields

logger = logging.getLogger(__name__)


def add_arguments(parser) -> None:
    parser.add_argument("text", help="a file of tokenised lines, - for the standard input; with --field, tab-separated")
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--data", required=True, help="data folder with the vocabulary to score with")
    parser.add_argument("--field", type=int, help="the text is this field of each line, from 1 (an n-best list, say)")
    parser.add_argument("--running", action="store_true", help="one running text: do not begin anew at each line")
    add_adapter_arguments(parser)
    open_vocabulary.add_arguments(parser)
    parser.add_argument("--tokens-per-sample", type=int, default=512, help="tokens at a time")


def run(args) -> None:
    if args.field is not None and args.field < 1:
        raise OptionError(f"--field {args.field}: fields count from 1")
    if args.tokens_per_sample < 1:
        raise OptionError(f"--tokens-per-sample {args.tokens_per_sample}: expected a positive number")
    open_vocabulary.check(args)
    lines: Iterable[str] = _lines(args)
    if not args.open_vocabulary:
        lines = list(lines)  # bad input is refused before anything is scored
    hub = load(args.path, args.data, **adapter_options(args))
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
    """Yield the lines of the text, those of the standard input as they come."""

    def text_of(line: str, number: int) -> str:
        return _field(line, args.field, number, args.text)

    return check_lines(sys.stdin.buffer, "-", text_of) if args.text == "-" else read_lines(Path(args.text), text_of)


def add_adapter_arguments(parser) -> None:
    """Add the task's options of adapters."""
    group = parser.add_argument_group("adapters, as in the task")
    for option in adapter_fields():
        switch = option.type is bool
        kind: Dict[str, Any] = {"action": "store_true"} if switch else {"type": str if option.default is None else option.type}
        group.add_argument(flag(option.name), default=option.default, help=option.metadata["help"], **kind)


def adapter_options(args) -> Dict[str, Any]:
    """Return the options of adapters, as given or by default; a command that has none of them takes no tuned ones either."""
    if not hasattr(args, "uniform_weight"):
        return {"no_tuned_adapters": True}
    check_needed(args)
    return {option.name: getattr(args, option.name) for option in adapter_fields()}


def _report_unknown(texts: List[str], dictionary, data: str) -> None:
    unknown = [word for text in texts for word in text.split() if word not in dictionary.indices]
    if unknown:
        logger.warning(
            f"{len(unknown):,} words, {unknown[0]!r} first, are not in the vocabulary of {data} and score as <unk>. Add them: "
            "scripts/preprocess.sh --vocabulary-from DATA --test FILE --dest DIR, then --data DIR."
        )


def load(path: str, data: str, **options):
    """Return a checkpoint with the vocabulary of a data folder, as ``from_pretrained`` does, for evaluation.

    Raises:
        DataError: there is no such checkpoint or folder.
    """
    checkpoint, folder = Path(path), Path(data).resolve()  # fairseq takes ./data for a folder beside the checkpoint
    if not checkpoint.is_file():
        raise DataError(f"{checkpoint}: no such checkpoint")
    if not (folder / "dict.txt").is_file():
        raise DataError(f"{folder}/dict.txt not found: --data wants a folder from scripts/preprocess.sh")
    from fairseq.models import FairseqLanguageModel

    hub = FairseqLanguageModel.from_pretrained(str(checkpoint.parent), checkpoint.name, str(folder), **options).eval()
    hub.task.prepare_scoring()
    return hub


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
            total += lprobs.gather(1, target.unsqueeze(1)).double().sum().item()
            previous, begin = int(target[-1]), place.end
        yield (total if total > LOG_ZERO / 2 else -math.inf), len(tokens)
