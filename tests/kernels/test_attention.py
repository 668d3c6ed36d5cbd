"""Attention tile by tile is attention."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import edutorch
from edutorch.backends import reference_only
from edutorch.backends.blas import blas
from edutorch.backends.kernel_registry import slot_of
from edutorch.kernels.cpu import attention as kernels
from edutorch.nn.functional import attention as definitions
from edutorch.nn.functional import scaled_dot_product_attention

pytestmark = pytest.mark.skipif(blas() is None, reason="NumPy's BLAS cannot be called")


@pytest.fixture(scope="module")
def attend():
    return kernels.attention_forward(), kernels.attention_forward_joint_vjp()


def defined(g, q, k, v, scale, is_causal):
    with reference_only():
        y = definitions.attention_forward.op.forward(np, q, k, v, scale, is_causal)
        return y, *definitions.sdpa_backward(g, q, k, v, scale, is_causal)


def close(result, exact, dtype):
    for one, other in zip(result, exact, strict=True):
        assert one.dtype == dtype and one.shape == other.shape
        tolerance = (2e-5 if dtype == np.float32 else 1e-13) * max(1, abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def heads(x):
    """Return (…, l, h · d) as (…, h, l, d), the way it lies in memory."""
    return x.reshape(*x.shape[:-1], 2, -1).swapaxes(-2, -3)


def side_by_side(x):
    """Say whether (…, h, l, d) lies in memory as (…, l, h, d)."""
    return x.ndim > 2 and x.swapaxes(-2, -3).flags.c_contiguous


@settings(max_examples=25, deadline=None)
@given(
    batch=st.sampled_from([(), (2,), (2, 2), (3, 1, 2)]), is_causal=st.booleans(),
    sizes=st.tuples(*[st.sampled_from([1, 2, 16, 17, 65, 130])] * 2, *[st.integers(1, 5)] * 2),
    dtype=st.sampled_from([np.float32, np.float64]), in_place=st.booleans(),
)  # fmt: skip
def test_as_the_definition(attend, batch, is_causal, sizes, dtype, in_place):
    queries, keys, d, e = sizes
    generator = np.random.default_rng(0)

    def random_array(length, width):
        if in_place and batch and batch[-1] == 2:
            return heads(generator.normal(size=(*batch[:-1], length, 2 * width)).astype(dtype))
        return generator.normal(size=(*batch, length, width)).astype(dtype)

    q, k, v, g = (
        random_array(queries, d),
        random_array(keys, d),
        random_array(keys, e),
        random_array(queries, e),
    )
    exact = defined(*(array.astype(float) for array in (g, q, k, v)), 0.5, is_causal)
    y = attend[0](q, k, v, 0.5, is_causal)
    close((y, *attend[1](g, q, k, v, 0.5, is_causal)), exact, dtype)
    together = side_by_side(q) and side_by_side(y)
    assert y.flags.c_contiguous or together  # it lies as the queries do


def test_other_operands_are_copied_or_left(attend):
    q = np.random.default_rng(0).normal(size=(2, 3, 8))
    spread = q[..., ::2], q[..., 1::2], np.broadcast_to(q[:, :, :1], (2, 3, 4))
    g = np.broadcast_to(1.0, (2, 3, 4))
    result = attend[0](*spread, 1.0), *attend[1](g, *spread, 1.0, False)
    close(result, defined(g, *spread, 1.0, False), np.float64)
    half = q.astype(np.float16)
    for operands in ((q, q[:1], q), (q, q[:, :0], q[:, :0]), (half, q, q), (half, half, half)):
        assert attend[0](*operands, 1.0) is None
        assert attend[1](operands[0], *operands, 1.0, False) is None
    assert attend[1](q[:1], q, q, q, 1.0, False) is None


@pytest.mark.parametrize("which", ["g", "q", "k", "v"])
def test_operands_that_are_shown_many_times(attend, which):
    """Along an axis that was expanded, the same numbers come again and again."""
    generator = np.random.default_rng(0)
    arrays = {name: generator.normal(size=(3, 5, 4)) for name in "gqkv"}
    arrays[which] = np.broadcast_to(arrays[which][:1], (3, 5, 4))
    g, *others = arrays.values()
    result = attend[0](*others, 1.0), *attend[1](g, *others, 1.0, False)
    close(result, defined(g, *others, 1.0, False), np.float64)


def test_heads_that_lie_side_by_side_come_out_so(attend):
    """To put them together again is then a view. PyTorch lays them so as well."""
    q = heads(np.random.default_rng(0).normal(size=(2, 64, 16)))
    y = attend[0](q, q, q, 1.0, True)
    assert side_by_side(y) and not y.flags.c_contiguous
    exact = definitions.attention_forward.op.forward(np, q, q, q, 1.0, True)
    assert exact.strides == y.strides
    apart = np.ascontiguousarray(q)
    assert attend[0](apart, q, q, 1.0, True).flags.c_contiguous


def test_a_number_that_is_none_stays_in_its_row(attend):
    q = np.random.default_rng(0).normal(size=(1, 5, 4)).astype(np.float32)
    k = q.copy()
    k[0, 3] = np.nan
    y = attend[0](q, k, q, 1.0, True)
    assert np.isnan(y[0, 3:]).all() and np.isfinite(y[0, :3]).all()


def test_the_function_with_and_without_kernels(monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    edutorch.manual_seed(0)
    wide = edutorch.randn(2, 20, 3 * 64, dtype=edutorch.float64)

    def gradients():
        x = wide.detach().requires_grad_()
        q, k, v = (part.view(2, 20, 4, 16).transpose(1, 2) for part in x.split(64, 2))
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        y.transpose(1, 2).reshape(2, 20, 64).cos().sum().backward()
        return y.detach().numpy(), x.grad.numpy()

    fast = gradients()
    assert (
        slot_of("attention_forward").run is not None
        and slot_of("attention_forward/joint_vjp").run is not None
    )
    with reference_only():
        exact = gradients()
    close(fast, exact, np.float64)
