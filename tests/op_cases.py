"""Sample arguments for every op: those of its block (`sample=`), and special ones.

A case is a set of arguments by name. Arrays of float64 are the numbers that the tests
convert to other types, differentiate and move between devices; all else stays as it is.

The numbers of a case are all different, and none is an integer: no test meets by
accident a tie, or a jump such as that of `floor`, where there is no derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edutorch.core.op import REGISTRY, Op

Case = dict[str, Any]

# Cases whose values only are compared say why, under "only_values".
NOT_FINITE = "with infinities and NaN there are no differences to compare derivatives with"
A_TIE = "which of equal numbers gets the gradient is a convention, tested elsewhere"
AN_EDGE = "the edge of the domain, where there is no derivative"
TOO_LARGE = "so large that differences have too few digits"


def some(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Distinct values between low and high, in an order that depends on `seed`."""
    count = int(np.prod(shape))
    steps = (np.arange(count) + 0.37) / max(count, 1)
    return np.random.default_rng(seed).permutation(low + (high - low) * steps).reshape(shape)


def index(*values: Any) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, dtype=np.int64)


def mask(*values: bool) -> np.ndarray:
    return np.array(values, dtype=bool)


# Elementwise: the tests make 0-d, empty, broadcast and strided forms of these themselves ----

RANGES = ((-2.0, 2.0), (-1.9, 2.3), (0.1, 0.9))
"""The ranges of the first, second and third tensor where the block has no sample."""


def sample_cases(op: Op) -> list[Case]:
    """Return the cases that the sample of a block asks for; without one, of an elementwise op."""
    sample = op.options.sample
    if callable(sample):
        return sample(some)
    if sample is None and not op.family.broadcasts:
        return []
    case: Case = {}
    for number, name in enumerate(op.inputs):
        chosen = sample.get(name) if isinstance(sample, dict) else sample
        low, high = chosen or RANGES[min(number, 2)]
        values = some(2, 3, low=low, high=high, seed=number)
        case[name] = values if "f" in op.dtypes else (8 * values).astype(np.int64)
    if len(op.inputs) != 2 or op.inputs[1] not in op.scalars:
        return [case]
    numbers = (1.25, 2) if "f" in op.dtypes else (3,)
    return [case, *(case | {op.inputs[1]: number} for number in numbers)]


BITS = "bitwise_and bitwise_or bitwise_xor".split()

A, B, C = some(2, 3), some(2, 3, low=-1.9, high=2.3, seed=1), some(2, 3, low=0.1, high=0.9, seed=2)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5])
BIT_A, BIT_B = index([[6, 5, -4], [3, 0, 7]]), index([[3, 1, 2], [-1, 4, 7]])

# fmt: off
CASES: dict[str, list[Case]] = {
    op.name: cases for op in REGISTRY.values() if (cases := sample_cases(op))
}
for name in BITS:
    CASES[name] = [{"input": BIT_A, "other": BIT_B}, {"input": BIT_A, "other": 3}]
CASES["bitwise_not"] = [{"input": BIT_A}, {"input": mask(True, False)}]
CASES["add"].append({"input": A, "other": B, "alpha": 2.5})
CASES["sub"].append({"input": A, "other": B, "alpha": -2})
CASES["div"] += [{"input": A, "other": B, "rounding_mode": mode} for mode in ("floor", "trunc")]
CASES["round"].append({"input": A, "decimals": 1})
CASES["softplus"].append({"input": A, "beta": 2.0})
ODD_LIMITS = {"nan": 1.0, "posinf": 9.0, "neginf": -9.0, "only_values": NOT_FINITE}
CASES["nan_to_num"] += [{"input": ODD, "only_values": NOT_FINITE}, {"input": ODD, **ODD_LIMITS}]
for name in (
    "isnan isinf isfinite isposinf isneginf signbit sign abs relu sigmoid softplus exp exp2 erf "
    "erfc tanh"
).split():
    CASES[name].append({"input": ODD, "only_values": NOT_FINITE})
CASES["isclose"] += [
    {"input": A, "other": A + 1e-7, "rtol": 1e-4},
    {"input": ODD, "other": ODD, "equal_nan": True},
]
for name in ("maximum", "minimum", "eq", "le"):
    CASES[name].append({"input": np.array([1.0, 2.0]), "other": np.array([1.0, 3.0]),
        "only_values": A_TIE})
