"""Why an op, or its rule, makes a NaN or an infinity of good numbers: for each op, at its edges."""

import math

import numpy as np
import pytest

from edutorch.viz.diagnostics.non_finite_causes import (
    BACKWARD_CAUSES,
    DELIBERATE,
    DELIBERATE_OPS,
    FORWARD_CAUSES,
    cause_in_backward,
    cause_of,
    count_non_finite,
    describe_operand,
    has_nan,
    places_text,
)

INF, NAN = math.inf, math.nan
F4 = np.float32


def array(*values, dtype=F4):
    return np.array(values, dtype)


LEAVES = "the result leaves the range of float32"

FORWARD_CASES = [
    ("log", {"input": array(1, 0, 0)}, "log of 0 at 2 places"),
    ("log", {"input": array(1, -1, -2)}, "log of a number below 0 at 2 places"),
    ("log", {"input": array(-1, 0)}, "log of 0 at 1 place"),
    ("log2", {"input": array(0)}, "log2 of 0 at 1 place"),
    ("log10", {"input": array(-1)}, "log10 of a number below 0 at 1 place"),
    ("log1p", {"input": array(-1, 0)}, "log1p of -1 at 1 place"),
    ("log1p", {"input": array(-2, 0)}, "log1p of a number below -1 at 1 place"),
    ("sqrt", {"input": array(-1, 0, 4)}, "sqrt of a number below 0 at 1 place"),
    ("rsqrt", {"input": array(0, 4)}, "rsqrt of 0 at 1 place"),
    ("reciprocal", {"input": array(0, 4)}, "1/x of 0 at 1 place"),
    ("acosh", {"input": array(0.5, 1)}, "acosh of a number below 1 at 1 place"),
    ("acos", {"input": array(1.5, -1, 1)}, "acos of a number outside of -1 … 1 at 1 place"),
    ("asin", {"input": array(-1.5, 2)}, "asin of a number outside of -1 … 1 at 2 places"),
    ("atanh", {"input": array(2)}, "atanh of a number outside of -1 … 1 at 1 place"),
    ("div", {"input": array(0, 1), "other": array(0, 1)}, "0/0 at 1 place"),
    ("div", {"input": array(2, 1), "other": 0.0}, "a number divided by 0 at 2 places"),
    ("div", {"input": array(0, 1, 1), "other": array(0, 0, 0)},
     "0/0 at 1 place and a number divided by 0 at 2 places"),
    ("div", {"input": array(1e30), "other": array(1e-30)}, f"{LEAVES} (largest operand 1e+30)"),
    ("exp", {"input": array(1, 89)}, "exp of 89, and above 88.7 the result leaves the range of"),
    ("pow", {"input": array(0, 0, 1), "exponent": -1}, "0 to a negative power at 2 places"),
    ("pow", {"input": array(0, 0, 1), "exponent": array(-1, 1, -1)},
     "0 to a negative power at 1 place"),
    ("pow", {"input": array(-1, 2, -2), "exponent": 0.5},
     "a negative number to a power that is no integer at 2 places"),
    ("pow", {"input": array(-8, 0), "exponent": array(1 / 3, 0.5)},
     "a negative number to a power that is no integer at 1 place"),
    ("pow", {"input": array(-1e20), "exponent": 2}, f"{LEAVES} (largest operand 1e+20)"),
    ("pow", {"input": -8.0, "other": array(0.5)},
     "a negative number to a power that is no integer at 1 place"),
    ("pow", {"other": array(500.0)}, f"{LEAVES} (largest operand 500)"),
    ("softmax", {"input": array(-INF, -INF)}, "softmax of a row in which all is -Inf"),
    ("log_softmax", {"input": array(-INF, 1)}, "softmax of a row in which all is -Inf"),
    ("std", {"input": array(3), "y": None}, "the spread of 1 number is not defined"),
    ("var", {"input": array()}, "the spread of 0 numbers is not defined"),
    ("mean", {"input": array()}, "the mean of no numbers"),
    ("mean", {"input": array(1e38, 3e38)}, f"{LEAVES} (largest operand 3e+38)"),
    ("sub", {"input": array(INF), "other": array(INF)},
     "Inf - Inf, 0 · Inf or Inf / Inf is NaN, and infinities came in"),
    ("mul", {"input": array(1e30, -2e30), "other": array(1e30)},
     f"{LEAVES} (largest operand 2e+30"),
    ("mul", {"input": array(1, dtype=int), "other": 3}, "its operands were good"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "words"), FORWARD_CASES)
def test_what_happened_is_counted(name, values, words):
    said, advice = cause_of(name, values, array(NAN))
    assert said.startswith(words) and len(said) < len(words) + 60
    assert advice


def test_each_op_of_the_table_is_tested():
    assert {name for name, *_ in FORWARD_CASES} >= set(FORWARD_CAUSES) - {
        "expm1", "exp2", "sinh", "cosh",  # as exp
    }  # fmt: skip
    assert {name for name, *_ in STEEP_CASES} == set(BACKWARD_CAUSES)


