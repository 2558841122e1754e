"""Every head: its equation, its probabilities, its parameters, and its rows in another dictionary."""

import copy

import pytest
import torch
import torch.nn.functional as F

from fairseq_groc.dictionary import predictable_words
from fairseq_groc.embeddings.adaptive_rows import AdaptiveRows
from fairseq_groc.embeddings.compositional import CompositionalEmbedding, SurfaceEncoder
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.heads import (
    ACTIVATIONS,
    HEADS,
    BilinearOutput,
    CompositionalOutput,
    DeepResidualOutput,
    DualNonlinearOutput,
    HierarchicalOutput,
    LookupOutput,
    MixtureOfSoftmaxes,
    TiedOutput,
)
from fairseq_groc.heads.mappings import OutputNetwork
from fairseq_groc.models.building import build_embedding, build_head, needs_spellings
from fairseq_groc.modules.probabilities import masked_bias
from fairseq_groc.options import HeadConfig, head_settings

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "sat", "mat", "dog", "madeupword0000"]
IMPOSSIBLE = ~torch.tensor(predictable_words(WORDS))
DIM = 6
VARIANTS = [(name, {}) for name in HEADS] + [("adaptive", {"adaptive_scoring": "bins"})]


def settings_of(head, **options):
    small = dict(char_embed_dim=3, char_filters=[2, 3], output_cutoffs=[5, 7], output_factor=2, correction_dim=2)
    small.update(output_depth=2, num_softmaxes=3, output_joint_dim=4, lexicon_parts="none")
    return head_settings(HeadConfig(output_head=head, **{**small, **options}))


def built(head, words=WORDS, **options):
    """Return embedding, head and vocabulary, all parameters random."""
    torch.manual_seed(0)
    settings = settings_of(head, **options)
    embedding, output = build_embedding(words, DIM, settings), build_head(words, DIM, settings)
    for parameter in [*embedding.parameters(), *output.parameters()]:
        parameter.data.uniform_(-1, 1)
    vocabulary = Vocabulary.of_words(words, [1, 2]) if needs_spellings(settings) else None
    return embedding, output, vocabulary


def scores(head, h, bias_shift=None, **options):
    embedding, output, vocabulary = built(head, **options)
    outputs, bias = output(embedding(vocabulary), vocabulary)
    bias = masked_bias(bias if bias_shift is None else bias + bias_shift, IMPOSSIBLE)
    return output.log_scores(h, outputs, bias), output, outputs, bias


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("head, options", VARIANTS)
def test_probabilities_sum_to_one(head, options, scale):
    shift = scale * torch.tensor([1.0, 1, -1, 1, -1, 1, -1, 1, 1, 1])
    probabilities = scores(head, torch.randn(50, DIM), shift, **options)[0].softmax(-1)
    assert (probabilities.double().sum(-1) - 1).abs().max() <= 1e-6
    assert probabilities[:, IMPOSSIBLE].eq(0).all() and not probabilities.isnan().any()


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("head, options", VARIANTS)
def test_losses_without_scores_are_those_of_the_scores(head, options, chunk):
    h = torch.randn(40, DIM, requires_grad=True)
    targets = torch.tensor([2, 3, 4, 5, 6, 7, 8, 1] * 5)
    values, output, outputs, bias = scores(head, h, **options)
    expected = F.cross_entropy(values, targets, ignore_index=1, reduction="none")
    losses = output.losses(h, outputs, bias, targets, 1, chunk)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)
    parameters = [h, *output.parameters()]
    weights = torch.rand(40)
    for a, b in zip(
        torch.autograd.grad((losses * weights).sum(), parameters, allow_unused=True, retain_graph=True),
        torch.autograd.grad((expected * weights).sum(), parameters, allow_unused=True),
        strict=True,
    ):
        assert (a is None) == (b is None)
        if a is not None:
            assert not a.isnan().any()
            torch.testing.assert_close(a, b, rtol=5e-4, atol=1e-5)