CASES["where"] = [
    {"condition": mask(True, False, True), "input": some(3), "other": some(3, seed=1)},
    {"condition": mask(True, False, True), "input": some(3), "other": 0.5},
    {"condition": mask(True, False, True), "input": 2, "other": some(2, 3)},
]
CASES["pow"] = [
    {"input": some(2, 3, low=0.2, high=2.0), "exponent": B},
    {"input": A, "exponent": 3}, {"input": A, "exponent": 2}, {"input": A, "exponent": 0},
    {"input": A, "exponent": -1.0}, {"input": some(2, 3, low=0.2), "exponent": 0.5},
    {"input": 2.0, "exponent": B}, {"input": 2, "exponent": B},
]
CASES["lerp"] = [{"input": A, "end": B, "weight": C}, {"input": A, "end": B, "weight": 0.3}]
CASES["logit"].append({"input": some(2, 3, low=0.0, high=1.0), "eps": 0.2})
CASES["erfinv"].append({"input": np.array([-1.0, 1.0, 1.5, 0.999, -0.99999]),
    "only_values": AN_EDGE})
CASES["erf"].append({"input": np.array([1e-9, -1e-3, 0.4999, 0.5001, 3.0, 5.9, 6.1, -30.0])})
CASES["xlogy"] = [
    {"input": A, "other": some(2, 3, low=0.2, high=3.0)}, {"input": A, "other": 2.5},
    {"input": 2.0, "other": some(2, 3, low=0.2, high=3.0)},
    {"input": np.array([0.0, 0.0, 1.0]), "other": np.array([0.0, np.nan, 0.0]),
        "only_values": NOT_FINITE},
]
for name in ("addcmul", "addcdiv"):
    CASES[name].append({"input": A, "tensor1": B, "tensor2": C, "value": 2})
CASES["clamp"] = [
    {"input": A, "min": -0.5, "max": 0.75}, {"input": A, "min": 0}, {"input": A, "max": 1},
    {"input": A, "min": B - 1, "max": B + 0.5}, {"input": A, "max": B},
]

# Reductions ----------------------------------------------------------------------------------

CUBE = some(2, 3, 2, seed=3)
EVERY_DIM: list[Case] = [
    {"input": A}, {"input": A, "dim": 0}, {"input": CUBE, "dim": -1, "keepdim": True},
    {"input": some(), "dim": 0}, {"input": some()}, {"input": some(2, 0), "dim": 0},
]
DIM_TUPLES: list[Case] = [
    {"input": CUBE, "dim": (0, 2)}, {"input": CUBE, "dim": (-1, 1), "keepdim": True},
    {"input": A.T, "dim": ()}, {"input": A, "dim": None, "keepdim": True},
]
EMPTY: list[Case] = [{"input": some(2, 0)}, {"input": some(2, 0), "dim": 1}]
ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0], [1.5, 2.5, 3.5]])

CASES["sum"] = EVERY_DIM + DIM_TUPLES + EMPTY
CASES["mean"] = EVERY_DIM + DIM_TUPLES + EMPTY
CASES["var"] = [case for case in EVERY_DIM if case["input"].ndim] + DIM_TUPLES
CASES["var"] += [{"input": A, "dim": 1, "correction": 0}, {"input": CUBE, "correction": 2}]
CASES["prod"] = EVERY_DIM + EMPTY + [{"input": ZEROS}, {"input": ZEROS, "dim": 1}]
CASES["amax"] = [case for case in EVERY_DIM + DIM_TUPLES if case.get("dim") is not None]
CASES["amax"] += [{"input": A}, {"input": np.array([[1.0, 1.0, 0.5]]), "dim": 1,
    "only_values": A_TIE}]
