"""`torch.library.Library` and `torch.ops`: definitions, kernels, namespaces and mistakes."""

from __future__ import annotations

import pickle

import pytest
from edutorch.library import Library, _scoped_library
from edutorch.library.schema import SchemaError

import edutorch
from edutorch import library

ops = edutorch.ops


@pytest.fixture
def my():
    with _scoped_library("test_my", "DEF") as made:
        yield made


def test_an_operator_is_defined_and_implemented(my):
    assert my.define("foo(Tensor x, float by=2.0) -> Tensor") == "foo"
    assert my.define("foo.two(Tensor x, Tensor y) -> Tensor") == "foo.two"
    my.impl("foo", lambda x, by: x * by, "CPU")
    my.impl("foo.two", lambda x, y: x + y, "CompositeExplicitAutograd")
    assert ops.test_my.foo(edutorch.ones(1)).item() == 2
    assert ops.test_my.foo(edutorch.ones(1), by=5.0).item() == 5
    assert ops.test_my.foo(edutorch.ones(1), edutorch.ones(1)).item() == 2
    assert ops.test_my.foo.overloads() == ["default", "two"]
    assert dir(ops.test_my) == ["foo"]


def test_the_end_of_a_library_removes_its_operators():
    with _scoped_library("test_gone", "DEF") as made:
        made.define("foo(Tensor x) -> Tensor")
        assert hasattr(ops.test_gone, "foo")
    assert not hasattr(ops.test_gone, "foo")
    Library("test_gone", "DEF")._destroy()


def test_a_kernel_may_come_before_the_definition(my):
    Library("test_my", "IMPL").impl("late", lambda x: -x, "CPU")
    my.define("late(Tensor x) -> Tensor")
    assert ops.test_my.late(edutorch.ones(1)).item() == -1


def test_gradients_go_through_a_composite(my):
    my.define("square(Tensor x) -> Tensor")
    my.impl("square", lambda x: x * x)
    x = edutorch.tensor(3.0, requires_grad=True)
    ops.test_my.square(x).backward()
    assert x.grad.item() == 6


