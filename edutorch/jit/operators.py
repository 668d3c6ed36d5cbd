"""The operators of TorchScript: what `torch.add`, `ops.prim.dtype` and `range` mean in a program.

`find_operator(name)` is the only door from a program to a function of ours. It knows

    the tables here             numbers, lists, dicts, texts; views and conversions of tensors
    `layer_operators.py`        layers and losses, whose PyTorch arguments differ from ours
    `allowed_ops.py`            ops that take the same arguments

and nothing else. Dtypes are ints in a program: 6 is float32 (`dtype_numbers.py`).
"""

from __future__ import annotations

import functools
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from .. import dtypes
from ..backends.device import Device
from ..core.registry import REGISTRY
from ..core.tensor import Tensor
from ..nn import functional
from .allowed_ops import ALLOWED_OPS, LIST_RESULTS, SUBMODULE_OPS
from .dtype_numbers import DTYPE_NUMBERS, as_dtype
from .errors import Error, error_class
from .layer_operators import LAYER_OPERATORS

Operator = Callable[..., Any]

# Numbers --------------------------------------------------------------------------------------


def wrap_int(value: Any) -> Any:
    """Return an int as one of 64 bits, in which TorchScript computes.

    >>> wrap_int(2**63)
    -9223372036854775808
    """
    if type(value) is int and not -(2**63) <= value < 2**63:
        return (value + 2**63) % 2**64 - 2**63
    return value


def power(base: Any, exponent: Any) -> Any:
    """Return base ** exponent of two numbers: a float, as in TorchScript."""
    return math.pow(base, exponent)


def shift(left: bool, value: int, count: int) -> int:
    """Shift an int of 64 bits."""
    if not 0 <= count < 64:
        raise Error("torch.jit", f"an int is shifted by {count} bits")
    return wrap_int(value << count) if left else value >> count


def repeated(a: Any, b: Any) -> Any:
    """Multiply two numbers, or repeat a list."""
    if isinstance(a, list | str) or isinstance(b, list | str):
        size = len(a) * b if isinstance(a, list | str) else len(b) * a
        if size > 2**24:
            raise Error("torch.jit", f"a list of {size} elements")
    return a * b


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": repeated, "div": operator.truediv,
    "floordiv": operator.floordiv, "floor_divide": operator.floordiv, "fmod": math.fmod,
    "remainder": operator.mod, "mod": operator.mod, "pow": power, "rsub": lambda a, b: b - a,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor,
    "__lshift__": functools.partial(shift, True), "__rshift__": functools.partial(shift, False),
    "atan2": math.atan2, "gcd": math.gcd, "copysign": math.copysign, "hypot": math.hypot,
}  # fmt: skip
"""What the operators of two tensors do with two numbers, texts or lists."""

TENSOR_NAMES = {
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    "floordiv": "floor_divide", "mod": "remainder", "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}  # fmt: skip
NOT_METHODS = {"where", "rsub"}
"""Functions whose first argument is not that of the method of this name."""

UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "abs": abs, "sqrt": math.sqrt, "exp": math.exp, "log": math.log,
    "log2": math.log2, "log10": math.log10, "log1p": math.log1p, "expm1": math.expm1,
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos,
    "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
    "floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc, "erf": math.erf,
    "erfc": math.erfc, "gamma": math.gamma, "lgamma": math.lgamma, "isnan": math.isnan,
    "isinf": math.isinf, "isfinite": math.isfinite, "degrees": math.degrees,
    "radians": math.radians, "bitwise_not": operator.invert, "factorial": math.factorial,
}  # fmt: skip
"""What the operators of one tensor do with a number."""


def binary_operator(name: str) -> Operator:
    """Return an operator of two operands: tensors, or numbers, texts and lists."""
    python = BINARY[name]
    tensor_op = tensor_function(TENSOR_NAMES.get(name, name))

    def run(a: Any, b: Any = None, *others: Any, **named: Any) -> Any:
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return tensor_op(a, b, *others, **named)
        try:
            return wrap_int(python(a, b))
        except OverflowError as error:
            raise Error(f"torch.{name}", "the result is too large") from error

    return run


def unary_operator(name: str) -> Operator:
    """Return an operator of one operand: a tensor or a number."""
    python = UNARY[name]
    tensor_op = tensor_function(name)

    def run(value: Any, *others: Any, **named: Any) -> Any:
        if isinstance(value, Tensor):
            return tensor_op(value, *others, **named)
        if others:  # log(x, base)
            return python(value, *others)
        if name == "factorial" and value > 20:
            raise Error("torch.factorial", f"{value}! is too large for an int of 64 bits")
        return wrap_int(python(value))

    return run


