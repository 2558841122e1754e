"""Every head on every decoder of fairseq's: probabilities, incremental decoding, and finetuning over another dictionary."""

import math
from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F
from decoders import DECODERS

from fairseq_groc.heads import HEADS
from fairseq_groc.models.word_matrices import WordMatrices

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra"]
VARIANTS = [(head, {}) for head in HEADS] + [("lookup", {"lookup_width": "encoder"})]


@pytest.mark.parametrize("head, options", VARIANTS)
@pytest.mark.parametrize("arch", DECODERS)
def test_probabilities_sum_to_one_and_incremental_decoding_is_a_full_pass(stock_model, arch, head, options):
    model = stock_model(arch, head, WORDS, **options)
    tokens = torch.tensor([[2, 4, 5, 7, 3, 8], [2, 9, 4, 4, 6, 5]])
    with torch.no_grad():
        whole = model.get_normalized_probs(model(tokens), log_probs=False)
        torch.testing.assert_close(whole.sum(-1), torch.ones(2, 6), rtol=0, atol=1e-5)
        state = {}
        for t in range(tokens.size(1)):
            step = model.get_normalized_probs(model.decoder(tokens[:, : t + 1], incremental_state=state), log_probs=False)
            torch.testing.assert_close(step[:, -1], whole[:, t], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("parts", ["none", "both"])
def test_composed_words_begin_no_larger_than_rows(stock_model, parts):
    """So that an encoder of one's own begins near the uniform distribution with either."""
    h, targets = 10 * torch.randn(200, 8), torch.randint(4, 4 + len(WORDS), (200,))
    losses = []
    for head, options in (("tied", {}), ("compositional_output", {"lexicon_parts": parts, "output_depth": 0})):
        _, outputs, bias = stock_model("transformer_lm", head, WORDS, **options).decoder.matrices()
        losses.append(F.cross_entropy(h @ outputs.t() + bias, targets).item())
    assert losses == pytest.approx([math.log(len(WORDS) + 2)] * 2, rel=0.2)


@pytest.mark.parametrize("arch", DECODERS)
def test_a_model_made_ready_for_inference_trusts_its_parameters(stock_model, arch):
    model = stock_model(arch, "compositional_output", WORDS)
    matrices = [module for module in model.modules() if isinstance(module, WordMatrices)]
    assert len(matrices) == 1 and len(matrices[0]._state()[-1]) > 1
    model.eval().prepare_for_inference_(Namespace(generation=Namespace()))
    assert matrices[0]._state()[-1] is None


@pytest.mark.parametrize("head, options", VARIANTS)
@pytest.mark.parametrize("arch", DECODERS)
def test_a_trained_model_goes_on_over_another_dictionary(stock_model, arch, head, options):
    first, second = (stock_model(arch, head, words, **options) for words in (WORDS, ["wolf", *reversed(WORDS)]))
    _train(first)
    second.load_state_dict(first.state_dict(), strict=True)
    old, new = first.decoder.dictionary, second.decoder.dictionary
    tokens = torch.tensor([[old.index(word) for word in ("</s>", "dog", "swim", "zebra")]])
    moved = torch.tensor([[new.index(old[i]) for i in tokens[0].tolist()]])
    with torch.no_grad():
        scores, again = (m.eval()(t)[0][0] for m, t in ((first, tokens), (second, moved)))
    ids = [old.index(word) for word in ("dog", "swim", "zebra")]
    ours, theirs = scores[:, ids], again[:, [new.index(old[i]) for i in ids]]
    torch.testing.assert_close(ours - ours[:, :1], theirs - theirs[:, :1], rtol=0, atol=1e-5)  # whatever the other words get
    before = [parameter.detach().clone() for parameter in second.parameters()]
    _train(second)
    assert sum(not torch.equal(a, b) for a, b in zip(before, second.parameters(), strict=True)) >= 0.8 * len(before)


def _train(model):
    optimizer = torch.optim.SGD(model.train().parameters(), lr=0.1)
    tokens, targets = torch.tensor([[2, 4, 5], [2, 6, 7]]), torch.tensor([[4, 5, 6], [6, 7, 8]])
    F.cross_entropy(model(tokens)[0].flatten(0, 1), targets.flatten()).backward()
    optimizer.step()


@pytest.mark.parametrize("rates", [dict(output_dropout=0.5), dict(output_dropout=0.1, feature_dropout=0.5)], ids=str)
@pytest.mark.parametrize("head", HEADS)
def test_dropout_of_h_is_one_mask_before_every_head(stock_model, head, rates):
    model = stock_model("lstm_lm", head, WORDS, **rates).train()
    layer = model.decoder.fc_out
    layer.deferred = True
    torch.nn.init.eye_(layer.context.weight)
    dropped = torch.stack([layer(torch.ones(3, 4, 6)) for _ in range(20)])
    assert set(dropped.flatten().tolist()) == {0.0, 2.0} and bool((dropped == dropped[:, :1, :1]).all())
    assert bool((layer.eval()(torch.ones(3, 4, 6)) != 0).sum() == 3 * 4 * 6)


def test_h_may_be_spared_the_dropout_of_the_network(stock_model):
    h = torch.ones(3, 4, 8)
    model = stock_model("lightconv_lm", "deep_residual", WORDS, output_dropout=0.5, feature_dropout=0.0).train()
    model.decoder.output_projection.deferred = True
    assert torch.equal(model.decoder.output_projection(h), h)
    network = model.decoder.matrices.head.network
    assert not torch.equal(network(h[0]), network(h[0]))


@pytest.mark.parametrize("arch", DECODERS)
def test_rows_of_the_encoders_width_need_no_map_of_h(stock_model, arch):
    narrow, wide = (stock_model(arch, "lookup", WORDS, lookup_width=of).decoder for of in ("embeddings", "encoder"))
    layers = [decoder.scoring_layer for decoder in (narrow, wide)]
    width = 8 if layers[0].context is None else layers[0].context.in_features
    assert (layers[0].context is None) == (width == 8) and layers[1].context is None
    assert [decoder.matrices()[1].shape for decoder in (narrow, wide)] == [(10, 8), (10, width)]
    h = torch.randn(2, 3, width)
    _, outputs, bias = wide.matrices()
    torch.testing.assert_close(layers[1](h), h @ outputs.t() + bias, rtol=1e-5, atol=1e-6)


def rows_read(model, tokens):
    """Return what the decoder reads of tokens, (T, B, d), and the matrices of the pass, as the head gets them."""
    decoder = model.decoder
    return decoder.embed_tokens(tokens), decoder.matrices.end()


@pytest.mark.parametrize("arch", DECODERS)
@pytest.mark.parametrize("head", HEADS)
def test_whole_words_are_dropped_of_what_is_read_and_none_of_what_is_predicted(stock_model, arch, head):
    model, tokens = stock_model(arch, head, WORDS, embedding_dropout=0.5), torch.arange(4, 10).repeat(4, 1)
    whole, (inputs, outputs, bias) = (part.detach() if torch.is_tensor(part) else part for part in rows_read(model, tokens))
    torch.testing.assert_close(whole, inputs[tokens], rtol=0, atol=0)  # in evaluation
    model.train()
    torch.manual_seed(0)
    rows, matrices = rows_read(model, tokens)
    dropped = (rows == 0).all(2)
    assert 0 < int(dropped[0].sum()) < 6 and bool((dropped == dropped[0]).all())
    torch.testing.assert_close(rows, 2 * inputs[tokens] * ~dropped.unsqueeze(2), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(matrices, (inputs, outputs, bias), rtol=1e-5, atol=1e-7)
    model.decoder.eval()
    assert torch.equal(rows_read(model, tokens)[0], whole)
    assert not stock_model(arch, head, WORDS).decoder.embed_tokens.dropout


@pytest.mark.parametrize("arch", ["fconv_lm", "transformer_lm"])
def test_fingerprints_are_of_the_parameters_as_they_were_read(stock_model, arch):
    """fconv_lm loses its weight normalisation before some of fairseq's programs score, any model its precision."""
    kept, plain = (stock_model(arch, "compositional_output", WORDS) for _ in range(2))
    kept.decoder.keep_fingerprints()
    kept.load_state_dict(plain.state_dict())
    before = plain.decoder.fingerprint(), plain.decoder.rowless_fingerprint()
    for model in (kept, plain):
        if arch == "fconv_lm":
            model.make_generation_fast_()
        model.half()
        found = model.decoder.fingerprint(), model.decoder.rowless_fingerprint()
        assert [a == b for a, b in zip(found, before, strict=True)] == [model is kept] * 2
