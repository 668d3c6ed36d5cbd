r"""Formulas as trees: parses LaTeX, substitutes values, writes LaTeX or a line of text.

Only the subset of LaTeX that derivative rules use (`widgets/formula.js` draws the same subset):

    tree = parse(r"g \cdot n\,x^{n-1}")
    to_text(tree)                                        "g·n xⁿ⁻¹"
    to_text(substitute(tree, {"g": 1, "n": 2, "x": 3}))  "1·2·3²⁻¹"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

WORDS = ("condition", "index", "exponent", "finite", "mask", "not", "min", "max")
"""Names of several letters that stand in formulas without a command."""

TOKEN = re.compile(
    r"\\(?:text|mathrm|operatorname|textrm)\s*\{([^{}]*)\}"
    rf"|\\[a-zA-Z]+|\\.|[0-9]+(?:\.[0-9]+)?|{'|'.join(WORDS)}|\S"
)
FUNCTIONS = {"exp", "log", "ln", "sin", "cos", "tan", "sinh", "cosh", "tanh"}
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ",
    "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "phi": "φ",
    "varphi": "φ", "psi": "ψ", "Phi": "Φ", "Gamma": "Γ", "Sigma": "Σ",
}  # fmt: skip
SIGNS = {
    "cdot": "·", "odot": "⊙", "star": "⋆", "sum": "Σ", "prod": "Π", "partial": "∂", "top": "ᵀ",
    "le": " ≤ ", "ge": " ≥ ", "ne": " ≠ ", "times": "×", "in": " ∈ ", "infty": "∞",
}  # fmt: skip
BRACKETS = {"lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "{": "{", "}": "}"}
SPACES = {",", ":", ";", " ", "!", "quad", "qquad"}
IGNORED = {"left", "right", "textstyle", "displaystyle"}
OPENING = {"(", "[", r"\lfloor", r"\lceil", r"\{"}
CLOSING = {")", "]", r"\rfloor", r"\rceil", r"\}"}
SUPERSCRIPTS = dict(zip("0123456789+-n()Hpi", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ⁽⁾ᴴᵖⁱ", strict=True))
SUBSCRIPTS = dict(zip("0123456789", "₀₁₂₃₄₅₆₇₈₉", strict=True))
CONSTANTS = {"e", "i", r"\pi", "H", "not", "finite"}
"""Symbols for which no value is substituted."""


@dataclass(frozen=True)
class FormulaNode:
    """A node of a formula's tree: its kind, its LaTeX if it is a leaf, and its parts.

    A `value` is a number or a few numbers substituted for a symbol; `plain` is its text.
    """

    kind: str
    text: str = ""
    parts: tuple[FormulaNode, ...] = ()
    plain: str = ""


@dataclass(frozen=True)
class Value:
    """A number or a small array, written for a formula."""

    latex: str
    plain: str
    scalar: bool = True
    matrix: bool = False

    @property
    def node(self) -> FormulaNode:
        """The value as a node of a formula."""
        return FormulaNode("matrix" if self.matrix else "value" if self.scalar else "row of values",
                     self.latex, plain=self.plain)  # fmt: skip


class UnknownValueError(Exception):
    """Raised if a symbol has no known value: the formula is then shown without values."""


# Reading -----------------------------------------------------------------------------------


def parse(latex: str) -> FormulaNode:
    """Parse a formula."""
    tokens = [match[0] for match in TOKEN.finditer(latex)]
    tree, _ = parse_row(tokens, 0)
    return tree


def parse_row(tokens: list[str], position: int) -> tuple[FormulaNode, int]:
    """Parse up to the closing brace or the end."""
    parts: list[FormulaNode] = []
    while position < len(tokens) and tokens[position] not in ("}", "&", r"\\", r"\end"):
        token = tokens[position]
        if token in "^_'" and parts:
            if token == "'":
                script, position = FormulaNode("sign", "'"), position + 1
            else:
                script, position = parse_one(tokens, position + 1)
            script_kind = "index" if token == "_" else "power"
            parts.append(FormulaNode(script_kind, parts=(parts.pop(), script)))
            continue
        part, position = parse_one(tokens, position)
        if part is not None:
            parts.append(part)
    return FormulaNode("row", parts=tuple(parts)), position


def parse_one(tokens: list[str], position: int) -> tuple[FormulaNode, int]:
    """Parse one node: a group in braces, a command with its arguments, or a character."""
    token = tokens[position] if position < len(tokens) else ""
    if token == "{":
        row, position = parse_row(tokens, position + 1)
        return row, position + 1
    if token.startswith("\\") and len(token) > 1:
        return parse_command(tokens, position, token[1:])
    if token[:1].isdigit():
        return FormulaNode("number", token), position + 1
    if token in OPENING or token in CLOSING:
        return FormulaNode("open" if token in OPENING else "close", token), position + 1
    return FormulaNode("symbol" if token[:1].isalpha() else "sign", token), position + 1


def parse_command(tokens: list[str], position: int, name: str) -> tuple[FormulaNode, int]:
    """Parse a command and its arguments."""
    word = TOKEN.fullmatch(tokens[position])
    if word is not None and word[1] is not None:
        spoken = name.startswith("text{") or name.startswith("textrm")
        return FormulaNode(
            "word" if spoken else "name", tokens[position], plain=word[1]
        ), position + 1
    if name in IGNORED:
        return FormulaNode("space"), position + 1
    if name in ("frac", "tfrac", "dfrac"):
        top, position = parse_one(tokens, position + 1)
        bottom, position = parse_one(tokens, position)
        return FormulaNode("fraction", name, (top, bottom)), position
    if name in ("sqrt", "bar", "overline", "hat"):
        inside, position = parse_one(tokens, position + 1)
        return FormulaNode("root" if name == "sqrt" else "over", name, (inside,)), position
    if name == "begin":
        return parse_matrix(tokens, position)
    if name in SPACES:
        return FormulaNode("space", tokens[position]), position + 1
    if name in FUNCTIONS:
        return FormulaNode("name", tokens[position], plain=name), position + 1
    if name in BRACKETS:
        return FormulaNode(
            "open" if tokens[position] in OPENING else "close", tokens[position]
        ), position + 1
    return FormulaNode("symbol" if name in GREEK else "sign", tokens[position]), position + 1


def parse_matrix(tokens: list[str], position: int) -> tuple[FormulaNode, int]:
    r"""Parse \begin{pmatrix} … \end{pmatrix} into rows of cells."""
    position = tokens.index("}", position) + 1
    rows: list[FormulaNode] = []
    cells: list[FormulaNode] = []
    while position < len(tokens) and tokens[position] != r"\end":
        cell, position = parse_row(tokens, position)
        cells.append(cell)
        if position < len(tokens) and tokens[position] == r"\\":
            rows.append(FormulaNode("row", parts=tuple(cells)))
            cells = []
        position += position < len(tokens) and tokens[position] in ("&", r"\\")
    rows.append(FormulaNode("row", parts=tuple(cells)))
    end = tokens.index("}", position) + 1 if position < len(tokens) else position
    return FormulaNode("grid", parts=tuple(rows)), end


# Symbols -----------------------------------------------------------------------------------


def walk_formula(tree: FormulaNode) -> Iterable[FormulaNode]:
    """Yield the nodes of a formula, outer ones first."""
    yield tree
    for part in tree.parts:
        yield from walk_formula(part)


def symbols(tree: FormulaNode) -> set[str]:
    r"""Return the symbols of a formula, without function names: {"g", "b", r"\alpha"}."""
    row = [part for part in tree.parts if part.kind != "space"]
    names: set[str] = set()
    for part, next_part in zip(row, [*row[1:], None], strict=False):
        if part.kind == "symbol":
            if not is_function(part, next_part):
                names.add(part.text)
        elif part.kind == "index" and is_function(part, next_part):
            continue
        elif part.kind == "power" and is_function(part.parts[0], next_part) and next_part:
            names |= symbols(part.parts[1]) if part.parts[1].parts else set()
        else:
            names |= symbols(part)
    return names - CONSTANTS


def is_function(part: FormulaNode, next_part: FormulaNode | None) -> bool:
    """Whether a name is applied to what follows: `sin x`, `K_0(x)`, `σ(x)`, but not `x (…)`."""
    if part.kind == "name":
        return True
    applied = next_part is not None and next_part.kind == "open" and next_part.text == "("
    if part.kind == "symbol":
        return applied and part.text.startswith("\\") and part.text not in (r"\alpha", r"\beta")
    if part.kind in ("index", "power"):
        base, script = part.parts
        special = base.kind == "symbol" and base.text in "IJKY" and part.kind == "index"
        return applied and ((special and script.kind == "number") or is_function(base, next_part))
    return False


# Substituting values ----------------------------------------------------------------------


def substitute(
    tree: FormulaNode, values: Mapping[str, Value], matrices: bool = False
) -> FormulaNode:
    """Return the formula with values for its symbols, and signs between factors.

    Args:
        matrices: adjacent matrices are a matrix product, not an elementwise one.

    Raises: UnknownValueError: a symbol has no value.
    """
    if tree.kind == "symbol":
        if tree.text in values:
            return values[tree.text].node
        if tree.text in CONSTANTS:
            return tree
        raise UnknownValueError(tree.text)
    if tree.kind in ("over", "grid", "index"):
        raise UnknownValueError(tree.kind)
    if tree.kind == "power":
        base, script = (substitute(part, values, matrices) for part in tree.parts)
        if needs_brackets(base):
            base = add_brackets(base)
        return replace(tree, parts=(base, script))
    if tree.kind == "row":
        return FormulaNode("row", parts=tuple(substitute_row(tree.parts, values, matrices)))
    return replace(tree, parts=tuple(substitute(part, values, matrices) for part in tree.parts))


def substitute_row(
    parts: tuple[FormulaNode, ...], values: Mapping[str, Value], matrices: bool
) -> list[FormulaNode]:
    row: list[FormulaNode] = []
    previous: FormulaNode | None = None
    is_function_name = False  # whether `previous` is the name of a function
    has_dot = False  # whether a multiplication sign follows `previous`
    for position, part in enumerate(parts):
        if part.kind == "space":
            continue
        if part.text == r"\cdot":
            has_dot = True
            continue
        next_part = next((part for part in parts[position + 1 :] if part.kind != "space"), None)
        function = is_function(part, next_part)
        neighbour = parts[position - 1] if position else None
        if part.text == "[" and neighbour is not None and neighbour.kind == "symbol":
            raise UnknownValueError("[index]")  # g[index] picks, g [a > b] multiplies
        new = part if function else substitute(part, values, matrices)
        if is_function_name:
            new = new if part.kind == "open" else add_brackets(new)
        elif previous is not None and (has_dot or are_factors(previous, part)):
            row.append(product_sign(row[-1], new, matrices))
        elif row and "word" in (part.kind, row[-1].kind):
            row.append(FormulaNode("space", r"\ "))
        if row and row[-1].kind != "open" and starts_negative(new):
            new = add_brackets(new)
        row.append(new)
        previous, is_function_name, has_dot = part, function, False
    return row


ENDS = {"symbol", "number", "close", "fraction", "root", "power", "index", "row", "name"}
STARTS = {"symbol", "number", "open", "fraction", "root", "power", "index", "row", "name"}


def are_factors(previous: FormulaNode, part: FormulaNode) -> bool:
    """Whether two neighbours are factors of a product."""
    base = previous.parts[0].kind if previous.kind in ("power", "index") else previous.kind
    return base in ENDS and part.kind in STARTS


def product_sign(left: FormulaNode, right: FormulaNode, matrices: bool) -> FormulaNode:
    """Return the sign between two factors."""
    if matrices and is_matrix(left) and is_matrix(right):
        return FormulaNode("space", r"\,")
    is_elementwise = has_many_values(left) and (has_many_values(right) or right.kind == "open")
    return FormulaNode("sign", r"\odot" if is_elementwise and not matrices else r"\cdot")


def is_matrix(piece: FormulaNode) -> bool:
    return piece.kind == "matrix" or (piece.kind == "power" and piece.parts[0].kind == "matrix")


def has_many_values(side: FormulaNode) -> bool:
    """Whether a factor has several elements."""
    return any(piece.kind in ("matrix", "row of values") for piece in walk_formula(side))


def starts_negative(piece: FormulaNode) -> bool:
    return piece.kind == "value" and piece.plain.startswith("-")


def needs_brackets(base: FormulaNode) -> bool:
    return starts_negative(base) or (base.kind == "value" and r"\cdot" in base.text)


def add_brackets(piece: FormulaNode) -> FormulaNode:
    return FormulaNode("row", parts=(FormulaNode("open", "("), piece, FormulaNode("close", ")")))


# Writing -----------------------------------------------------------------------------------


def to_latex(tree: FormulaNode) -> str:
    """Return a formula as LaTeX."""
    inside = [to_latex(part) for part in tree.parts]
    if tree.kind == "row":
        return " ".join(text for text in inside if text)
    if tree.kind == "fraction":
        return rf"\{tree.text}{{{inside[0]}}}{{{inside[1]}}}"
    if tree.kind in ("root", "over"):
        return rf"\{'sqrt' if tree.kind == 'root' else tree.text}{{{inside[0]}}}"
    if tree.kind in ("power", "index"):
        return f"{{{inside[0]}}}{'^' if tree.kind == 'power' else '_'}{{{inside[1]}}}"
    if tree.kind == "grid":
        rows = (" & ".join(to_latex(cell) for cell in row.parts) for row in tree.parts)
        return r"\begin{pmatrix}" + r" \\ ".join(rows) + r"\end{pmatrix}"
    return tree.text


def to_text(tree: FormulaNode) -> str:
    """Return a formula as one line of text."""
    if tree.kind == "row":
        return re.sub(" +", " ", "".join(row_texts(tree.parts))).strip()
    inside = [to_text(part) for part in tree.parts]
    if tree.kind == "fraction":
        return "/".join(text if is_short(part) else f"({text})"
                        for text, part in zip(inside, tree.parts, strict=True))  # fmt: skip
    if tree.kind == "root":
        return f"√{inside[0]}" if is_short(tree.parts[0]) else f"√({inside[0]})"
    if tree.kind == "over":
        return f"{inside[0]}̄" if len(inside[0]) == 1 else f"conj({inside[0]})"
    if tree.kind == "power":
        return inside[0] + exponent_text(inside[1])
    if tree.kind == "index":
        low = "".join(SUBSCRIPTS.get(character, "") for character in inside[1])
        return inside[0] + (low if len(low) == len(inside[1]) else f"_{inside[1]}")
    if tree.kind == "grid":
        return "[" + "; ".join(", ".join(to_text(c) for c in row.parts) for row in tree.parts) + "]"
    return token_text(tree)


def row_texts(parts: tuple[FormulaNode, ...]) -> Iterable[str]:
    for position, part in enumerate(parts):
        text = to_text(part)
        is_inside = 0 < position < len(parts) - 1 and parts[position - 1].kind != "open"
        is_inside = is_inside and parts[position - 1].text != ","
        if part.kind == "sign" and part.text in "+-=<>" and is_inside:
            yield f" {text} "
        elif part.kind == "space":
            yield " " if part.text not in ("", r"\!") else ""
        elif part.kind == "name":
            needs_space_before = position > 0 and parts[position - 1].kind in ENDS
            next_text = to_text(parts[position + 1]) if position + 1 < len(parts) else "("
            needs_space_after = not next_text.startswith(("(", "["))
            yield " " * needs_space_before + text + " " * needs_space_after
        else:
            yield text


def token_text(piece: FormulaNode) -> str:
    if piece.plain:
        return piece.plain
    name = piece.text.removeprefix("\\")
    if piece.text.startswith("\\"):
        return GREEK.get(name) or SIGNS.get(name) or BRACKETS.get(name) or name
    return {"-": "-", "'": "′"}.get(piece.text, piece.text)


def is_short(piece: FormulaNode) -> bool:
    parts = [part for part in piece.parts if part.kind != "space"]
    return piece.kind in ("symbol", "number", "value", "power", "index", "row of values") or (
        piece.kind == "row" and len(parts) == 1 and is_short(parts[0])
    )


def exponent_text(text: str) -> str:
    """Return an exponent as text: ² or ^(a - y)."""
    tight = text.replace(" ", "")
    if text in ("ᵀ", "′"):
        return text
    if tight == "-ᵀ":
        return "⁻ᵀ"
    if all(character in SUPERSCRIPTS for character in tight):
        return "".join(SUPERSCRIPTS[character] for character in tight)
    return f"^{text}" if text.isalnum() else f"^({text})"
