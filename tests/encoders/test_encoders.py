"""What every registered prefix encoder does, at its options' defaults but for small sizes."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_groc.encoders import ENCODERS, PrefixEncoder
from fairseq_groc.encoders.carried import reordered
from fairseq_groc.errors import OptionError
from fairseq_groc.models.groc_lstm_lm import GrocLSTMDecoder, build_encoder

D, SMALL = 5, {"decoder_hidden_size": 7, "decoder_layers": 2, "context_dim": 0, "context_adaptation": "none"}


@pytest.fixture(params=list(ENCODERS))
def encoder(request):
    torch.manual_seed(0)
    options = ENCODERS.taken[request.param]
    settings = {**{name: option.default for name, option in options.items()}, **SMALL}
    return ENCODERS[request.param].from_settings(D, settings).double().eval()


@pytest.fixture
def x():
    return torch.randn(11, 3, D, dtype=torch.double, generator=torch.Generator().manual_seed(1))  # (T, B, d)


@pytest.mark.parametrize("cuts", [[1], [4], [1, 2, 10], list(range(1, 11))])
def test_in_pieces_with_the_state_carried_it_is_the_whole(encoder, x, cuts):
    pieces, state = [], None
    for a, b in zip([0] + cuts, cuts + [len(x)], strict=True):
        h, last, state = encoder(x[a:b], state)
        assert torch.equal(h, last)  # no dropout in evaluation
        pieces.append(h)
    whole, _, end = encoder(x)
    assert whole.shape == (11, 3, encoder.width)
    torch.testing.assert_close(torch.cat(pieces), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(state, end, rtol=0, atol=1e-12)


def test_streams_do_not_touch_each_other_and_may_change_places(encoder, x):
    order = torch.tensor([2, 0, 0])
    whole, _, end = encoder(x[:, order])
    h, _, state = encoder(x[:5])
    rest, _, moved = encoder(x[5:, order], reordered(state, order))
    torch.testing.assert_close(torch.cat([h[:, order], rest]), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(moved, end, rtol=0, atol=1e-12)


class Odd(PrefixEncoder):
    """Does not say how wide h is."""

    @classmethod
    def from_settings(cls, dim, settings):
        return cls()


def test_an_encoder_that_breaks_its_word_is_refused(monkeypatch):
    monkeypatch.setitem(ENCODERS, "odd", Odd)
    monkeypatch.setitem(ENCODERS.taken, "odd", {})
    cfg = Namespace(prefix_encoder="odd", decoder_embed_dim=D, init_range=0.1)
    with pytest.raises(OptionError, match="--prefix-encoder odd: it has no width. Set self.width"):
        build_encoder(cfg)
    monkeypatch.setattr(Odd, "width", D, raising=False)
    decoder = GrocLSTMDecoder(Dictionary(), cfg)
    decoder.embed_tokens = torch.nn.Embedding(4, D)
    h, state = torch.zeros(2, 3, D), torch.zeros(1, 3, D)
    swapped = h.transpose(0, 1)
    odd = (h, state), (swapped, swapped, state), (h, None, state), (h, h, [state, {"last": state[0]}]), (h, h, (state[0, :, 0],))
    for made in odd:
        monkeypatch.setattr(Odd, "forward", lambda *_, made=made: made)
        expected = r"\(h, h before its dropout, the state after it\): \(2, 3, 5\) twice, and tensors \(n, 3, ...\)"
        with pytest.raises(OptionError, match=f"Odd.forward: expected {expected}"):
            decoder(torch.zeros(3, 2, dtype=torch.long))