CASES["amin"] = CASES["amax"]
CASES["logsumexp"] = [case for case in EVERY_DIM + DIM_TUPLES[:2] if "dim" in case] + [
    {"input": ODD, "dim": 0, "only_values": NOT_FINITE},
    {"input": np.array([-np.inf, -np.inf]), "dim": 0, "only_values": NOT_FINITE},
    {"input": np.array([1000.0, 1000.0]), "dim": 0},
]
CASES["vector_norm"] = [
    {"input": A}, {"input": A, "ord": 1, "dim": 0}, {"input": CUBE, "ord": 3.0, "dim": (0, 2)},
    {"input": CUBE, "ord": np.inf, "dim": 1}, {"input": A, "ord": -np.inf, "keepdim": True},
    {"input": A, "ord": 0}, {"input": A, "ord": 0.5, "dim": 1}, {"input": some()},
    {"input": np.zeros((2, 2)), "dim": 1, "only_values": AN_EDGE},
]
CASES["all"] = [{"input": ZEROS}, {"input": ZEROS, "dim": 0}, {"input": ZEROS > 1, "dim": (0, 1)},
    *EMPTY]
CASES["any"] = CASES["all"]
CASES["argmax"] = EVERY_DIM + [{"input": A, "dim": None, "keepdim": True}, {"input": ODD}]
CASES["argmin"] = CASES["argmax"]
CASES["count_nonzero"] = [{"input": ZEROS}, {"input": ZEROS, "dim": 1}, {"input": ZEROS,
    "dim": (0, 1)}]
CASES["cumsum"] = [{"input": A, "dim": 1}, {"input": CUBE, "dim": -2}, {"input": some(), "dim": 0}]
CASES["logcumsumexp"] = [*CASES["cumsum"], {"input": np.array([1e3, 1e3]), "dim": 0}]
CASES["cumprod"] = [*CASES["cumsum"], {"input": ZEROS, "dim": 1}, {"input": some(2, 0), "dim": 1}]

# Moving numbers ------------------------------------------------------------------------------

CASES["reshape"] = [{"input": A, "shape": (3, -1)}, {"input": some(), "shape": (1, 1)}]
CASES["reshape"] += [{"input": some(0, 3), "shape": (3, 0)}, {"input": some(1), "shape": ()}]
CASES["view"] = CASES["reshape"]
CASES["permute"] = [{"input": CUBE, "dims": (2, 0, 1)}, {"input": CUBE, "dims": (-1, -3, -2)}]
CASES["permute"] += [{"input": some(), "dims": ()}]
CASES["transpose"] = [{"input": CUBE, "dim0": 0, "dim1": -1}, {"input": some(), "dim0": 0,
    "dim1": 0}]
CASES["t"] = [{"input": A}, {"input": some(3)}, {"input": some()}]
CASES["unsqueeze"] = [{"input": A, "dim": dim} for dim in (0, 1, -1)] + [{"input": some(),
    "dim": 0}]
CASES["squeeze"] = [
    {"input": some(1, 2, 1)}, {"input": some(1, 2, 1), "dim": 0}, {"input": some(1, 2, 1),
        "dim": 1},
    {"input": some(1, 2, 1), "dim": (0, -1)}, {"input": some()}, {"input": some(), "dim": 0},
]
CASES["expand"] = [{"input": some(2, 1), "size": (4, 2, 3)}, {"input": some(2, 1), "size": (-1, 3)}]
CASES["expand"] += [{"input": some(), "size": (2, 2)}, {"input": some(1), "size": (0,)}]
CASES["narrow"] = [{"input": A, "dim": -1, "start": 1, "length": 2}]
CASES["narrow"] += [{"input": A, "dim": 0, "start": -1, "length": 1}]
CASES["narrow"] += [{"input": A, "dim": 0, "start": 2, "length": 0}]
CASES["select"] = [{"input": A, "dim": 1, "index": -1}, {"input": some(3), "dim": 0, "index": 1}]
CASES["diagonal"] = [
    {"input": A}, {"input": A, "offset": 1}, {"input": A, "offset": -1},
    {"input": CUBE, "offset": 1, "dim1": 0, "dim2": 1}, {"input": CUBE, "dim1": -1, "dim2": 0},
]
CASES["as_strided"] = [{"input": some(6), "size": (2, 3), "stride": (2, 1), "storage_offset": 1}]
CASES["as_strided_scatter"] = [
    {"input": some(6), "src": some(2, 2, seed=1), "size": (2, 2), "stride": (2, 1),
        "storage_offset": 1}
]
CASES["flip"] = [{"input": CUBE, "dims": (0, -1)}, {"input": some(3), "dims": (0,)}]
CASES["roll"] = [{"input": A, "shifts": 1}, {"input": A, "shifts": (1, -1), "dims": (0, 1)}]
CASES["roll"] += [{"input": A, "shifts": 4, "dims": 1}]
CASES["tril"] = [{"input": some(3, 3)}, {"input": CUBE, "diagonal": -1}, {"input": A,
    "diagonal": 1}]
