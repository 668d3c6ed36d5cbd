"""Python types as dtypes, wherever PyTorch accepts them: `dtype=float` is float64."""

import pytest

import edutorch

TYPES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}

ANY = [
    "torch.zeros(2, dtype=kind)", "torch.ones(2, dtype=kind)", "torch.empty(2, dtype=kind)",
    "torch.full((2,), 1, dtype=kind)", "torch.eye(2, dtype=kind)", "torch.tensor([1], dtype=kind)",
    "torch.as_tensor([1], dtype=kind)", "torch.asarray([1], dtype=kind)", "x.to(kind)",
    "x.to(dtype=kind)", "x.to('cpu', kind)", "torch.zeros_like(x, dtype=kind)",
    "x.new_zeros(2, dtype=kind)", "x.new_tensor([1], dtype=kind)", "x.sum(dtype=kind)",
    "x.new_full((2,), 1, dtype=kind)", "x.prod(dtype=kind)",
    "torch.empty_strided((2,), (1,), dtype=kind)",
    "torch.scalar_tensor(1, dtype=kind)",
]  # fmt: skip
NUMBERS = [
    "torch.arange(3, dtype=kind)", "torch.linspace(0, 1, 3, dtype=kind)",
    "x.cumsum(0, dtype=kind)", "x.cumprod(0, dtype=kind)", "torch.randint(3, (2,), dtype=kind)",
    "torch.randperm(3, dtype=kind)",
]  # fmt: skip
FLOATING = [
    "torch.rand(2, dtype=kind)", "torch.randn(2, dtype=kind)", "torch.rand_like(x, dtype=kind)",
    "x.mean(dtype=kind)", "torch.softmax(x, 0, dtype=kind)", "x.nansum(dtype=kind)",
    "torch.nn.functional.log_softmax(x, 0, dtype=kind)", "torch.nn.Linear(2, 2, dtype=kind).weight",
    "torch.nn.Linear(2, 2).to(kind).weight", "torch.linalg.vector_norm(x, dtype=kind)",
    "torch.linalg.norm(x, dtype=kind)", "torch.hann_window(3, dtype=kind)",
    "torch.fft.fftfreq(3, dtype=kind)", "torch.frombuffer(bytearray(16), dtype=kind)",
    "torch.logspace(0, 1, 3, dtype=kind)",
]  # fmt: skip
CALLS = [
    (call, python_type)
    for calls, python_types in ((ANY, TYPES), (NUMBERS, (int, float)), (FLOATING, (float,)))
    for call in calls
    for python_type in python_types
]


def dtype_of(torch, call, python_type):
    x = torch.tensor([1.0, 2.0])
    return str(eval(call, {"torch": torch, "x": x, "kind": python_type}).dtype)


def test_a_python_type_is_a_dtype():
    ours = {
        (call, python_type): dtype_of(edutorch, call, python_type) for call, python_type in CALLS
    }
    assert ours == {
        (call, python_type): f"torch.{TYPES[python_type]}" for call, python_type in CALLS
    }


def test_it_is_so_in_pytorch():
    torch = pytest.importorskip("torch")
    wrong = [(call, python_type) for call, python_type in CALLS
             if dtype_of(torch, call, python_type) != f"torch.{TYPES[python_type]}"]  # fmt: skip
    assert wrong == []


def test_functions_of_dtypes_take_them():
    assert edutorch.promote_types(int, float) is edutorch.float64
    assert edutorch.can_cast(int, float) and not edutorch.can_cast(complex, edutorch.float32)
    assert edutorch.finfo(float).bits == edutorch.iinfo(int).bits == 64
    assert edutorch.tensor([1.0]).double().view(int).dtype is edutorch.int64


@pytest.mark.parametrize("wrong", [str, "float32", list, edutorch.Tensor, 32, [1], {}])
@pytest.mark.parametrize("call", ["torch.zeros(2, dtype=kind)", "x.sum(dtype=kind)"])
def test_what_is_no_dtype_is_refused(call, wrong):
    with pytest.raises(TypeError, match="dtype"):
        dtype_of(edutorch, call, wrong)


def test_numpys_type_is_refused_by_name():
    import numpy as np

    with pytest.raises(TypeError, match=r"a type such as edutorch\.float32, got the class"):
        edutorch.zeros(2, dtype=np.float32)
