"""Views as copies, with their examples; and sharing that survives deepcopy and pickle."""

from __future__ import annotations

import copy
import doctest
import pickle

import pytest

import edutorch
from tests.devices import device  # noqa: F401

NAMES = [name for name in edutorch.ops.__all__ if name.endswith("_copy") and name != "index_copy"]


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_true(name):
    function = getattr(edutorch, name)
    scope = {name_: getattr(edutorch, name_) for name_ in edutorch.ops.__all__}
    example = doctest.DocTestParser().get_doctest(function.__doc__, scope, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert example.examples
    assert not said, "".join(said)


@pytest.mark.parametrize("name", NAMES)
def test_they_have_memory_of_their_own(name):
    x = edutorch.arange(6.0).view(3, 2) + (1j if name == "view_as_real_copy" else 0)
    arguments = {
        "as_strided_copy": ((2,), (1,)), "expand_copy": ((3, 2),), "narrow_copy": (0, 0, 2),
        "permute_copy": ((0, 1),), "select_copy": (0, 0), "split_copy": (1,),
        "split_with_sizes_copy": ([1, 2],), "transpose_copy": (0, 1), "unfold_copy": (0, 2, 1),
        "unsqueeze_copy": (0,), "view_copy": ((6,),),
    }  # fmt: skip
    made = getattr(edutorch, name)(x, *arguments.get(name, ()))
    for tensor in made if isinstance(made, tuple) else (made,):
        before = tensor.tolist()
        assert tensor.is_contiguous()
        tensor.zero_()
        assert before != tensor.tolist() or not any(before)
    assert abs(x).sum() > 10


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_tensors_that_share_memory_still_do(how):
    x = edutorch.arange(6.0)
    first = [x, x[2:], x.view(2, 3).t(), x.view(edutorch.int32) * 1]
    second = copy.deepcopy(first) if how == "deepcopy" else pickle.loads(pickle.dumps(first))
    assert [tensor.tolist() for tensor in second] == [tensor.tolist() for tensor in first]
    assert [tensor.stride() for tensor in second] == [tensor.stride() for tensor in first]
    second[0][3] = 9
    assert second[1][1] == second[2][0, 1] == 9
    assert x[3] == 3


def test_deepcopy_shares_on_every_device(device):  # noqa: F811
    x = edutorch.arange(6.0)
    whole, part = copy.deepcopy([x, x[4:]])
    part.zero_()
    assert whole.tolist() == [0, 1, 2, 3, 0, 0]
    turned = copy.deepcopy(edutorch.zeros(2, 3, 4, 5).to(memory_format=edutorch.channels_last))
    assert turned.is_contiguous(memory_format=edutorch.channels_last)
    bits = copy.deepcopy(x.view(edutorch.int32))
    assert bits.tolist() == x.view(edutorch.int32).tolist()