def test_an_autograd_kernel_is_called_around_the_others(my):
    my.define("cube(Tensor x) -> Tensor")
    my.impl("cube", lambda x: x**3, "CPU")

    class Cube(edutorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return ops.test_my.cube(x)

        @staticmethod
        def backward(ctx, g):
            return 30 * ctx.saved_tensors[0] ** 2 * g

    my.impl("cube", Cube.apply, "Autograd")
    x = edutorch.tensor(2.0, requires_grad=True)
    ops.test_my.cube(x).backward()
    assert x.grad.item() == 120


def test_register_autograd_for_an_operator_of_a_library(my):
    my.define("double(Tensor x) -> Tensor")
    my.impl("double", lambda x: edutorch.from_numpy(2 * x.detach().numpy()), "CPU")
    library.register_autograd("test_my::double", lambda ctx, g: 2 * g, lib=my)
    x = edutorch.ones(2, requires_grad=True)
    ops.test_my.double(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_define_and_impl_as_functions():
    library.define("test_functions::foo", "(Tensor x) -> Tensor")

    @library.impl("test_functions::foo", ["cpu", "cuda"])
    def foo(x):
        return x + 1

    assert ops.test_functions.foo(edutorch.zeros(1)).item() == 1
    made = Library("test_functions", "FRAGMENT")

    @library.define(made, "bar(Tensor x) -> Tensor")
    def bar(x):
        return x + 2

    assert ops.test_functions.bar(edutorch.zeros(1)).item() == 2

    @library.impl(made, "bar", "Meta")
    def fake(x):
        return x

    assert ops.test_functions.bar.default.has_kernel_for_dispatch_key("Meta")


def test_kernels_for_the_device_meta(my):
    my.define("grow(Tensor x) -> Tensor")
    my.impl("grow", lambda x: edutorch.cat([x, x]), "CompositeExplicitAutograd")
    assert ops.test_my.grow(edutorch.ones(2, device="meta")).shape == (4,)
    my.impl("grow", lambda x: x.new_empty(7), "Meta")
    assert ops.test_my.grow(edutorch.ones(2, device="meta")).shape == (7,)
    assert ops.test_my.grow(edutorch.ones(2)).shape == (4,)


def test_mistakes_of_definitions(my):
    my.define("foo(Tensor x) -> Tensor")
    for call, error, message in (
        (lambda: Library("test_my", "DEF"), RuntimeError, "Only a single TORCH_LIBRARY"),
        (lambda: Library("aten", "DEF"), RuntimeError, "Only a single TORCH_LIBRARY"),
        (lambda: Library("test_my", "IMP"), ValueError, "Unsupported kind: IMP"),
        (lambda: my.define("foo(Tensor x) -> Tensor"), RuntimeError, "same name and overload"),
        (lambda: my.define("other::bar(Tensor x) -> Tensor"), RuntimeError, r"namespace \(other\)"),
        (lambda: my.define("bar(Tensor x"), SchemaError, "expected ','"),
        (lambda: my.define("b(Tensor x) -> Tensor", "NO"), RuntimeError, "Invalid alias_analysis"),
        (lambda: Library("test_my", "IMPL").define("a() -> ()"), RuntimeError, "defines nothing"),
        (lambda: my.impl("foo", 3, "CPU"), TypeError, "required to be a callable"),
        (lambda: my.impl("foo", abs, "CPUX"), RuntimeError, "could not parse dispatch key: CPUX"),
        (lambda: my.impl("b::foo", abs, "CPU"), RuntimeError, "not in the namespace"),
        (
            lambda: library.impl("test_my::foo", "tpu", abs),
            RuntimeError,
            "unknown device type: tpu",
        ),
        (
            lambda: library.register_fake("test_my::q", abs),
            RuntimeError,
            "operator test_my::q does",
        ),
        (lambda: library.register_autograd("test_my::q", abs), RuntimeError, "does not exist"),
        (lambda: library.define("foo", "() -> ()"), RuntimeError, "expected a name like 'my::op'"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_a_formula_is_for_functional_operators(my):
    my.define("write(Tensor(a!) x) -> ()")
    with pytest.raises(RuntimeError, match="autograd formula for non-functional operator"):
        library.register_autograd("test_my::write", lambda ctx, g: g)


def test_without_a_kernel_a_call_says_so(my):
    my.define("nothing(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="Could not run 'test_my::nothing'") as raised:
        ops.test_my.nothing(edutorch.ones(1))
    assert "kernels  = none" in str(raised.value)


def test_a_second_kernel_warns(my):
    my.define("foo(Tensor x) -> Tensor")
    my.impl("foo", lambda x: x, "CPU")
    with pytest.warns(UserWarning, match="overriding a previously registered kernel"):
        my.impl("foo", lambda x: x + 1, "CPU")
    assert ops.test_my.foo(edutorch.zeros(1)).item() == 1


def test_kernels_of_other_hardware_are_left_alone(my):
    my.define("foo(Tensor x) -> Tensor")
    my.impl("foo", lambda x: x, "XPU")
    assert not ops.test_my.foo.default.implementations.kernels


# torch.ops ----------------------------------------------------------------------------------------


def test_pytorch_s_operators():
    x, y = edutorch.tensor([1.0, -2.0]), edutorch.tensor([3.0, 4.0])
    assert ops.aten.add.Tensor(x, y, alpha=2).tolist() == [7, 6]
    assert ops.aten.add(self=x, other=y).tolist() == [4, 2]
    assert ops.aten.relu(x).tolist() == ops.aten.relu.default(x).tolist() == [1, 0]
    assert ops.aten.linalg_norm.default(y).item() == 5
    assert ops.aten._softmax(y, 0, False).sum().item() == pytest.approx(1)
    assert ops.aten.view.default(x, [2, 1]).shape == (2, 1)
    assert ops.prims.convert_element_type(x, edutorch.float64).dtype is edutorch.float64
    assert ops.aten.mul.Tensor is ops.aten.mul.Tensor
    assert hash(ops.aten.mul.Tensor) == hash(ops.aten.mul.Tensor)
    assert ops.aten.mul.Tensor.name() == "aten::mul.Tensor"
    assert pickle.loads(pickle.dumps(ops.aten.mul.Tensor)) is ops.aten.mul.Tensor


def test_operators_whose_answers_pytorch_has(torch):
    data = [[1.0, -2.0, 0.5], [3.0, 4.0, -1.0]]
    x, theirs = edutorch.tensor(data), torch.tensor(data)
    for name, *args in (
        ("_log_softmax", 1, False), ("t",), ("sum.dim_IntList", [1], True), ("clamp", 0.0, 1.0),
        ("transpose.int", 0, 1), ("slice.Tensor", 1, 0, 2), ("select.int", 1, 2), ("gelu",),
        ("unsqueeze", 0), ("permute", [1, 0]), ("mean.dim", [0]), ("hardtanh",), ("amax", [1]),
        ("native_layer_norm", [3], None, None, 1e-5), ("expand", [4, 2, 3]), ("clone",),
        ("native_batch_norm", None, None, None, None, True, 0.1, 1e-5),
        ("native_group_norm", None, None, 2, 3, 1, 3, 1e-5), ("constant_pad_nd", [1, 2], 0.5),
    ):  # fmt: skip
        name, _, overload = name.partition(".")
        mine = getattr(getattr(ops.aten, name), overload or "default")(x, *args)
        other = getattr(getattr(torch.ops.aten, name), overload or "default")(theirs, *args)
        mine = mine if isinstance(mine, tuple) else (mine,)
        other = other if isinstance(other, tuple) else (other,)
        for a, b in zip(mine, other, strict=True):
            assert edutorch.allclose(a, edutorch.tensor(b.numpy()), atol=1e-6), name


def test_operators_that_libraries_name():
    x = edutorch.arange(6.0).reshape(2, 3)
    assert ops.aten.index.Tensor(x, [None, edutorch.tensor([2, 0])]).tolist() == [[2, 0], [5, 3]]
    assert ops.aten.item.default(x.sum()) == 15
    assert ops.aten.sym_size.int(x, 1) == 3
    assert ops.aten._to_copy.default(x, dtype=edutorch.float64).dtype is edutorch.float64
    assert ops.aten.scalar_tensor.default(2.5).item() == 2.5
    assert ops.aten.add_.Tensor(x, 1) is x
    y, mean, scale = ops.aten.native_batch_norm(x, None, None, x[0], x[1], False, 0.1, 1e-5)
    assert (y.shape, mean.numel(), scale.numel()) == ((2, 3), 0, 0)


def test_unknown_operators():
    with pytest.raises(AttributeError, match="no operator aten::nothing is registered"):
        _ = ops.aten.nothing
    with pytest.raises(AttributeError, match="no operator test_unknown::x is registered"):
        _ = ops.test_unknown.x
    with pytest.raises(AttributeError, match=r"'aten.relu' has no overload name 'Strange'"):
        _ = ops.aten.relu.Strange
    with pytest.raises(AttributeError, match="has no attribute '_private'"):
        _ = ops._private


def test_a_compiled_library_is_refused_unless_its_operators_are_ours():
    with pytest.raises(OSError, match=r"Could not load this library: /x/nothing\.so") as raised:
        ops.load_library("/x/nothing.so")
    assert "torch.library.custom_op" in str(raised.value)
    with pytest.raises(OSError, match="Could not load"):
        ops.load_library("/site-packages/torchvision/other.so")
    ops.load_library("/site-packages/torchvision/_C.so")
    assert "/site-packages/torchvision/_C.so" in ops.loaded_libraries
    assert ops.torchvision._cuda_version() == -1
    assert ops._torchaudio.cuda_version() is None
    assert "nms" in dir(ops.torchvision)


def test_the_ops_are_still_functions():
    assert ops.add(edutorch.ones(1), 1).item() == 2
    assert ops.linalg.__name__ == "edutorch.ops.linalg"
