"""The transformer and its parts against PyTorch."""

from __future__ import annotations

import math
import warnings

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, carry, ours_of
from tests.trials import tried

SETTINGS = [
    {}, {"norm_first": True}, {"batch_first": True, "bias": False}, {"activation": "gelu"},
    {"layer_norm_eps": 1e-2, "norm_first": True, "batch_first": True},
]  # fmt: skip
MASK_TYPES = ["plain", "causal", "hint", "hidden", "padding", "float", "both"]
N, SOURCE, TARGET, SIZE = 2, 4, 3, 8


def some(torch, *shape):
    return torch.randn(*shape, dtype=torch.float64)


def masks(torch, mask_type, length):
    """Return PyTorch's mask, padding mask and is_causal for self-attention over a sequence."""
    hidden = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    padding = torch.zeros(N, length, dtype=torch.bool)
    padding[0, -1] = True
    causal = torch.nn.Transformer.generate_square_subsequent_mask(length, dtype=torch.float64)
    return {
        "plain": (None, None, False), "causal": (causal, None, False), "hint": (causal, None, True),
        "hidden": (hidden, None, False), "padding": (None, padding, False),
        "float": (some(torch, length, length), None, False), "both": (hidden, padding, False),
    }[mask_type]  # fmt: skip


def pair(torch, make, device, training):
    """Create a module with each library, with the same weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of nested tensors
        theirs = make(torch.nn).double().train(training)
    ours = make(nn).double().train(training)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(carry(theirs.state_dict(), device))
    return ours, theirs


def mine_of(value, device, torch):
    return ours_of(value, device) if isinstance(value, torch.Tensor) else value


def compare(ours, theirs, inputs, call, device, torch):
    """Call both, compare outputs and all gradients."""
    x = [input_.requires_grad_() for input_ in inputs]
    mine = [ours_of(array, device, True) for array in x]
    expected = theirs(*x, **call)
    result = ours(*mine, **{key: mine_of(value, device, torch) for key, value in call.items()})
    assert_close(result, expected)
    (expected**3).sum().backward()
    (result**3).sum().backward()
    for a, b in zip(mine, x, strict=True):
        assert_close(a.grad, b.grad, "input")
    for a, (name, b) in zip(ours.parameters(), theirs.named_parameters(), strict=True):
        assert_close(a.grad, b.grad, name)


def inputs(torch, settings, *lengths):
    shapes = [(N, n, SIZE) if settings.get("batch_first") else (n, N, SIZE) for n in lengths]
    return [some(torch, *shape) for shape in shapes]


@tried("training", [True, False])
@tried("mask_type", MASK_TYPES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_encoder_layer(settings, mask_type, training, device, torch):
    torch.manual_seed(0)
    ours, theirs = pair(
        torch, lambda nn: nn.TransformerEncoderLayer(SIZE, 2, 5, 0.0, **settings), device, training
    )
    mask, padding, is_causal = masks(torch, mask_type, SOURCE)
    call = {"src_mask": mask, "src_key_padding_mask": padding, "is_causal": is_causal}
    compare(ours, theirs, inputs(torch, settings, SOURCE), call, device, torch)


@tried("mask_type", MASK_TYPES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_decoder_layer(settings, mask_type, device, torch):
    torch.manual_seed(1)
    ours, theirs = pair(
        torch, lambda nn: nn.TransformerDecoderLayer(SIZE, 2, 5, 0.0, **settings), device, True
    )
    mask, padding, is_causal = masks(torch, mask_type, TARGET)
    away = torch.zeros(N, SOURCE, dtype=torch.bool)
    away[1, :2] = True
    call = {
        "tgt_mask": mask, "tgt_key_padding_mask": padding, "tgt_is_causal": is_causal,
        "memory_key_padding_mask": away if padding is not None else None,
        "memory_mask": some(torch, TARGET, SOURCE) if mask_type == "float" else None,
    }  # fmt: skip
    compare(ours, theirs, inputs(torch, settings, TARGET, SOURCE), call, device, torch)


def stack_of(what):
    def make(nn):
        layer = getattr(nn, f"Transformer{what}Layer")(SIZE, 2, 5, 0.0, batch_first=True)
        return getattr(nn, f"Transformer{what}")(layer, 2, nn.LayerNorm(SIZE))

    return make


@tried("training", [True, False])
@tried("mask_type", MASK_TYPES)
def test_stacks(mask_type, training, device, torch):
    torch.manual_seed(2)
    settings = {"batch_first": True}
    mask, padding, is_causal = masks(torch, mask_type, SOURCE)
    ours, theirs = pair(torch, stack_of("Encoder"), device, training)
    call = {"mask": mask, "src_key_padding_mask": padding, "is_causal": is_causal}
    compare(ours, theirs, inputs(torch, settings, SOURCE), call, device, torch)
    mask, padding, is_causal = masks(torch, mask_type, TARGET)
    ours, theirs = pair(torch, stack_of("Decoder"), device, training)
    call = {"tgt_mask": mask, "tgt_key_padding_mask": padding, "tgt_is_causal": is_causal}
    compare(ours, theirs, inputs(torch, settings, TARGET, SOURCE), call, device, torch)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_transformer(settings, device, torch):
    torch.manual_seed(3)
    ours, theirs = pair(
        torch, lambda nn: nn.Transformer(SIZE, 2, 2, 1, 5, 0.0, **settings), device, True
    )
    causal = torch.nn.Transformer.generate_square_subsequent_mask(TARGET, dtype=torch.float64)
    call = {"tgt_mask": causal, "tgt_is_causal": True}
    compare(ours, theirs, inputs(torch, settings, SOURCE, TARGET), call, device, torch)


def test_one_sequence_without_a_batch(device, torch):
    ours, theirs = pair(
        torch, lambda nn: nn.Transformer(SIZE, 2, 1, 1, 5, 0.0, batch_first=True), device, True
    )
    x = [some(torch, SOURCE, SIZE), some(torch, TARGET, SIZE)]
    compare(ours, theirs, x, {}, device, torch)


def test_activations(device, torch):
    for name in ("silu", "relu", "gelu", "tanh"):
        ours, theirs = pair(
            torch,
            lambda nn, name=name: nn.TransformerEncoderLayer(
                SIZE, 2, 5, 0.0, getattr(nn.functional, name)
            ),
            device, True,
        )  # fmt: skip
        compare(ours, theirs, inputs(torch, {}, SOURCE), {}, device, torch)
    ours, theirs = pair(
        torch, lambda nn: nn.TransformerDecoderLayer(SIZE, 2, 5, 0.0, nn.ELU(0.5)), device, True
    )
    compare(ours, theirs, inputs(torch, {}, TARGET, SOURCE), {}, device, torch)


def test_layers_are_copies_and_matrices_start_as_xavier_wants():
    edutorch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32)
    stack = nn.TransformerEncoder(layer, 2)
    assert edutorch.equal(stack.layers[0].linear1.weight, stack.layers[1].linear1.weight)
    assert stack.layers[0].linear1.weight is not layer.linear1.weight
    net = nn.Transformer(64, 2, 1, 1, 128)
    for name, weight in net.named_parameters():
        if weight.ndim > 1:
            bound = math.sqrt(6 / sum(weight.shape))
            assert weight.abs().max().item() <= bound, name
            assert abs(weight.std().item() / (bound / math.sqrt(3)) - 1) < 0.05, name


def test_dropout_only_in_training():
    edutorch.manual_seed(0)
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, 0.5), edutorch.randn(3, 2, 8)
    assert not edutorch.equal(layer(x), layer(x))
    layer.eval()
    assert edutorch.equal(layer(x), layer(x))


def test_custom_parts():
    class Double(nn.Module):
        def forward(self, x, *others, **masks):
            return 2 * x

    net = nn.Transformer(8, 2, custom_encoder=Double(), custom_decoder=Double())
    assert net(edutorch.ones(1, 1, 8), edutorch.ones(1, 1, 8)).sum().item() == 16


def test_differentiable_twice(device):
    edutorch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 3, 0.0, "gelu").double().to(device)
    x = edutorch.randn(2, 1, 4, dtype=edutorch.float64, device=device, requires_grad=True)
    assert edutorch.autograd.gradgradcheck(lambda x: layer(x), (x,))


def test_mistakes():
    net, x = nn.Transformer(8, 2, 1, 1, 4), edutorch.ones(3, 2, 8)
    with pytest.raises(RuntimeError, match="batch number of src and tgt must be equal"):
        net(x, edutorch.ones(3, 1, 8))
    with pytest.raises(RuntimeError, match="must be equal to d_model, 8"):
        net(x, edutorch.ones(3, 2, 4))
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not sin"):
        nn.TransformerEncoderLayer(8, 2, activation="sin")
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        nn.TransformerEncoderLayer(8, 3)