# Tensors --------------------------------------------------------------------------------------

IGNORED = ("layout", "pin_memory", "memory_format", "implicit", "sparse_grad", "names")
"""Arguments of PyTorch's schemas that change no element."""


def tensor_function(name: str) -> Operator:
    """Return an op of ours by name, for PyTorch's arguments."""
    returns_list = name.rstrip("_") in LIST_RESULTS

    def run(*args: Any, **named: Any) -> Any:
        if "self" in named:
            args = (named.pop("self"), *args)
        for ignored in IGNORED:
            named.pop(ignored, None)
        if "dtype" in named:
            named["dtype"] = as_dtype(named["dtype"])
            if named["dtype"] is None:
                del named["dtype"]
        if named.get("device", ...) is None:
            del named["device"]
        result = resolve(name, args)(*args, **named)
        return list(result) if returns_list else result

    return run


def resolve(name: str, args: tuple[Any, ...]) -> Operator:
    """Return the method of the first argument, or the function of that name."""
    if args and isinstance(args[0], Tensor) and name not in NOT_METHODS:
        method = getattr(Tensor, name, None)
        if method is not None:
            return method
    # The functions `torch.<name>` are collected by the package itself, above this layer.
    module, _, member = name.partition("_")
    if member in SUBMODULE_OPS.get(module, ()):
        return getattr(sys.modules[f"edutorch.{module}"], member)
    function = getattr(sys.modules["edutorch"], name, None)
    function = function or getattr(functional, name, None)
    if function is None:
        raise Error(f"torch.{name}", "this op does not exist for such arguments")
    return function


def size(input: Tensor, dim: int | None = None) -> Any:
    return list(input.shape) if dim is None else input.shape[dim]


