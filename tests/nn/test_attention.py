"""Multi-head attention, and all settings of scaled dot-product attention, against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.nn import functional as F
from tests.nn.compare import assert_close, carry, ours_of
from tests.nn.functions import assert_refused, compare_calls

LAYERS = [
    {}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 3, "vdim": 5},
    {"batch_first": True}, {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
]  # fmt: skip
CALLS = ["plain", "padding", "mask", "float", "heads", "causal", "no weights", "every head", "both"]


def call_arguments(torch, case, n, heads, queries, keys):
    """Return the arguments of a call, as PyTorch's tensors."""
    hidden = torch.triu(torch.ones(queries, keys, dtype=torch.bool), 1)
    padding = torch.zeros(n, keys, dtype=torch.bool)
    padding[0, -1] = True
    score = torch.randn(queries, keys, dtype=torch.float64)
    return {
        "plain": {}, "padding": {"key_padding_mask": padding}, "mask": {"attn_mask": hidden},
        "float": {"attn_mask": score},
        "heads": {"attn_mask": torch.randn(n * heads, queries, keys, dtype=torch.float64)},
        "causal": {"attn_mask": hidden, "is_causal": True, "need_weights": False},
        "no weights": {"need_weights": False}, "every head": {"average_attn_weights": False},
        "both": {"attn_mask": score.masked_fill(hidden, -math.inf),
            "key_padding_mask": torch.zeros(n, keys, dtype=torch.float64)},
    }[case]  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("settings", LAYERS, ids=str)
def test_multihead_attention(settings, case, device, torch):
    torch.manual_seed(2)
    theirs = torch.nn.MultiheadAttention(4, 2, **settings).double().train()
    ours = nn.MultiheadAttention(4, 2, **settings).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(carry(theirs.state_dict(), device))
    n, queries, keys = 2, 3, 3 if case == "causal" else 4
    shapes = [
        (queries, n, 4),
        (keys, n, settings.get("kdim", 4)),
        (keys, n, settings.get("vdim", 4)),
    ]
    if settings.get("batch_first"):
        shapes = [(b, a, c) for a, b, c in shapes]
    x = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    mine = [ours_of(tensor, device, True) for tensor in x]
    call = call_arguments(torch, case, n, 2, queries, keys)
    own = {k: ours_of(v, device) if isinstance(v, torch.Tensor) else v for k, v in call.items()}
    expected, actual = theirs(*x, **call), ours(*mine, **own)
    assert_close(actual, expected)
    (expected[0] ** 3).sum().backward()
    (actual[0] ** 3).sum().backward()
    for a, b in zip(mine, x, strict=True):
        assert_close(a.grad, b.grad)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(a.grad, b.grad)


def test_without_a_batch(device, torch):
    theirs = torch.nn.MultiheadAttention(4, 2, batch_first=True).double()
    ours = nn.MultiheadAttention(4, 2, batch_first=True).double()
    ours.load_state_dict(carry(theirs.state_dict(), device))
    x = torch.randn(3, 4, dtype=torch.float64)
    hidden = torch.tensor([False, True, False])
    expected = theirs(x, x, x, key_padding_mask=hidden)
    mine = ours_of(x, device)
    assert_close(ours(mine, mine, mine, key_padding_mask=ours_of(hidden, device)), expected)


def test_differentiable_twice():
    edutorch.manual_seed(1)
    layer = nn.MultiheadAttention(2, 1).double()
    x = edutorch.randn(2, 1, 2, dtype=edutorch.float64, requires_grad=True)
    assert edutorch.autograd.gradgradcheck(lambda x: layer(x, x, x)[0], (x,))


def test_how_it_starts():
    edutorch.manual_seed(3)
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True)
    limit = math.sqrt(6 / (8 + 24))
    assert layer.in_proj_weight is not None and layer.in_proj_bias is not None
    assert layer.in_proj_weight.abs().max().item() <= limit
    assert layer.in_proj_weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.2)
    assert not layer.in_proj_bias.any()
    assert layer.out_proj.bias is not None and not layer.out_proj.bias.any()
    assert layer.bias_k is not None and layer.bias_k.any()


def test_static_keys_and_values(device, torch):
    torch.manual_seed(2)
    x, w = torch.randn(3, 2, 4).double(), torch.randn(12, 4).double()
    static = torch.randn(4, 5, 2).double()

    def call(f, x, w, s):
        out = w[:4]
        return f.multi_head_attention_forward(
            x, x, x, 4, 2, w, None, None, None, False, 0.0, out, None, static_k=s, static_v=s
        )

    compare_calls(torch, device, call, x, w, static, twice=False)


@pytest.mark.parametrize("settings", [{"is_causal": True}, {"scale": 0.7}, {"enable_gqa": True}])
def test_scaled_dot_product(settings, device, torch):
    heads = 1 if "enable_gqa" in settings else 2
    compare_calls(
        torch, device,
        lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, **settings),
        (1, 2, 3, 2), (1, heads, 4, 2), (1, heads, 4, 3),
    )  # fmt: skip


def test_a_mask_of_scores_has_a_gradient(device, torch):
    compare_calls(
        torch, device, lambda f, q, k, v, m: f.scaled_dot_product_attention(q, k, v, m),
        (2, 3, 2), (2, 4, 2), (2, 4, 3), (3, 4),
    )  # fmt: skip


def test_dropout_of_weights(device):
    edutorch.manual_seed(0)
    q = edutorch.zeros(1, 1, 4, device=device)
    k, v = edutorch.zeros(1, 1000, 4, device=device), edutorch.ones(1, 1000, 1, device=device)
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert y.item() == pytest.approx(1, abs=0.15)
    assert y.item() != 1


