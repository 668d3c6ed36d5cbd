"""What Python has and TorchScript has not, with what to do instead."""

from __future__ import annotations

import ast


def word_of(node: ast.AST) -> str:
    """Return the word of Python by which a statement or expression is known."""
    return WORDS.get(type(node), type(node).__name__.lower())


WORDS: dict[type, str] = {
    ast.FunctionDef: "def", ast.ClassDef: "class", ast.AsyncFunctionDef: "async def",
    ast.ImportFrom: "import", ast.NamedExpr: ":=", ast.GeneratorExp: "(… for …)",
    ast.DictComp: "{… for …}", ast.SetComp: "{… for …}", ast.Set: "{…}", ast.Starred: "*",
    ast.YieldFrom: "yield", ast.AsyncFor: "async for", ast.AsyncWith: "async with",
    ast.Delete: "del",
}  # fmt: skip

REFUSED: dict[type, tuple[str, str | None]] = {
    ast.Try: ("is not TorchScript: an error ends the program", "test for it before"),
    ast.FunctionDef: ("inside of a function is not supported", "define it outside"),
    ast.ClassDef: ("inside of a function is not supported", "define it outside"),
    ast.Lambda: ("is not supported", "write the expression where it is used, or a `def` outside"),
    ast.Import: ("inside of a function is not supported", "import at the top of the file"),
    ast.ImportFrom: ("inside of a function is not supported", "import at the top of the file"),
    ast.Global: ("is not supported", "return the value, or keep it in the module"),
    ast.Nonlocal: ("is not supported", "return the value, or keep it in the module"),
    ast.Yield: ("is not supported", "append to a list, and return it"),
    ast.YieldFrom: ("is not supported", "append to a list, and return it"),
    ast.Set: ("is not supported: there are no sets", "use a list, or a dict"),
    ast.SetComp: ("is not supported: there are no sets", "use a list"),
    ast.DictComp: ("is not supported", "fill the dict in a loop"),
    ast.GeneratorExp: ("is not supported", "use a list: [… for …]"),
    ast.NamedExpr: ("is not supported", "assign in a statement of its own"),
    ast.Delete: ("is not supported", "use pop, or a new variable"),
    ast.Starred: ("is not supported", "write the arguments one by one"),
    ast.Match: ("is not supported", "use if and elif"),
    ast.Await: ("is not supported", "call an ordinary function"),
}
"""What is not understood, with what to do instead."""
