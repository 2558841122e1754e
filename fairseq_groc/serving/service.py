"""Score lines with an exported language model, and add words to it, by PyTorch alone. B: lines; T: positions; V: words; d: width.

model = service.Service("DIR")  # which ``fairseq_groc export --service DIR`` has written, with this file
model.score(["the cat sat"])  # [LineScore(log_probability=..., tokens=4)]: natural logarithms, </s> included
model.add_words({"selfie": {"relations": ["photograph"], "definition": ["a", "picture", "of", "oneself"]}, "gnu": {}})
"""

import json
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FORMAT, EOS, UNKNOWN = 1, 2, 3  # of the folder; numbers of </s> and <unk>, those below are symbols that no text has
BEGIN, END, FILL = 256, 257, 258  # symbols of a spelling besides its bytes
LINES, WORDS, SCORES = 32, 1_024, 1 << 18  # lines read, words encoded, scores held at a time, which fit a processor's cache
Entry = Mapping[str, Sequence[str]]  # lists of words: its "relations" and its "definition", where there are any
LineScore = NamedTuple("LineScore", [("log_probability", float), ("tokens", int)])  # noqa: UP014
Matrices = NamedTuple("Matrices", [("inputs", Tensor), ("outputs", Tensor), ("bias", Tensor)])  # noqa: UP014  (V, d) twice, (V)


class Reader(nn.Module):
    """LSTMs of sizes (inputs, units), and maps from h to what meets E_out. It knows no word; its numbers are loaded."""

    def __init__(self, lstms: Sequence[tuple[int, int]], maps: Sequence[tuple[int, int]]):
        super().__init__()
        self.lstms = nn.ModuleList(nn.LSTM(a, b, batch_first=True, device="meta") for a, b in lstms)
        self.maps = nn.Sequential(*(nn.Linear(a, b, bias=False, device="meta") for a, b in maps))

    def read(self, x: Tensor) -> Tensor:
        """Return what meets E_out, (B, T, d), after each of the embeddings (B, T, d)."""
        for lstm in self.lstms:
            x = lstm(x)[0]
        return self.maps(x)

    def forward(self, source: Tensor, target: Tensor, inputs: Tensor, outputs: Tensor, bias: Tensor) -> Tensor:
        """Return log p(target), (B, T), where source (B, T) is </s> and then the target but its last: for ``torch.export``."""
        scores = F.linear(self.read(F.embedding(source, inputs)), outputs, bias)
        return scores.log_softmax(-1).gather(2, target.unsqueeze(2)).squeeze(2)


