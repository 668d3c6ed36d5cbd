"""Generates the Python source of an op's call path, at the op's first call.

Binding arguments, looking for tensors and choosing what to save could be worked
out at each call, as `dispatch.py` does. It is the same work each time, so here it
is done once, as `dataclasses` generates an `__init__`. The result is ordinary
Python; read it with

    print(edutorch.mul.op.source)

An op's call has one fast path: default modes, NumPy arrays, one dtype. All else
goes to `apply`, which handles every case.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from typing import TYPE_CHECKING

from ..argument_checks import ALIASES
from ..error_messages import flags_of
from ..precision import SCALING
from ..promotion import NEGATIVE_EXPONENTS
from .inlining import Renamed, free_names

if TYPE_CHECKING:
    from ..op import Op


def call_source(op: Op, fast: bool = True) -> str:
    """Return the source of the public function: fast, array and general path, or only the last."""
    parameters, body = _with_aliases(op)
    if op.has_out:
        parameters.append(inspect.Parameter("out", KEYWORD_ONLY, default=None))
    header = ", ".join(_parameter_texts(parameters))
    if op.rejects_unknown_keywords:
        header += ", **unknown"
        body = "if unknown:\n    raise unknown_keyword(OP, unknown)\n" + body
    inputs = "".join(f"{name}, " for name in op.inputs)
    settings = ", ".join(f"{name!r}: {name}" for name in op.settings)
    out = ", out" if op.has_out else ""
    if op.inputs and op.fast and fast:
        if op.family.makes_views:
            body += _multi_view_path(op)
        else:
            body += _sequence_path(op) if op.variadic else _fast_path(op) + _array_path(op)
    return (
        f"def {op.name}({header}):\n"
        + textwrap.indent(body, "    ")
        + f"    return apply(OP, ({inputs}), {{{settings}}}{out})\n"
    )


KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def _with_aliases(op: Op) -> tuple[list[inspect.Parameter], str]:
    """Return the parameters with NumPy's names added, and the code that handles those.

    A required parameter and those behind it may then be left out: the code checks for them.
    """
    parameters, lines = [], []
    added = {alias: name for alias, name in ALIASES.items() if name in op.settings}
    lines += [f"if {alias} is not None:\n    {name} = {alias}" for alias, name in added.items()]
    left_out = False
    for parameter in op.signature.parameters.values():
        required = (
            parameter.default is inspect.Parameter.empty and parameter.kind is not KEYWORD_ONLY
        )
        # Python allows no required parameter behind one with a default.
        left_out = left_out or parameter.name in added.values()
        if left_out and required:
            parameter = parameter.replace(default=None)
            lines.append(f"if {parameter.name} is None:\n    raise missing(OP, {parameter.name!r})")
        parameters.append(parameter)
    lines += _flag_tests(op) + _integer_tests(op)
    parameters += [inspect.Parameter(alias, KEYWORD_ONLY, default=None) for alias in added]
    return parameters, "".join(f"{line}\n" for line in lines)


def _flag_tests(op: Op) -> list[str]:
    """Return the tests that flags with a default are True or False, the default first."""
    lines = []
    for name in flags_of(op.signature.parameters.values()):
        default = op.signature.parameters[name].default
        if default in (True, False):
            test = f"{name} is not {default} and {name} is not {not default}"
            lines.append(f"if {test}:\n    check_flag(OP.title, {name!r}, {name})")
    return lines


def _integer_tests(op: Op) -> list[str]:
    """Return the tests that settings are integers; dims are checked by `reduced_dims` and others.

    Views are left out: they are so cheap that a test would be noticeable.
    """
    if op.family.makes_view:
        return []
    parameters = op.signature.parameters.values()
    names = [
        parameter.name
        for parameter in parameters
        if parameter.annotation == "int" and parameter.name in INTEGER_SETTINGS
    ]
    return [
        f"if {name}.__class__ is not int:\n    {name} = as_int(OP.title, {name}, {name!r})"
        for name in names
    ]


INTEGER_SETTINGS = {"decimals", "diagonal", "n", "offset"}
"""Integer settings for which NumPy would accept a float or a bool."""


def _parameter_texts(parameters: list[inspect.Parameter]) -> list[str]:
    texts, star = [], False
    for parameter in parameters:
        if parameter.kind is KEYWORD_ONLY and not star:
            texts.append("*")
            star = True
        has_default = parameter.default is not inspect.Parameter.empty
        texts.append(f"{parameter.name}={parameter.default!r}" if has_default else parameter.name)
    return texts


# Both begin with the usual case, which halves the time of the test.
IS_TENSOR = "(cls is Tensor or cls in TENSORS)"
IS_ORDINARY_MODE = (
    "((mode := modes()) is DEFAULT or mode is NO_GRAD or mode.__class__ is TrackedModes)"
)
IS_TRACKED = "mode is not DEFAULT and mode is not NO_GRAD"
IS_RECORDING = "(mode is DEFAULT or mode.grad)"


def _fast_path(op: Op) -> str:
    """Return the fast path: tensors of one dtype on the CPU, under the usual modes."""
    first, *others = (name for name in op.inputs if name not in op.no_promotion)
    arrays = ", ".join(f"a_{name}" for name in op.inputs)
    out = " and out is None" if op.has_out else ""
    lines = [
        f"cls = {first}.__class__",
        f"if {IS_TENSOR} and {IS_ORDINARY_MODE}{out}:",
        f"    a_{first} = {first}._array",
        f"    n_{first} = {first}._node",
    ]
    test = f"a_{first}.__class__ is ndarray" + _dtype_test(op, first)
    if others or op.no_promotion or op.contract is not None:
        lines += [f"    is_ordinary = {test}"]
        test = "is_ordinary"
    for name in op.no_promotion:
        lines += textwrap.indent(_unpromoted_input(name), "    ").splitlines()
    for name in others:
        lines += textwrap.indent(_other_input(op, name, first), "    ").splitlines()
    if op.contract is not None:
        lines += [f"    is_ordinary = is_ordinary and {test}" for test in contract_tests(op)]
    lines += [f"    if {test}:"]
    if op.family.reduces:
        lines += ["        if dim is not None:"]
        lines += [f"            dim = reduced_dims(OP, dim, a_{first}.ndim)"]
    lines += [
        "        try:",
        *(f"            {line}" for line in _compute(op, "a_")),
        "        except ARRAY_ERRORS as error:",
        f"            raise explain(OP, ({arrays},), error, locals()) from error",
    ]
    further = op.outputs[1:]
    if further:
        lines += [f"        y, {', '.join(further)} = y"]
    lines += textwrap.indent(NEW_OUTPUT, " " * 8).splitlines()
    if op.family.makes_view:
        lines += [
            "        base = y.base",
            f"        if base is not None and (base is a_{first} or base is a_{first}.base):",
            f"            attach_view(output, {first})",
        ]
    wanted = " or ".join(f"n_{name} is not None" for name in op.inputs)
    if "dtype" in op.settings:  # the result may have an integer dtype
        wanted = f"({wanted}) and (dtype is None or y.dtype in DIFFERENTIABLE)"
    test = f"{IS_RECORDING} and ({wanted})"
    lines += textwrap.indent(_recording(op, test), " " * 8).splitlines()
    result = ", ".join(["output", *(f"wrap({name})" for name in further)])
    return "\n".join([*lines, f"        return {result}", ""])


NEW_OUTPUT = """\
if y.__class__ is not ndarray:
    y = asarray(y)