def test_the_edge_of_exp_is_that_of_its_type():
    for dtype, edge in ((np.float16, "11.1"), (np.float32, "88.7"), (np.float64, "709.8")):
        said, _ = cause_of("exp", {"input": array(800, dtype=dtype)}, array(INF, dtype=dtype))
        assert (
            said == f"exp of 800, and above {edge} the result leaves the range of {dtype.__name__}"
        )
    assert cause_of("exp", {}, array(INF))[0].startswith("exp of more than 88.7, where the result")


@pytest.mark.parametrize("name", sorted(DELIBERATE_OPS))
def test_what_was_put_there_is_no_accident(name):
    assert cause_of(name, {"input": array(1)}, array(INF)) == DELIBERATE


def test_a_call_that_the_table_does_not_know_has_a_cause_all_the_same():
    assert cause_of("log", {"x": array(1)}, array(NAN))[0].startswith(LEAVES)
    assert cause_of("std", {"input": array(1, 2)}, array(NAN))[0].startswith(LEAVES)


# Backward -----------------------------------------------------------------------------------

STEEP_CASES = [
    ("sqrt", {"y": array(0, 1)}, "sqrt at 0"), ("log", {"input": array(0, 1)}, "log at 0"),
    ("div", {"other": array(0, 1)}, "x / z at z = 0"), ("reciprocal", {"y": array(INF, 1)}, "1/x"),
    ("rsqrt", {"y": array(INF, 1)}, "1/√x"), ("pow", {"input": array(0, 1)}, "power below 1 at 0"),
    ("acos", {"input": array(-1, 0)}, "acos at ±1"), ("asin", {"input": array(1, 0)}, "asin at ±1"),
    ("std", {"y": array(0, 1)}, "equal is 0/0"), ("vector_norm", {"y": array(0, 1)}, "norm of 0"),
    ("exp", {"y": array(INF, 1)}, "exp of a large number"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "words"), STEEP_CASES)
def test_a_slope_that_is_infinite_is_named(name, values, words):
    said, advice = cause_in_backward(name, values, array(1, 1))
    assert words in said and said.endswith("(at 1 place)") and advice == BACKWARD_CAUSES[name][2]
    masked, _ = cause_in_backward(name, values, array(0, 1))
    assert (
        masked == f"{said}, and 0 · Inf is NaN: torch.where() and masks do not protect a gradient"
    )
    beside, _ = cause_in_backward(name, values, array(1, 0))  # the 0 is at another place
    assert beside == said
    summed, _ = cause_in_backward(name, values, array(0))  # which place is which, nobody knows
    assert summed == said
    unknown, _ = cause_in_backward(name, {}, array(1, 1))
    assert unknown.endswith("or the gradient leaves the range of its type")
    good = {key: np.full(2, 0.5, F4) for key in values}
    assert cause_in_backward(name, good, array(1e30, -2))[0] == (
        "it leaves the range of its type; the gradient that came in (2): from -2 to 1e+30"
    )


def test_what_has_no_steep_slope_grows():
    said, advice = cause_in_backward("mul", {}, array(3e38))
    assert (
        said
        == "it leaves the range of its type; the gradient that came in (1): from 3e+38 to 3e+38"
    )
    assert "clip_grad_norm_" in advice


# Counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "bad"), [
    (array(1, 2), 0), (array(1, NAN, INF), 2), (array(1e30, 1e30), 0), (array(INF, -INF), 2),
    (array(1, NAN, dtype=np.float16), 1), (array(60000, 60000, dtype=np.float16), 0),
    (array(1, INF, dtype=np.float64), 1), (array(1e200, dtype=np.float64), 0), (array(), 0),
    (array(1j, complex(NAN, 0), dtype=np.complex64), 1), (array(1, 2, dtype=int), 0),
    (array(True, dtype=bool), 0), (1.0, 0), (NAN, 1), (-INF, 1), (3, 0), ("text", 0), (None, 0),
    (F4("nan"), 1), (array(3e38, 3e38, NAN).reshape(3, 1).T, 1), (np.array(NAN, F4), 1),
])  # fmt: skip
def test_bad_numbers_are_counted(values, bad):
    assert count_non_finite(values) == bad


def test_an_infinity_is_no_nan():
    result = [has_nan(item) for item in (array(1, INF), array(1, NAN), array(), F4("nan"))]
    assert result == [False, True, False, True]


@pytest.mark.parametrize(("value", "text"), [
    (2.5, "x = 2.5"), (3, "x = 3"), ("sum", "x = sum"), (None, "x = None"),
    (np.zeros((2, 0), F4), "x (2×0) is empty"), (np.array(2.0, F4), "x (scalar): from 2 to 2"),
    (array(True, False, dtype=bool), "x (2 bool)"),
    (array(1j, dtype=np.complex64), "x (1 complex64)"),
    (array(-1, 12345.6), "x (2): from -1 to 1.235e+04"),
    (array(4, 7, dtype=int), "x (2): from 4 to 7"),
    (array(NAN, 1, 3, INF), "x (4): from 1 to 3, and 2 NaN or Inf"),
    (array(*[NAN] * 1200), "x (1200): all 1,200 are NaN or Inf"),
])  # fmt: skip
def test_an_operand_is_described_in_a_row(value, text):
    assert describe_operand("x", value) == text


def test_how_often_is_written():
    assert [places_text(number) for number in (0, 1, 2, 12345)] == [
        "at 0 places", "at 1 place", "at 2 places", "at 12,345 places",
    ]  # fmt: skip
