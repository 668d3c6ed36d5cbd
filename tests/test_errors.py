"""Errors keep their layout, their parts, and the types that PyTorch code catches."""

from __future__ import annotations

import pickle

import pytest

from edutorch import errors

SHAPES = errors.ShapeError(
    "conv2d",
    "axis c is 5 in `input` but 3 in `weight`",
    {"input (n c h w)": (2, 5, 32, 32), "weight (o c i j)": (8, 3, 3, 3), "bias (o)": (8,)},
    hint="the filters expect 3 input channels",
)


def test_the_columns_are_aligned():
    assert str(SHAPES) == (
        "conv2d: axis c is 5 in `input` but 3 in `weight`\n"
        "  input   (n c h w) = (2, 5, 32, 32)\n"
        "  weight  (o c i j) = (8, 3, 3, 3)\n"
        "  bias    (o)       = (8,)\n"
        "  hint: the filters expect 3 input channels"
    )


def test_rows_without_axes_have_no_empty_column():
    error = errors.DTypeError("add_", "the result would be cut", {"self": "int64", "y": "float32"})
    assert str(error) == "add_: the result would be cut\n  self  = int64\n  y     = float32"


def test_a_message_alone_is_one_line():
    assert str(errors.GradientError(None, "nothing was recorded")) == "nothing was recorded"


def test_parts_stay_readable_on_the_error():
    assert (SHAPES.op, SHAPES.arguments["bias (o)"]) == ("conv2d", "(8,)")
    assert SHAPES.hint == "the filters expect 3 input channels"


@pytest.mark.parametrize(
    ("error_class", "caught_as"),
    [
        (errors.ShapeError, RuntimeError),
        (errors.DTypeError, RuntimeError),
        (errors.DeviceError, RuntimeError),
        (errors.GradientError, RuntimeError),
        (errors.StaleValueError, errors.GradientError),
        (errors.DimError, IndexError),
        (errors.MissingExtraError, ImportError),
    ],
)
def test_kinds_are_caught_by_code_written_for_pytorch(error_class, caught_as):
    with pytest.raises(caught_as, match="op: message"):
        raise error_class("op", "message")
    assert issubclass(error_class, errors.EdutorchError)


def test_an_error_survives_the_way_from_a_worker():
    SHAPES.add_note("in layer 3")
    copy = pickle.loads(pickle.dumps(SHAPES))
    assert type(copy) is errors.ShapeError
    assert str(copy) == str(SHAPES)
    assert (copy.arguments, copy.hint, copy.__notes__) == (
        SHAPES.arguments,
        SHAPES.hint,
        ["in layer 3"],
    )


def test_a_missing_extra_names_the_command():
    error = errors.missing_extra("lab", "viz.live", "anywidget is not installed")
    assert str(error) == (
        'viz.live: anywidget is not installed\n  hint: pip install "edutorch[lab]"'
    )
