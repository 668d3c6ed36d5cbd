"""Sample arguments for the ops on images: convolution, pooling, folding; see `op_cases.py`."""

from __future__ import annotations

from edutorch.nn.functional import adaptive
from tests.op_cases import CASES, INTERNAL, OTHER_TYPES, WIDER, index, some
from tests.op_oracles import THEIRS

# fmt: off
A, IMAGE, FILTERS = some(2, 3), some(2, 2, 4, 3), some(2, 2, 2, 2, seed=1)

# Convolution -------------------------------------------------------------------------------------

CASES["conv2d"] = [
    {"input": IMAGE, "weight": FILTERS, "bias": some(2, seed=2)},
    {"input": IMAGE, "weight": FILTERS, "stride": (2, 1), "padding": (1, 0)},
    {"input": IMAGE, "weight": some(4, 1, 2, 1, seed=1), "groups": 2, "dilation": (2, 1)},
    {"input": some(1, 1, 3, 3), "weight": some(1, 1, 3, 1, seed=1), "padding": "same"},
]
CASES["conv_nd"] = [
    {"input": some(2, 2, 5), "weight": some(2, 1, 2, seed=1), "bias": some(2, seed=2),
        "stride": (2,), "padding": ((1, 1),), "dilation": (1,), "groups": 2},
    {"input": some(1, 1, 2, 3, 2), "weight": some(1, 1, 2, 2, 1, seed=1), "bias": None,
        "stride": (1, 1, 1), "padding": ((0, 0), (1, 1), (0, 0)), "dilation": (1, 2, 1),
        "groups": 1},
]
THEIRS["conv_nd"] = lambda torch: lambda input, weight, bias, stride, padding, dilation, groups: (
    (torch.nn.functional.conv1d if input.ndim == 3 else torch.nn.functional.conv3d)(
        input, weight, bias, stride, tuple(before for before, _ in padding), dilation, groups
    )
)
FACES: dict[str, object] = {"stride": (2, 1), "pads": ((1, 0), (0, 0)), "dilation": (1, 1),
    "groups": 1}
LINE: dict[str, object] = {"stride": (2,), "pads": ((1, 1),), "dilation": (1,), "groups": 2}
CASES["conv_transpose_nd"] = [
    {"input": some(1, 2, 2, 2), "weight": FILTERS, "size": (4, 3), **FACES},
    {"input": some(1, 2, 3), "weight": some(2, 1, 2, seed=1), "size": (4,), **LINE},
]
CASES["conv_weight_grad"] = [
    {"input": some(1, 2, 4, 3), "response": some(1, 2, 2, 2), "kernel": (2, 2), **FACES},
    {"input": some(1, 2, 4), "response": some(1, 2, 3), "kernel": (2,), **LINE},
]
CASES["constant_pad"] = [
    {"input": A, "pads": ((1, 0), (0, 2)), "value": 0.0},
    {"input": A, "pads": ((0, -1), (2, -1)), "value": 1.5},
]

# Folding -----------------------------------------------------------------------------------------

FOLDS: dict[str, object] = {"kernel": (2, 2), "stride": (2, 1), "pads": ((1, 1), (0, 0)),
    "dilation": (1, 2)}
CASES["unfold_forward"] = [{"input": IMAGE, **FOLDS}]
CASES["fold_forward"] = [{"input": some(2, 8, 3), "size": (4, 3), **FOLDS}]


def _their_fold(fold):
    return lambda input, kernel, stride, pads, dilation, size=None: fold(
        input, *([] if size is None else [size]), kernel, dilation,
        tuple(before for before, _ in pads), stride
    )


THEIRS["unfold_forward"] = lambda torch: _their_fold(torch.nn.functional.unfold)
THEIRS["fold_forward"] = lambda torch: _their_fold(torch.nn.functional.fold)

# Pooling -----------------------------------------------------------------------------------------

