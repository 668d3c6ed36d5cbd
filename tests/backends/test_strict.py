"""The strict device refuses what CuPy refuses, and otherwise computes as NumPy does."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import edutorch
from edutorch import backends
from edutorch.backends import strict
from edutorch.backends.strict import StrictArray, xp

DEVICE = backends.get("strict")


def on_device(values, dtype=None) -> StrictArray:
    return DEVICE.from_numpy(np.asarray(values, dtype))


def on_host(array: StrictArray) -> np.ndarray:
    return DEVICE.to_numpy(array)


X = np.arange(6, dtype="f4").reshape(2, 3)


# What it refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda x: np.add(x, 1), "does not support ufuncs"),
        (lambda x: np.sum(x), r"numpy\.sum was called with an array of the device"),
        (lambda x: np.asarray(x), "Implicit conversion to a NumPy array is not allowed"),
        (lambda x: float(np.float64(x)), "Implicit conversion"),
        (lambda x: x + np.ones(3), "add got a NumPy array"),
        (lambda x: np.ones(3) * x, "multiply got a NumPy array"),
        (lambda x: x < np.ones(3), "less got a NumPy array"),
        (lambda x: xp.maximum(x, np.ones(3)), "maximum got a NumPy array"),
        (lambda x: xp.concatenate([x, X]), "concatenate got a NumPy array"),
        (lambda x: x[np.array([0])], "an index got a NumPy array"),
        (lambda x: x.__setitem__(0, np.ones(3)), "assignment got a NumPy array"),
        (lambda x: x.__setitem__(0, [1, 2, 3]), "not a list"),
        (lambda x: x[: xp.argmax(x)], "cannot be the bounds of a slice"),
        (lambda x: xp.sum(3.0), "sum needs an array of the device, got float"),
        (lambda x: xp.where(True, x, x), "where needs an array of the device, got bool"),
        (lambda x: xp.sum(x, where=x > 1), "unexpected keyword argument 'where'"),
        (lambda x: xp.max(x, initial=0), "unexpected keyword argument 'initial'"),
        (lambda x: xp.clip(x, min=0, max=1), "missing a required argument: 'a_min'"),
        (lambda x: xp.exp(x, where=x > 1), r"exp takes 1 arrays .* and \['where'\]"),
        (lambda x: x.sum(where=x > 1), "method sum.*unexpected keyword argument 'where'"),
        (lambda x: x.item(0), "takes 1 positional argument but 2 were given"),
        (lambda x: xp.logical_not(x.astype("c8")), "logical_not is not supported for .* complex64"),
        (lambda x: hash(x), "unhashable"),
        (lambda x: range(xp.argmax(x)), "cannot be interpreted as an integer"),
    ],
)
def test_type_errors(mistake, message):
    with pytest.raises(TypeError, match=message):
        mistake(on_device(X))


@pytest.mark.parametrize(
    "name",
    ["block", "insert", "geomspace", "vecdot", "unstack", "einsum_path", "errstate", "random"],
)
def test_functions_that_cupy_lacks(name):
    assert hasattr(np, name)
    with pytest.raises(AttributeError, match=f"CuPy has no '{name}'"):
        getattr(xp, name)


def test_members_that_cupy_lacks():
    assert not hasattr(xp.linalg, "vector_norm")
    with pytest.raises(NotImplementedError, match=r"CuPy has no maximum\.reduce"):
        xp.maximum.reduce(on_device(X))
    x = on_device(X)
    for name in ("ctypes", "setflags", "newbyteorder"):
        with pytest.raises(AttributeError, match=f"arrays have no '{name}'"):
            getattr(x, name)
    with pytest.raises(AttributeError):
        _ = x.flags.writeable
    with pytest.raises(AttributeError, match="do not let 'dtype' be set"):
        x.dtype = np.int32


def test_two_masks_in_one_index():
    x = on_device(X)
    with pytest.raises(IndexError, match="more than one boolean array"):
        x[x[:, 0] > 0, x[0] > 0]


def test_a_range_is_an_index():
    x = edutorch.tensor([[1.0, 2.0], [3.0, 4.0]], device="strict")
    columns = edutorch.tensor([1, 0], device="strict")
    assert x[range(2), columns].tolist() == [2.0, 3.0]


# Where CuPy answers otherwise than NumPy -------------------------------------------------------

MINUS_ZERO = np.array(-0.0)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (lambda x: x[xp.asarray([0, 3, -4])], X[[0, 1, 0]]),  # out of range: it wraps around
        (lambda x: x[:, xp.asarray([3])], X[:, [0]]),
        (lambda x: xp.take(x, xp.asarray([-7, 6])), [5, 0]),
        (lambda x: xp.take(x, xp.asarray([4]), axis=1), X[:, [1]]),
        (lambda x: x[1.5], X[1]),  # an index is rounded
        (lambda x: 1 / xp.asarray(-0.0), np.inf),  # any zero is cleared memory
        (lambda x: 1 / xp.asarray(MINUS_ZERO), np.inf),
        (lambda x: 1 / xp.full((1,), -0.0), [-np.inf]),
        (lambda x: xp.floor_divide(x[1:, 1] / 2, np.float32(0.4)), [5]),
        (lambda x: xp.asarray([2.0], "f4") // 0.4, [5]),
        (lambda x: xp.remainder(-x[1], np.inf), [np.nan] * 3),
        (lambda x: xp.fmod(xp.asarray([2**60 + 1]), 2), [0]),
        (lambda x: xp.angle(xp.asarray([np.nan, -0.0])), [np.pi, 0]),
    ],
)
def test_what_cupy_computes(raw, expected):
    np.testing.assert_array_equal(on_host(raw(on_device(X))), expected)


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda x: x[2], IndexError, "Index 2 is out of bounds for axis 0 with size 2"),
        (lambda x: x["a"], ValueError, "invalid literal for int"),
        (lambda x: x[xp.asarray([0.5])], IndexError, "must be of integer or boolean type"),
        (lambda x: x[0, 0, 0], IndexError, "2-dimensional, but 3 were indexed"),
        (lambda x: x[..., ...], IndexError, "single ellipsis"),
        (lambda x: x[xp.asarray([True])], IndexError, "dimension is 2 but .* dimension is 1"),
        (lambda x: x[:0][xp.asarray([0])], IndexError, "non-empty take from an empty axes"),
        (
            lambda x: x[xp.asarray([0, 1]), xp.asarray([0, 1, 2])],
            ValueError,
            r"shapes\(2,\) \(3,\)",
        ),
        (lambda x: x.__setitem__(0, x[0, :2]), ValueError, r"together with shapes \(2,\) \(3,\)"),
        (lambda x: xp.cumsum(x[0, 0], axis=0), np.exceptions.AxisError, "axis 0 is out of bounds"),
        (lambda x: xp.cumprod(x[0, 0], axis=0), np.exceptions.AxisError, "axis 0 is out of bounds"),
        (lambda x: x.scatter_add(0, x[0]), AttributeError, "arrays have no 'scatter_add'"),
        (lambda x: xp.add.at(x.astype("i2"), xp.asarray([0]), 1), TypeError, "only supports"),
        (lambda x: xp.maximum.at(x, xp.asarray([0]), 1), NotImplementedError, "no maximum.at"),
    ],
)
def test_what_cupy_refuses(mistake, error, message):
    with pytest.raises(error, match=message):
        mistake(on_device(X))


HALF = X.astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda x: xp.matmul(x[None], x.T), TypeError, "no batched product of bfloat16"),
        (lambda x: x[None] @ x.T, TypeError, "no batched product of bfloat16"),
        (lambda x: xp.einsum("ij,kj->ik", x, x), TypeError, "no batched product of bfloat16"),
        *((lambda x, f=f: getattr(xp, f)(x), ValueError, r"Unsupported dtype \(bfloat16\)")
          for f in ("sort", "argsort", "lexsort", "unique", "median")),
        (lambda x: xp.searchsorted(x[0], x[1]), ValueError, "Unsupported dtype"),
        (lambda x: x.argsort(), ValueError, "Unsupported dtype"),
        (lambda x: x.astype(ml_dtypes.float8_e5m2), ValueError, "Unsupported dtype float8_e5m2"),
        (lambda x: xp.zeros(2, ml_dtypes.int4), ValueError, "Unsupported dtype int4"),
        (lambda x: DEVICE.from_numpy(np.zeros(2, "g")), ValueError, "Unsupported dtype"),
        (lambda x: xp.arange(x[0, 1]), TypeError, "arange takes numbers"),
        (lambda x: xp.linspace(0, 1, xp.argmax(on_device(X))), TypeError, "takes a number"),
        (lambda x: xp.repeat(x, xp.argmax(on_device(X))), ValueError, "specified as `repeats`"),
        (lambda x: x.repeat(xp.argmax(on_device(X))), ValueError, "specified as `repeats`"),
    ],
)  # fmt: skip
def test_types_that_cupy_refuses(mistake, error, message):
    with pytest.raises(error, match=message):
        mistake(on_device(HALF))


def test_bfloat16_is_sorted_as_float32():
    values = np.array([[3, np.nan, -1, 2], [-np.inf, 0, 257, 256]], ml_dtypes.bfloat16)
    x, wide, ours = on_device(values), values.astype("f"), DEVICE.xp
    for name, args in (("sort", ()), ("argsort", ()), ("partition", (3,)), ("argpartition", (3,))):
        y, expected = getattr(ours, name)(x, *args), getattr(np, name)(wide, *args)
        assert y.dtype == (values.dtype if expected.dtype.kind == "f" else expected.dtype)
        np.testing.assert_array_equal(on_host(y).astype(expected.dtype), expected)
    np.testing.assert_array_equal(on_host(ours.searchsorted(ours.sort(x[1]), x[0, 2:])), [1, 2])


def test_bfloat16_on_the_device():
    x, ours = on_device(HALF), DEVICE.xp
    for product, expected in (
        (ours.matmul(x, x.T), HALF @ HALF.T),
        (ours.matmul(x[None], x.T), (HALF @ HALF.T)[None]),
        (ours.einsum("ij,kj->ik", x, x), HALF @ HALF.T),
        (ours.einsum("ij->ji", x), HALF.T),
    ):
        assert product.dtype == HALF.dtype
        np.testing.assert_array_equal(on_host(product), expected.astype(HALF.dtype))


def test_expanded_views_can_be_written():
    x = on_device(X)
    for expanded in (xp.broadcast_to(x, (2, 2, 3)), xp.broadcast_arrays(x, xp.ones((2, 1, 1)))[0]):
        expanded[0] = x + 1
        assert expanded.base is x
    np.testing.assert_array_equal(on_host(x), X + 2)


def test_numbers_that_are_assigned():
    x = on_device(np.ones((2, 3)))
    x[0] = -0.0  # contiguous: cleared
    x[:, 1] = -0.0
    np.testing.assert_array_equal(np.signbit(on_host(x)), [[False, True, False]] * 2)


# What `xp` of a device corrects ----------------------------------------------------------------

LEFT = np.array([7, -7, 2, -0.0, 0.0, np.inf, 3, -5, 5, 1e20, 6.5, np.nan, 1], "f8")
RIGHT = np.array([3, 3, 0.4, 5, -5, 2, np.inf, np.inf, -np.inf, 3, 0, 1, np.nan], "f8")


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ml_dtypes.bfloat16, "i8", "i1"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_division_is_numpys(name, dtype):
    rows = slice(0, 3) if np.dtype(dtype).kind == "i" else slice(None)
    with np.errstate(all="ignore"):
        left, right = (np.ceil(x[rows]).astype(dtype) if np.dtype(dtype).kind == "i" else
                       x.astype(dtype) for x in (LEFT, RIGHT))  # fmt: skip
        expected = getattr(np, name)(left, right)
    ours = on_host(getattr(DEVICE.xp, name)(on_device(left), on_device(right)))
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours.astype("f8"), expected.astype("f8"))
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(ours[number]), np.signbit(expected[number]))
    by_number = getattr(DEVICE.xp, name)(on_device(left), 3)
    assert by_number.dtype == expected.dtype


def test_whole_numbers_beyond_the_digits_of_float64():
    large = on_device([2**60 + 1, -(2**60) - 1])
    np.testing.assert_array_equal(on_host(DEVICE.xp.fmod(large, 2)), [1, -1])


@pytest.mark.parametrize("value", [-0.0, MINUS_ZERO, np.float32(-0.0), complex(0, -0.0)])
def test_the_sign_of_zero_reaches_the_device(value):
    for array in (DEVICE.asarray(value), DEVICE.from_numpy(np.asarray(value))):
        assert array.shape == ()
        host = on_host(array)
        np.testing.assert_array_equal(
            np.signbit(host.imag if host.dtype.kind == "c" else host), True
        )
    assert not np.signbit(on_host(DEVICE.asarray(0.0)))
    assert DEVICE.asarray(-0.0, np.dtype("i4")).dtype == np.int32


def test_scans_of_a_number():
    x = on_device(3.0)
    assert DEVICE.xp.cumsum(x, axis=0).tolist() == [3]
    assert DEVICE.xp.cumprod(x, axis=0).tolist() == [3]


# What it does ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "compute",
    [
        lambda xp, x: x + x,
        lambda xp, x: 2 - x / 3,
        lambda xp, x: x**2 // 3 % 2,
        lambda xp, x: np.float32(2) * x,
        lambda xp, x: x @ x.T,
        lambda xp, x: -abs(x - 3),
        lambda xp, x: ~(x > 2) | (x == 1),
        lambda xp, x: xp.exp(x).sum(axis=1, keepdims=True),
        lambda xp, x: xp.add.reduce(x, axis=1),
        lambda xp, x: xp.multiply.accumulate(x + 1, axis=1),
        lambda xp, x: xp.where(x > 2, x, 0.0),
        lambda xp, x: xp.einsum("ij,kj->ik", x, x),
        lambda xp, x: xp.concatenate([x, x * 2], axis=1),
        lambda xp, x: xp.stack((x, x))[..., 1:, None],
        lambda xp, x: xp.take_along_axis(x, xp.argsort(-x, axis=1), axis=1),
        lambda xp, x: x[xp.asarray([1, 0]), 1:],
        lambda xp, x: x[[1, 0]],
        lambda xp, x: x[x > 2],
        lambda xp, x: x[xp.asarray(1)],
        lambda xp, x: xp.linalg.norm(x, axis=1),
        lambda xp, x: xp.fft.rfft(x).imag,
        lambda xp, x: x.astype(xp.float64).reshape(3, 2).T,
        lambda xp, x: xp.broadcast_to(x[0], (4, 3)),
        lambda xp, x: xp.log(x * 0),
    ],
)
def test_computes_like_numpy(compute):
    x = on_device(X)
    result = compute(xp, x)
    with np.errstate(all="ignore"):
        expected = compute(np, X)
    assert isinstance(result, StrictArray)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(on_host(result), expected)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.sum(),
        lambda x: xp.max(x),
        lambda x: xp.argmax(x),
        lambda x: x[0, 0],
        lambda x: xp.count_nonzero(x),
        lambda x: xp.allclose(x, x),
        lambda x: xp.array_equal(x, x),
        lambda x: xp.einsum("ij,ij", x, x),
        lambda x: xp.add(2, 3),
    ],
)
def test_zero_dimensions_stay_on_the_device(compute):
    result = compute(on_device(X))
    assert isinstance(result, StrictArray)
    assert result.shape == ()


def test_numpy_would_warn_but_a_gpu_does_not(recwarn):
    x = on_device([0.0, -1.0])
    _ = 1 / x, xp.log(x), x.astype(np.float32) * 1e39
    assert not recwarn.list


def test_functions_about_arrays_answer_on_the_host():
    x = on_device(X)
    assert xp.ndim(x) == 2
    assert xp.iscomplexobj(x) is False
    assert xp.result_type(x, xp.float64) == np.float64
    assert xp.float32 is np.float32
    assert len(x) == 2
    assert [row.shape for row in x] == [(3,), (3,)]
    assert repr(x).startswith("StrictArray(array(")


# Memory ----------------------------------------------------------------------------------------


def test_host_and_device_share_no_memory():
    host = X.copy()
    x = DEVICE.from_numpy(host)
    host[0, 0] = 100
    back = on_host(x)
    back[0, 1] = 100
    np.testing.assert_array_equal(on_host(x), X)
    y = xp.asarray(host)
    host[0, 0] = -1
    assert float(y[0, 0]) == 100


def test_views_know_the_array_whose_memory_they_show():
    x = on_device(X)
    assert x.base is None
    for view in (x[0], x[0, 0], x.T, x.reshape(3, 2), x[:, ::-1][1:], xp.expand_dims(x, 0),
                 xp.broadcast_to(x, (2, 2, 3)), *xp.split(x, 2)):  # fmt: skip
        assert view.base is x
    for copied in (x * 1, x.copy(), x[[0]], x[xp.asarray(0)], x[x > 0], x.astype("f4")):
        assert copied.base is None
    assert x.astype("f4", copy=False) is x
    x.T[0, 1] = 50
    assert float(x[1, 0]) == 50


def test_in_place_and_out():
    x = on_device(X)
    same = x
    same += 1
    same *= same
    assert same is x
    out = xp.empty_like(x)
    assert xp.sqrt(x, out=out) is out
    assert xp.sum(x, axis=0, out=out[0]).base is out
    np.testing.assert_array_equal(on_host(out)[0], ((X + 1) ** 2).sum(0))
    with pytest.raises(TypeError, match="casting rule"):
        same += 1j


def test_strided_views():
    x = on_device(np.arange(10, dtype="f4"))
    window = DEVICE.as_strided(x[1:], (3, 4), (8, 4), 4)
    np.testing.assert_array_equal(on_host(window), [[2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]])
    assert window.base is x
    assert window[1].base is x
    assert DEVICE.address(window) == DEVICE.address(x) + 8
    with pytest.raises((ValueError, TypeError), match=r"strides|buffer"):
        DEVICE.as_strided(x, (3, 4), (16, 4), 4)


def test_scatter_add_counts_repeated_indices():
    total = on_device(np.zeros(3))
    DEVICE.scatter_add(total, on_device([0, 2, 0]), on_device([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(on_host(total), [5, 0, 2])
    with pytest.raises(TypeError, match="got a NumPy array"):
        DEVICE.scatter_add(total, on_device([0]), np.ones(1))


def test_copies():
    x = on_device(X)
    for copied in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        copied[0, 0] = 9
        assert float(x[0, 0]) == 0


# Waiting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "waits",
    [
        lambda x: float(x[0, 0]),
        lambda x: int(x[0, 0]),
        lambda x: bool(x[0, 0]),
        lambda x: complex(x[0, 0]),
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.get(),
        lambda x: x[x > 1],
        lambda x: xp.nonzero(x),
        lambda x: x.nonzero(),
        lambda x: xp.where(x > 1),
        lambda x: xp.unique(x),
    ],
)
def test_synchronisations_are_counted(waits):
    x = on_device(X)
    before = strict.synchronisations()
    waits(x)
    assert strict.synchronisations() == before + 1
    with strict.no_synchronisation(), pytest.raises(RuntimeError, match="the host waits"):
        waits(x)


def test_computing_does_not_synchronise():
    x = on_device(X)
    with strict.no_synchronisation():
        y = xp.exp(x - xp.max(x, axis=1, keepdims=True))
        y /= y.sum(axis=1, keepdims=True)
        y[:, 0] = y[:, 1]


# Random numbers --------------------------------------------------------------------------------


def test_the_same_random_numbers_as_on_the_cpu():
    ours, cpus = DEVICE.generator(7), backends.get("cpu").generator(7)
    for draw in (
        lambda source: source.uniform((3, 2), np.dtype("f4")),
        lambda source: source.normal((5,), np.dtype("f8")),
        lambda source: source.integers(-3, 9, (4,)),
        lambda source: source.permutation(10),
    ):
        drawn = draw(ours)
        assert isinstance(drawn, StrictArray)
        np.testing.assert_array_equal(on_host(drawn), draw(cpus))
    state = ours.get_state()
    first = on_host(ours.normal((3,), np.dtype("f4")))
    ours.set_state(state)
    np.testing.assert_array_equal(on_host(ours.normal((3,), np.dtype("f4"))), first)


HALVES = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 65504, -65504, 1.5, 2.0**-14]


def test_neighbours_of_float16_are_numpys():
    """CuPy's next number of an infinite one is NaN."""
    a, b = np.meshgrid(*[np.array(HALVES, "f2")] * 2)
    with np.errstate(all="ignore"):
        expected = np.nextafter(a, b)
    ours = on_host(DEVICE.xp.nextafter(on_device(a), on_device(b)))
    np.testing.assert_array_equal(ours, expected)
    assert np.isnan(on_host(xp.nextafter(on_device([np.inf], "f2"), on_device([0], "f2")))).all()


@pytest.mark.parametrize("name", ["where", "tril", "triu"])
def test_chosen_elements_of_bfloat16_stay_so(name):
    """CuPy's become float32."""
    x = on_device(X).astype(ml_dtypes.bfloat16)
    arguments = (x > 1, x, 0) if name == "where" else (x,)
    assert getattr(xp, name)(*arguments).dtype == np.float32
    assert getattr(DEVICE.xp, name)(*arguments).dtype == ml_dtypes.bfloat16
