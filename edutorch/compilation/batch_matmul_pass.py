"""Combines many small matrix products into a large one, where a loop repeats a layer.

A recurrent network multiplies by the same weights in each step. If the inputs of all steps are
known beforehand, one product of all of them is enough:

    x₁ W,  x₂ W,  …                  →   the rows of  stack(x₁, x₂, …) W

And the gradient of such weights is a sum over the steps, which a product computes by itself:

    g₁ᵀ x₁ + g₂ᵀ x₂ + …              →   stack(g₁, g₂, …)ᵀ stack(x₁, x₂, …)
    Σ g₁ + Σ g₂ + …   (of a bias)    →   Σ stack(g₁, g₂, …)

A large product takes less time than the small ones, and no intermediate sums are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .symbols import make_view
from .values import Program, Value, contiguous_steps, operands_of, topological_order

__all__ = ["stack_products"]

MIN_PRODUCTS = 3
"""The smallest number of products for which copying their factors pays."""
MAX_ROWS = 512
"""Products of more rows are large enough already."""
MAX_STACK_BYTES = 2**25
"""The largest size in bytes of a stack, or of its product."""
LAST_POSITION = 1 << 60

Stack = tuple[dict[Any, int], Value]
"""A stack of matrices: the row in which each begins, by its `memory_key`, and the stack itself."""


def stack_products(program: Program) -> bool:
    """Combine the products of a program where possible; return whether any were."""
    stacker = ProductStacker(program)
    stacker.join_rows()
    stacker.join_sums()
    program.values = stacker.values
    return stacker.changed


class ProductStacker:
    """Finds products that can be combined. A replaced value is turned into another one in place."""

    def __init__(self, program: Program) -> None:
        self.values = list(program.values)
        positions = enumerate((*program.inputs, *program.values))
        # A new value comes just before the one that it is made for: (its place, a number below 0).
        self.position: dict[Value, tuple[int, int]] = {value: (i, 0) for i, value in positions}
        self.outputs = set(operands_of(program.outputs))  # an output must stay an array of its own
        self.stacks: dict[frozenset[Any], tuple[list[Any], Value]] = {}
        self.like: Any = None  # what new values are made for
        self.changed = False

    def make_value(
        self, kind: str, function: Callable[..., Any] | str, operands: tuple[Any, ...],
        shape: tuple[int, ...], dtype: np.dtype | None, settings: dict[str, Any] | None = None,
    ) -> Value:  # fmt: skip
        """Add a value, positioned just before the one that it is made for."""
        node = self.like.node
        value = Value(kind, function, tuple(operands), tuple(shape), dtype, settings or {}, node)
        # Negative, and growing: in the order of creation, all of them before (place, 0).
        self.position[value] = self.position[self.like][0], len(self.values) - LAST_POSITION
        self.values.append(value)
        return value

    # Rows of one product ----------------------------------------------------------------------

    def join_rows(self) -> None:
        """Combine products with the same right factor whose left factors need none of them."""
        groups: dict[Any, list[Value]] = {}
        for value in self.values:
            if value.kind == "product" and value.shape[0] <= MAX_ROWS:
                # The same view of the same memory, even if it was made twice.
                groups.setdefault(memory_key(value.operands[1]), []).append(value)
        for group in groups.values():
            # In h = tanh(x W + h U), all x W are independent; each h U needs the h before it.
            free = self.independent_products(group) if len(group) >= MIN_PRODUCTS else []
            if len(free) >= MIN_PRODUCTS:
                self.merge_products(free)

    def independent_products(self, group: list[Value]) -> list[Value]:
        """Return the products whose left factors need none of the group."""
        inside = set(group)
        dependent: set[Value] = set()
        for value in self.values:
            if any(operand in inside or operand in dependent for operand in operands_of(value)):
                # Values are in topological order, so one pass finds all that depend on the group.
                dependent.add(value)
        return [operand for operand in group if operand.operands[0] not in dependent | inside]

    def merge_products(self, products: list[Value]) -> None:
        """Compute products with the same right factor as one; each becomes a part of its rows."""
        _, right = products[0].operands
        columns, dtype = right.shape[1], right.dtype
        # The order of the rows is free here; in that of the program, existing stacks are met again.
        parts = sorted((product.operands[0] for product in products), key=self.position.__getitem__)
        self.like = products[0]
        stack = (
            self.make_stack(parts)
            if sum(product.bytes for product in products) <= MAX_STACK_BYTES
            else None
        )
        if stack is None:
            return
        rows, whole = stack
        y = self.make_value("product", "matmul", (whole, right), (whole.shape[0], columns), dtype)
        # x W + b for all steps: then the bias is added once, to the large product.
        bias, sums_with_bias = self.common_bias(products)
        if bias is not None:
            y = self.make_value("element", "add", (y, bias), y.shape, dtype)
        for product, value in zip(
            products, products if bias is None else sums_with_bias, strict=True
        ):
            first = rows[memory_key(product.operands[0])]
            last = first + value.shape[0]
            # Turned in place: its readers keep their operand.
            value.kind, value.function, value.operands = "view", None, (y,)
            value.settings = {
                "base": y, "offset": first * columns, "steps": contiguous_steps(value.shape),
                "text": f"{{}}[{first}:{last}]",
            }  # fmt: skip
        self.rebase()
        self.values = self.sorted_values()
        self.changed = True

    def common_bias(self, products: list[Value]) -> tuple[Value | None, list[Value]]:
        """Return the bias that is added to all products, and the sums; None if there is none."""
        sums = [value.users[0] for value in products if self.is_private(value)]
        # All of them, or none: a half-stacked layer would need both forms.
        fitting = [sum_ for sum_ in sums if sum_.function == "add" and sum_.kind == "element"]
        if len(fitting) < len(products):
            return None, []
        candidates = {
            operand for value, product in zip(sums, products, strict=True)
            for operand in value.operands if operand is not product and value.shape == product.shape
        }  # fmt: skip
        bias = candidates.pop() if len(candidates) == 1 else None
        # A bias that is computed might need one of the products.
        flat = isinstance(bias, Value) and bias.kind == "input" and len(bias.shape) == 1
        return (bias, sums) if flat else (None, [])

    def sorted_values(self) -> list[Value]:
        """Return the values in topological order, and else in the order of their positions."""
        return topological_order(
            self.values, lambda value: dict.fromkeys(operands_of(value)), self.position.__getitem__
        )

    def rebase(self) -> None:
        """Rebase views of values that have become views themselves."""
        for value in self.values:
            # A view refers to the owner of its memory, never to another view.
            if value.kind != "view" or value.base.kind != "view":
                continue
            base = value.base
            offset, steps = value.layout
            shift = {**value.settings, "base": base.base, "offset": base.layout[0] + offset}
            value.settings = shift | {"steps": steps}  # parts of rows lie in order, as wholes do

    # Sums of products -------------------------------------------------------------------------

    def join_sums(self) -> None:
        """Combine the terms of each long sum: matrix products, and sums over rows."""
        # Of g₁ + g₂ + g₃ only the last `+` is a sum of its own.
        inner = {part for value in self.values if is_add(value) for part in self.inner_sums(value)}
        # The others are inside of one of these.
        sums = [value for value in self.values if is_add(value) and value not in inner]
        long_sums = [(sum_, self.terms(sum_)) for sum_ in sums]
        # Products first: their stacks are used again for the sums over rows of the bias.
        long_sums.sort(key=lambda pair: pair[1][-1].kind != "product")
        for value, terms in long_sums:
            if len(terms) >= MIN_PRODUCTS:
                self.join_terms(value, terms)
        self.values = self.sorted_values()

    def inner_sums(self, value: Value) -> list[Value]:
        """Return the operands of a sum that are sums themselves, and not used elsewhere."""
        return [
            operand for operand in operands_of(value)
            if is_add(operand) and operand.shape == value.shape and self.is_private(operand)
        ]  # fmt: skip

    def is_private(self, value: Value) -> bool:
        """Whether a value has one reader, and is not an output."""
        return len(value.users) == 1 and value not in self.outputs

    def terms(self, value: Value) -> list[Value]:
        """Return the terms of a sum, in order."""
        terms_: list[Value] = []
        pending = [value]
        while pending:
            term = pending.pop()
            if term is value or (
                is_add(term) and term.shape == value.shape and self.is_private(term)
            ):
                pending += reversed(term.operands)  # the stack pops the left operand first
            else:
                terms_.append(term)
        return terms_

    def join_terms(self, total: Value, terms: list[Value]) -> None:
        """Replace terms that can be combined; the others are added to them as before."""
        self.like = total
        known = set(terms)
        for joined in (self.join_products, self.join_row_sums):
            fitting, result = joined(terms)
            if result is not None:
                terms = [result, *(term for term in terms if term not in fitting)]
        if known.issuperset(terms):  # nothing could be combined
            return
        self.changed = True
        *others, last = terms
        if not others:
            self.values.remove(last)  # the sum becomes what its only term is
            total.kind, total.function, total.operands = last.kind, last.function, last.operands
            total.settings = last.settings
            return
        y = others[0]
        for other in others[1:]:
            y = self.make_value("element", "add", (y, other), total.shape, total.dtype)
        total.operands = (y, last)

    def join_products(self, terms: list[Value]) -> tuple[list[Value], Value | None]:
        """Combine the terms that are products, each used only here, into one product."""
        fitting = [term for term in terms if term.kind == "product" and self.is_private(term)]
        if (
            len(fitting) < MIN_PRODUCTS
            or max(product.operands[1].shape[0] for product in fitting) > MAX_ROWS
        ):
            return [], None
        # Both stacks have to list the steps in one order.
        fitting.sort(key=lambda product: self.position[product.operands[1]])
        # It may be a stack that the forward pass has made: then its order counts.
        right = self.make_stack([product.operands[1] for product in fitting])
        left = self.make_stack(
            [self.transpose_of(product.operands[0]) for product in fitting], ordered=True
        )
        # Σ aᵢᵀ bᵢ pairs row i of one stack with row i of the other.
        if right is None or left is None or not self.has_same_order(left, right, fitting):
            return [], None
        like = fitting[0]
        factors = self.transpose_of(left[1]), right[1]
        return fitting, self.make_value("product", "matmul", factors, like.shape, like.dtype)

    def has_same_order(self, left: Stack, right: Stack, products: list[Value]) -> bool:
        """Whether the rows of both stacks have the same order."""
        return all(
            left[0].get(memory_key(self.transpose_of(product.operands[0])))
            == right[0].get(memory_key(product.operands[1]))
            for product in products
        )

    def join_row_sums(self, terms: list[Value]) -> tuple[list[Value], Value | None]:
        """Combine the terms that are sums over rows, each used only here, into one."""
        fitting = [
            term for term in terms
            if term.kind == "reduce" and term.function == "sum" and self.is_private(term)
            and term.settings["axes"] == (0,) and not term.settings["keepdims"]
            and len(term.operands[0].shape) == 2 and term.operands[0].shape[0] <= MAX_ROWS
        ]  # fmt: skip
        if len(fitting) < MIN_PRODUCTS:
            return [], None
        # Often that of the products: both are sums over the same gradients.
        stack = self.make_stack([row_sum.operands[0] for row_sum in fitting])
        if stack is None:
            return [], None
        like = fitting[0]
        settings = {**like.settings, "count": stack[1].shape[0]}
        return fitting, self.make_value(
            "reduce", "sum", (stack[1],), like.shape, like.dtype, settings
        )

    # Stacks -------------------------------------------------------------------------------------

    def transpose_of(self, value: Value) -> Value:
        """Return the transpose of a matrix; of a transpose, its operand."""
        if value.kind == "view":
            (operand,) = value.operands
            offset, steps = value.layout
            same = operand.layout[0] == offset and operand.shape == value.shape[::-1]
            if same and operand.layout[1] == steps[::-1] and operand.base is value.base:
                return operand
        view = make_view(self.make_value, value, lambda x: x.transpose(), "{}.transpose()")
        assert view is not None
        return view

    def make_stack(
        self, parts: Sequence[Value], ordered: bool = False
    ) -> Stack | None:  # fmt: skip
        """Return matrices concatenated along their rows, and the row in which each begins.

        Args:
            ordered: whether the order matters; else an existing stack in another order is reused.
        """
        # Views are made anew by each reader, so identity would not do.
        names = [memory_key(part) for part in parts]
        key = frozenset(names)
        size = sum(part.bytes for part in parts)
        # The same part twice cannot be found again by its key.
        if len(key) < len(names) or size > MAX_STACK_BYTES:
            return None
        existing = self.stacks.get(key)
        if existing is not None and (not ordered or existing[0] == names):
            names, value = existing
            heights = {memory_key(part): part.shape[0] for part in parts}
        else:
            heights = {name: part.shape[0] for name, part in zip(names, parts, strict=True)}
            shape = sum(heights.values()), parts[0].shape[1]
            operands = [list(parts), {}]
            value = self.make_value("call", np.concatenate, tuple(operands), shape, parts[0].dtype)
            self.stacks.setdefault(key, (names, value))
        rows, first = {}, 0
        for name in names:
            rows[name] = first
            first += heights[name]
        return rows, value


def is_add(value: Value) -> bool:
    """Whether a value is the sum of two arrays of its own shape."""
    return (
        value.kind == "element"
        and value.function == "add"
        and bool(value.shape)
        and all(
            isinstance(operand, Value) and operand.shape == value.shape
            for operand in value.operands
        )
    )


def memory_key(value: Value) -> Any:
    """Return the key by which equal views of the same memory are recognized."""
    offset, steps = value.layout
    return id(value.base), offset, steps, value.shape
