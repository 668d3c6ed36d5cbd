"""`torch.library.custom_op`: calls, gradients, vmap, capture, compile, opcheck and mistakes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import edutorch
from edutorch import Tensor, library, tensor
from edutorch.errors import GradientError


@library.custom_op("test_custom::sine", mutates_args=())
def sine(x: Tensor) -> Tensor:
    """The sine, by NumPy."""
    return edutorch.tensor(np.sin(x.detach().numpy()))


@sine.register_fake
def _(x):
    return edutorch.empty_like(x)


sine.register_autograd(
    lambda ctx, g: g * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@library.custom_op("test_custom::weighted", mutates_args=())
def weighted(xs: list[Tensor], by: float, *, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    return sum(xs) * by + shift, xs[0].clone()


def save_number(ctx, inputs, output, keyword_only_inputs):
    ctx.by, ctx.count = inputs[1], len(inputs[0])
    ctx.needed, ctx.shift = ctx.needs_input_grad, keyword_only_inputs["shift"]


def weighted_backward(ctx, g, g_first):
    assert ctx.needed == ((True, False), False, False) or ctx.count != 2
    return [g * ctx.by + (g_first if i == 0 else 0) for i in range(ctx.count)], None


weighted.register_autograd(weighted_backward, setup_context=save_number)


@library.custom_op("test_custom::add_in_place", mutates_args={"x"})
def add_in_place(x: Tensor, by: float) -> None:
    x.numpy()[...] += by


def test_the_names_are_those_of_pytorch():
    packet = edutorch.ops.test_custom.sine
    op = packet.default
    assert (str(packet), repr(packet)) == (
        "test_custom.sine", "<OpOverloadPacket(op='test_custom.sine')>",
    )  # fmt: skip
    assert repr(op) == "<OpOverload(op='test_custom.sine', overload='default')>"
    assert (op.name(), op.__name__) == ("test_custom::sine", "sine.default")
    assert str(op._schema) == "test_custom::sine(Tensor x) -> Tensor"
    assert packet.overloads() == ["default"]
    assert repr(sine) == "<CustomOpDef(test_custom::sine)>"
    assert sine._opoverload is op
    assert sine.__doc__ == "The sine, by NumPy."


def test_an_operator_survives_copy_and_pickle():
    op = sine._opoverload
    assert copy.deepcopy(op) is op
    assert pickle.loads(pickle.dumps(op)) is op


def test_the_gradient_is_that_of_the_formula():
    x = tensor([0.5, 1.0], dtype=edutorch.float64, requires_grad=True)
    y = sine(x)
    assert type(y.grad_fn).__name__ == "GeneratedBackwardFor_test_custom_sine_defaultBackward"
    y.sum().backward()
    assert x.grad.tolist() == np.cos([0.5, 1.0]).tolist()
    assert edutorch.autograd.gradcheck(sine, (x,))
    assert edutorch.autograd.gradgradcheck(sine, (x,))


def test_lists_of_tensors_have_lists_of_gradients():
    x = edutorch.ones(2, requires_grad=True)
    total, first = weighted([x, edutorch.ones(2)], 3.0)
    assert total.tolist() == [6.0, 6.0]
    (total.sum() + 10 * first.sum()).backward()
    assert x.grad.tolist() == [13.0, 13.0]


def test_a_picture_has_one_box_with_the_name():
    x = edutorch.ones(2, requires_grad=True)
    picture = edutorch.viz.draw(sine(x * 2)).dot
    assert picture.count("test_custom::sine") == 1


def test_without_a_formula_backward_says_so():
    @library.custom_op("test_custom::no_formula", mutates_args=())
    def no_formula(x: Tensor) -> Tensor:
        return x.clone()

    y = no_formula(edutorch.ones(2, requires_grad=True))
    with pytest.raises(GradientError, match=r"no autograd formula was registered"):
        y.sum().backward()


def test_a_wrong_number_of_gradients_is_refused():
    @library.custom_op("test_custom::two", mutates_args=())
    def two(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    two.register_autograd(lambda ctx, g: g)
    y = two(edutorch.ones(2, requires_grad=True), edutorch.ones(2))
    with pytest.raises(GradientError, match=r"expected 2, got 1"):
        y.sum().backward()


def test_vmap_uses_the_rule_or_calls_for_each_example():
    x = edutorch.arange(6.0).reshape(3, 2)
    expected = np.sin(x.numpy())
    assert edutorch.vmap(sine)(x).tolist() == expected.tolist()
    assert edutorch.vmap(sine, in_dims=1, out_dims=1)(x).tolist() == expected.tolist()
    seen = []

    @library.custom_op("test_custom::with_rule", mutates_args=())
    def with_rule(x: Tensor, by: float) -> Tensor:
        return x * by

    @with_rule.register_vmap
    def rule(info, in_dims, x, by):
        seen.append((info.batch_size, in_dims))
        return with_rule(x, by), in_dims[0]

    assert edutorch.vmap(with_rule, in_dims=(1, None))(x, 2.0).tolist() == (2 * x.T).tolist()
    assert seen == [(2, (0, None))]


def test_the_gradient_of_each_example():
    x = edutorch.tensor([0.0, 1.0])
    slopes = edutorch.vmap(edutorch.func.grad(lambda x: sine(x)))(x)
    assert np.allclose(slopes.numpy(), np.cos(x.numpy()))


def test_a_capture_has_one_node_for_the_call():
    captured = edutorch.fx.capture(lambda x: sine(x * 2).sum(), edutorch.ones(3))
    assert captured.reasons == []
    targets = [node.target for node in captured.graph.nodes if node.op == "call_function"]
    assert targets[1] is sine._opoverload
    assert len(targets) == 3


def test_it_is_compiled_as_one_call_with_its_gradient():
    def step(x):
        loss = sine(x * 2).sum()
        loss.backward()
        return loss

    compiled = edutorch.compile(step)
    for value in (1.0, 2.0, 3.0):
        x = edutorch.full((3,), value, requires_grad=True)
        assert np.isclose(compiled(x).item(), 3 * np.sin(2 * value), rtol=1e-6)
        assert np.allclose(x.grad.numpy(), 2 * np.cos(2 * value))
    assert "sin" in compiled.code


def test_writes_are_compiled_too():
    def twice(z):
        add_in_place(z, 3.0)
        return z + 1

    compiled = edutorch.compile(twice)
    for value in range(4):
        z = edutorch.full((2,), float(value))
        assert compiled(z).tolist() == [value + 4.0] * 2
        assert z.tolist() == [value + 3.0] * 2


def test_a_write_counts_as_one():
    x = edutorch.zeros(2)
    before = x._version
    add_in_place(x, 1.0)
    assert x.tolist() == [1.0, 1.0]
    assert x._version > before
    leaf = edutorch.ones(2, requires_grad=True)
    with pytest.raises(GradientError, match="writes to its arguments"):
        add_in_place(leaf, 1.0)


def test_a_stale_value_is_noticed():
    w = edutorch.ones(2, requires_grad=True)
    x = edutorch.ones(2)
    y = (w * x).sum()
    add_in_place(x, 1.0)
    with pytest.raises(GradientError, match=r"modified|overwritten|changed"):
        y.backward()


@pytest.mark.parametrize("result", [lambda x: x, lambda x: x.view(-1), lambda x: x[1:]])
def test_a_result_that_is_an_argument_is_refused(result):
    @library.custom_op("test_custom::aliasing", mutates_args=())
    def aliasing(x: Tensor) -> Tensor:
        return result(x)

    with pytest.raises(RuntimeError, match=r"The output of this custom operator is an argument"):
        aliasing(edutorch.ones(3))
    with pytest.raises(RuntimeError, match=r"return x\.clone\(\)"):
        aliasing(edutorch.ones(3, requires_grad=True))


def test_opcheck():
    for requires_grad in (False, True):
        x = edutorch.ones(2, requires_grad=requires_grad)
        assert set(library.opcheck(sine, (x,)).values()) == {"SUCCESS"}
    assert set(library.opcheck("test_custom::sine", (x,)).values()) == {"SUCCESS"}
    assert library.opcheck(add_in_place, (edutorch.ones(2), 1.0), test_utils="test_schema") == {
        "test_schema": "SUCCESS"
    }


def test_opcheck_finds_mistakes():
    @library.custom_op("test_custom::mistaken", mutates_args=())
    def mistaken(x: Tensor) -> Tensor:
        x.numpy()[...] += 1
        return x.sum()

    with pytest.raises(library.OpCheckError, match=r"test_schema failed.*was written to"):
        library.opcheck(mistaken, (edutorch.ones(2),))
    mistaken.register_fake(lambda x: edutorch.empty_like(x))
    results = library.opcheck(mistaken, (edutorch.ones(2),), raise_exception=False)
    assert "other shapes or dtypes" in str(results["test_faketensor"])
    with pytest.raises(library.OpCheckError, match="unknown test: test_all"):
        library.opcheck(mistaken, (edutorch.ones(2),), test_utils="test_all")


def test_without_a_fake_opcheck_says_so():
    @library.custom_op("test_custom::no_fake", mutates_args=())
    def no_fake(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(library.OpCheckError, match=r"no fake impl registered"):
        library.opcheck(no_fake, (edutorch.ones(2),))


def test_on_the_device_meta_the_fake_is_called():
    x = edutorch.ones(3, device="meta", requires_grad=True)
    y = sine(x * 2)
    assert (y.device.type, y.shape) == ("meta", (3,))
    y.sum().backward()
    assert (x.grad.device.type, x.grad.shape) == ("meta", (3,))

    @library.custom_op("test_custom::no_shape", mutates_args=())
    def no_shape(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(NotImplementedError, match="There was no fake impl registered") as raised:
        no_shape(edutorch.ones(1, device="meta"))
    assert 'register_fake("test_custom::no_shape")' in str(raised.value)


def test_a_cell_may_be_run_again():
    for factor in (2, 3):

        @library.custom_op("test_custom::again", mutates_args=())
        def again(x: Tensor, factor: int = factor) -> Tensor:
            return x * factor

        assert edutorch.ops.test_custom.again(edutorch.ones(1)).item() == factor


def test_arguments_are_checked():
    message = (
        "test_custom::sine(): Expected a value of type 'Tensor' for argument 'x' but instead found "
        "type 'int'\n  declaration  = test_custom::sine(Tensor x) -> Tensor"
    )
    with pytest.raises(RuntimeError) as raised:
        sine(3)
    assert str(raised.value) == message
    for call, text in (
        (lambda: sine(), "is missing value for argument 'x'"),
        (lambda: sine(edutorch.ones(1), 2), "expected at most 1 argument"),
        (lambda: sine(edutorch.ones(1), x=2), "got two values for argument 'x'"),
        (lambda: sine(edutorch.ones(1), q=2), "Unknown keyword argument 'q'"),
        (lambda: weighted([3], 1.0), r"type 'Tensor\[\]' for argument 'xs'"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


def test_autocast_casts_the_arguments():
    @library.custom_op("test_custom::dtype_of", mutates_args=())
    def dtype_of(x: Tensor) -> Tensor:
        return x.clone()

    dtype_of.register_autocast("cpu", edutorch.bfloat16)
    assert dtype_of(edutorch.ones(1)).dtype is edutorch.float32
    with edutorch.autocast("cpu", dtype=edutorch.bfloat16):
        assert dtype_of(edutorch.ones(1)).dtype is edutorch.bfloat16


def test_a_kernel_can_be_switched_off():
    @library.custom_op("test_custom::switched", mutates_args=())
    def switched(x: Tensor) -> Tensor:
        return x + 1

    switched.register_kernel("cpu", lambda x: x + 2)
    assert switched(edutorch.zeros(1)).item() == 2
    with switched.set_kernel_enabled("cpu", enabled=False):
        assert switched(edutorch.zeros(1)).item() == 1
    assert switched(edutorch.zeros(1)).item() == 2


def test_a_subclass_may_override_it():
    class Logged(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func if func is sine._opoverload else NotImplemented

    assert sine(edutorch.ones(1).as_subclass(Logged)) is sine._opoverload


@pytest.mark.parametrize("name", ["no_namespace", "", "::x", "x::"])
def test_a_name_has_a_namespace(name):
    with pytest.raises(RuntimeError, match="expected a name like 'my::op'"):
        library.custom_op(name, sine._init_fn, mutates_args=())


def test_a_schema_that_does_not_fit_mutates_args_is_refused():
    with pytest.raises(RuntimeError, match="mutates_args and the schema do not agree"):
        library.custom_op(
            "test_custom::unmarked", lambda x: None, mutates_args={"x"}, schema="(Tensor x) -> ()"
        )
    assert not hasattr(edutorch.ops.test_custom, "unmarked")
