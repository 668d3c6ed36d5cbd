"""The defaults of creation functions and methods: no gradient, the dtype of `input`."""

from __future__ import annotations

import inspect

import pytest

import edutorch

X = edutorch.ones(2, 3, dtype=edutorch.float64)

CREATE = {
    "zeros": lambda **flags: edutorch.zeros(2, **flags),
    "ones": lambda **flags: edutorch.ones(2, **flags),
    "empty": lambda **flags: edutorch.empty(2, **flags),
    "full": lambda **flags: edutorch.full((2,), 1.0, **flags),
    "arange": lambda **flags: edutorch.arange(2.0, **flags),
    "range": lambda **flags: edutorch.range(0.0, 2.0, **flags),
    "linspace": lambda **flags: edutorch.linspace(0, 1, 3, **flags),
    "logspace": lambda **flags: edutorch.logspace(0, 1, 3, **flags),
    "eye": lambda **flags: edutorch.eye(2, **flags),
    "tensor": lambda **flags: edutorch.tensor([1.0], **flags),
    "asarray": lambda **flags: edutorch.asarray([1.0], **flags),
    "rand": lambda **flags: edutorch.rand(2, **flags),
    "randn": lambda **flags: edutorch.randn(2, **flags),
    "randint": lambda **flags: edutorch.randint(3, (2,), dtype=edutorch.float32, **flags),
    "randperm": lambda **flags: edutorch.randperm(3, dtype=edutorch.float32, **flags),
    "empty_strided": lambda **flags: edutorch.empty_strided((2,), (1,), **flags),
    "empty_permuted": lambda **flags: edutorch.empty_permuted((2,), (0,), **flags),
    "scalar_tensor": lambda **flags: edutorch.scalar_tensor(1.0, **flags),
    "hann_window": lambda **flags: edutorch.hann_window(3, **flags),
    "hamming_window": lambda **flags: edutorch.hamming_window(3, **flags),
    "blackman_window": lambda **flags: edutorch.blackman_window(3, **flags),
    "bartlett_window": lambda **flags: edutorch.bartlett_window(3, **flags),
    "kaiser_window": lambda **flags: edutorch.kaiser_window(3, **flags),
    "fftfreq": lambda **flags: edutorch.fft.fftfreq(3, **flags),
    "rfftfreq": lambda **flags: edutorch.fft.rfftfreq(3, **flags),
}
ALIKE = {
    "zeros_like": lambda **flags: edutorch.zeros_like(X, **flags),
    "ones_like": lambda **flags: edutorch.ones_like(X, **flags),
    "empty_like": lambda **flags: edutorch.empty_like(X, **flags),
    "full_like": lambda **flags: edutorch.full_like(X, 1.0, **flags),
    "rand_like": lambda **flags: edutorch.rand_like(X, **flags),
    "randn_like": lambda **flags: edutorch.randn_like(X, **flags),
    "randint_like": lambda **flags: edutorch.randint_like(X, 3, **flags),
    "new_zeros": lambda **flags: X.new_zeros(2, **flags),
    "new_ones": lambda **flags: X.new_ones(2, **flags),
    "new_empty": lambda **flags: X.new_empty(2, **flags),
    "new_full": lambda **flags: X.new_full((2,), 1.0, **flags),
    "new_tensor": lambda **flags: X.new_tensor([1.0], **flags),
    "new_empty_strided": lambda **flags: X.new_empty_strided((2,), (1,), **flags),
}


@pytest.mark.parametrize("name", CREATE | ALIKE)
def test_a_new_tensor_requires_grad_only_if_that_is_said(name):
    create = (CREATE | ALIKE)[name]
    assert not create().requires_grad
    assert not create(requires_grad=False).requires_grad
    made = create(requires_grad=True)
    assert made.requires_grad
    assert made.is_leaf


@pytest.mark.parametrize("name", ALIKE)
def test_a_tensor_like_another_has_its_dtype_unless_another_is_named(name):
    assert ALIKE[name]().dtype is X.dtype
    assert ALIKE[name](dtype=edutorch.float32).dtype is edutorch.float32
    assert ALIKE[name]().device == X.device


@pytest.mark.parametrize("name", CREATE)
def test_signatures_show_flags_that_are_off(name):
    """`help` reads them there."""
    function = getattr(edutorch, name, None) or getattr(edutorch.fft, name)
    parameters = inspect.signature(function).parameters
    for flag in ("out", "dtype", "layout", "device", "requires_grad", "pin_memory", "copy"):
        assert flag not in parameters or not parameters[flag].default, flag


PLAIN = [
    ("zeros", (2, 3), {}), ("zeros", ((2, 3),), {"dtype": edutorch.int8}), ("zeros", (), {}),
    ("ones", (0, 4), {}), ("ones", ([2],), {"dtype": edutorch.bfloat16}),
    ("full", ((2, 2), 0.5), {}), ("full", ((3,), -0.0), {}), ("full", ((2,), True), {}),
    ("full", ((2,), 2.7), {"dtype": edutorch.int64}), ("full", ((2,), 1), {"dtype": edutorch.half}),
    ("eye", (0,), {}), ("eye", (1,), {}), ("eye", (5,), {"dtype": edutorch.int32}),
    ("arange", (0,), {}), ("arange", (7,), {}), ("linspace", (-3.5, 7, 1001), {}),
    ("linspace", (1, 0, 7), {}), ("linspace", (2, 2, 4), {}), ("linspace", (0, 1, 1), {}),
    ("zeros_like", (X,), {}), ("ones_like", (X.t(),), {}),
    ("ones_like", (X,), {"dtype": edutorch.bool}),
    ("rand", (2, 3), {}), ("randn", ((2, 3),), {}), ("randperm", (9,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "named"), PLAIN)
def test_the_fast_path_makes_what_the_general_one_does(name, args, named):
    edutorch.manual_seed(3)
    plain = getattr(edutorch, name)(*args, **named)
    edutorch.manual_seed(3)
    general = getattr(edutorch, name)(*args, **named, device="cpu")  # which is an option
    assert plain.dtype is general.dtype
    assert plain.stride() == general.stride()
    # Bit by bit: 0 is not -0.
    assert plain.untyped_storage().tolist() == general.untyped_storage().tolist()


@pytest.mark.parametrize("call", ["zeros(-1)", "zeros(2.0)", "arange(-1)", "eye(-1)"])
def test_the_fast_path_leaves_errors_to_the_general_one(call):
    with pytest.raises(edutorch.errors.EdutorchError):
        eval(call, vars(edutorch))
