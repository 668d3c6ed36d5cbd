"""Makes one large product out of many small ones, where a loop repeats a layer.

A network that goes along time multiplies by the same weights in each step. Where the inputs of all
steps are known beforehand, one product of all of them is enough:

    x₁ W,  x₂ W,  …                  →   the rows of  stack(x₁, x₂, …) W

And the gradient of such weights is a sum over the steps, which a product computes by itself:

    g₁ᵀ x₁ + g₂ᵀ x₂ + …              →   stack(g₁, g₂, …)ᵀ stack(x₁, x₂, …)
    Σ g₁ + Σ g₂ + …   (of a bias)    →   Σ stack(g₁, g₂, …)

A large product takes less time than the small ones, and none of the sums between them is written.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from .symbols import view_of
from .values import Program, Value, operands_of, steps_of

__all__ = ["stacked"]

LEAST = 3
"""So many products are worth a copy of what they multiply."""
TALLEST = 512
"""A product of more rows is large enough by itself."""
LARGEST = 2**25
"""So many bytes may be kept for a stack, or for its product."""
FAR = 1 << 60


def stacked(program: Program) -> bool:
    """Join the products of a program that may be joined; say whether there were any."""
    work = Stacking(program)
    work.join_rows()
    work.join_sums()
    program.values = work.values
    return work.changed


class Stacking:
    """Looks for products that may be one. A value that is replaced becomes another one in place."""

    def __init__(self, program: Program) -> None:
        self.values = list(program.values)
        places = enumerate((*program.inputs, *program.values))
        self.place: dict[Value, tuple[int, int]] = {value: (i, 0) for i, value in places}
        self.wanted = set(operands_of(program.outputs))
        self.stacks: dict[frozenset[Any], tuple[list[Any], Value]] = {}
        self.like: Any = None  # what new values are made for
        self.changed = False

    def keep(self, kind: str, function: Any, operands: tuple[Any, ...], shape: tuple[int, ...],
             dtype: Any, settings: dict[str, Any] | None = None) -> Value:  # fmt: skip
        """Add a value, which is wanted just before the one that it is made for."""
        node = self.like.node
        value = Value(kind, function, tuple(operands), tuple(shape), dtype, settings or {}, node)
        self.place[value] = self.place[self.like][0], len(self.values) - FAR
        self.values.append(value)
        return value

    # Rows of one product ----------------------------------------------------------------------

    def join_rows(self) -> None:
        """Join products with the same right factor whose left factors need none of them."""
        groups: dict[Any, list[Value]] = {}
        for value in self.values:
            if value.kind == "product" and value.shape[0] <= TALLEST:
                groups.setdefault(where_it_is(value.operands[1]), []).append(value)
        for group in groups.values():
            free = self.free_of(group) if len(group) >= LEAST else []
            if len(free) >= LEAST:
                self.one_product(free)

    def free_of(self, group: list[Value]) -> list[Value]:
        """Return the products whose left factors need none of the group."""
        inside = set(group)
        late: set[Value] = set()
        for value in self.values:
            if any(each in inside or each in late for each in operands_of(value)):
                late.add(value)
        return [each for each in group if each.operands[0] not in late | inside]

    def one_product(self, products: list[Value]) -> None:
        """Compute products with the same right factor as one; each becomes a part of its rows."""
        _, right = products[0].operands
        columns, dtype = right.shape[1], right.dtype
        parts = sorted((product.operands[0] for product in products), key=self.place.__getitem__)
        self.like = products[0]
        stack = self.stack(parts) if sum(product.bytes for product in products) <= LARGEST else None
        if stack is None:
            return
        rows, whole = stack
        y = self.keep("product", "matmul", (whole, right), (whole.shape[0], columns), dtype)
        bias, biased = self.bias_of(products)
        if bias is not None:
            y = self.keep("element", "add", (y, bias), y.shape, dtype)
        for product, value in zip(products, products if bias is None else biased, strict=True):
            first = rows[where_it_is(product.operands[0])]
            last = first + value.shape[0]
            value.kind, value.function, value.operands = "view", None, (y,)
            value.settings = {
                "base": y, "offset": first * columns, "steps": steps_of(value.shape),
                "text": f"{{}}[{first}:{last}]",
            }  # fmt: skip
        self.rebase()
        self.values = in_order(self.values, self.place)
        self.changed = True

    def bias_of(self, products: list[Value]) -> tuple[Value | None, list[Value]]:
        """Return what is added to the rows of all products alike, and the sums; None: nothing."""
        sums = [value.users[0] for value in products if self.free(value)]
        fitting = [sum_ for sum_ in sums if sum_.function == "add" and sum_.kind == "element"]
        if len(fitting) < len(products):
            return None, []
        found = {
            operand for value, product in zip(sums, products, strict=True)
            for operand in value.operands if operand is not product and value.shape == product.shape
        }  # fmt: skip
        bias = found.pop() if len(found) == 1 else None
        flat = isinstance(bias, Value) and bias.kind == "input" and len(bias.shape) == 1
        return (bias, sums) if flat else (None, [])

    def rebase(self) -> None:
        """Let views of what has become a view show the memory of what that shows."""
        for value in self.values:
            if value.kind != "view" or value.base.kind != "view":
                continue
            base = value.base
            offset, steps = value.where
            shift = {**value.settings, "base": base.base, "offset": base.where[0] + offset}
            value.settings = shift | {"steps": steps}  # parts of rows lie in order, as wholes do

    # Sums of products -------------------------------------------------------------------------

    def join_sums(self) -> None:
        """Join the terms of each long sum: products of matrices, and sums over rows."""
        inner = {part for value in self.values if is_add(value) for part in self.parts(value)}
        sums = [value for value in self.values if is_add(value) and value not in inner]
        found = [(sum_, self.terms(sum_)) for sum_ in sums]
        found.sort(key=lambda pair: pair[1][-1].kind != "product")  # their order counts: first
        for value, terms in found:
            if len(terms) >= LEAST:
                self.join_terms(value, terms)
        self.values = in_order(self.values, self.place)

    def parts(self, value: Value) -> list[Value]:
        """The operands of a sum that are sums themselves, and needed for nothing else."""
        return [
            each for each in operands_of(value)
            if is_add(each) and each.shape == value.shape and self.free(each)
        ]  # fmt: skip

    def free(self, value: Value) -> bool:
        """Say whether a value has one reader, and is no result."""
        return len(value.users) == 1 and value not in self.wanted

    def terms(self, value: Value) -> list[Value]:
        """Return what is added up, in order."""
        found: list[Value] = []
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if each is value or (is_add(each) and each.shape == value.shape and self.free(each)):
                waiting += reversed(each.operands)
            else:
                found.append(each)
        return found

    def join_terms(self, total: Value, terms: list[Value]) -> None:
        """Replace terms that can be joined; what is left is added to them as before."""
        self.like = total
        known = set(terms)
        for joined in (self.products, self.sums):
            fitting, result = joined(terms)
            if result is not None:
                terms = [result, *(term for term in terms if term not in fitting)]
        if known.issuperset(terms):
            return
        self.changed = True
        *others, last = terms
        if not others:
            self.values.remove(last)
            total.kind, total.function, total.operands = last.kind, last.function, last.operands
            total.settings = last.settings
            return
        y = others[0]
        for other in others[1:]:
            y = self.keep("element", "add", (y, other), total.shape, total.dtype)
        total.operands = (y, last)

    def products(self, terms: list[Value]) -> tuple[list[Value], Value | None]:
        """Make one product of terms that are products, each needed here only."""
        fitting = [term for term in terms if term.kind == "product" and self.free(term)]
        if len(fitting) < LEAST or max(each.operands[1].shape[0] for each in fitting) > TALLEST:
            return [], None
        fitting.sort(key=lambda each: self.place[each.operands[1]])
        right = self.stack([each.operands[1] for each in fitting])
        left = self.stack([self.turned(each.operands[0]) for each in fitting], ordered=True)
        if right is None or left is None or not self.in_same_order(left, right, fitting):
            return [], None
        like = fitting[0]
        factors = self.turned(left[1]), right[1]
        return fitting, self.keep("product", "matmul", factors, like.shape, like.dtype)

    def in_same_order(self, left: Any, right: Any, products: list[Value]) -> bool:
        """Say whether the rows of both stacks belong together."""
        return all(
            left[0].get(where_it_is(self.turned(product.operands[0])))
            == right[0].get(where_it_is(product.operands[1]))
            for product in products
        )

    def sums(self, terms: list[Value]) -> tuple[list[Value], Value | None]:
        """Make one sum over rows of terms that are such sums, each needed here only."""
        fitting = [
            term for term in terms
            if term.kind == "reduce" and term.function == "sum" and self.free(term)
            and term.settings["axes"] == (0,) and not term.settings["keepdims"]
            and len(term.operands[0].shape) == 2 and term.operands[0].shape[0] <= TALLEST
        ]  # fmt: skip
        if len(fitting) < LEAST:
            return [], None
        stack = self.stack([each.operands[0] for each in fitting])
        if stack is None:
            return [], None
        like = fitting[0]
        settings = {**like.settings, "count": stack[1].shape[0]}
        return fitting, self.keep("reduce", "sum", (stack[1],), like.shape, like.dtype, settings)

    # Stacks -------------------------------------------------------------------------------------

    def turned(self, value: Value) -> Value:
        """Return the transpose of a matrix: what it is the transpose of, if it is one."""
        if value.kind == "view":
            (operand,) = value.operands
            offset, steps = value.where
            same = operand.where[0] == offset and operand.shape == value.shape[::-1]
            if same and operand.where[1] == steps[::-1] and operand.base is value.base:
                return operand
        view = view_of(self.keep, value, lambda x: x.transpose(), "{}.transpose()")
        assert view is not None
        return view

    def stack(
        self, parts: Sequence[Value], ordered: bool = False
    ) -> tuple[dict[Any, int], Value] | None:  # fmt: skip
        """Return matrices put below each other, and in which row each of them begins.

        Args:
            ordered: only this order will do; else one that is there already is taken.
        """
        names = [where_it_is(part) for part in parts]
        key = frozenset(names)
        size = sum(part.bytes for part in parts)
        if len(key) < len(names) or size > LARGEST:
            return None
        known = self.stacks.get(key)
        if known is not None and (not ordered or known[0] == names):
            names, value = known
            heights = {where_it_is(part): part.shape[0] for part in parts}
        else:
            heights = {name: part.shape[0] for name, part in zip(names, parts, strict=True)}
            shape = sum(heights.values()), parts[0].shape[1]
            given = [list(parts), {}]
            value = self.keep("call", np.concatenate, tuple(given), shape, parts[0].dtype)
            self.stacks.setdefault(key, (names, value))
        rows, first = {}, 0
        for name in names:
            rows[name] = first
            first += heights[name]
        return rows, value


def is_add(value: Value) -> bool:
    """Say whether a value is the sum of two arrays of its own shape."""
    return (
        value.kind == "element"
        and value.function == "add"
        and bool(value.shape)
        and all(
            isinstance(operand, Value) and operand.shape == value.shape
            for operand in value.operands
        )
    )


def where_it_is(value: Value) -> Any:
    """What makes two values the same numbers: the memory that they show, and how."""
    offset, steps = value.where
    return id(value.base), offset, steps, value.shape


def in_order(values: list[Value], place: dict[Value, tuple[int, int]]) -> list[Value]:
    """Sort values so that each comes after what it needs; of those that can, the first."""
    known = set(values)
    users: dict[Value, list[Value]] = {value: [] for value in values}
    missing = dict.fromkeys(values, 0)
    for value in values:
        for each in dict.fromkeys(operands_of(value)):
            if each in known:
                users[each].append(value)
                missing[value] += 1
    ready = [(place[value], value) for value in values if not missing[value]]
    heapq.heapify(ready)
    found = []
    while ready:
        _, value = heapq.heappop(ready)
        found.append(value)
        for user in users[value]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (place[user], user))
    return found