output = new()
output._array = y
output._node = output._grad = output._writes = output._base = output._hooks = None
"""


def _array_path(op: Op) -> str:
    """Return the path for arrays of one dtype, as in rules and in the ops that rules call."""
    first, *others = (name for name in op.inputs if name not in op.no_promotion)
    tests = [type_test(first, "kind == 'f'")] if needs_floating(op) else []
    tests += [f"{name}.__class__ is ndarray" for name in op.no_promotion]
    for name in others:
        test = f"{name}.__class__ is ndarray"
        if op.promotion != "none":
            test += f" and {name}.dtype is {first}.dtype"
        if name in op.scalars:
            suits = (
                f"{name}.__class__ in NUMBER_TYPES and {type_test(first, scalar_dtype_test(op))}"
            )
            test = f"({test} or {suits})"
        tests.append(f"({name} is None or {test})" if name in op.optional else test)
    if op.has_out:
        tests.append("out is None")
    lines = [f"elif {' and '.join(['cls is ndarray', *tests])}:"]
    if op.family.reduces:
        lines += [f"    dim = reduced_dims(OP, dim, {first}.ndim)"]
    lines += [f"    {line}" for line in (*_compute(op, ""), "return y")]
    return "\n".join([*lines, ""])


def _sequence_path(op: Op) -> str:
    """Return the fast path of an op whose only input is a sequence of tensors."""
    (name,) = op.inputs
    same_type = " or array.dtype is not arrays[0].dtype" if op.promotion != "none" else ""
    out = " and out is None" if op.has_out else ""
    arguments = ", ".join(
        "arrays" if parameter == name else parameter for parameter in op.signature.parameters
    )
    lines = [
        f"if {name}.__class__ in SEQUENCE_TYPES and {IS_ORDINARY_MODE}{out}:",
        "    arrays, edges, wanted = [], [], False",
        f"    for tensor in {name}:",
        "        if tensor.__class__ not in TENSORS:",
        "            break",
        "        array = tensor._array",
        "        arrays.append(array)",
        f"        if array.__class__ is not ndarray{same_type}:",
        "            break",
        "        node = tensor._node",
        "        edges.append(tensor if node is LEAF else node)",
        f"        if node is not None and {IS_RECORDING}:",
        "            wanted = True",
        "    else:",
        "        try:",
        f"            y = forward(numpy, {arguments})",
        "        except ARRAY_ERRORS as error:",
        "            raise explain(OP, (arrays,), error, locals()) from error",
        *textwrap.indent(NEW_OUTPUT, " " * 8).splitlines(),
    ]
    lines += textwrap.indent(_recording(op, "wanted"), " " * 8).splitlines()
    lines += [
        "        return output",
        f"if {name}.__class__ is list and set(map(type, {name})) == ONLY_ARRAYS{out}:",
        f"    if len({{array.dtype for array in {name}}}) == 1:",  # within rules
        f"        return forward(numpy, {', '.join(op.signature.parameters)})",
        "",
    ]
    return "\n".join(lines)


def _multi_view_path(op: Op) -> str:
    """Return the fast path of an op that returns several views (see `multi_output.py`)."""
    (name,) = op.inputs
    settings = ", ".join(op.settings)
    return f"""\