WINDOWS: dict[str, object] = {"kernel_size": (2, 2), "stride": (1, 1), "padding": (0, 0)}
CASES["max_pool"] = [
    {"input": some(1, 2, 4, 4), **WINDOWS, "dilation": (1, 1), "ceil_mode": False},
    {"input": some(2, 5, 4), **WINDOWS, "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1),
        "ceil_mode": True},
    {"input": some(2, 5), "kernel_size": (2,), "stride": (1,), "padding": (1,),
        "dilation": (2,), "ceil_mode": False},
    {"input": some(1, 3, 2, 4), "kernel_size": (2, 1, 3), "stride": (1, 1, 2),
        "padding": (1, 0, 1), "dilation": (1, 1, 1), "ceil_mode": False},
]
SETTINGS = ((2, 2), (2, 2), (0, 0), (1, 1), False)
CASES["max_pool_indices"] = [{"input": some(1, 1, 4, 4), "settings": SETTINGS}]
TAPS = index([[0, 3], [1, 2]]).reshape(1, 1, 2, 2)
CASES["max_pool_scatter"] = [
    {"input": some(1, 1, 2, 2), "tap": TAPS, "shape": (1, 1, 4, 4), "settings": SETTINGS}
]
CASES["max_pool_gather"] = [{"input": some(1, 1, 4, 4), "tap": TAPS, "settings": SETTINGS}]
AVERAGES: dict[str, object] = {"ceil_mode": False, "count_include_pad": True,
    "divisor_override": None}
CASES["avg_pool"] = [
    {"input": some(1, 2, 4, 4), **WINDOWS, **AVERAGES},
    {"input": some(1, 5, 4), "kernel_size": (3, 2), "stride": (2, 2), "padding": (1, 1),
        **AVERAGES, "ceil_mode": True},
    {"input": some(1, 1, 4, 4), **WINDOWS, "padding": (1, 1), **AVERAGES,
        "count_include_pad": False},
    {"input": some(1, 1, 4, 4), **WINDOWS, **AVERAGES, "divisor_override": 3},
    {"input": some(1, 2, 3, 4), "kernel_size": (2, 1, 3), "stride": (1, 1, 2),
        "padding": (1, 0, 1), **AVERAGES},
]
CASES["avg_pool_grad"] = [
    {"input": some(1, 1, 2, 2), "shape": (1, 1, 4, 4),
        "settings": ((2, 2), (2, 2), (0, 0), False, True, None)}
]

_TAPS = adaptive.WindowSums.from_table(
    adaptive.TapTable.from_taps([[(0, 1.0)], [(0, 0.5), (2, 0.5)], [(2, 1.0)], [(1, 1.0)]]), 3
)
CASES["resample_axis"] = [
    {"input": some(2, 3), "axis": 1, "taps": _TAPS},
    {"input": some(3, 2, 2), "axis": 0, "taps": _TAPS},
]


def _by_rank(torch, name):
    def pool(input, kernel_size, **settings):
        function = getattr(torch.nn.functional, f"{name}{len(kernel_size)}d")
        return function(input, kernel_size, **settings)

    return pool


THEIRS["max_pool"] = lambda torch: _by_rank(torch, "max_pool")
THEIRS["avg_pool"] = lambda torch: _by_rank(torch, "avg_pool")

INTERNAL |= {
    "conv_transpose_nd": "a gradient of conv2d, and conv_transpose2d",
    "conv_weight_grad": "a gradient of conv2d", "avg_pool_grad": "the gradient of avg_pool",
    "resample_axis": "a part of interpolate where a kernel computes it",
    "max_pool_scatter": "the gradient of max_pool",
    "max_pool_gather": "a second gradient of max_pool",
    "max_pool_indices": "the positions of the maxima of max_pool",
}
OTHER_TYPES["avg_pool", "int"] = "layers and losses are for floating numbers"
SOME_RANKS = "PyTorch has it for some ranks and strides only"
WIDER |= {
    (name, dtype): SOME_RANKS
    for name, dtypes in (
        ("conv_nd", ("int32", "uint8")), ("max_pool", ("int64", "int32", "uint8")),
        ("avg_pool", ("float16", "bfloat16", "int64", "int32", "uint8")),
    )
    for dtype in dtypes
}
