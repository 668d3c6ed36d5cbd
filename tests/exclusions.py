"""All exclusions of the op tests, with their reasons: `python -m tests.exclusions`.

The reasons are in the case files, next to the cases; here they are collected.
"""

from __future__ import annotations

from collections.abc import Iterator

from edutorch.core.op import REGISTRY
from tests import op_calls
from tests.op_cases import (
    CASES,
    EXCLUDED,
    INTERNAL,
    LAYOUT_MATTERS,
    ODD_SHAPES,
    OTHER_TYPES,
    WIDER,
    Case,
)  # fmt: skip
from tests.op_cases_extremes import EXTREME_DIFFERENCES

Row = tuple[str, str, str]


def shown(case: Case) -> str:
    """Return a short description of a case: tensor shapes and settings."""

    def word(value: object) -> str:
        shape = getattr(value, "shape", None)
        return repr(value) if shape is None else f"{tuple(shape)}"

    parts = [f"{key}={word(value)}" for key, value in case.items() if key != "only_values"]
    return ", ".join(parts)[:90]


def exclusions() -> Iterator[Row]:
    """Yield the exclusions: the category of test, the op, the reason."""
    yield from (("all tests", name, reason) for name, reason in EXCLUDED.items())
    yield from (("values against PyTorch", name, reason) for name, reason in INTERNAL.items())
    for (name, dtype), reason in OTHER_TYPES.items():
        yield f"PyTorch's result for {dtype}", name, reason
    for (name, dtype), reason in WIDER.items():
        yield f"PyTorch's refusal of {dtype}", name, reason
    yield from (("other layouts", name, reason) for name, reason in LAYOUT_MATTERS.items())
    yield from (("odd shapes", name, reason) for name, reason in ODD_SHAPES.items())
    for name, parts in EXTREME_DIFFERENCES.items():
        for part, reason in parts.items():
            yield f"{part} at extremes", name, reason
    for name, cases in CASES.items():
        for case in cases:
            if "only_values" in case:
                yield "derivatives", f"{name}({shown(case)})", case["only_values"]
    for name, op in REGISTRY.items():
        for input in op.rules:
            if op_calls.refuses(op, input):
                yield f"the derivative by `{input}`", name, "the op itself refuses, and says why"


def module_exclusions() -> Iterator[Row]:
    """Yield the exclusions of the module, optimizer and scheduler tests."""
    from tests import test_every_module, test_every_optimizer, test_every_scheduler
    from tests.nn import test_every_part_of_module

    for category, names in (
        ("modules", test_every_module.EXCLUDED),
        ("the first numbers of modules", test_every_module.WITHOUT_START),
        ("isinstance as in PyTorch", test_every_module.OTHER_FAMILY),
        ("members of Module", test_every_part_of_module.EXCLUDED),
        ("optimizers", test_every_optimizer.EXCLUDED),
        ("groups of optimizers", test_every_optimizer.WITHOUT_GROUPS),
        ("schedulers", test_every_scheduler.EXCLUDED),
    ):
        yield from ((category, name, reason) for name, reason in names.items())
    for name, (tolerance, reason) in test_every_optimizer.ROUGH.items():
        yield f"steps closer than {tolerance:g}", name, reason
    for case in test_every_module.EVERY:
        if case.only_values:
            yield "derivatives of modules", str(case), case.only_values
        if case.random:
            yield "values while training", str(case), f"{case.random}: compared as distributions"


def listing() -> str:
    """Return the exclusions as a table, one per line."""
    rows = sorted([*exclusions(), *module_exclusions()])
    wide = max(len(category) for category, _, _ in rows)
    lines = [f"{category:{wide}}  {name}: {reason}" for category, name, reason in rows]
    return "\n".join([*lines, f"{len(rows)} exclusions"])


if __name__ == "__main__":
    print(listing())
