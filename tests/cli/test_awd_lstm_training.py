"""AWD-LSTM as fairseq-train trains it is, without dropout, a loop of plain PyTorch from the paper (Merity et al. 2018)."""

import torch
from fairseq.data import Dictionary
from test_train_averages import AWD, TIED, saved
from torch import nn
from torch.nn.functional import cross_entropy, pad

from fairseq_groc.data.streams import split_streams, varied_lengths

RATE, DECAY, BLOCK, SEED = 20, 1e-3, 10, 3  # a thousandfold weight decay, so that it shows


def trained_by_hand(given, text, epochs):
    """Return the parameters after epochs of SGD in float64, of a text of word numbers, 2 for ``</s>``."""
    *recurrent, rows, bias = parameters = [nn.Parameter(value.double()) for value in given]
    layers = [nn.LSTM(8, 12), nn.LSTM(12, 8)]
    for layer, own in zip(layers, (recurrent[:4], recurrent[4:]), strict=True):
        layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0 = own
    streams = [text[begin:end] for begin, end in split_streams(len(text), 4)]
    for epoch in range(1, epochs + 1):
        begin, states = 0, {}
        for length in varied_lengths(max(map(len, streams)), BLOCK, SEED, epoch):
            loss = num_words = 0
            for i, stream in enumerate(streams):
                targets = stream[begin : begin + length]
                h = rows[pad(stream, (1, 0), value=2)[begin : begin + len(targets)]]  # a stream begins with </s>
                for layer in layers if len(targets) else ():
                    h, state = layer(h, states.get((i, layer)))
                    states[i, layer] = tuple(part.detach() for part in state)
                loss += cross_entropy(h @ rows[2:].t() + bias[2:, 0], targets - 2, reduction="sum")  # not <s> and <pad>
                loss += 2 * h.square().mean(1).sum()
                if len(targets) > 1:
                    loss += len(targets) * (h[1:] - h[:-1]).square().mean()
                num_words += len(targets)
            gradients = torch.autograd.grad(loss / num_words, parameters)
            norm = nn.utils.parameters_to_vector(gradients).norm()
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= RATE * length / BLOCK * (gradient * (0.25 / norm).clamp(max=1) + DECAY * parameter)
            begin += length
    return parameters


def test_epochs_of_random_blocks_are_the_papers_loop(commands, corpus, tmp_path):
    options = [*AWD, *TIED, "--prefix-encoder", "awd_lstm", "--weight-dropout", "0", "--dropout", "0", "--dropout-in", "0"]
    options += ["--weight-decay", DECAY]
    commands.train(corpus / "data", tmp_path / "begin", *options, "--lr", "1e-30", "--max-update", "1")
    commands.train(corpus / "data", tmp_path / "end", *options, "--lr", RATE, "--max-epoch", "2")
    begin, end = (saved(tmp_path / name / "checkpoint_last.pt")[0] for name in ("begin", "end"))
    dictionary = Dictionary.load(str(corpus / "data" / "dict.txt"))
    lines = (corpus / "train.txt").read_text(encoding="utf-8").splitlines()
    text = torch.tensor([dictionary.index(word) for line in lines for word in [*line.split(), "</s>"]])
    for found, expected, before in zip(trained_by_hand(begin, text, 2), end, begin, strict=True):
        torch.testing.assert_close(found.detach(), expected.double(), rtol=0, atol=5e-5)
        assert (expected - before).abs().max() > 0.05