class WordEncoder(NamedTuple):
    """Compose words of their spellings, relations and definitions (GroC, section 3.1, eq. 4 and 5)."""

    tensors: Mapping[str, Tensor]
    about: Mapping[str, Any]

    def layer(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def spelled(self, forms: Iterable[str]) -> Tensor:
        """Return the encodings of spellings, (F, d): from the largest response of each filter to a spelling's n-grams."""
        pooled, symbols = [], [torch.tensor([BEGIN, *form.encode("utf-8", "surrogateescape"), END]) for form in forms]
        for i, width in enumerate(self.about["widths"]):
            windows = [F.pad(one, (0, max(0, width - len(one))), value=FILL).unfold(0, width, 1) for one in symbols]
            responses = self.layer(f"filters.{i}", F.embedding(torch.cat(windows), self.tensors["characters.weight"]).flatten(1))
            pooled.append(torch.stack([response.amax(0) for response in responses.split(list(map(len, windows)))]))
        x = torch.cat(pooled, dim=1).relu()
        for i in range(self.about["highways"]):
            new, gate = self.layer(f"highways.{i}.projection", x).chunk(2, dim=1)
            x = torch.lerp(x, new.relu(), gate.sigmoid())
        return self.layer("projection", x)

    def matrices(self, entries: Mapping[str, Entry]) -> Matrices:
        """Return those of words; an average of no words is 0."""
        parts = [[entry.get(part, ()) for entry in entries.values()] for part in self.about["parts"]]
        forms = {form: i for i, form in enumerate(dict.fromkeys([*entries, *(f for part in parts for own in part for f in own)]))}
        spelled = self.spelled(forms)
        means = [torch.stack([spelled[[forms[f] for f in own]].sum(0) / max(1, len(own)) for own in part]) for part in parts]
        joined = torch.cat([spelled[: len(entries)], *means], dim=1)
        inputs = outputs = self.layer("compose", joined) if parts else joined
        activation, of_bias = (getattr(torch, self.about[name]) for name in ("activation", "bias_activation"))
        for i in range(self.about["depth"]):
            outputs = activation(self.layer(f"layers.{i}.0", outputs)) + (outputs if self.about["to_previous"] else 0) + inputs
        return Matrices(inputs, outputs, of_bias(self.layer("bias", outputs)).squeeze(1))


class Service:
    """A model whose matrices are mapped from its folder, so that processes share them; words that are added are its own."""

    def __init__(self, folder: str | Path):
        about, words = json.loads(Path(folder, "service.json").read_text()), Path(folder, "words.txt").read_bytes()
        if about["format"] != FORMAT:
            raise ValueError(f"{folder}: format {about['format']}, expected {FORMAT}: use the service.py that is in the folder")
        tensors: Any = {path.stem: torch.load(path, weights_only=True, mmap=True) for path in Path(folder).glob("*.pt")}
        self.reader = Reader(**about["reader"]).requires_grad_(False).eval()
        self.reader.load_state_dict(tensors["reader"], assign=True)
        self.encoder = WordEncoder(tensors["encoder"], about["encoder"]) if about["encoder"] else None
        self.words = {word: i for i, word in enumerate(words.decode("utf-8", "surrogateescape").split("\n"))}
        self.parts, self._adding = [Matrices(**tensors["embeddings"])], threading.Lock()  # as exported; then those of added words

    def score(self, lines: Sequence[str]) -> list[LineScore]:
        """Return what each line gets, read by itself. A word that is lacking is <unk>, and warned of."""
        if isinstance(lines, str):
            raise ValueError(f"lines: expected a list of them, not one text: [{lines[:60]!r}]")
        texts, found = [line.split() for line in lines], dict[int, LineScore]()
        for word in {word for text in texts for word in text if self.words.get(word, -1) < UNKNOWN}:
            if word in self.words:
                raise ValueError(f"{word}: a symbol that no text has. Remove or respell it.")
            warnings.warn(f"{word!r} is not in the vocabulary: scored as <unk>. Add it: add_words.", stacklevel=2)
        rows, parts = [[*(self.words.get(word, UNKNOWN) for word in text), EOS] for text in texts], self.parts
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        for some in (order[begin : begin + LINES] for begin in range(0, len(order), LINES)):
            values = iter(_log_probabilities(self.reader, [rows[i] for i in some], parts))
            found.update({i: LineScore(sum(next(values) for _ in rows[i]), len(rows[i])) for i in some})
        return [found[i] for i in range(len(rows))]

    def add_words(self, entries: Mapping[str, Entry]) -> None:
        """Put words into the vocabulary, composed of what is given; those that it has are left as they are."""
        if self.encoder is None:
            raise ValueError("a row for each word was trained, and a new word has none: export a model with composed words")
        if not isinstance(entries, Mapping):
            raise ValueError(f"{entries!r}: expected words with what each is made of, such as {{'gnu': {{}}}}")
        for word, entry in entries.items():
            fits = isinstance(entry, Mapping) and str(word).split() == [word] and self.words.get(word, len(self.words)) > UNKNOWN
            if not fits or not entry.keys() <= {"relations", "definition"} or str in map(type, entry.values()):
                raise ValueError(f"{word!r}: {entry}: expected a word, and lists of words as its 'relations' and 'definition'")
        with self._adding:
            new = [word for word in entries if word not in self.words]
            for some in (new[begin : begin + WORDS] for begin in range(0, len(new), WORDS)):
                made = [*self.parts[1:], self.encoder.matrices({word: entries[word] for word in some})]
                self.parts = [self.parts[0], Matrices(*map(torch.cat, zip(*made, strict=True)))]
                self.words.update({word: len(self.words) + i for i, word in enumerate(some)})


def _log_probabilities(reader: Reader, rows: Sequence[Sequence[int]], parts: Sequence[Matrices]) -> list[float]:
    """Return those of all tokens, line after line; after words that several lines begin with, scores are normalised once."""
    width, target = max(map(len, rows)), torch.tensor([word for row in rows for word in row])
    source = torch.tensor([[EOS, *row[:-1], *[EOS] * (width - len(row))] for row in rows])
    inputs, outputs, biases = zip(*parts, strict=True)
    h = reader.read(_look_up(source, inputs)).flatten(0, 1)  # (B T, d)
    places, first = list[int](), dict[tuple[int, ...], int]()  # where h is the same for the first time
    for begin, row in zip(range(0, len(h), width), rows, strict=True):
        places += [first.setdefault(tuple(row[:t]), begin + t) if t < LINES else begin + t for t in range(len(row))]
    distinct, of = torch.tensor(places).unique(return_inverse=True)
    met, size = h[distinct], max(256, SCORES // len(distinct))
    pieces = [piece for part in parts for piece in zip(part.outputs.split(size), part.bias.split(size), strict=True)]
    normalizers = torch.stack([torch.addmm(b, met, e.t()).logsumexp(1) for e, b in pieces]).logsumexp(0)
    return ((h[places] * _look_up(target, outputs)).sum(1) + _look_up(target, biases) - normalizers[of]).tolist()


def _look_up(numbers: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """Return rows of a matrix that comes in one or two parts."""
    late = numbers >= len(parts[0])
    return parts[0][numbers.masked_fill(late, 0)].index_put((late,), parts[-1][numbers[late] - len(parts[0])])