@pytest.mark.parametrize("head, options", VARIANTS)
def test_rows_move_by_word_into_another_dictionary(head, options):
    embedding, output, vocabulary = built(head, **options)
    order = WORDS[:4] + ["dog", "zebra", "cat", "mat", "the", "sat", "madeupword0000"]
    other_embedding, other_output, other_vocabulary = built(head, order, **options)
    for old, new in ((embedding, other_embedding), (output, other_output)):
        state = copy.deepcopy(old.state_dict())
        upgrade(new, state, "")
        new.load_state_dict(state)  # strict
    h = torch.randn(7, DIM)

    def lprobs(words, embedding, output, vocabulary):
        outputs, bias = output(embedding(vocabulary), vocabulary)
        unknown = output.unknown()
        impossible = ~torch.tensor(predictable_words(words))
        impossible = impossible if unknown is None else impossible | unknown
        impossible |= torch.tensor([word == "zebra" for word in words])  # so that both are over the same words
        return output.log_scores(h, outputs, masked_bias(bias, impossible)).log_softmax(-1)

    before, after = lprobs(WORDS, embedding, output, vocabulary), lprobs(order, other_embedding, other_output, other_vocabulary)
    place = [order.index(word) for word in WORDS[2:-1]]
    torch.testing.assert_close(after[:, place], before[:, 2:-1], rtol=0, atol=1e-5)
    unknown = other_output.unknown()
    assert (unknown is None) if vocabulary is not None else (unknown.nonzero().flatten().tolist() == [5])


def upgrade(module, state, name):
    """As fairseq does before it loads: parents first."""
    if hasattr(module, "upgrade_state_dict_named"):
        module.upgrade_state_dict_named(state, name)
    for child, submodule in module.named_children():
        upgrade(submodule, state, f"{name}.{child}" if name else child)


# -- equations ---------------------------------------------------------------------------------------------------


