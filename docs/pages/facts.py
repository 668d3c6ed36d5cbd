"""The definition of an op in words: dtypes, shapes, forms, derivatives."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from edutorch.core.op import Op

from .docstring import cell, plain
from .entries import TENSOR, Entry

KINDS = {"b": "bool", "i": "integers", "f": "floating", "c": "complex"}

PROMOTIONS = {
    "none": "Nothing is promoted beforehand; the source says what becomes of the types.",
    "same": "All tensors must have one type: others are refused.",
    "promote": "Tensors of different types are promoted to a common one; the result has it.",
    "float": "Tensors of different types are promoted to a common one; integers and bool become "
    "the default floating type.",
    "compare": "Tensors of different types are promoted to a common one; the result is `bool`.",
}

SHAPES = {
    "elementwise": "Each number by itself; tensors of different shapes are broadcast.",
    "reduction": "`dim` disappears from the shape, or has size 1 with `keepdim=True`.",
    "movement": "The numbers stay, their places change.",
}


def signature(function: object, name: str, out: bool = False) -> str:
    """Write a call with its arguments, one per line if it is long."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f"{name}(…)"
    parts, star, slash = [], False, False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            slash = True
        elif slash:
            parts.append("/")
            slash = False
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        parts.append(_parameter(parameter))
    if out and "out" not in signature.parameters:
        parts += ["out: Tensor | None = None"] if star else ["*", "out: Tensor | None = None"]
    returns = signature.return_annotation
    arrow = "" if returns is inspect.Signature.empty else f" -> {_annotation(returns)}"
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= 88:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    typed = parameter.annotation is not inspect.Parameter.empty
    if typed:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        default = getattr(parameter.default, "__name__", None) or repr(parameter.default)
        text += f" = {default}" if typed else f"={default}"
    return text


def _annotation(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:Array|Index)\b", "Tensor", text.strip("'\""))


def types(op: Op) -> str:
    """Describe the dtypes that the op takes, and their promotion."""
    if callable(op.promotion):
        said = inspect.getdoc(op.promotion) or ""
        text = "The settings decide how types are promoted. " + plain(said.partition("\n\n")[0])
    else:
        whole_numbers_refused = op.promotion == "float" and not set("bi") & set(op.dtypes)
        text = PROMOTIONS["promote" if whole_numbers_refused else op.promotion]
    if op.no_promotion:
        kept = ", ".join(f"`{name}`" for name in op.no_promotion)
        text += f" {kept} {'keeps its' if len(op.no_promotion) == 1 else 'keep their'} type."
    if op.dtypes != "bifc":
        dtype_groups = " and ".join(KINDS[dtype_group] for dtype_group in op.dtypes)
        text += f" It takes {dtype_groups} numbers; "
        text += "others are refused."
    return text.strip()


def shapes(op: Op) -> str:
    """Describe the shapes: the contract, or the rule of the family."""
    if op.contract is None:
        return SHAPES.get(op.family.name, "")
    return (
        f"`{op.contract.text}`\n\n"
        "The axes of each tensor argument in order, then those of the result. An axis of the same "
        "name has the same size everywhere."
    )


def forms(entry: Entry) -> list[str]:
    """List the ways to call it: function, method, in place, `out=`."""
    functions = [name for name in entry.names if name not in entry.methods]
    methods = [name.removeprefix(f"{TENSOR}.") for name in entry.methods]
    call = "" if isinstance(entry.value, property) else "(…)"
    in_place = [name.removeprefix(f"{TENSOR}.") for name in entry.twins if TENSOR in name]
    as_function = [name for name in entry.twins if TENSOR not in name]
    op = entry.op
    takes_out = (op is not None and op.has_out) or "out" in _parameters(entry)
    rows = [
        ("function", [f"`{name}(…)`" for name in functions]),
        ("property" if not call else "method", [f"`x.{name}{call}`" for name in methods]),
        ("in place", [f"`x.{name}(…)`" for name in in_place] + [f"`{n}(x)`" for n in as_function]),
        ("into a given tensor", ["`out=`"] if takes_out else []),
    ]
    return [f"- {label}: {', '.join(names)}" for label, names in rows if names]


def _parameters(entry: Entry) -> Iterable[str]:
    try:
        return inspect.signature(entry.value).parameters
    except (TypeError, ValueError):
        return ()


def derivatives(op: Op) -> str:
    """Return a table: how the gradient reaches each input."""
    refusals = {n for n, rule in op.rules.items() if hasattr(rule.function, "refuses")}
    rows = [
        f"| `{name}` | {f'${latex}$' if latex else ''}"
        f"{' (refused: there is none)' if name in refusals else ''} |"
        for name in op.rules
        for latex in [formula(op.formulas.get(name, ""))]
    ]
    return "| input | its gradient |\n|:--|:--|\n" + "\n".join(rows)


def formula(latex: str) -> str:
    """Make LaTeX fit into a cell of a table."""
    return latex.replace("|", r"\vert ").replace("\n", " ").strip()


def meaning(op: Op) -> str:
    """Explain the letters of the formulas."""
    used = " ".join(re.sub(r"\\[a-zA-Z]+", " ", formula) for formula in op.formulas.values())
    letters = {"g": "the gradient that reaches the result", "y": "the result"}
    if op.inputs:
        letters["x"] = f"`{next(iter(op.rules), op.inputs[0])}`"
    said = [
        f"${letter}$ is {what}"
        for letter, what in letters.items()
        if re.search(rf"(?<![a-zA-Z]){letter}(?![a-zA-Z])", used)
    ]
    return ", ".join(said) + ". The engine sums over axes that were broadcast."


def memory(op: Op, is_view: bool) -> str:
    """Describe whether the result shares the input's memory; `is_view` if the example did."""
    if op.family.makes_view or is_view:
        return "The result is a view of the input's memory wherever strides can say it."
    return "The result has memory of its own."


def join_names(names: Iterable[str]) -> str:
    return ", ".join(names)


def sentence_cell(text: str) -> str:
    """Shorten a first paragraph to a cell of an index."""
    return cell(text)
