"""The equations of an LSTM, as a reference."""

import torch


def naive(module, x, recurrent):
    """The equations of stacked LSTMs, one position at a time, with these recurrent weights at all of them."""
    for lstm, weight in zip(module.layers, recurrent, strict=True):
        h = c = x.new_zeros(x.size(1), lstm.hidden_size)
        outputs = []
        for step in x:
            gates = step @ lstm.weight_ih_l0.t() + lstm.bias_ih_l0 + h @ weight.t() + lstm.bias_hh_l0
            i, f, g, o = gates.chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        x = torch.stack(outputs)
    return x
