"""`einsum`, most equations of which are computed as matrix products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edutorch
from edutorch.errors import ShapeError
from edutorch.ops.einsum import contract_by_matmul, plan_contraction

SIZES = dict(zip("abcdef", (2, 3, 1, 4, 5, 2), strict=True))


@st.composite
def equations(draw):
    """An equation of two to four operands, each letter at most once in a term."""
    letters = st.lists(st.sampled_from("abcdef"), unique=True, max_size=4).map("".join)
    terms = draw(st.lists(letters, min_size=2, max_size=4))
    used = sorted(set("".join(terms)))
    kept = draw(st.lists(st.sampled_from(used), unique=True)) if used else []
    return ",".join(terms) + "->" + "".join(draw(st.permutations(kept)))


def some(term, seed):
    shape = [SIZES[letter] for letter in term]
    return np.random.default_rng(seed).standard_normal(shape)


@settings(max_examples=300, deadline=None)
@given(equations(), st.booleans())
def test_any_equation(equation, turned):
    terms = equation.partition("->")[0].split(",")
    arrays = [some(term, seed) for seed, term in enumerate(terms)]
    if turned:  # as views whose axes lie the other way round
        arrays = [array.T.copy().T for array in arrays]
    result = edutorch.einsum(equation, *map(edutorch.tensor, arrays))
    np.testing.assert_allclose(result.numpy(), np.einsum(equation, *arrays), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("equation", [
    "ab,bd->ad", "ab,bd->da", "eab,ebd->ead", "ea,ab->eb", "ab,b->a", "eab,dab->ed", "ae,aeb,ab->a",
    "ab,bd,de->ae", "...ab,...bd->...ad", "ab,bd",
])  # fmt: skip
def test_products_of_matrices_are_such(equation):
    terms = equation.partition("->")[0].replace("...", "f").split(",")
    arrays = [some(term, seed) for seed, term in enumerate(terms)]
    result = contract_by_matmul(arrays, equation)
    assert result is not None
    np.testing.assert_allclose(result, np.einsum(equation, *arrays), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ii,ij->j", [(3, 3), (3, 2)]),  # a diagonal
    ("ij,jk->ik", [(3, 1), (4, 2)]),  # an axis that is stretched
    ("ij,jk->ik", [(3, 0), (0, 2)]),  # nothing to be added
    ("ij,ij->ij", [(3, 2), (3, 2)]),
    ("ij,ij->", [(3, 2), (3, 2)]),
    ("i,j->ij", [(3,), (2,)]),
    ("ij->ji", [(3, 2)]),
])  # fmt: skip
def test_what_is_left_to_numpy(equation, shapes):
    operands = [np.ones(shape) for shape in shapes]
    assert contract_by_matmul(operands, equation) is None
    result = edutorch.einsum(equation, *map(edutorch.tensor, operands))
    np.testing.assert_array_equal(result.numpy(), np.einsum(equation, *operands))


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ij,jk->ix", [(3, 2), (2, 2)]),
    ("ij,jk", [(3, 2)]),
    ("ij,j.k->ik", [(3, 2), (2, 2)]),
    ("ij,jk->ik", [(3, 2), (3, 2)]),
    ("ij,jk->ik", [(3, 2, 1), (2, 2)]),
])  # fmt: skip
def test_mistakes_are_told_as_before(equation, shapes):
    operands = [np.ones(shape) for shape in shapes]
    assert contract_by_matmul(operands, equation) is None
    with pytest.raises(ShapeError, match="einsum: "):
        edutorch.einsum(equation, *map(edutorch.tensor, operands))


def test_whole_numbers_are_left_to_numpy():
    x = edutorch.arange(6).reshape(2, 3)
    assert edutorch.einsum("ij,kj->ik", x, x).tolist() == [[5, 14], [14, 50]]
    assert contract_by_matmul([x.numpy(), x.numpy()], "ij,kj->ik") is None


def test_three_operands_in_the_order_that_takes_least():
    """(a b) (b c) (c): from the right it takes two matrix-vector products."""
    steps = plan_contraction("ab,bc,c->a", ((50, 50), (50, 50), (50,)))
    assert steps is not None
    assert next(pair.equation for _, pair in steps) in ("bc,c->b", "c,bc->b")