cls = {name}.__class__
if {IS_TENSOR} and {IS_ORDINARY_MODE} and {name}._array.__class__ is ndarray:
    a_{name} = {name}._array
    try:
        y = forward(numpy, a_{name}, {settings})
    except ARRAY_ERRORS as error:
        raise explain(OP, (a_{name},), error, locals()) from error
    return wrap_views(OP, {name}, y, ({settings},))
if cls is ndarray:
    return forward(numpy, {name}, {settings})
"""


def contract_tests(op: Op) -> list[str]:
    """Return the contract as tests of shapes; where one fails, `apply` raises the error."""
    assert op.contract is not None
    tests, first_seen = [], {}
    for name, term in zip(op.inputs, op.contract.terms, strict=True):
        absent = f"{name} is None or " if name in op.optional else ""
        counts = f">= {len(term) - 1}" if "..." in term else f"== {len(term)}"
        if counts != ">= 0":
            tests.append(f"({absent}a_{name}.ndim {counts})")
        for position, axis in enumerate(term):
            if axis == "...":
                continue
            axis, _, divisor = axis.partition("/")
            size = f"a_{name}.shape[{position - len(term)}]"
            if divisor:
                tests.append(f"({divisor}.__class__ is int)")
                size += f" * {divisor}"
            if axis in first_seen:
                tests.append(f"({absent}{size} == {first_seen[axis]})")
            elif not absent:
                first_seen[axis] = size
    return tests


def _compute(op: Op, array: str) -> list[str]:
    """Return code that computes `y` from arrays with the prefix `array`: by a kernel first."""
    names = {name: array + name if name in op.inputs else name for name in op.signature.parameters}
    definition = f"y = {_definition(op, dict(names))}"
    if op.slot is None:
        return [definition]
    broadcast = op.inputs[1:] if op.family.broadcasts else ()
    others = [names[name] for name in broadcast if name not in op.optional]
    first = array + op.inputs[0]
    return [
        "y = None",
        f"if {op.slot.size_test('KERNEL', first, others, are_arrays=bool(array))}:",
        f"    y = (KERNEL.run or KERNEL)({', '.join(names.values())})",
        "if y is None:",
        f"    {definition}",
    ]


def _definition(op: Op, names: dict[str, str]) -> str:
    """Return the forward with these arguments as an expression: inlined, or a call."""
    if op.expression is None:
        return f"forward(numpy, {', '.join(names.values())})"
    names["xp"] = "numpy"
    names |= {name: f"f_{name}" for name in free_names(op.expression, op.forward)}
    return ast.unparse(Renamed(names).visit(copy.deepcopy(op.expression)))


def needs_floating(op: Op) -> bool:
    """Return True if integers have to be converted before the op can compute."""
    return op.promotion == "float" or callable(op.promotion)


def _dtype_test(op: Op, name: str) -> str:
    """Return the test that a dtype needs no conversion and is not refused."""
    if needs_floating(op):
        return " and " + type_test(f"a_{name}", "kind == 'f'")
    if op.dtypes == "bifc":
        return ""
    return " and " + type_test(f"a_{name}", f"kind in {op.dtypes.replace('i', 'iu')!r}")


def type_test(array: str, test: str) -> str:
    """Return a test of an array's dtype, with a shortcut for float32."""
    if "f" not in test:
        return f"{array}.dtype.{test}"
    return f"({array}.dtype is FLOAT32 or {array}.dtype.{test})"


