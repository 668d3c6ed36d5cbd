"""The CUDA backend against NumPy, where there is a GPU."""

from __future__ import annotations

import contextlib

import ml_dtypes
import numpy as np
import pytest

from edutorch import backends
from edutorch.backends.cupy import problems

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(problems()), reason=f"no GPU here: {'; '.join(problems())}"),
]


@pytest.fixture
def cuda():
    return backends.get("cuda")


def test_there_and_back(cuda):
    for dtype in ("f4", "f8", "i8", "u1", "?", "c8", "f2", ml_dtypes.bfloat16):
        host = np.arange(6).reshape(2, 3).astype(dtype)
        array = cuda.from_numpy(host)
        assert backends.of(array) is cuda
        assert array.dtype == host.dtype
        np.testing.assert_array_equal(cuda.to_numpy(array), host)


@pytest.mark.parametrize(
    "dtype", ["f4", "f8", "f2", "i8", "i4", "i2", "i1", "u1", "c8", "c16", ml_dtypes.bfloat16]
)
def test_scatter_add_counts_repeated_indices(cuda, dtype):
    target = cuda.from_numpy(np.ones((3, 2)).astype(dtype))
    values = cuda.from_numpy(np.array([[1, 2], [3, 4], [5, 6]]).astype(dtype))
    cuda.scatter_add(target, cuda.from_numpy(np.array([0, 2, 0])), values)
    np.testing.assert_array_equal(cuda.to_numpy(target).astype("c16"), [[7, 9], [1, 1], [4, 5]])


def test_strided_views(cuda):
    x = cuda.from_numpy(np.arange(10, dtype="f4"))
    window = cuda.as_strided(x[1:], (3, 4), (8, 4), 4)
    np.testing.assert_array_equal(cuda.to_numpy(window), [[2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]])
    assert cuda.address(window) == cuda.address(x) + 8


def test_storages_have_the_size_that_was_asked_for(cuda):
    x = cuda.from_numpy(np.arange(6, dtype="f4"))
    views = [x, x[2:], x.reshape(2, 3).T, cuda.as_strided(x, (2, 2), (4, 4), 4), cuda.memory(x)]
    views += [views[3][1:], cuda.as_strided(views[3], (3,), (4,), 0)]
    for view in views:
        assert cuda.storage(view) == (cuda.address(x), 24)
    assert cuda.to_numpy(cuda.memory(views[3])).view("f4").tolist() == [0, 1, 2, 3, 4, 5]


def test_numpys_results_where_cupy_has_others(cuda):
    xp = cuda.xp
    a, b = (
        cuda.from_numpy(np.array([2, -5, 6.5], "f4")),
        cuda.from_numpy(np.array([0.4, np.inf, 2], "f4")),
    )
    with np.errstate(all="ignore"):
        for name in ("floor_divide", "remainder", "fmod"):
            expected = getattr(np, name)(a.get(), b.get())
            np.testing.assert_array_equal(cuda.to_numpy(getattr(xp, name)(a, b)), expected)
    assert np.signbit(cuda.to_numpy(cuda.asarray(-0.0)))
    assert np.signbit(cuda.to_numpy(cuda.from_numpy(np.array(-0.0))))
    assert np.signbit(cuda.to_numpy(xp.full((2,), -0.0))).all()
    assert cuda.to_numpy(xp.cumsum(cuda.asarray(3.0), axis=0)).tolist() == [3]
    assert cuda.to_numpy(xp.fmod(cuda.from_numpy(np.array([2**60 + 1])), 2)).tolist() == [1]


