"""What seed 3004 found: an index that does not fit its operands, integers that are only added."""

from __future__ import annotations

import pytest

import edutorch

INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
SUMS = ("ij->", "ij->i", "ij->j", "ii->", "...j->...", "ij,k->", "ij,ik->i")


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", INTEGERS)
def test_einsum_adds_integers_up_in_64_bits(torch, dtype):
    """The sum of an axis that one operand alone has: of bytes it was uint64, which no tensor is."""
    for equation in SUMS:
        if dtype == "bool" and equation == "ij,ik->i":
            continue  # PyTorch has no product of matrices of bools
        results = []
        for library in (edutorch, torch):
            x = library.tensor([[200, 100], [90, 1]]).to(getattr(library, dtype))
            operands = [
                x[0] if term == "k" else x for term in equation.partition("->")[0].split(",")
            ]
            results.append(library.einsum(equation, *operands))
        ours, theirs = results
        assert str(ours.dtype) == str(theirs.dtype), equation
        assert ours.tolist() == theirs.tolist(), equation


def test_a_letter_of_no_operand_is_still_refused():
    with pytest.raises(edutorch.errors.ShapeError, match="2 terms, but there are 1 operands"):
        edutorch.einsum("ij,jk->", edutorch.ones(2, 2, dtype=edutorch.uint8))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("rows", [3, 300, 1098, 1500])
def test_the_pseudoinverse_does_not_invert_rounding_errors(dtype, rows):
    """Of equal columns the second singular value is 0 but for rounding errors."""
    x = edutorch.ones(rows, 2, dtype=getattr(edutorch, dtype))
    expected = edutorch.full((2, rows), 1 / (2 * rows), dtype=x.dtype)
    for inverse in (edutorch.pinverse(x), edutorch.linalg.pinv(x)):
        assert edutorch.allclose(inverse, expected, rtol=1e-4, atol=0)
    steps = edutorch.func.jvp(edutorch.pinverse, (x,), (x,))[1]
    assert edutorch.allclose(steps, -expected, rtol=1e-3, atol=0)  # of x · (1 + t): -1 / x


CALLS = {
    "scatter": lambda x, index, src: x.scatter(0, index, src),
    "scatter_": lambda x, index, src: x.clone().scatter_(0, index, src),
    "scatter_add": lambda x, index, src: x.scatter_add(0, index, src),
    "scatter_add_": lambda x, index, src: x.clone().scatter_add_(0, index, src),
    **{
        f"scatter_reduce {reduce}": lambda x, index, src, reduce=reduce: x.scatter_reduce(
            0, index, src, reduce
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
    },
    "gather": lambda x, index, src: x.gather(0, index),
}
TOO_LARGE = {  # the shapes of input, index and src
    "index beyond src along dim": ((2, 1), (2, 1), (1, 1)),
    "index beyond src": ((2, 2), (1, 2), (1, 1)),
    "index beyond input": ((2, 1), (2, 2), (2, 2)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CALLS)
def test_an_index_larger_than_its_operands_is_refused(torch, name):
    for what, shapes in TOO_LARGE.items():
        if name == "gather" and what != "index beyond input":
            continue
        for library, words in ((torch, None), (edutorch, "index must be no larger than")):
            x, src = library.ones(*shapes[0]), library.ones(*shapes[2])
            index = library.zeros(*shapes[1], dtype=library.int64)
            with pytest.raises(RuntimeError, match=words):
                CALLS[name](x, index, src)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CALLS)
def test_along_dim_an_index_may_be_larger_than_the_input(torch, name):
    results = []
    for library in (edutorch, torch):
        x, src = library.ones(2, 2), library.arange(6.0).reshape(3, 2)
        index = library.tensor([[0], [1], [0]])
        results.append(CALLS[name](x, index, src).tolist())
    assert results[0] == results[1]


SLICES = {
    "index_add": lambda x, index, source: x.index_add(0, index, source),
    "index_copy": lambda x, index, source: x.index_copy(0, index, source),
    **{
        f"index_reduce {reduce}": lambda x, index, source, reduce=reduce: x.index_reduce(
            0, index, source, reduce
        )
        for reduce in ("prod", "mean", "amax", "amin")
    },
}


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SLICES)
def test_slices_of_another_shape_are_refused(torch, name):
    """A slice of one element was repeated."""
    for library, words in ((torch, None), (edutorch, "shapes of source and input must be equal")):
        with pytest.raises(RuntimeError, match=words):
            SLICES[name](library.ones(2, 2), library.tensor([0]), library.ones(1, 1))


SUMS_OF_PRODUCTS = {  # the shapes of the factors
    "addmm": ((1, 2), (2, 1)), "addmv": ((1, 2), (2,)), "addr": ((1,), (1,)),
    "addbmm": ((2, 1, 2), (2, 2, 1)), "baddbmm": ((1, 1, 2), (1, 2, 1)),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", SUMS_OF_PRODUCTS)
def test_a_product_is_not_broadcast_to_what_it_is_added_to(torch, name):
    for library, words in ((torch, None), (edutorch, f"{name}: input does not broadcast")):
        factors = [library.ones(*shape) for shape in SUMS_OF_PRODUCTS[name]]
        product = getattr(library, name)(library.ones(1), *factors)
        for shape in ((2,) * product.ndim, (1,) * (product.ndim + 1)):
            with pytest.raises(RuntimeError, match=words):
                getattr(library, name)(library.ones(*shape), *factors)


def test_a_mask_is_of_bools():
    with pytest.raises(RuntimeError, match="masked_select: only supports boolean masks"):
        edutorch.masked_select(edutorch.ones(2), edutorch.tensor([0, 1]))