def _unpromoted_input(name: str) -> str:
    """Return code for an input that is not promoted and has no gradient."""
    return (
        f"a_{name} = n_{name} = None\n"
        f"if {name}.__class__ in TENSORS and {name}._array.__class__ is ndarray:\n"
        f"    a_{name} = {name}._array\n"
        "else:\n"
        "    is_ordinary = False\n"
    )


def _other_input(op: Op, name: str, first: str) -> str:
    same_type = f" and a_{name}.dtype is a_{first}.dtype" if op.promotion != "none" else ""
    text = (
        f"cls = {name}.__class__\n"
        f"if {IS_TENSOR}:\n"
        f"    a_{name} = {name}._array\n"
        f"    n_{name} = {name}._node\n"
        f"    is_ordinary = is_ordinary and a_{name}.__class__ is ndarray{same_type}\n"
    )
    if name in op.scalars:
        # NumPy computes with a 0-d array in half the time it needs for a Python number.
        text += (
            f"elif cls in NUMBER_TYPES:\n"
            f"    is_ordinary = is_ordinary and ({_scalar_test(op, name, f'a_{first}')})\n"
            f"    a_{name} = asarray({name}, a_{first}.dtype) if is_ordinary else {name}\n"
            f"    n_{name} = None\n"
        )
    if name in op.optional:
        text += f"elif {name} is None:\n    a_{name} = n_{name} = None\n"
    return text + "else:\n    is_ordinary = False\n"


def scalar_dtype_test(op: Op) -> str:
    """Return the test that a Python number may be converted to a dtype before the op computes."""
    return "char in 'fd'" if op.name in SCALING else "kind == 'f'"


def _scalar_test(op: Op, name: str, array: str) -> str:
    """Return the test that a Python number takes the dtype of an array."""
    test = type_test(array, scalar_dtype_test(op))
    if needs_floating(op):
        return test
    lowest = "0" if op.name in NEGATIVE_EXPONENTS else "-LONG"
    return f"{test} or cls is int and {array}.dtype is INT64 and {lowest} <= {name} < LONG"


