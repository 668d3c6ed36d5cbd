"""`flex_attention`: beside PyTorch, beside plain attention, and its masks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch.nn.attention import flex_attention as flex
from edutorch.nn.functional import scaled_dot_product_attention

RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (RNG.normal(size=(2, 4, 6, 8)).astype(np.float32) for _ in range(3))


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def window(b, h, q_idx, kv_idx):
    return (q_idx - kv_idx).abs() < 3


def third(b, h, q_idx, kv_idx):
    return (q_idx > 2) & (q_idx >= kv_idx)


def relative(score, b, h, q_idx, kv_idx):
    return score + (q_idx - kv_idx) * 0.1


def alibi(score, b, h, q_idx, kv_idx):
    return score - (h + 1) * (q_idx - kv_idx).abs()


def soft_cap(score, b, h, q_idx, kv_idx):
    return 5 * (score / 5).tanh()


def call(library, score_mod=None, mask=None, arrays=(QUERY, KEY, VALUE), **settings):
    """Return the results of a call, as arrays."""
    module = flex
    if library is not edutorch:
        from torch.nn.attention import flex_attention as module
    inputs = [library.tensor(array) for array in arrays]
    if mask is not None:
        sizes = inputs[0].shape[-2], inputs[1].shape[-2]
        settings["block_mask"] = module.create_block_mask(
            mask, 2, 4, *sizes, device="cpu", BLOCK_SIZE=2
        )
    result = module.flex_attention(*inputs, score_mod, **settings)
    return [x.numpy() for x in (result if isinstance(result, tuple) else (result,))]


def by_definition(score_mod, mask, scale):
    """Return the result and log-sum-exps, score by score in Python's numbers."""
    shape = QUERY.shape[:3]
    result, lse = np.zeros((*shape, VALUE.shape[-1])), np.full(shape, -np.inf)
    for b, h, q in np.ndindex(*shape):
        scores = []
        for k in range(KEY.shape[2]):
            score = scale * float(QUERY[b, h, q].astype(float) @ KEY[b, h, k])
            at = [edutorch.tensor(index) for index in (b, h, q, k)]
            if score_mod is not None:
                score = float(score_mod(edutorch.tensor(score, dtype=edutorch.float64), *at))
            scores.append(-math.inf if mask is not None and not mask(*at) else score)
        total = sum(math.exp(score) for score in scores)
        if total:
            lse[b, h, q] = math.log(total)
            result[b, h, q] = sum(
                math.exp(s) / total * v for s, v in zip(scores, VALUE[b, h], strict=True)
            )
    return result, lse


@pytest.mark.parametrize(
    ("score_mod", "mask"), [(relative, causal), (alibi, third), (soft_cap, None)]
)
def test_it_is_the_definition(score_mod, mask):
    results = call(edutorch, score_mod, mask, return_lse=True, scale=0.3)
    for mine, other in zip(results, by_definition(score_mod, mask, 0.3), strict=True):
        assert np.allclose(mine, other, atol=1e-5)


@pytest.mark.slow  # PyTorch imports its compiler for it
@pytest.mark.parametrize("score_mod", [None, relative, alibi, soft_cap])
@pytest.mark.parametrize("mask", [None, causal, third, flex.and_masks(causal, window)])
def test_results_are_those_of_pytorch(torch, score_mod, mask):
    settings = {"return_lse": True, "scale": 0.3}
    ours, theirs = (call(library, score_mod, mask, **settings) for library in (edutorch, torch))
    for mine, other in zip(ours, theirs, strict=True):
        assert np.allclose(mine, other, atol=1e-5)


def test_gradients():
    inputs = [
        edutorch.tensor(x[:1, :2, :4, :3].astype(np.float64), requires_grad=True)
        for x in (QUERY, KEY, VALUE)
    ]
    mask = flex.create_block_mask(third, None, None, 4, 4)

    def function(*inputs):
        return flex.flex_attention(*inputs, soft_cap, mask)

    assert edutorch.autograd.gradcheck(function, inputs)


def test_it_is_plain_attention_without_functions():
    inputs = [edutorch.tensor(x) for x in (QUERY, KEY, VALUE)]
    expected = scaled_dot_product_attention(*inputs)
    assert edutorch.allclose(flex.flex_attention(*inputs), expected, atol=1e-6)
    mask = flex.create_block_mask(causal, None, None, 6, 6)
    expected = scaled_dot_product_attention(*inputs, is_causal=True)
    assert edutorch.allclose(flex.flex_attention(*inputs, block_mask=mask), expected, atol=1e-6)


def test_a_bias_from_a_table_has_a_gradient():
    table = edutorch.zeros(4, 11, requires_grad=True)
    inputs = [edutorch.tensor(x) for x in (QUERY, KEY, VALUE)]
    y = flex.flex_attention(*inputs, lambda score, b, h, q, k: score + table[h, q - k + 5])
    (y**2).sum().backward()
    assert table.grad.abs().sum() > 0


