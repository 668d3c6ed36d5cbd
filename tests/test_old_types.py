"""`torch.FloatTensor` and its kin, as old code uses them."""

from __future__ import annotations

import pytest

import edutorch

NAMES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16", "ByteTensor": "uint8", "CharTensor": "int8",
    "ShortTensor": "int16", "IntTensor": "int32", "LongTensor": "int64", "BoolTensor": "bool",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_same_as_in_pytorch(name, torch):
    ours, theirs = getattr(edutorch, name), getattr(torch, name)
    assert str(ours([0, 1]).dtype) == str(theirs([0, 1]).dtype) == f"torch.{NAMES[name]}"
    assert ours([[1, 0]]).tolist() == theirs([[1, 0]]).tolist()
    assert tuple(ours(2, 3).shape) == tuple(theirs(2, 3).shape)
    assert tuple(ours().shape) == tuple(theirs().shape)
    for sizes in ((2, 3), ()):
        shape = tuple(theirs(torch.Size(sizes)).shape)  # a size, not data, unlike a plain tuple
        assert tuple(ours(edutorch.Size(sizes)).shape) == shape == sizes
    assert ours((2, 3)).tolist() == theirs((2, 3)).tolist()


def test_what_is_one():
    x = edutorch.ones(2)
    assert isinstance(x, edutorch.FloatTensor)
    assert not isinstance(x, edutorch.LongTensor)
    assert not isinstance([1.0], edutorch.FloatTensor)
    assert isinstance(x.long(), edutorch.LongTensor)
    assert not isinstance(edutorch.ones(2, device="strict"), edutorch.FloatTensor)


def test_a_tensor_of_another_type_is_refused(torch):
    for library in (edutorch, torch):
        with pytest.raises((TypeError, RuntimeError), match="expected"):
            library.LongTensor(library.ones(2))
