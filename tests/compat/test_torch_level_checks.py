"""`torch._assert`, `torch._check` and its kin: as in PyTorch."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import tensor

BY_NAME = {
    "_check": RuntimeError, "_check_value": ValueError, "_check_type": TypeError,
    "_check_index": IndexError, "_check_not_implemented": NotImplementedError,
}  # fmt: skip


@pytest.mark.parametrize("name", BY_NAME)
def test_checks(name):
    check = getattr(edutorch, name)
    check(True, lambda: 1 / 0)  # the message is not asked for
    with pytest.raises(BY_NAME[name], match="too small: 3"):
        check(False, lambda: "too small: 3")


def test_assertions():
    edutorch._assert(tensor(1) == 1, "no")
    with pytest.raises(AssertionError, match="no"):
        edutorch._assert(tensor(1) == 2, "no")
    edutorch._assert_async(tensor(True))
    with pytest.raises(RuntimeError, match="odd"):
        edutorch._assert_async(tensor(False), "odd")


def test_sizes_and_elements():
    edutorch._check_is_size(0)
    with pytest.raises(RuntimeError):
        edutorch._check_is_size(-1)
    with pytest.raises(RuntimeError):
        edutorch._check_is_size(9, max=8)
    edutorch._check_tensor_all(tensor([True, True]))
    with pytest.raises(RuntimeError, match="one is not"):
        edutorch._check_tensor_all(tensor([True, False]), lambda: "one is not")


def test_the_shape_as_a_tensor():
    assert edutorch._shape_as_tensor(edutorch.ones(2, 3)).tolist() == [2, 3]
    assert edutorch._shape_as_tensor(tensor(1.0)).dtype is edutorch.int64


def test_dirichlet():
    edutorch.manual_seed(0)
    rows = edutorch._sample_dirichlet(edutorch.full((500, 2), 3.0))
    assert rows.sum(1).allclose(edutorch.ones(500))
    assert abs(float(rows[:, 0].mean()) - 0.5) < 0.03
    with pytest.raises(NotImplementedError, match="default generator"):
        edutorch._sample_dirichlet(edutorch.ones(2), edutorch.Generator())