CASES["triu"] = CASES["tril"]
CASES["repeat"] = [{"input": A, "repeats": (2, 1, 2)}, {"input": some(), "repeats": (3,)}]
CASES["repeat"] += [{"input": A, "repeats": (0, 1)}]
CASES["cat"] = [
    {"tensors": [A, some(1, 3, seed=1)]}, {"tensors": [A, some(2, 1, seed=1), B], "dim": -1},
    {"tensors": [A, some(0)], "dim": 0},
]
CASES["stack"] = [{"tensors": [A, B]}, {"tensors": [A, B], "dim": -1}, {"tensors": [some(),
    some()]}]
CASES["clone"] = CASES["real"] = [{"input": A}, {"input": some()}, {"input": some(0)}]
CASES["diag_embed"] = [
    {"input": some(3)}, {"input": A, "offset": 1}, {"input": A, "offset": -1, "dim1": 0, "dim2": 2},
]
CASES["convert_dtype"] = [{"input": A, "dtype": dtype} for dtype in ("float64", "float32", "int64")]
CASES["to_device"] = [{"input": A}]

# Indexing ------------------------------------------------------------------------------------

ALL = slice(None)
INDICES: list[Any] = [
    1, -1, slice(1, None), slice(None, None, 2), (0, 1), (ALL, 2), (..., 0), (None, ALL, 1),
    index(1, 0, 1), (index(1, 0, 1), index(0, 0, 2)), (ALL, index([0, 0], [2, 1])),
    (index(1, 1), ALL), (index([1], [0]), index(0, 2)), mask(True, False), A > 0, (A > 0, None),
    (ALL, mask(True, False, True)), (), slice(2, 2), (index(1), ...), np.array(1), [1, 0],
]
CASES["getitem"] = [{"input": A, "index": index} for index in INDICES]
CASES["getitem"] += [
    {"input": CUBE, "index": (index(0, 1), ALL, index(1, 0))},
    {"input": CUBE, "index": (ALL, index(0, 2), index(1, 0))},
    {"input": CUBE, "index": (..., index(1, 0))}, {"input": some(), "index": ...},
    {"input": some(), "index": None}, {"input": CUBE, "index": (0, ALL, index(1, 1, 0))},
]
CASES["setitem"] = [
    {"input": A, "value": some(2), "index": (ALL, 1)}, {"input": A, "value": some(),
        "index": A > 0},
    {"input": A, "value": some(2, 3, seed=4), "index": (index(1, 0),)},
    {"input": A, "value": some(3, seed=4), "index": slice(0, 1)},
    {"input": A, "value": some(2, seed=4), "index": (index(0, 1), index(2, 0))},
    {"input": A, "value": some(), "index": ...},
]
CASES["index_put_forward"] = [
    {"input": some(3), "index": (index(0, 0, 2),), "shape": (4,)},
    {"input": some(2, 2), "index": (ALL, slice(1, 3)), "shape": (2, 3)},
]
ROWS = index([[0, 1, 0], [1, 1, 0]])
CASES["gather"] = [
    {"input": A, "dim": 0, "index": ROWS}, {"input": A, "dim": -1, "index": index([[2], [0]])},
    {"input": some(3), "dim": 0, "index": index(2, 2)},
]
CASES["scatter"] = [
    {"input": A, "src": some(2, 2, seed=1), "dim": 1, "index": index([[2, 0], [1, 0]])},
    {"input": A, "src": B, "dim": 1, "index": index([[2, 0], [1, 0]])},
    {"input": some(3), "src": some(3, seed=1), "dim": 0, "index": index(2, 0)},
]
CASES["scatter"] += [
    {"input": A, "src": 2.5, "dim": 1, "index": index([[2, 0], [1, 0]])},
    {"input": A, "value": -1.5, "dim": 0, "index": index([[1, 0, 1]])},
]
CASES["scatter_add"] = [
    {"input": A, "src": B, "dim": 0, "index": ROWS}, {"input": A, "src": B, "dim": 1,
        "index": ROWS[:, :2]}
]
CASES["index_select"] = [{"input": A, "dim": 1, "index": index(2, 0, 2)}]
CASES["index_select"] += [{"input": CUBE, "dim": 0, "index": index(1, 1)}]
CASES["index_copy"] = [
    {"input": A, "dim": 1, "index": index(2, 0), "source": some(2, 2, seed=1)},
    {"input": CUBE, "dim": -1, "index": index(1, 0), "source": some(2, 3, 2, seed=1)},
]
CASES["index_add"] = [
    *CASES["index_copy"], {"input": A, "dim": 0, "index": index(1, 1), "source": B, "alpha": 2},
]
CASES["index_fill"] = [{"input": A, "dim": 1, "index": index(2, 0), "value": 5.0}]
CASES["index_fill"] += [{"input": A, "dim": 0, "index": index(1, 1), "value": some()}]
PUTS: list[Case] = [
    {"input": A, "indices": (index(0, 1), index(2, 0)), "values": some(2, seed=1)},
    {"input": A, "indices": (index(1),), "values": some(3, seed=1)},
]
CASES["index_put"] = [*PUTS, {"input": A, "indices": (A > 0,), "values": some()}]
CASES["index_put"] += [case | {"accumulate": True} for case in PUTS]
CASES["masked_fill"] = [{"input": A, "mask": B > 0, "value": 5.0}]
CASES["masked_fill"] += [{"input": A, "mask": mask(True, False, True), "value": -1}]
CASES["masked_fill"] += [{"input": A, "mask": mask(True, False, True), "value": some()}]
CASES["masked_scatter"] = [
    {"input": A, "mask": B > 0, "source": some(2, 4, seed=1)},
    {"input": A, "mask": mask(True, False, True), "source": some(4, seed=1)},
]
CASES["fill"] = [{"input": A, "value": 2.5}, {"input": A, "value": some(seed=1)}]
CASES["copy"] = [{"input": A, "src": B}]

