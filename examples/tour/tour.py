"""A language model whose vocabulary is open, in seven steps: python examples/tour/tour.py

``--readme`` renews README.md beside this file with the code of every step and what it printed.
"""

import argparse
import copy
import functools
import logging
import math
import random
import tempfile
from pathlib import Path

import page
import torch

from fairseq_groc import programs
from fairseq_groc.__main__ import in_process
from fairseq_groc.evaluation.loading import load
from fairseq_groc.evaluation.scoring import Place, score
from fairseq_groc.lexicon import Entry, gloss_words, open_lexicon
from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModel

lexicon = functools.cache(open_lexicon)  # this machine's WordNet
MODEL = "--arch groc_lstm_lm_small_corrected --decoder-layers 1 --sampled-update-fraction 0.05 --refresh-interval 20"
CONTEXTS = "--context-dim 8 --context-adaptation concat --context-bias shift --context-dropout 0.2"
TRAINING = "--batch-size 16 --tokens-per-sample 35 --optimizer adam --lr 0.006 --clip-norm 0.25 --criterion chunked_cross_entropy"
SCHEDULE = "--lr-scheduler polynomial_decay --warmup-updates 50 --disable-validation --no-epoch-checkpoints --num-workers 0"
PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adjective", "r": "adverb"}


def train(work, lines, updates):
    examples = {" ".join(gloss_words(text)): PARTS_OF_SPEECH[pos] for pos, text in lexicon().examples()}
    examples.pop("", None)
    chosen = random.Random(1).sample(sorted(examples.items()), lines + 500)
    # a file of lines, and a table with the context of each
    for name, part in {"valid": chosen[:500], "train": chosen[500:]}.items():
        (work / f"{name}.txt").write_text("".join(f"{line}\n" for line, _ in part))
        (work / f"{name}.tsv").write_text("pos\n" + "".join(f"{pos}\n" for _, pos in part))
    in_process("preprocess", "--train", work / "train.txt", "--context-train", work / "train.tsv", "--dest", work / "data")
    options = f"{MODEL} {CONTEXTS} {TRAINING} {SCHEDULE} --max-update {updates} --total-num-update {updates}".split()
    command = [programs.BIN / "fairseq-train", work / "data", *programs.PLUGIN, *options, "--save-dir", work / "model"]
    programs.run(*command, log=work / "train.log")
    hub = opened(work)
    words = len(hub.task.dictionary) - hub.task.dictionary.nspecial
    print(f"{lines:,} lines, {words:,} words; {sum(p.numel() for p in hub.parameters()):,} parameters")
    return hub


def opened(work):
    folder, data = str(work / "model"), str(work / "data")
    return GrocLSTMLanguageModel.from_pretrained(folder, "checkpoint_last.pt", data, context="missing").eval()


def add_words(hub, work):
    text = (work / "valid.txt").read_text().splitlines()
    before = len(hub.task.dictionary)
    hub.models[0].add_words(sorted({word for line in text for word in line.split()}), lexicon())
    print(f"{len(hub.task.dictionary) - before} words of {len(text)} other lines were new, and have probabilities now")
    contexts = [{"pos": pos} for pos in (work / "valid.tsv").read_text().split()[1:]]
    for name, given in {"unknown part of speech": "missing", "part of speech given": contexts}.items():
        scores = torch.cat([one["positional_scores"] for one in hub.score(text, context=given)])
        print(f"perplexity of these lines, {name}: {math.exp(-scores.mean()):.1f}")


def neighbours(hub, words=("boastfully", "sauntered", "geologists")):
    model = copy.deepcopy(hub.models[0])  # the hub goes on without these words
    dictionary = model.decoder.dictionary
    # words of which the training text has less are hardly trained
    frequent = torch.tensor([number for number in range(dictionary.nspecial, len(dictionary)) if dictionary.count[number] >= 8])
    new = [word for word in words if word not in dictionary]
    numbers = model.add_words(new, lexicon())
    outputs = torch.nn.functional.normalize(model.decoder.matrices()[1], dim=1)  # (V, d)
    for word, number in zip(new, numbers, strict=True):
        nearest = frequent[(outputs[frequent] @ outputs[number]).topk(6).indices]
        print(f"{word}: {', '.join(dictionary[place] for place in nearest)}")


