"""Layers as single calls of cuBLASLt: bias and activation are part of the product.

    max(0, x Wᵀ + b), and a bit for each element      →   one product
    (g V) · (y > 0), and its sum, the gradient of b   →   one product
    gᵀ x and Σ g, where no activation follows         →   one product

An epilogue is applied before a product is written, which saves reading and writing it again. The
pass looks for these patterns in the program of a device; what it finds becomes one call of a
function below. Where cuBLASLt has none for the shapes at hand, the function computes it in steps.

GELU is fused in its form by tanh only (`approximate="tanh"`): cuBLASLt has no other. The exact one
stays a kernel after the product.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .. import backends
from ..backends.numpy import Array
from ..core.registry import REGISTRY
from ..nn.functional.activation import gelu_derivative
from .fusion_groups import is_aligned, readers
from .values import Program, Value, operands_of, topological_order

__all__ = [
    "Kept", "activation_gradients", "fuse_epilogues", "linear_activation", "parameter_gradients",
]  # fmt: skip

DTYPES = ("float32", "float16", "bfloat16")
"""What the epilogues are computed for."""


# What a program calls -----------------------------------------------------------------------------


class Kept(NamedTuple):
    """What backward needs of an activation.

    Attributes:
        aux: as cuBLASLt keeps it; None if it has not computed the activation.
        before: the elements before GELU; None for ReLU, whose result says it all.
    """

    aux: Array | None
    before: Array | None


def linear_activation(
    input: Array, right: Array, bias: Array, *, activation: str, shape: tuple[int, ...],
    keeps: bool, is_weight: bool,
) -> Any:  # fmt: skip
    """Return the activation of input · right + bias; with `keeps`, a `Kept` as well.

    Args:
        is_weight: whether `right` is the weight of a layer, the transpose of the right factor.
        activation: "relu" or "gelu", by tanh.
        shape: that of the result, whose rows may have several axes.
    """
    from ..kernels.gpu.matmul import product

    left, right = input.reshape(-1, input.shape[-1]), right.T if is_weight else right
    result = product(left, right, bias, activation, keeps)
    if result is None:
        y, before = activated(matrix_product(left, right, bias), activation)
        kept = Kept(None, before)
    elif not keeps:
        return result.reshape(shape)
    else:
        y, aux = result  # of GELU the elements before it, in rows with gaps
        kept = Kept(aux, aux[:, : right.shape[1]] if activation == "gelu" else None)
    return (y.reshape(shape), kept) if keeps else y.reshape(shape)


def activated(before: Array, activation: str) -> tuple[Array, Array | None]:
    """Return an activation, and what it was computed from if its derivative needs that."""
    xp = backends.of(before).xp
    if activation == "gelu":
        return REGISTRY["gelu"].forward(xp, before, "tanh"), before
    return xp.maximum(before, before.dtype.type(0)), None


def activation_gradients(
    g: Array, weight: Array, y: Array, kept: Kept, *, activation: str, shape: tuple[int, ...],
    sums: bool,
) -> tuple[Array, Array | None]:  # fmt: skip
    """Return (g · weight) times the derivative of the activation `y`, and its sum if asked.

    Args:
        g: the gradient after the layer that follows, whose weight it is.
        shape: that of the result.
        sums: whether the gradient of the bias is needed.
    """
    from ..kernels.gpu.matmul import product_gradient

    rows = g.reshape(-1, g.shape[-1])
    if kept.aux is not None:
        made = product_gradient(rows, weight, kept.aux, activation, sums)
        if made is not None:
            gradient, total = made if sums else (made, None)
            return gradient.reshape(shape), total
    gradient = matrix_product(rows, weight)
    if activation == "gelu":
        gradient = (gradient * gelu_derivative(kept.before, "tanh")).astype(g.dtype, copy=False)
    else:
        mask = y.reshape(gradient.shape) > 0
        gradient = backends.of(g).xp.where(mask, gradient, g.dtype.type(0))
    return gradient.reshape(shape), sum_of_rows(gradient) if sums else None


def parameter_gradients(g: Array, x: Array) -> tuple[Array, Array]:
    """Return the gradients of the weight and of the bias of y = x Wᵀ + b, of the gradient of y."""
    from ..kernels.gpu.matmul import weight_gradient

    rows, inputs = g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1])
    made = weight_gradient(rows, inputs)
    return (matrix_product(rows.T, inputs), sum_of_rows(rows)) if made is None else made


def matrix_product(left: Array, right: Array, bias: Array | None = None) -> Array:
    """Return a product plus a bias, by cuBLASLt or by the definition."""
    from ..kernels.gpu.matmul import product

    y = product(left, right, bias)
    if y is None:
        y = REGISTRY["mm"].forward(backends.of(left).xp, left, right)
        y = y if bias is None else y + bias
    return y


def sum_of_rows(array: Array) -> Array:
    """Return the sum over the rows of a matrix."""
    return REGISTRY["sum"].forward(backends.of(array).xp, array, 0)


# What the pass looks for --------------------------------------------------------------------------


class Layer(NamedTuple):
    """An activation of a product plus a bias.

    Attributes:
        is_weight: whether `right` is the weight, else it is its transpose.
        before: the value before the activation.
    """

    activation: str
    input: Value
    right: Value
    bias: Value
    is_weight: bool
    before: Value


class Derivative(NamedTuple):
    """The gradient before an activation: `result` = (g · weight) times the derivative."""

    g: Value
    weight: Value
    result: Value


def rule_of(value: Value) -> str:
    """Return the derivative rule that a value is the call of: "linear/input"; or ""."""
    return getattr(value.function, "rule", "") if value.kind == "call" else ""


def op_of(value: Value) -> str:
    """Return the name of the op that a value is the call of, or ""."""
    op = getattr(value.function, "op", None) if value.kind == "call" else None
    return "" if op is None else op.name


def arguments_of(value: Value) -> dict[str, Any]:
    """Return the arguments of the call of an op by name."""
    *args, settings = value.operands
    return dict(zip(value.function.op.signature.parameters, args, strict=False)) | settings


def is_cast(value: object) -> bool:
    """Whether a value is another one in another dtype."""
    return isinstance(value, Value) and (
        op_of(value) == "convert_dtype" or (value.kind == "element" and value.function == "cast")
    )


def activation_of(value: Value) -> str:
    """Return the activation that a value is, "relu" or "gelu" by tanh; or ""."""
    if value.kind == "element" and value.function == "maximum":
        limit = value.operands[1]
        return "relu" if not isinstance(limit, Value) and limit == 0 else ""
    if value.kind == "element":
        return "gelu" if value.function == "gelu_tanh" else ""
    is_gelu = op_of(value) == "gelu" and arguments_of(value).get("approximate") == "tanh"
    return "gelu" if is_gelu else "relu" if op_of(value) == "relu" else ""


class Patterns:
    """Finds layers and derivatives in a program.

    Args:
        program: its values know their users.
    """

    def __init__(self, program: Program) -> None:
        self.outputs = {output.base for output in operands_of(program.outputs)}

    def only_user(self, value: Value) -> Value | None:
        """Return the only reader of a value that nobody else needs."""
        is_private = value not in self.outputs and len(value.users) == 1
        return value.users[0] if is_private else None

    def layer_of(self, value: Value) -> Layer | None:
        """Return the layer that a value is the activation of, or None."""
        if value.dtype is None or value.dtype.name not in DTYPES:
            return None
        activation = activation_of(value)
        before = value.operands[0] if activation else None
        if not isinstance(before, Value) or before in self.outputs or before.dtype != value.dtype:
            return None
        linear = self.linear_call(before) or self.biased_product(before)
        return None if linear is None else Layer(activation, *linear, before)

    def linear_call(self, value: Value) -> tuple[Value, Value, Value, bool] | None:
        """Return the arguments of `linear` with a bias: ops of 16-bit floats are calls."""
        if op_of(value) != "linear":
            return None
        arrays = [arguments_of(value).get(name) for name in ("input", "weight", "bias")]
        if not all(isinstance(array, Value) and array.dtype == value.dtype for array in arrays):
            return None
        return (*arrays, True) if len(arrays[1].shape) == 2 else None  # type: ignore[union-attr, return-value]

    def biased_product(self, total: Value) -> tuple[Value, Value, Value, bool] | None:
        """Return the factors and the bias of a product plus a bias that nobody else reads."""
        if total.kind != "element" or total.function != "add":
            return None
        for whole, bias in (total.operands, total.operands[::-1]):
            if not (isinstance(whole, Value) and isinstance(bias, Value)):
                continue
            y = whole.base
            is_plain = y.kind == "product" and len(y.operands) == 2
            if not is_plain or y in self.outputs or list(readers(y)) != [total]:
                continue
            is_bias = bias.shape == y.shape[1:] == total.shape[-1:]
            if is_bias and is_aligned(whole, total.shape) and bias.dtype == total.dtype == y.dtype:
                return (*y.operands, bias, False)
        return None

    def readers_before(self, value: Value, layer: Layer) -> list[Value]:
        """Return what else needs the elements before an activation."""
        if layer.activation == "relu":
            users = [user for user in readers(value) if rule_of(user) == "relu/input"]
            return users + [user for user in layer.before.users if user is not value]
        return [user for user in layer.before.users if user is not value]

    def derivative_of(self, value: Value, layer: Layer, user: Value) -> Derivative | None:
        """Return the gradient before an activation if it is a product times the derivative.

        Args:
            user: the rule of ReLU, or the derivative of GELU.
        """
        result: Value | None = None
        g: Any = None
        if layer.activation == "relu" and rule_of(user) == "relu/input":
            g, y = user.operands[:2]
            result = user if y is value else None
        elif layer.activation == "gelu":
            result, g = self.times_slope(user, value.dtype)
        if result is None or not isinstance(g, Value) or rule_of(g) != "linear/input":
            return None
        gradient, weight = g.operands[:2]
        has_one_dtype = gradient.dtype == weight.dtype == g.dtype == result.dtype == value.dtype
        if not has_one_dtype or g.shape != value.shape or self.only_user(g) is None:
            return None
        return Derivative(gradient, weight, result) if len(weight.shape) == 2 else None

    def times_slope(self, user: Value, dtype: Any) -> tuple[Value | None, Any]:
        """Return the product of a gradient and the derivative of GELU, and the gradient.

        16-bit floats are cast to float32 before, and the product back.
        """
        slope = self.only_user(user) if is_cast(user) else user
        if slope is None or slope.kind != "element" or slope.function != "gelu_tanh_slope":
            return None, None
        result = self.only_user(slope)
        if result is None or result.kind != "element" or result.function != "multiply":
            return None, None
        g = next((factor for factor in result.operands if factor is not slope), None)
        if is_cast(g) and self.only_user(g) is result:
            g = g.operands[0]
        if result.dtype != dtype:
            cast = self.only_user(result)
            result = cast if cast is not None and is_cast(cast) else None
        return result, g

    def sum_of_rows(self, value: Value, users: Iterable[Value]) -> Value | None:
        """Return the sum over all axes but the last of a gradient, if one of its readers is that.

        Sums of 16-bit floats are those of a cast, and cast back.
        """
        for user in users:
            is_wider = is_cast(user) and user.dtype != value.dtype
            for total in user.users if is_wider else [user]:
                if op_of(total) != "sum" or not is_sum_of_rows(total, user if is_wider else value):
                    continue
                if not is_wider:
                    return total if total.dtype == value.dtype else None
                last = self.only_user(total)
                if last is not None and is_cast(last) and last.dtype == value.dtype:
                    return last
        return None


def is_sum_of_rows(total: Value, value: Value) -> bool:
    """Whether the call of `sum` sums a value over all axes but the last."""
    settings = arguments_of(total)
    if settings["input"] is not value or settings.get("keepdim") or settings.get("dtype"):
        return False
    dim, axes = settings.get("dim"), tuple(range(len(value.shape) - 1))
    return bool(axes) and ((dim,) if isinstance(dim, int) else dim) == axes


# What it does ------------------------------------------------------------------------------------


class EpiloguePass(Patterns):
    """Turns values into calls with epilogues, in place."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program
        self.position = {value: (i, 0) for i, value in enumerate(program.values)}
        self.added: list[Value] = []
        self.changed = False

    def run(self) -> bool:
        """Fuse all that can be; return whether anything was."""
        for value in self.program.values:
            layer = self.layer_of(value)
            if layer is not None:
                self.fuse_layer(value, layer)
        for value in self.program.values:
            if rule_of(value) == "linear/weight":
                self.fuse_parameters(value)
        if self.added:
            # A bias's gradient may have come before the product that sums it now.
            values, rank = [*self.program.values, *self.added], self.position.__getitem__
            self.program.values = topological_order(values, operands_of, rank)
        return self.changed

    def fuse_layer(self, value: Value, layer: Layer) -> None:
        """Make an activation, and its derivative where it is needed, one product each."""
        others = self.readers_before(value, layer)
        derivative = self.derivative_of(value, layer, others[0]) if len(others) == 1 else None
        reads_result = all(rule_of(user) == "relu/input" for user in others)
        if derivative is None and not reads_result:
            return  # something else needs the elements before it
        settings = {
            "activation": layer.activation, "shape": value.shape, "is_weight": layer.is_weight,
            "keeps": derivative is not None,
        }  # fmt: skip
        operands = layer.input, layer.right, layer.bias, settings
        self.changed = True
        if derivative is None:
            become(value, "call", linear_activation, operands)
            return
        made = self.add(value, linear_activation, operands)
        kept = self.add_part(made, 1, value)
        become(value, "part", operator.getitem, (made, 0, {}))
        self.fuse_derivative(derivative, value, kept, layer.activation)

    def fuse_derivative(
        self, derivative: Derivative, y: Value, kept: Value, activation: str
    ) -> None:
        """Make the gradient before an activation one product, with that of the bias."""
        g, weight, result = derivative
        total = self.sum_of_rows(result, readers(result))
        settings = {"activation": activation, "shape": result.shape, "sums": total is not None}
        made = self.add(result, activation_gradients, (g, weight, y, kept, settings))
        become(result, "part", operator.getitem, (made, 0, {}))
        if total is not None:
            become(total, "part", operator.getitem, (made, 1, {}))

    def fuse_parameters(self, value: Value) -> None:
        """Make the gradients of a weight and of a bias one product."""
        g, x = value.operands[:2]
        has_one_dtype = value.dtype is not None and g.dtype == x.dtype == value.dtype
        total = self.sum_of_rows(g, g.users) if has_one_dtype else None
        if total is None or value.dtype.name not in DTYPES:  # type: ignore[union-attr]
            return
        made = self.add(value, parameter_gradients, (g, x, {}))
        become(value, "part", operator.getitem, (made, 0, {}))
        become(total, "part", operator.getitem, (made, 1, {}))
        self.changed = True

    def add(self, place: Value, function: Callable[..., Any], operands: tuple[Any, ...]) -> Value:
        """Add a call that returns several arrays, before the value that it is made for."""
        value = Value("call", function, operands, (), None, {}, place.node)
        self.position[value] = (self.position[place][0], -2)
        self.added.append(value)
        return value

    def add_part(self, made: Value, index: int, place: Value) -> Value:
        """Add a part of what a call returns."""
        value = Value("part", operator.getitem, (made, index, {}), (), None, {}, place.node)
        self.position[value] = (self.position[place][0], -1)
        self.added.append(value)
        return value


def become(value: Value, role: str, function: Any, operands: tuple[Any, ...]) -> None:
    """Turn a value into another one of the same shape and dtype, with the same readers."""
    value.kind, value.function, value.operands, value.settings = role, function, operands, {}


def fuse_epilogues(program: Program) -> None:
    """Let products add the bias and compute the activation of a layer, and their gradients.

    The program is that of a device whose products are cuBLASLt's.
    """
    if EpiloguePass(program).run():
        program.remove_unused_values()
        program.assign_names()