def test_heads_may_share_keys():
    few, repeated = ((QUERY, *(x[:, index] for x in (KEY, VALUE)))
                     for index in ([0, 1], [0, 0, 1, 1]))  # fmt: skip
    shared = call(edutorch, alibi, arrays=few, enable_gqa=True)
    assert np.array_equal(shared[0], call(edutorch, alibi, arrays=repeated)[0])


def test_a_query_without_an_open_key_gives_zero():
    mask = flex.create_block_mask(third, None, None, 6, 6)
    inputs = [edutorch.tensor(x) for x in (QUERY, KEY, VALUE)]
    y, aux = flex.flex_attention(
        *inputs, block_mask=mask, return_aux=flex.AuxRequest(lse=True, max_scores=True)
    )
    assert y[0, 0, :3].tolist() == [[0.0] * 8] * 3
    assert aux.lse[0, 0, 0].item() == aux.max_scores[0, 0, 0].item() == -math.inf
    assert flex.flex_attention(*inputs, return_aux=flex.AuxRequest())[1] == (None, None)


@pytest.mark.parametrize("sizes", [(8, 8), (10, 7), (3, 12)])
@pytest.mark.parametrize("mask", [causal, window, third])
def test_blocks_are_those_of_pytorch(torch, mask, sizes):
    from torch.nn.attention.flex_attention import create_block_mask

    for options in ({}, {"separate_full_blocks": False}):
        ours = flex.create_block_mask(mask, 2, 1, *sizes, BLOCK_SIZE=(4, 2), **options)
        theirs = create_block_mask(mask, 2, 1, *sizes, device="cpu", BLOCK_SIZE=(4, 2), **options)
        assert ours.shape == theirs.shape
        assert ours.sparsity() == pytest.approx(theirs.sparsity())
        assert ours.to_dense().tolist() == theirs.to_dense().tolist()
        for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices",
                     "q_num_blocks", "q_indices", "full_q_num_blocks"):  # fmt: skip
            mine, other = getattr(ours, name), getattr(theirs, name)
            assert (mine is None) == (other is None), name
            assert mine is None or mine.tolist() == other.tolist(), name


def test_a_mask_is_drawn():
    mask = flex.create_block_mask(causal, 2, None, 8, 8, BLOCK_SIZE=4)
    assert mask.to_string(limit=1) == (
        "(0, 0)\n░░  \n██░░\n\n...\nto_string(limit=2) draws all, mask[batch, head] one"
    )
    assert str(mask).startswith("BlockMask(shape=(2, 1, 8, 8), sparsity=25.00%,")
    assert "mask_mod=causal" in repr(mask)
    assert mask[1].shape == (1, 8, 8)
    assert mask.numel() == 128
    assert mask.to("cpu").to_dense().tolist() == mask.to_dense().tolist()
    again = flex.BlockMask.from_kv_blocks(
        mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices, 4
    )
    assert again.shape == mask.shape
    assert again.to_dense().tolist() == mask.to_dense().tolist()


def test_masks_combine():
    both = flex.create_mask(flex.and_masks(causal, window), None, None, 6, 6)
    either = flex.create_mask(flex.or_masks(causal, window), None, None, 6, 6)
    first, second = (flex.create_mask(mask, None, None, 6, 6) for mask in (causal, window))
    assert edutorch.equal(both, first & second)
    assert edutorch.equal(either, first | second)
    assert flex.create_mask(flex.noop_mask, 1, 2, 3, 4).all()
    assert flex.create_mask(relative, None, None, 2, 2)[0, 0, 1].tolist() == pytest.approx([0.1, 0])


def test_bad_arguments():
    q, few = edutorch.tensor(QUERY), edutorch.tensor(KEY[:, :2])
    mask = flex.create_block_mask(causal, None, None, 5, 6)
    for function, error, message in (
        (lambda: flex.flex_attention(q, few, few), ValueError, "same number of heads but got Hq=4"),
        (
            lambda: flex.flex_attention(q, q[:, :3], q[:, :3], enable_gqa=True),
            ValueError,
            "multiple",
        ),
        (lambda: flex.flex_attention(q[0], q[0], q[0]), NotImplementedError, "must be 4D"),
        (lambda: flex.flex_attention(q, q, q.double()), ValueError, "same dtype"),
        (lambda: flex.flex_attention(q, q, q, block_mask=mask), ValueError, "q_len=6 and kv_len=6"),
        (lambda: flex.create_block_mask(3, None, None, 8, 8), TypeError, "3 is not a callable"),
        (lambda: flex.create_block_mask(lambda b, h, q: q, None, None, 8, 8), ValueError, "got 3"),
        (lambda: flex.and_masks(causal, 3), RuntimeError, "All inputs should be callable"),
        (lambda: flex.BlockMask.from_kv_blocks(q[0, 0, 0], q[0, 0, 0]), ValueError, "at least 2"),
    ):
        with pytest.raises(error, match=message):
            function()