# Order, products, softmax ------------------------------------------------------------------------

CASES["sort_forward"] = [
    {"input": A, "dim": -1}, {"input": CUBE, "dim": 1, "descending": True}, {"input": some(),
        "dim": 0},
    {"input": np.array([2.0, 1.0, 2.0, 1.0]), "descending": True, "only_values": A_TIE},
]
CASES["minmax_dim"] = [
    {"input": A, "dim": 1, "keepdim": False, "largest": True},
    {"input": CUBE, "dim": 0, "keepdim": True, "largest": False},
    {"input": some(), "dim": 0, "keepdim": False, "largest": True},
]
CASES["median_forward"] = [
    {"input": A, "skips_nan": False}, {"input": CUBE, "skips_nan": True},
    {"input": some(), "skips_nan": False},
]
M32 = some(3, 2, seed=1)
CASES["mm"] = [{"input": A, "mat2": M32}, {"input": some(2, 0), "mat2": some(0, 3)}]
CASES["bmm"] = [{"input": some(2, 2, 3), "mat2": some(2, 3, 1, seed=1)}]
CASES["mv"] = [{"input": A, "vec": some(3, seed=1)}]
CASES["dot"] = [{"input": some(3), "tensor": some(3, seed=1)}]
CASES["outer"] = [{"input": some(2), "vec2": some(3, seed=1)}]
CASES["matmul"] = [
    {"input": some(*first), "other": some(*second, seed=1)}
    for first, second in [
        ((2, 3), (3, 2)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3,)),
        ((3,), (2, 3, 1)), ((2, 1, 2, 3), (2, 3, 2)), ((2, 3), (2, 3, 1)), ((2, 0), (0, 2)),
    ]
]
CASES["einsum_forward"] = [
    {"equation": "ij,jk->ik", "operands": [A, M32]}, {"equation": "bij,jk", "operands": [CUBE, A]},
    {"equation": "...i,i->...", "operands": [A, some(3, seed=1)]}, {"equation": "ij->",
        "operands": [A]},
    {"equation": "ij->ji", "operands": [A]}, {"equation": "ij,ij,ij->i", "operands": [A, B, C]},
    {"equation": "ii->i", "operands": [some(3, 3)]}, {"equation": "ii", "operands": [some(3, 3)]},
    {"equation": "...ij,...jk->...ik", "operands": [some(2, 2, 3), M32]},
]
CASES["softmax"] = [
    {"input": A, "dim": 1}, {"input": CUBE, "dim": 0}, {"input": some(), "dim": 0},
    {"input": some(0, 2), "dim": 1},
]
CASES["log_softmax"] = CASES["softmax"]