def _record(op: Op) -> str:
    """Return code that makes the node. `n_…`, `a_…`, `y` and `output` are in scope."""
    if op.variadic:
        edges = "tuple(edges)"
    else:
        edges = "".join(f"{name} if n_{name} is LEAF else n_{name}, " for name in op.inputs)
        edges = f"({edges})"
    saved = "".join(f"{_saved_value(op, name)}, " for name in op.saved)
    scalars = _scalars(op) if op.scalars.intersection(op.inputs[1:]) else []
    return "\n".join(
        [
            # Of the type that PyTorch names for the call.
            f"node = ({op.node})()",
            "node._order = order = clock()",
            f"node.edges = {edges}",
            f"node.saved = ({saved})",
            "node.shape = y.shape",
            "node.dtype = y.dtype",
            "node.hooks = node.writes = None",
            *scalars,
            *_saved_marks(op),
            "output._node = node",
        ]
    )


def _saved_marks(op: Op) -> list[str]:
    """Return code that notes the node's order at the tensors that it saves: `numpy()` asks it."""
    names = [name for name in op.saved if name in op.inputs and name not in op.copied]
    if op.variadic:
        return [f"for tensor in {name}:\n    tensor._saved_at = order" for name in names]
    first = next(name for name in op.inputs if name not in op.no_promotion)
    may_be_no_tensor = (op.scalars | op.optional) - {first}  # that of the fast path is a tensor
    return [
        # What has a node is a tensor; a class is looked up for constants only.
        f"if n_{name} is not None or {name}.__class__ in TENSORS:\n    {name}._saved_at = order"
        if name in may_be_no_tensor
        else f"{name}._saved_at = order"
        for name in names
    ]


def _scalars(op: Op) -> list[str]:
    """Return code that keeps the Python numbers among the inputs, for pictures: `saved` has only
    what a rule needs, and only until backward has run.
    """
    name_pairs = [(name, f"if n_{name} is None and {name}.__class__ in NUMBER_TYPES:")
                  for name in op.inputs[1:] if name in op.scalars]  # fmt: skip
    if len(name_pairs) == 1:
        ((name, test),) = name_pairs
        test = test.replace(" and ", f" and {name}.__class__ is not Tensor and ")
        return [f"{test}\n    node.scalars = (({name!r}, {name}),)"]
    appended = [f"{test}\n    scalars += (({name!r}, {name}),)" for name, test in name_pairs]
    return ["scalars = ()", *appended, "if scalars:\n    node.scalars = scalars"]


def _recording(op: Op, test: str) -> str:
    """Return code that records the result if `test` holds, and reports it to the op recorder."""
    operands = op.inputs[0] if op.variadic else f"({', '.join(op.inputs)},)"
    unrecorded = f"if {IS_TRACKED}:\n    mode.op_recorder.unrecorded(OP, output, {operands})"
    if not op.rules:
        return unrecorded
    report = f"if mode is not DEFAULT:\n    mode.op_recorder.recorded.extend((output, {operands}))"
    recorded = textwrap.indent(f"{_record(op)}\n{report}", "    ")
    return f"if {test}:\n{recorded}\nel{unrecorded}"


def _saved_value(op: Op, name: str) -> str:
    if name == "y":
        return "y"
    if op.variadic and name in op.inputs:
        return f"tuple({name})"
    if name.endswith("_shape"):
        name = name.removesuffix("_shape")
        if op.variadic:
            return "[array.shape for array in arrays]"
        a_number = name in op.scalars or name in op.optional  # it has no shape
        return f"getattr(a_{name}, 'shape', ())" if a_number else f"a_{name}.shape"
    if name in op.copied:
        return f"{name} if {name}.__class__ in UNCHANGING else copy_mutable({name})"
    if name not in op.inputs:
        return name
    users = [user for user, rule in op.rules.items() if name in rule.needs]
    if set(users) == set(op.inputs):
        return name
    wanted = " or ".join(f"n_{user} is not None" for user in users)
    return f"{name} if {wanted} else None"