def take_slice(value: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    """Return a slice of a tensor along a dimension; of a list: (value, start, end, step)."""
    if not isinstance(value, Tensor):
        return value[slice(None if dim == 0 else dim, start, 1 if end is None else end)]
    index = (slice(None),) * (dim % value.ndim) + (slice(start, end, step),)
    return value[index]


def index_tuple(indices: Iterable[Any]) -> tuple[Any, ...]:
    """Return indices with None for "all of this dimension" as an index of Python."""
    return tuple(slice(None) if index is None else index for index in indices)


def index_by(value: Any, indices: Any) -> Any:
    """Index a tensor with tensors; or return the place of an item in a list."""
    if not isinstance(value, Tensor):
        return value.index(indices)
    return value[index_tuple(indices)]


def index_put_(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    if accumulate:
        full = [index for index in indices if index is not None]
        if len(full) == len(indices):
            return input.index_put_(tuple(indices), values, accumulate=True)
        raise Error("torch.index_put_", "accumulating with missing indices is not supported")
    input[index_tuple(indices)] = values
    return input


def to(input: Tensor, *args: Any, **named: Any) -> Tensor:
    """Convert: `to(x, dtype)`, `to(x, device, dtype)`, `to(x, other)`."""
    values = [value for value in args if not isinstance(value, bool) and value is not None]
    values += [named[name] for name in ("device", "dtype", "other") if named.get(name) is not None]
    result = input
    copies = bool(named.get("copy")) or (len(args) > 2 and args[-1] is True)
    for value in values:
        if isinstance(value, int | dtypes.dtype):
            result = result.to(as_dtype(value))
        elif isinstance(value, str | Device):
            result = result.to(device=value)
        elif isinstance(value, Tensor):
            result = result.to(value)
    return result.clone() if copies and result is input else result


def make_tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Make a tensor of a number, or of nested lists."""
    if isinstance(data, Tensor):
        data = data.tolist()
    return sys.modules["edutorch"].tensor(
        data, dtype=as_dtype(dtype), device=device, requires_grad=requires_grad
    )


def check_size(count: int) -> int:
    if count > 2**31:
        raise Error("range", f"a loop of {count} rounds")
    return count


def range_length(start: int, stop: int, step: int) -> int:
    if step == 0:
        raise error_class("ValueError")("range", "step must not be zero")
    return check_size(len(range(start, stop, step)))


def type_as_number(tensor: Tensor) -> Any:
    return DTYPE_NUMBERS[tensor.dtype]


def raise_exception(message: Any = "", name: str | None = None, *others: Any) -> None:
    """Raise what a program raises.

    Raises: Error: always; also of the class that is named.
    """
    raise error_class(name or "")(None, str(message))


def smallest(choose: Callable[..., Any], *values: Any) -> Any:
    """Return min or max of numbers, or of the elements of a list."""
    return choose(values[0]) if len(values) == 1 else choose(values)


def minmax(name: str) -> Operator:
    """Return `torch.min` or `max`: of tensors, of numbers, of a list."""
    tensor_op, choose = tensor_function(name), min if name == "min" else max

    def run(*args: Any, **named: Any) -> Any:
        if any(isinstance(argument, Tensor) for argument in args):
            return tensor_op(*args, **named)
        return smallest(choose, *args)

    return run


def over_lists(name: str, python: Operator) -> Operator:
    """Return an op that is also a function of lists: `sum`, `all`, `any`."""
    tensor_op = tensor_function(name)

    def run(value: Any, *others: Any, **named: Any) -> Any:
        is_list = isinstance(value, list | tuple)
        return python(value) if is_list else tensor_op(value, *others, **named)

    return run


# Lists, dicts and texts ------------------------------------------------------------------------

METHODS: dict[type, frozenset[str]] = {
    list: frozenset("append extend insert pop clear remove reverse sort index count copy".split()),
    dict: frozenset("keys values items get pop setdefault update clear copy popitem".split()),
    str: frozenset(
        """
        upper lower strip lstrip rstrip split rsplit splitlines join startswith endswith replace
        find rfind index rindex count isdigit isalpha isalnum isspace isupper islower istitle
        isdecimal isnumeric isidentifier capitalize title swapcase center ljust rjust zfill
        expandtabs partition rpartition
        """.split()
    ),
}  # fmt: skip
"""The methods of Python's own values."""

MUTATES = {"append", "extend", "insert", "clear", "reverse", "sort", "remove", "update"}


def container_operator(name: str, otherwise: Operator | None) -> Operator:
    """Return a method of lists, dicts and texts, `otherwise` for other values."""

    def run(value: Any, *args: Any, **named: Any) -> Any:
        for cls, names in METHODS.items():
            if isinstance(value, cls) and name in names:
                result = getattr(cls, name)(value, *args, **named)
                if name in ("keys", "values", "items"):
                    return list(result)
                return value if name in MUTATES else result
        if otherwise is None:
            raise Error(f"torch.{name}", f"a {type(value).__name__} has no such method")
        return otherwise(value, *args, **named)

    return run


def format_text(text: str, *values: Any) -> str:
    """Fill in the `{}` of a text, one after another; nothing else in it has a meaning.

    >>> format_text("{} of {}", 1, [2])
    '1 of [2]'
    """
    parts = text.split("{}")
    shown = [str(value) for value in values[: len(parts) - 1]]
    shown += ["{}"] * (len(parts) - 1 - len(shown))
    return "".join(part + value for part, value in zip(parts, [*shown, ""], strict=True))


def set_item(container: Any, key: Any, value: Any) -> Any:
    container[key] = value
    return container


def contains(container: Any, item: Any) -> bool:
    return item in container


def sort_values(values: Any, *args: Any, **named: Any) -> Any:
    if isinstance(values, Tensor):
        return tensor_function("sort")(values, *args, **named)
    values.sort(reverse=bool(args[0]) if args else bool(named.get("reverse")))
    return values


def warn(message: str, *others: Any, **named: Any) -> None:
    warnings.warn(str(message), stacklevel=2)


def set_grad_enabled(mode: bool) -> None:
    sys.modules["edutorch"].set_grad_enabled(mode)


def is_grad_enabled() -> bool:
    return sys.modules["edutorch"].is_grad_enabled()


EXPLICIT: dict[str, Operator] = {
    "size": size, "dim": lambda input: input.ndim, "len": len, "slice": take_slice,
    "index": index_by, "index_put_": index_put_,
    "index_put": lambda input, *args: index_put_(input.clone(), *args),
    "to": to, "tensor": make_tensor, "as_tensor": make_tensor, "format": format_text,
    "item": lambda input: input.item(), "Int": int, "Float": float, "Bool": bool,
    "IntImplicit": int, "FloatImplicit": float, "ScalarImplicit": lambda input: input.item(),
    "Complex": complex, "str": str, "ord": ord, "chr": chr, "hex": hex, "oct": oct, "bin": bin,
    "__not__": operator.not_, "__is__": operator.is_, "__isnot__": operator.is_not,
    "__contains__": contains, "__getitem__": operator.getitem, "_set_item": set_item,
    "__range_length": range_length, "__derive_index": lambda i, start, step: start + i * step,
    "Delete": operator.delitem, "list": list, "dict": dict, "sorted": sorted,
    "sort": sort_values, "divmod": divmod, "min": minmax("min"), "max": minmax("max"),
    "sum": over_lists("sum", sum), "all": over_lists("all", all), "any": over_lists("any", any),
    "broadcast_tensors": lambda tensors: list(tensor_function("broadcast_tensors")(*tensors)),
    "numpy_T": lambda input: input.T, "expand": lambda input, size, implicit=False: input.expand(
        *size
    ),
    "repeat": lambda input, repeats: input.repeat(*repeats),
    "view": lambda input, size: input.view(
        as_dtype(size) if isinstance(size, int) else tuple(size)
    ),
    "device": lambda *args: Device(*args), "warn": warn, "set_grad_enabled": set_grad_enabled,
    "is_grad_enabled": is_grad_enabled, "requires_grad_": lambda input, flag=True:
    input.requires_grad_(flag), "tolist": lambda input: input.tolist(),
    "data": lambda input: input.data, "mathremainder": math.remainder,
}  # fmt: skip

PRIM: dict[str, Operator] = {
    "dtype": type_as_number, "device": lambda input: input.device, "data": lambda input: input.data,
    "shape": size, "layout": lambda input: 0, "grad": lambda input: input.grad,
    "requires_grad": lambda input: input.requires_grad,
    "is_cuda": lambda input: input.is_cuda, "is_cpu": lambda input: input.is_cpu,
    "is_meta": lambda input: input.is_meta,
    "is_sparse": lambda input: False, "is_quantized": lambda input: False,
    "is_mkldnn": lambda input: False, "is_mps": lambda input: False, "is_xla": lambda input: False,
    "is_xpu": lambda input: False, "is_nested": lambda input: False,
    "itemsize": lambda input: input.itemsize, "RaiseException": raise_exception,
    "min": functools.partial(smallest, min), "max": functools.partial(smallest, max),
    "abs": abs, "NumToTensor": lambda value: make_tensor(value), "name": lambda input: None,
    "unchecked_unwrap_optional": lambda value: value, "type": lambda device: device.type,
    "index": lambda device: device.index, "rangelist": lambda count: list(
        range(check_size(count))
    ),
    "ImplicitTensorToNum": lambda input: input.item(), "T": lambda input: input.T,
    "mT": lambda input: input.mT, "ceil": math.ceil, "floor": math.floor,
    "TupleIndex": operator.getitem,
}  # fmt: skip
"""`ops.prim.…`."""


@functools.cache
def find_operator(name: str) -> Operator | None:
    """Return the operator of a full name, `torch.add` or `ops.prim.dtype`, or None.

    >>> find_operator("torch.add")(1, 2), find_operator("torch.load")
    (3, None)
    """
    space, _, short = name.rpartition(".")
    if space == "ops.prim":
        return PRIM.get(short)
    if space == "ops.edutorch":  # our own ops, by which a trace is written
        return own_operator(short) if short in REGISTRY else None
    if space not in ("torch", "ops.aten", "torch.ops.aten"):
        return None
    return find_torch_operator(short)


def own_operator(name: str) -> Operator:
    """Return one of our ops by the name of its definition."""

    def run(*args: Any, **named: Any) -> Any:
        if named.get("dtype") is not None:
            named["dtype"] = as_dtype(named["dtype"])
        return REGISTRY[name].function(*args, **named)

    return run


def find_torch_operator(name: str) -> Operator | None:
    if name in BINARY:
        return binary_operator(name)
    own = EXPLICIT.get(name) or LAYER_OPERATORS.get(name)
    if own is None and name in UNARY:
        own = unary_operator(name)
    base = name.removesuffix("_")
    module, _, member = name.partition("_")
    if own is None and member in SUBMODULE_OPS.get(module, ()):
        own = tensor_function(name)
    if own is None and (name in ALLOWED_OPS or is_in_place(name, base)):
        own = tensor_function(name)
    if any(name in names for names in METHODS.values()):
        return container_operator(name, own)
    return own


def is_in_place(name: str, base: str) -> bool:
    """Return True if a name is the in-place form of an allowed op."""
    return name != base and (base in ALLOWED_OPS or base in BINARY or base in UNARY)