EXCLUDED: dict[str, str] = {
    "zero_with_gradient": (
        "its derivative is not that of its zeros: see core/test_second_derivatives.py"
    )
}
"""Ops without cases, each with its reason."""

LAYOUT_MATTERS: dict[str, str] = {
    "as_strided": "the strides speak of memory",
    "as_strided_scatter": "the strides speak of memory",
    "view": "refuses a layout that it would have to copy",
    "view_as_complex": "pairs have to lie next to each other",
}
"""Ops that depend on the memory layout, each with its reason."""

ODD_SHAPES: dict[str, str] = {
    "getitem": "an empty mask chooses nothing, whatever the size of its axis",
    "index_put": "a single number takes a mask without dimensions, as x[mask] = y does",
    "squeeze": "a number has no axis that could be named twice",
    "view_dtype": "an empty axis can be cut into parts of any size",
    "einsum_forward": "an empty diagonal is that of any other size, too",
    "constant_pad": "an empty tensor can be padded as any other",
    **dict.fromkeys(
        ("max_pool", "avg_pool", "conv2d", "conv_nd"), "an empty batch gives an empty result"
    ),
}
"""Ops that treat 0-d or empty tensors differently from PyTorch, each with its reason."""

INTERNAL: dict[str, str] = {
    "copy": "`copy_` in core/test_value_gradients.py",
    "median_forward": "median without a dim, in test_quantiles.py",
    "normal_cdf": "part of gelu, in float32; special.ndtr is compared",
    "safe_sqrt": "part of std and cdist, with another gradient at 0",
}
"""Halves of other ops, which PyTorch has not, and in which test the whole is compared. Their
derivatives are checked here."""

OTHER_TYPES: dict[tuple[str, str], str] = {
    ("pow", "int"): "integers to negative powers are 0 in PyTorch, an error here",
    ("softmax", "int"): "PyTorch refuses integers, except in empty and 0-d tensors",
    ("log_softmax", "int"): "as softmax",
    ("einsum_forward", "int"): "in PyTorch the type of integers depends on the equation",
    **{(name, "bool"): "PyTorch takes bools only where there is nothing to multiply"
       for name in ("matmul", "mm", "linear")},
    **{(name, dtype): "PyTorch takes complex numbers only in empty or 0-d tensors"
       for name in ("amax", "amin", "cum_minmax", "mode_dim")
       for dtype in ("complex64", "complex128")},
    **{(name, "float16"): "here are no complex numbers of two float16"
       for name in ("complex", "view_as_complex")},
}
"""Ops whose results for integers and bools are not PyTorch's, on purpose."""

WIDER: dict[tuple[str, str], str] = {
    **{("lerp", dtype): "integers with a floating weight give floating numbers"
       for dtype in ("int64", "int32", "uint8", "bool")},
    **{("round", dtype): "integers to some decimals are themselves"
       for dtype in ("int64", "int32", "uint8")},
    ("div", "bool"): "as of 0 and 1",
    ("clamp", "bool"): "PyTorch takes bools with tensors as limits only",
    ("pow", "bool"): "as of 0 and 1",
    ("scatter_reduce", "complex64"): "sum, mean and prod are defined",
    ("scatter_reduce", "complex128"): "as for complex64",
    ("einsum_forward", "bool"): "the sum of products of bools is what bools are for here",
    ("conv2d", "int32"): "PyTorch has only some of the strides for integers",
    ("conv2d", "uint8"): "as for int32",
    ("scatter_reduce", "bool"): "PyTorch refuses the mean of bools, but not their sum",
}
"""Dtypes that PyTorch refuses and we accept."""
