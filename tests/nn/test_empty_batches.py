"""Empty batches, through every module and every function that takes a batch.

The last batch of a filtered data set may be empty: the outputs then have the shape that they
always have, and the parameters get gradients of 0, as PyTorch's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.nn import functional as F
from tests import test_every_module as modules
from tests.module_cases import Case
from tests.nn.compare import assert_close
from tests.nn.functions import assert_refused

TIME_FIRST = (
    "RNN", "GRU", "LSTM", "MultiheadAttention", "Transformer", "TransformerEncoder",
    "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer",
)  # fmt: skip
UNINITIALIZED, FAILS = "PyTorch returns memory that it never wrote", "PyTorch's backward fails"
NOT_COMPARED = {
    "MultiMarginLoss": UNINITIALIZED, "MultiLabelMarginLoss": UNINITIALIZED,
    "PixelShuffle": FAILS, "PixelUnshuffle": FAILS,
}  # fmt: skip
REFUSED = {"CTCLoss"}

pytestmark = pytest.mark.filterwarnings("ignore")


def make_empty(value: Any, axis: int) -> Any:
    """Return an array, or the shape of one, of size 0 along the batch axis."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return tuple(make_empty(part, axis) for part in value)
    if isinstance(value, tuple):
        return (*value[:axis], 0, *value[axis + 1 :])
    return value[:0] if isinstance(value, np.ndarray) and value.ndim else value


def empty_case(case: Case) -> Case:
    is_time_first = case.name in TIME_FIRST and not case.settings.get("batch_first")
    call = {key: make_empty(value, 0) if key == "key_padding_mask" else value
            for key, value in case.call.items()}  # fmt: skip
    inputs = [make_empty(value, 1 if is_time_first else 0) for value in case.x or ()]
    return dataclasses.replace(case, x=inputs, call=call)


WALKED = [
    case for case in modules.FIRST_CALLED
    if case.name not in REFUSED and not case.name.startswith("Lazy")
]  # fmt: skip


@pytest.mark.parametrize("case", WALKED, ids=lambda case: case.name)
def test_of_every_module(case, torch):
    ours, theirs = modules.start(torch, case, "float64", "cpu")
    actual = modules.called(edutorch, ours, empty_case(case), "float64", "cpu")
    if case.name in NOT_COMPARED:
        assert all(what == "output 0" or not value.numel() for what, value in actual.items())
        return
    expected = modules.called(torch, theirs, empty_case(case), "float64", "cpu")
    for what, value in expected.items():
        assert_close(actual[what], value, what)


RANKS = [1, 2, 3]
CALLS = {
    **{f"adaptive_max_pool{n}d": (lambda f, x, n=n: getattr(f, f"adaptive_max_pool{n}d")(
        x, 2, return_indices=True), [(0, 4) + (3,) * n]) for n in RANKS},
    **{f"fractional_max_pool{n}d": (lambda f, x, n=n: getattr(f, f"fractional_max_pool{n}d")(
        x, 2, output_size=2, return_indices=True), [(0, 4) + (4,) * n]) for n in RANKS[1:]},
    **{f"max_unpool{n}d": (lambda f, x, n=n: getattr(f, f"max_unpool{n}d")(
        x, x.detach().long(), 2), [(0, 4) + (3,) * n]) for n in RANKS},
    "grid_sample": (lambda f, x, g: f.grid_sample(x, g, align_corners=True),
                    [(0, 2, 3, 3), (0, 2, 4, 2)]),
    "grid_sample of a volume": (lambda f, x, g: f.grid_sample(x, g, align_corners=False),
                                [(0, 2, 3, 3, 3), (0, 2, 4, 2, 3)]),
    "linear without features": (lambda f, x, w: f.linear(x, w), [(2, 3, 0), (5, 0)]),
    "linear of no samples": (lambda f, x, w: f.linear(x, w), [(2, 0, 4), (5, 4)]),
    "bilinear": (lambda f, x, y, w: f.bilinear(x, y, w), [(2, 0, 4), (2, 0, 3), (5, 4, 3)]),
    "batch_norm": (lambda f, x, w: f.batch_norm(x, None, None, w, training=True),
                   [(0, 4, 3), (4,)]),
    "instance_norm": (lambda f, x: f.instance_norm(x), [(0, 4, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_of_functions(name, torch):
    call, shapes = CALLS[name]
    actual, expected = [], []
    for library, results in ((edutorch, actual), (torch, expected)):
        inputs = [library.ones(shape, dtype=library.float64).requires_grad_() for shape in shapes]
        y = call(library.nn.functional, *inputs)
        results.extend(y if isinstance(y, tuple) else [y])
        results[0].sum().backward()
        results.extend(tensor.grad for tensor in inputs)
    assert_close(actual, expected)


def test_an_unflattened_axis_is_read_off_itself():
    assert edutorch.zeros(0, 6).unflatten(1, (3, -1)).shape == (0, 3, 2)
    assert edutorch.zeros(2, 0).unflatten(0, (-1, 2)).shape == (1, 2, 0)


def test_averages_stay_where_they_are():
    layer = edutorch.nn.BatchNorm1d(3)
    before = [buffer.clone() for buffer in layer.buffers()][:2]
    assert layer(edutorch.zeros(0, 3)).shape == (0, 3)
    assert all(bool((a == b).all()) for a, b in zip(before, layer.buffers(), strict=False))


def test_what_stays_refused():
    empty = edutorch.zeros(2, 3, 0, 4)
    assert_refused(lambda: F.adaptive_avg_pool2d(empty, 2), "only the batch may be empty")
    assert_refused(lambda: F.adaptive_max_pool2d(empty, 2), "only the batch may be empty")
    image, samples = edutorch.ones(2, 3, 4, 4), edutorch.rand(1, 3, 2)
    assert_refused(
        lambda: F.fractional_max_pool2d(image, 2, 2, _random_samples=samples), "_random_samples"
    )


@pytest.mark.parametrize("rank", RANKS)
def test_a_single_element_has_no_norm(rank):
    image = edutorch.ones((2, 3) + (1,) * rank)
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        getattr(edutorch.nn, f"InstanceNorm{rank}d")(3)(image)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        getattr(edutorch.nn, f"BatchNorm{rank}d")(3)(image[:1])