def test_bilinear_is_equation_3_of_drill():
    head, embeddings = BilinearOutput(WORDS, DIM), torch.randn(10, DIM)
    torch.testing.assert_close(head(embeddings)[0], embeddings @ head.mapping.weight.t())


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_dual_nonlinear_is_equation_5_of_drill(activation):
    head, embeddings, h = DualNonlinearOutput(WORDS, DIM, 9, activation), torch.randn(10, DIM), torch.randn(3, DIM)
    act = getattr(torch, activation)
    outputs, bias = head(embeddings)
    left = act(embeddings @ head.output.weight.t() + head.output.bias)
    right = act(h @ head.context.weight.t() + head.context.bias)
    torch.testing.assert_close(head.log_scores(h, outputs, bias), right @ left.t() + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("to_previous", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("activation", ["relu", "selu", "tanh", "sigmoid"])
def test_the_output_network_is_equations_8_to_12_of_drill(depth, activation, to_previous):
    torch.manual_seed(0)
    network = OutputNetwork(DIM, depth, activation, 0.5, to_previous=to_previous).double().eval()
    embeddings = torch.randn(9, DIM, dtype=torch.double)
    expected = embeddings
    for linear, _ in network.layers:
        layer = getattr(torch, activation)(expected @ linear.weight.t() + linear.bias)
        expected = layer + (expected if to_previous else 0) + embeddings
    torch.testing.assert_close(network(embeddings), expected, rtol=0, atol=1e-12)
    head = CompositionalOutput(DIM, network, "tanh").double()
    bias = torch.tanh(expected @ head.bias.weight[0] + head.bias.bias)
    torch.testing.assert_close(head(embeddings)[1], bias, rtol=0, atol=1e-12)


def test_dropout_of_the_network_has_one_mask_for_all_words_or_one_each():
    torch.manual_seed(0)
    embeddings = torch.ones(5, 64)  # equal words stay equal under a shared mask
    shared = OutputNetwork(64, 2, "sigmoid", 0.5)
    first, second = shared(embeddings), shared(embeddings)
    assert not torch.equal(first, second)
    torch.testing.assert_close(first, first[:1].expand(5, 64), rtol=0, atol=1e-6)
    apart = OutputNetwork(64, 2, "sigmoid", 0.5, "standard")(embeddings)
    assert (apart - apart[:1]).abs().max() > 0.1


class Drops(torch.nn.Module):
    """Drops with masks that are remembered."""

    def __init__(self, of):
        super().__init__()
        self.of, self.masks = of, []

    def forward(self, x):
        self.masks.append(self.of(torch.ones_like(x)))
        return x * self.masks[-1]


@pytest.mark.parametrize("kind", ["variational", "standard"])
@pytest.mark.parametrize("residual", ["input", "input+previous"])
@pytest.mark.parametrize("at", ["outputs", "inputs"])
def test_the_output_network_drops_what_layers_give_or_what_they_read(at, residual, kind):
    torch.manual_seed(0)
    options = dict(
        output_depth=3, output_dropout=0.5, output_dropout_at=at, output_residual=residual, output_activation="sigmoid"
    )
    network = OutputNetwork.from_settings(DIM, settings_of("deep_residual", output_dropout_kind=kind, **options)).double()
    network.dropout = drops = Drops(network.dropout)
    embeddings = torch.randn(9, DIM, dtype=torch.double)
    found, expected = network(embeddings), embeddings
    assert [len(mask.unique(dim=0)) == 1 for mask in drops.masks] == [kind == "variational"] * 3
    assert len(torch.stack([mask[0] for mask in drops.masks]).unique(dim=0)) > 1  # another in each layer
    for (linear, _), mask in zip(network.layers, drops.masks, strict=True):
        before, after = (mask, 1) if at == "inputs" else (1, mask)
        layer = torch.sigmoid((before * expected) @ linear.weight.t() + linear.bias) * after
        expected = layer + (expected if residual == "input+previous" else 0) + embeddings
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_mixture_of_softmaxes_is_a_mixture():
    h = torch.randn(4, DIM)
    values, head, outputs, bias = scores("mixture_of_softmaxes", h)
    weights = (h @ head.prior.weight.t()).softmax(-1)
    contexts = torch.tanh(h @ head.contexts.weight.t() + head.contexts.bias).view(4, 3, DIM)
    expected = sum(weights[:, k : k + 1] * (contexts[:, k] @ outputs.t() + bias).softmax(-1) for k in range(3))
    torch.testing.assert_close(values.softmax(-1), expected, rtol=1e-5, atol=1e-7)


def test_the_adaptive_softmax_is_pytorchs():
    """``torch.nn.AdaptiveLogSoftmaxWithLoss`` with as many features in each cluster, weights copied."""
    torch.manual_seed(0)
    reference = torch.nn.AdaptiveLogSoftmaxWithLoss(DIM, 10, [5, 7], div_value=1.0)
    embeddings, h = torch.randn(10, DIM), torch.randn(8, DIM)
    reference.head.weight.data.copy_(torch.cat([embeddings[:5], torch.randn(2, DIM)]))
    for i, (down, up) in enumerate(reference.tail):
        down.weight.data.copy_(torch.eye(DIM))
        up.weight.data.copy_(embeddings[[5, 7][i] : [7, 10][i]])
    head = HierarchicalOutput([str(i) for i in range(10)], DIM, [5, 7])
    head.clusters.weight.data.copy_(reference.head.weight[5:])
    head.clusters.bias.data.zero_()
    values = head.log_scores(h, *head(embeddings))
    torch.testing.assert_close(values, reference.log_prob(h), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_what_a_head_begins_with(head):
    _, output, _ = built(head)
    before = {name: value.clone() for name, value in output.state_dict().items()}
    output.begin(1e-3)
    for name, value in output.named_parameters():
        if name.startswith("surface."):  # an encoder of spellings begins as it was made
            assert torch.equal(value, before[name])
        else:
            assert 0 < value.abs().max() <= 1e-3, name


def test_convolutional_is_spelling_plus_correction():
    embedding, head, vocabulary = built("convolutional")
    outputs, bias = head(embedding(None), vocabulary)
    expected = head.surface(vocabulary) + head.correction.weight @ head.mapping.weight.t()
    torch.testing.assert_close(outputs, expected)
    assert torch.equal(bias, head.bias.weight[:, 0])


# -- reductions --------------------------------------------------------------------------------------------------


def test_deep_residual_with_depth_0_is_tied():
    embeddings, h = torch.randn(10, DIM), torch.randn(3, DIM)
    deep, tied = DeepResidualOutput(WORDS, OutputNetwork(DIM, 0, "relu", 0.5)), TiedOutput(WORDS)
    assert count(deep) == count(tied)
    assert torch.equal(deep.log_scores(h, *deep(embeddings)), tied.log_scores(h, *tied(embeddings)))


def test_one_linear_layer_without_bias_is_bilinear():
    embeddings = torch.randn(10, DIM)
    deep, bilinear = DeepResidualOutput(WORDS, OutputNetwork(DIM, 1, "identity", 0.0)), BilinearOutput(WORDS, DIM)
    layer = deep.network.layers[0][0]
    layer.bias.data.zero_()
    bilinear.mapping.weight.data.copy_(layer.weight + torch.eye(DIM))  # the residual connection is the identity
    assert count(deep) == count(bilinear) + DIM
    torch.testing.assert_close(deep(embeddings)[0], bilinear(embeddings)[0], rtol=1e-5, atol=1e-5)


def test_dual_nonlinear_with_identities_is_a_bilinear_form():
    embeddings, h = torch.randn(10, DIM), torch.randn(3, DIM)
    dual, bilinear = DualNonlinearOutput(WORDS, DIM, 8, "identity"), BilinearOutput(WORDS, DIM)
    for layer in (dual.output, dual.context):
        layer.bias.data.zero_()
    # (E U)(V h) = E (U V) h
    bilinear.mapping.weight.data.copy_((dual.output.weight.t() @ dual.context.weight).t())
    values = dual.log_scores(h, *dual(embeddings)), bilinear.log_scores(h, *bilinear(embeddings))
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-5)


def test_a_query_map_is_the_bilinear_mapping_of_composed_words():
    embeddings, h = torch.randn(10, DIM), torch.randn(3, DIM)
    mapped, bilinear = CompositionalOutput(DIM, OutputNetwork(DIM, 0, "relu", 0.0), "identity", True), BilinearOutput(WORDS, DIM)
    bilinear.mapping.weight.data.copy_(mapped.query_map.weight.t())
    (outputs, bias), (others, _) = mapped(embeddings), bilinear(embeddings)
    values = mapped.log_scores(h, outputs, bias), bilinear.log_scores(h, others, bias)
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-5)


def test_a_mixture_of_one_is_its_plain_softmax():
    embeddings, h = torch.randn(10, DIM), torch.randn(3, DIM)
    mixture, tied = MixtureOfSoftmaxes(WORDS, DIM, 1), TiedOutput(WORDS)
    plain = tied.log_scores(torch.tanh(mixture.contexts(h)), *tied(embeddings)).log_softmax(-1)
    torch.testing.assert_close(mixture.log_scores(h, *mixture(embeddings)), plain, rtol=1e-5, atol=1e-5)


def test_compositional_with_depth_0_and_no_lexicon_is_the_surface_model(vocabulary_of, lexicon):
    surface = SurfaceEncoder(DIM, 3, [(1, 2), (2, 3)], 1)
    vocabulary = vocabulary_of(["cat", "kitty", "zz"], [1, 2])
    embeddings = CompositionalEmbedding(surface, DIM, relations=False, definitions=False)(vocabulary)
    outputs, _ = CompositionalOutput(DIM, OutputNetwork(DIM, 0, "relu", 0.5), "identity")(embeddings)
    torch.testing.assert_close(outputs, surface(vocabulary)[: vocabulary.num_words], rtol=0, atol=1e-7)


@pytest.mark.parametrize("relations, definitions", [(True, False), (False, True)])
def test_an_ablation_is_the_whole_with_its_columns_at_zero(vocabulary_of, relations, definitions):
    surface, vocabulary = SurfaceEncoder(DIM, 3, [(1, 2)], 1), vocabulary_of(["cat", "kitty", "zz"], [1])
    ablated = CompositionalEmbedding(surface, DIM, relations, definitions)
    whole = CompositionalEmbedding(surface, DIM)
    own, kept = ablated.compose.weight.split(DIM, 1)
    zero = torch.zeros_like(kept)
    whole.compose.weight.data.copy_(torch.cat([own, kept, zero] if relations else [own, zero, kept], 1))
    torch.testing.assert_close(ablated(vocabulary), whole(vocabulary), rtol=0, atol=1e-6)


# -- parameters --------------------------------------------------------------------------------------------------


def count(*modules):
    return sum(p.numel() for module in modules for p in module.parameters())


CNN = 263 * 16 + sum(16 * w * n + n for w, n in enumerate([32, 32, 64, 128, 256, 512], start=1)) + 2 * (1024**2 + 1024)
BINS = lambda V, d: (2000, 5000, V - 7000) if d == 300 else (6000, 15000, V - 21000)  # noqa: E731
FORMULAS = {  # of E_in and head, from V, d and what Table 8 says
    "lookup": lambda V, d: V * d + V * (d + 1),
    "tied": lambda V, d: V * d + V,
    "bilinear": lambda V, d: V * d + d**2 + V,
    "dual_nonlinear": lambda V, d: V * d + 2 * 50 * (d + 1) + V,
    "deep_residual": lambda V, d: V * d + (4 if d == 300 else 1) * (d**2 + d) + V,
    "adaptive": lambda V, d: (
        sum(
            (n + d) * width
            for n, width in zip(
                (2000, 5000, V - 7000) if d == 300 else (6000, 15000, V - 21000), (d, d // 4, d // 16), strict=True
            )
        )
        + V
    ),
    "convolutional": lambda V, d: V * d + CNN + 1024 * d + V * ((128 if d == 300 else 182) + 1) + (128 if d == 300 else 182) * d,
    "mixture_of_softmaxes": lambda V, d: V * d + 15 * (d**2 + d) + 15 * d + V,
    "compositional_output": lambda V, d: CNN + 1024 * d + 3 * d**2 + (0 if d == 300 else 1) * (d**2 + d) + d + 1,
}
# GroC, Table 2, in millions, cut off rather than rounded, but for GroC on Penn Treebank (9.79) and tied there (10.03)
PUBLISHED = {
    "lookup": (13, 23),
    "convolutional": (13, 23),
    "tied": (10, 15),
    "bilinear": (10, 15),
    "deep_residual": (10, 15),
    "adaptive": (8, 9),
    "compositional_output": (9, 9),
}


@pytest.mark.parametrize("size, dim, cutoffs, correction", [(10_000, 300, [2000, 7000], 128), (33_278, 256, [6000, 21000], 182)])
@pytest.mark.parametrize("head", FORMULAS)
def test_parameters_are_the_formulas_and_the_papers(head, size, dim, cutoffs, correction):
    words = [str(i) for i in range(size)]
    depth = (4 if dim == 300 else 1) if head == "deep_residual" else int(dim == 256)
    cfg = HeadConfig(output_head=head, output_depth=depth, output_joint_dim=50, output_cutoffs=cutoffs, correction_dim=correction)
    settings = head_settings(cfg)
    number = count(build_embedding(words, dim, settings), build_head(words, dim, settings))
    assert number == FORMULAS[head](size, dim)
    lstm = count(LSTMEncoder(dim, 1024, 2, 0.65, 0.4, 0.0))
    assert lstm == 4 * 1024 * (dim + 1024 + 2) + 4 * dim * (1024 + dim + 2)
    if head in PUBLISHED:
        assert int((number + lstm) / 1e6) == PUBLISHED[head][dim == 256]


def test_parameters_of_the_adaptive_softmax():
    assert count(HierarchicalOutput([str(i) for i in range(10)], DIM, [5, 7])) == 10 + 2 * (DIM + 1)


def test_gradients_in_double_precision():
    torch.manual_seed(0)
    head = CompositionalOutput(3, OutputNetwork(3, 2, "tanh", 0.0), "sigmoid").double()
    embeddings = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: head(x), [embeddings, *head.parameters()])


def test_tables_pass_their_rows_on():
    embeddings = torch.randn(10, DIM)
    tied, lookup = TiedOutput(WORDS), LookupOutput(WORDS, DIM)
    assert tied(embeddings)[0] is embeddings and lookup(embeddings)[0] is lookup.rows.weight
    assert tied.unknown() is None and lookup.unknown() is None


def test_activations_are_those_of_the_papers():
    assert set(ACTIVATIONS) == {"identity", "relu", "selu", "tanh", "sigmoid"}


def test_a_bin_without_possible_words_is_impossible_not_nan():
    head, embeddings, h = HierarchicalOutput([str(i) for i in range(10)], DIM, [5, 7]), torch.randn(10, DIM), torch.randn(3, DIM)
    outputs, bias = head(embeddings)
    bias = bias.detach().index_fill(0, torch.tensor([7, 8, 9]), float("-inf"))
    targets = torch.tensor([8, 1, 6])
    expected = -head.log_scores(h, outputs, bias).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    losses = head.losses(h, outputs, bias, targets, -100)
    assert losses[0] == float("inf")
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)


def test_bins_may_be_empty_in_either_dictionary():
    few, many = list("abcdef"), [str(i) for i in range(12)] + list("abcdef")
    for old_words, new_words in ((few, few), (few, many), (many, few)):
        old, new = AdaptiveRows(old_words, 8, [4, 10], 4), AdaptiveRows(new_words, 8, [4, 10], 4)
        for parameter in old.parameters():
            parameter.data.uniform_(-1, 1)
        state = copy.deepcopy(old.state_dict())
        upgrade(new, state, "")
        new.load_state_dict(state)
        common = [word for word in new_words if word in old_words]
        rows = [torch.stack([rows()[words.index(w)] for w in common]) for rows, words in ((old, old_words), (new, new_words))]
        torch.testing.assert_close(*rows)