def test_refusals():
    ones = edutorch.ones
    layer, x = nn.MultiheadAttention(4, 2), ones(3, 2, 4)
    assert_refused(lambda: layer(ones(3, 2, 5), x, x), "was expecting embedding dimension of 4")
    assert_refused(lambda: layer(x, x, x, is_causal=True), "Need attn_mask")
    assert_refused(lambda: layer(x, x, x, attn_mask=ones(3, 4)), "attn_mask should be")
    assert_refused(
        lambda: layer(x, x, x, key_padding_mask=ones(3, 2)), "key_padding_mask should be"
    )
    assert_refused(lambda: layer(x, x, x, attn_mask=ones(3, 3).long()), "must be bool or floating")
    assert_refused(lambda: layer(x, ones(4, 1, 4), ones(4, 1, 4)), "of the same batch")
    assert_refused(lambda: nn.MultiheadAttention(0, 2), "must be greater than 0")
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        nn.MultiheadAttention(5, 2)
    attend = F.scaled_dot_product_attention
    assert_refused(lambda: attend(x, x, x, ones(2, 2), is_causal=True), "should not be set")
    assert_refused(lambda: attend(x, x, x, ones(2, 2).long()), "expected attn_mask to be bool")
    assert_refused(lambda: attend(x, x.double(), x), "same dtype")
    assert_refused(lambda: attend(x, ones(3, 2, 5), x), "share their features")
    assert_refused(lambda: attend(x, x[:2], x[:2], enable_gqa=True), "shared out evenly")


# Queries without visible keys ------------------------------------------------------------------

NOTHING_SEEN = {
    "bool": lambda: edutorch.tensor([[True, False, True], [False] * 3]),
    "float": lambda: edutorch.tensor([[0.0, -math.inf, 1.0], [-math.inf] * 3]),
    "expanded": lambda: edutorch.tensor([[True], [False]]).expand(2, 3),
}
SETTINGS = [{}, {"dropout_p": 0.5}, {"scale": 2.0}, {"enable_gqa": True}]
TYPES = ["float32", "float64", "float16", "bfloat16"]


def is_zero(*tensors):
    return all(bool((tensor == 0).all()) for tensor in tensors)


def is_finite(*tensors):
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mask", NOTHING_SEEN)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_row_that_is_masked_as_a_whole(settings, mask, compiled):
    hidden = NOTHING_SEEN[mask]()

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, hidden, **settings)

    call = edutorch.compile(attention) if compiled else attention
    for dtype in TYPES[:1] if compiled or settings else TYPES:
        if hidden.is_floating_point():
            hidden = hidden.to(getattr(edutorch, dtype))
        heads = (4, 2, 2) if "enable_gqa" in settings else (2, 2, 2)
        q, k, v = (
            edutorch.randn(1, head, length, 4, dtype=getattr(edutorch, dtype), requires_grad=True)
            for head, length in zip(heads, (2, 3, 3), strict=True)
        )
        y = call(q, k, v)
        assert is_zero(y[..., 1, :]) and is_finite(y) and y.dtype is q.dtype
        y.sum().backward()
        assert is_finite(q.grad, k.grad, v.grad) and is_zero(q.grad[..., 1, :])
        q.grad = k.grad = v.grad = None
        call(q, k, v)[..., 1, :].sum().backward()  # the row alone: nothing moves
        assert is_zero(q.grad, k.grad, v.grad)


def test_second_derivatives_of_a_masked_row():
    q, k, v = (edutorch.randn(1, 2, 3, dtype=edutorch.float64, requires_grad=True)
               for _ in range(3))  # fmt: skip
    hidden = edutorch.tensor([[True, False], [False, False]])
    assert edutorch.autograd.gradgradcheck(
        lambda *x: F.scaled_dot_product_attention(*x, hidden), (q, k, v)
    )


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("call", ["attn_mask", "key_padding_mask", "both"])
def test_heads_that_may_see_nothing(call, need_weights):
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = edutorch.randn(2, 3, 4, requires_grad=True)
    rows = edutorch.tensor([[False] * 3, [True] * 3, [False, True, False]])
    padding = edutorch.tensor([[True] * 3, [False] * 3])
    masks = {"attn_mask": rows, "key_padding_mask": padding}
    masks = masks if call == "both" else {call: masks[call]}
    y, weights = layer(x, x, x, need_weights=need_weights, **masks)
    blind = (slice(None), 1) if call == "attn_mask" else (0,)
    assert is_finite(y)
    np.testing.assert_allclose(y[blind].detach(), layer.out_proj.bias.expand_as(y[blind]).detach())
    if need_weights:
        assert is_finite(weights) and is_zero(weights[blind])
    y[blind].sum().backward()
    assert is_zero(x.grad, layer.in_proj_weight.grad)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformers_whose_source_is_all_padding(norm_first, training):
    model = nn.Transformer(8, 2, 1, 1, 16, norm_first=norm_first, batch_first=True).train(training)
    source, target = (edutorch.randn(2, 3, 8, requires_grad=True) for _ in range(2))
    padding = edutorch.tensor([[True] * 3, [False, False, True]])
    y = model(
        source, target, src_key_padding_mask=padding, memory_key_padding_mask=padding,
        tgt_key_padding_mask=padding, tgt_mask=model.generate_square_subsequent_mask(3),
    )  # fmt: skip
    y.square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert is_finite(y, source.grad, target.grad, *gradients)