def definition(work):
    lines = ["the weather was zorb", "he fell in love with the zorb"]
    for meaning in ("having no color or light", "a young woman who teaches at a school"):
        hub = opened(work)
        hub.models[0].add_words(["zorb"], {"zorb": Entry(definition=tuple(gloss_words(meaning)))})
        last = [float(one["positional_scores"][-2].exp()) for one in hub.score(lines)]  # -1 is the end of the line
        shown = (f"p({line.replace(' zorb', ' _')}) = {p:.1e}" for line, p in zip(lines, last, strict=True))
        print(f"{meaning}: {', '.join(shown)}")


def sample(hub):
    for pos in ("verb", "adjective"):
        torch.manual_seed(1)
        said = hub.sample(["the"] * 4, beam=1, sampling=True, sampling_topk=20, max_len_b=10, context={"pos": pos})
        print(f"{pos}: {' / '.join(said)}")


def rank(hub):
    heard = ["he eight the hole pizza", "he ate the hole pizza", "he ate the whole pizza", "he ate the whole piece her"]
    scores = [float(one["positional_scores"].sum()) for one in hub.score(heard, context={"pos": "verb"})]
    for total, line in sorted(zip(scores, heard, strict=True), reverse=True):
        print(f"{total:8.2f}  {line}")


def adapt(work):
    birds = [bird.word for word in ("bird", "passerine", "raptor", "parrot") for bird in lexicon().lookup(word, 100, 0).relations]
    definitions = dict.fromkeys(" ".join(lexicon().lookup(word, 0, 50).definition) for word in birds)
    (work / "birds.txt").write_text("".join(f"{line}\n" for line in definitions))
    in_process("preprocess", "--vocabulary-from", work / "data", "--test", work / "birds.txt", "--dest", work / "birds")
    # the vocabulary of this folder has the text's words, too
    cache = {"local_weight": 0.1, "cache_theta": 1.0}
    reader = load(str(work / "model" / "checkpoint_last.pt"), str(work / "birds"), context="missing", **cache)
    reader.task.load_dataset("test")
    # one pass gives both: each word is scored by the model alone and with the cache, which has not seen it yet
    scores = score(reader.models[0], reader.task.dataset("test"), Place(streams=1, block=100))
    alone, adapted = (math.exp(-part.mean()) for part in (scores.own, scores.adapted))
    print(f"{len(definitions)} definitions of birds: perplexity {alone:.1f}, with a cache of the words before {adapted:.1f}")


STEPS = (train, add_words, neighbours, definition, sample, rank, adapt)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="folder to make, for all that is made; default: a temporary one")
    parser.add_argument("--lines", type=int, default=15_000, help="of text to train on (%(default)s)")
    parser.add_argument("--updates", type=int, default=500, help="of training (%(default)s)")
    parser.add_argument("--readme", action="store_true", help="renew README.md")
    args = parser.parse_args()
    if args.workdir and args.workdir.exists():
        parser.error(f"--workdir {args.workdir}: expected a folder that is not there yet")
    work = (args.workdir or Path(tempfile.mkdtemp(), "tour")).resolve()
    work.mkdir(parents=True)
    logging.disable(logging.INFO)  # fairseq says how it loads a model, each time

    outputs = page.Outputs()
    hub = outputs.of(train, work, args.lines, args.updates)
    outputs.of(add_words, hub, work)
    outputs.of(neighbours, hub)
    outputs.of(definition, work)
    outputs.of(sample, hub)
    outputs.of(rank, hub)
    outputs.of(adapt, work)
    if args.readme:
        page.README.write_text(page.renewed(page.README.read_text(), STEPS, outputs))


if __name__ == "__main__":
    main()
