"""The names that we define are the field's terms: some words are refused, some are counted."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house import MODULES, ROOT, parsed

SOURCES = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]

REFUSED = set(
    """
Products Spots settled settle owe may_wait hang carry_out announced Followed Heard follower
milestone be_patient without_subclass see_again link_view nobody Hand BetweenSteps Station Flow
Glance Glimpse Wire Rest Hearing Turns Post Stage let_pass rested Crew Parcel Job ByNumber
InThisProcess FromWorkers in_parts share_out bend bent leaky exponential_linear silu_of winning_tap
tap_pick tap_spread avg_spread extreme_with_index extreme_so_far nll_spread eliminated
cut_or_padded furnish
""".split()
)
"""Names that the source had once: see the field's term beside them in `git log --grep names`."""

REFUSED_FILES = set(
    """
arriving complaints room follow numbers_out memory_members sharing saving apply generate inline
tensors_only hand_over gathered curves mathematics conv_plan conv_parts conv_strips averages rows
stand_in kernel_table hand pace post turns stations glance looks hearing rest script packing meter
stage layouts lookback mirror part toy trouble gauges places reach watching traced noting own
workshop making entry beside crew parcel job failures from_workers bends softmaxes twins pairs
margins likelihoods heads resample resize sampling many_classes homes old_names along writes masks
arrange spread distinct counting about choosing precise bell_curve at_once rule cycles factors known
opcodes trusted unusual compound
""".split()
)

COUNTED = {"each", "kind", "kinds", "found", "given", "places", "numbers"}
"""Words that say little: allowed where nothing better exists, so many times in all."""

MOST = 120


@cache
def defined_names(path: Path) -> tuple[tuple[str, int], ...]:
    """Return each name that a file defines or assigns, with its line."""
    return tuple(iterate_names(path))


def iterate_names(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def test_refused_words_are_gone():
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in SOURCES
        for name, line in defined_names(path)
        if name in REFUSED
    ]
    assert not lines, "\n".join(lines)


def test_files_are_called_by_the_fields_terms():
    assert [path for path in MODULES if path.stem in REFUSED_FILES] == []


def test_words_that_say_little_are_rare():
    count = Counter(name for path in SOURCES for name, _ in defined_names(path) if name in COUNTED)
    assert count.total() <= MOST, count


def test_the_scan_sees_every_form(tmp_path):
    file = tmp_path / "words.py"
    file.write_text(
        "def f(each):\n    for kind in each:\n        found: int = kind\nclass Job: ...\n"
    )
    assert {name for name, _ in defined_names(file)} == {"f", "each", "kind", "found", "Job"}