def test_what_the_strict_device_imitates(cuda):
    """What CuPy itself answers; the strict device answers the same in `test_strict.py`."""
    cupy = cuda.xp.library
    x = cuda.from_numpy(np.arange(6, dtype="f4").reshape(2, 3))
    assert cupy.take(x, cupy.asarray([-7, 6])).tolist() == [5, 0]
    assert x[cupy.asarray([0, 3, -4]), 0].tolist() == [0, 3, 0]
    assert x[1.5].tolist() == [3, 4, 5]
    assert (1 / cupy.asarray(-0.0)).item() == np.inf
    assert cupy.floor_divide(cupy.asarray([2.0], "f4"), np.float32(0.4)).tolist() == [5]
    assert np.isnan(cupy.remainder(-x[1], np.inf).get()).all()
    assert cupy.fmod(cupy.asarray([2**60 + 1]), 2).tolist() == [0]
    cupy.broadcast_to(x, (2, 2, 3))[0] = x + 1
    assert x[0, 0].item() == 1
    with pytest.raises(np.exceptions.AxisError):
        cupy.cumsum(x[0, 0], axis=0)
    with pytest.raises(IndexError, match="Index 2 is out of bounds for axis 0 with size 2"):
        x[2]


def test_random_numbers(cuda):
    first, second = cuda.generator(3), cuda.generator(3)
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        drawn = cuda.to_numpy(first.uniform((100_000,), np.dtype(dtype))).astype("f8")
        assert drawn.min() >= 0
        assert drawn.max() < 1
        assert abs(drawn.mean() - 0.5) < 0.01
        again = cuda.to_numpy(second.uniform((100_000,), np.dtype(dtype)))
        np.testing.assert_array_equal(again.astype("f8"), drawn)
    normal = cuda.to_numpy(first.normal((100_000,), np.dtype("f4")))
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    whole = cuda.to_numpy(first.integers(-2, 5, (1000,)))
    assert set(whole) == set(range(-2, 5))
    assert sorted(cuda.to_numpy(first.permutation(1000))) == list(range(1000))


def test_random_state(cuda):
    source = cuda.generator(5)
    state = source.get_state()
    drawn = cuda.to_numpy(source.normal((10,), np.dtype("f4")))
    source.set_state(state)
    np.testing.assert_array_equal(cuda.to_numpy(source.normal((10,), np.dtype("f4"))), drawn)


def test_the_same_random_numbers_as_on_the_cpu(cuda):
    """To the last bit, by kernels and (in reference mode) by CuPy's functions."""
    import edutorch
    from edutorch import backends

    state = backends.get("cpu").generator(7).get_state()
    for context in (contextlib.nullcontext, edutorch.backends.reference_only):
        ours, cpus = cuda.generator(0), backends.get("cpu").generator(0)
        for generator in (ours, cpus):
            generator.set_state(state)
        with context():
            for size in (1, 5, 1023, 100_003):
                for dtype in map(np.dtype, ("f2", "f4", "f8")):
                    for draw in ("uniform", "normal"):
                        y, expected = (
                            getattr(generator, draw)((size,), dtype) for generator in (ours, cpus)
                        )
                        np.testing.assert_array_equal(cuda.to_numpy(y), expected)
                for values in (10, 3 * 2**30, 3 * 2**61):
                    y, expected = (
                        generator.integers(-5, values - 5, (size,)) for generator in (ours, cpus)
                    )
                    np.testing.assert_array_equal(cuda.to_numpy(y), expected)
                y, expected = (generator.permutation(size) for generator in (ours, cpus))
                np.testing.assert_array_equal(cuda.to_numpy(y), expected)
        np.testing.assert_array_equal(ours.get_state(), cpus.get_state())
        assert ours.device_state().get().tolist() == [7, ours.offset, 0]


def test_dropout_is_that_of_the_cpu(cuda):
    import edutorch

    masks = []
    for device in ("cpu", "cuda"):
        edutorch.manual_seed(3)
        x = edutorch.ones(33, 7, device=device)
        masks.append(edutorch.nn.functional.dropout(x, 0.3).cpu())
    assert edutorch.equal(*masks)


def test_what_the_gpu_says_of_itself():
    import edutorch

    assert edutorch.cuda.is_available()
    assert edutorch.cuda.device_count() >= 1
    assert edutorch.cuda.get_device_name()
    assert edutorch.cuda.get_device_capability() >= (7, 0)
    free, total = edutorch.cuda.mem_get_info()
    assert 0 < free <= total
    kept = backends.get("cuda").from_numpy(np.ones(1_000_000))
    assert edutorch.cuda.memory_allocated() >= kept.nbytes
    assert edutorch.cuda.memory_reserved() >= edutorch.cuda.memory_allocated()
    edutorch.cuda.synchronize()
