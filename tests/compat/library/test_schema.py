"""Schemas of operators: parsed, written, inferred, and the errors of wrong ones."""

from __future__ import annotations

import typing

import pytest
from edutorch.library.schema import SchemaError, parse_schema

import edutorch
from edutorch import Tensor, library

SCHEMAS = (
    "foo(Tensor x) -> Tensor",
    "ns::foo.over(Tensor x, Tensor? y=None) -> (Tensor, Tensor)",
    "foo(Tensor(a!) x, int[2] pad=[0, 0], *, float p=0.5) -> ()",
    "foo(Tensor[] xs, SymInt n, bool flag=True) -> Tensor[]",
    "foo(Tensor(a) x) -> Tensor(a)",
    "foo(Tensor?[] xs, Scalar s=1, str? mode=None) -> Tensor",
    "foo(Tensor x, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    "foo(int[]? dims=None) -> int",
    "foo() -> Tensor y",
)


@pytest.mark.parametrize("text", SCHEMAS)
def test_a_schema_is_written_as_it_was_read(text):
    assert str(parse_schema(text)) == text
    assert parse_schema(str(parse_schema(text))) == parse_schema(text)


@pytest.mark.parametrize("text", SCHEMAS)
def test_pytorch_reads_them_alike(torch, text):
    name = "" if "::" in text else "ns::"
    theirs = torch._C.parse_schema(f"{name}{text}")
    ours = parse_schema(f"{name}{text}")
    assert (ours.name, ours.overload_name) == (theirs.name, theirs.overload_name)
    for mine, other in zip(ours.arguments, theirs.arguments, strict=True):
        assert (mine.name, mine.kwarg_only) == (other.name, other.kwarg_only)
        assert mine.has_default_value() == other.has_default_value()
        assert (mine.alias_info is None) == (other.alias_info is None)
        if mine.alias_info is not None:
            assert mine.is_write == other.alias_info.is_write
    assert len(ours.returns) == len(theirs.returns)
    assert ours.is_mutable == theirs.is_mutable


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("bar(Tensor x -> Tensor", "expected ',' but found '->'", 13),
        ("bar(Tensr x) -> Tensor", "unknown type 'Tensr'", 4),
        ("bar(Tensor x)", "expected '->' but found 'the end'", 13),
        ("bar(Tensor x=) -> Tensor", r"expected a default but found '\)'", 13),
        ("bar(Tensor x, int x) -> Tensor", "two arguments with the name 'x'", 19),
        ("bar(Tensor) -> Tensor", r"expected an argument's name but found '\)'", 10),
        ("(Tensor x) -> Tensor", r"expected the operator's name but found '\('", 0),
        ("bar(Tensor x) -> Tensor Tensor q", "expected the end but found 'q'", 31),
        ("bar(Tensor x) => Tensor", "expected '->' but found '='", 14),
        ("bar(Tensor #x) -> Tensor", "cannot read '#'", 10),
        ("", "expected the operator's name but found 'the end'", 0),
    ],
)
def test_a_wrong_schema_is_refused_at_its_place(text, message, column):
    with pytest.raises(SchemaError, match=message) as raised:
        parse_schema(text)
    assert raised.value.arguments["here"].index("^") == column


def test_a_schema_is_a_text():
    with pytest.raises(SchemaError, match="expected a text, got int"):
        parse_schema(3)


def many(
    x: Tensor, y: int, z: float = 2.5, *, w: Tensor | None = None, s: str = "hi",
    b: bool = True, n: int | float | bool = 3, ts: typing.Sequence[Tensor] = None,  # noqa: RUF013
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


def test_a_schema_is_inferred():
    assert library.infer_schema(many, mutates_args=()) == (
        '(Tensor x, SymInt y, float z=2.5, *, Tensor? w=None, str s="hi", bool b=True, '
        "Scalar n=3, Tensor[] ts=None) -> (Tensor, Tensor)"
    )
    assert library.infer_schema(many, mutates_args={"x"}, op_name="a::b").startswith(
        "a::b(Tensor(a0!) x, SymInt y"
    )
    assert "Tensor(a3!)? w=None" in library.infer_schema(many, mutates_args="unknown")


def test_pytorch_infers_the_same(torch):
    from torch.library import infer_schema

    def f(x: Tensor, y: int, z: float = 2.5, *, w: Tensor | None = None) -> Tensor: ...
    def g(x: Tensor, y: list[int] | None, z: list[float]) -> list[Tensor]: ...
    def h(x: Tensor, s: str = "x", b: bool = False) -> None: ...
    def i(x: Tensor) -> int: ...

    def theirs(function):
        function.__annotations__ = {
            name: eval(text, {**globals(), "Tensor": torch.Tensor})
            if isinstance(text, str)
            else text
            for name, text in function.__annotations__.items()
        }
        return function

    for function in (f, g, h, i):
        for mutates in ((), {"x"}, "unknown"):
            ours = library.infer_schema(function, mutates_args=mutates)
            before = dict(function.__annotations__)
            assert infer_schema(theirs(function), mutates_args=mutates) == ours
            function.__annotations__ = before


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, "Parameter x must have a type annotation"),
        (many, r"\['q'\] in mutates_args were not found"),
    ],
)
def test_what_cannot_be_inferred_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        library.infer_schema(function, mutates_args={"q"} if function is many else ())


def test_wrong_annotations_are_refused():
    def no_result(x: Tensor): ...
    def a_dict(x: Tensor, y: dict) -> Tensor: ...
    def stars(x: Tensor, *y: Tensor) -> Tensor: ...
    def a_default(x: Tensor, y: list[int] = (1, 2)) -> Tensor: ...
    def a_number(x: int) -> Tensor: ...

    for function, message in (
        (no_result, "No return type annotation"),
        (a_dict, "y has unsupported type <class 'dict'>"),
        (stars, "positional-only args, varargs and varkwargs"),
        (a_default, "Parameter y has an unsupported default value type <class 'tuple'>"),
    ):
        with pytest.raises(ValueError, match=message):
            library.infer_schema(function, mutates_args=())
    with pytest.raises(ValueError, match="is in mutates_args but is no tensor"):
        library.infer_schema(a_number, mutates_args={"x"})


def test_the_type_of_a_value():
    types = {argument.name: argument.type for argument in parse_schema(
        "f(int[2] a, float b, Scalar c, Tensor?[] d, bool e, int? g, ScalarType h) -> ()"
    ).arguments}  # fmt: skip
    assert types["a"].accepts(3)
    assert types["a"].accepts([3, 4])
    assert not types["a"].accepts(["x", 4])
    assert types["b"].accepts(3)
    assert types["c"].accepts(edutorch.ones(()))
    assert types["d"].accepts([None, edutorch.ones(2)])
    assert not types["d"].accepts(edutorch.ones(2))
    assert not types["e"].accepts("yes")
    assert types["g"].accepts(None)
    assert not types["g"].accepts(2.5)
    assert types["h"].accepts(edutorch.float32)
