"""The mutation testing tool: which mutants it makes, and whether tests kill them."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants import areas, draw, javascript, operators, running, update

SOURCE = '''
def scaled(numbers, eps=1e-6):
    """Return numbers / (their mean + eps)."""
    if not len(numbers):
        return []
    numbers = numbers.copy()
    total = sum(numbers, start=0)
    for index in range(len(numbers)):
        numbers[index] = numbers[index] / (total + eps)
    numbers.sort()
    return numbers if total < 5 and numbers[0] == 1 else softmax(numbers, dim=1)
'''

PLANTED = {
    "missing guard": "if False:", "missing copy": "numbers = numbers\n", "eps": "/ (total)",
    "dropped setting": "sum(numbers, )", "off by one": "range((len(numbers)) - 1)",
    "sign": "numbers[index] * (total", "comparison": "total <= 5", "axis": "dim=0)",
    "missing condition": "if (total < 5) else", "dropped statement": "    None\n",
    "negation": "if (len(numbers)):",
}  # fmt: skip


@pytest.mark.parametrize("operator", PLANTED)
def test_each_kind_of_fault_is_planted(operator, tmp_path):
    path = tmp_path / "scaled.py"
    path.write_text(SOURCE)
    mutants = [mutant for mutant in operators.mutants_of(path) if mutant.operator == operator]
    planted = [mutant.plant(path.read_bytes()).decode() for mutant in mutants]
    assert any(PLANTED[operator].strip() in text for text in planted), planted
    assert all(text != SOURCE and ast.parse(text) for text in planted)
    assert all(mutant.scope == "scaled" for mutant in mutants)


def test_the_browser_code_is_planted_too(tmp_path):
    path = tmp_path / "show.js"
    path.write_text('function show(cell, name) {\n  // a === b\n  if (name === "=== x") return;\n'
                    "  cell.textContent = name;\n}\n")  # fmt: skip
    mutants = list(javascript.mutants_of(path))
    assert {mutant.operator for mutant in mutants} >= {"unescaped text", "comparison"}
    assert all(mutant.line != 2 for mutant in mutants), "a comment is no code"
    (unescaped,) = (mutant for mutant in mutants if mutant.operator == "unescaped text")
    assert "cell.innerHTML = name" in unescaped.plant(path.read_bytes()).decode()
    assert unescaped.scope == "show"


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants_again():
    once, again, other = (draw.draw(60, seed, ["amp", "optim", "widgets"]) for seed in (1, 1, 2))
    assert once == again != other
    assert all(len(mutants) >= 20 for mutants in once.values())
    assert set(areas.AREAS) >= set(once)


class Always:
    """A map of coverage that names one test for each line."""

    def __init__(self, test: str) -> None:
        self.test, self.times = test, {test: 0.1}

    def tests_of(self, path: Path, line: int) -> list[str]:
        return [self.test]


@pytest.mark.slow
def test_a_fault_is_killed_or_lives(tmp_path, monkeypatch):
    """In a tree of two files: a test that looks at one result of two."""
    source = tmp_path / "tree" / "edutorch" / "small.py"
    source.parent.mkdir(parents=True)
    source.write_text("def both(x):\n    return x + 1, x - 1\n")
    (tmp_path / "tree" / "tests").mkdir()
    (tmp_path / "tree" / "tests" / "test_small.py").write_text(
        "import sys; sys.path.insert(0, 'edutorch')\nimport small\n"
        "def test_one():\n    assert small.both(2)[0] == 3\n"
    )
    for module in (running, draw):
        monkeypatch.setattr(module, "ROOT", tmp_path / "tree")
    copy = running.Copy()
    try:
        verdicts = {
            mutant.old: copy.try_mutant(mutant, Always("tests/test_small.py::test_one")).killed
            for mutant in operators.mutants_of(source)
            if mutant.operator == "sign"
        }
    finally:
        copy.close()
    assert verdicts == {"+": True, "-": False}
    assert "x + 1" in source.read_text()


def test_a_function_of_many_rows_leaves_room_for_the_others():
    times = {f"a.py::test_rows[{row}]": 0.001 for row in range(running.MOST_TESTS)}
    times["a.py::test_slower"] = 0.01
    assert "a.py::test_slower" in running.choose(sorted(times, key=times.__getitem__), times)


def test_tests_are_chosen_from_every_file_and_then_by_their_time():
    times = {f"{name}::test_{number}": time for name, time in (("a.py", 0.1), ("b.py", 3.0))
             for number in range(9)}  # fmt: skip
    chosen = running.choose(sorted(times, key=times.__getitem__), times)
    assert chosen[:2] == ["a.py::test_0", "b.py::test_0"]
    assert sum(test.startswith("a.py") for test in chosen) == 9
    assert sum(times[test] for test in chosen) <= running.SECONDS


def test_a_map_follows_lines_that_have_moved(tmp_path):
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("one\ntwo\nthree\nfour\n")
    new.write_text("zero\none\ntwo, too\nfour\n")
    assert update.new_numbers(old, new) == {1: 2, 2: 3, 3: 3, 4: 4}
    assert update.new_numbers(old, old) is None
    assert update.new_numbers(old, tmp_path / "gone.py") == {}


SAMPLE = tomllib.loads(command.SAMPLE.read_text())["killed"] if command.SAMPLE.exists() else {}


@pytest.mark.slow
def test_faults_that_were_noticed_are_noticed_again():
    """Some of those that `python -m tests.mutants --sample 20` has kept may be gone by now."""
    wanted = {
        mutant: SAMPLE[draw.mutant_name(mutant)]
        for area in areas.AREAS
        if area != "widgets"
        for mutant in draw.candidates(area)
        if draw.mutant_name(mutant) in SAMPLE
    }
    names = {draw.mutant_name(mutant) for mutant in wanted}
    assert len(names) >= 0.7 * len(SAMPLE), "draw a new sample"
    alive = set(names)  # one name may stand for several places: one of them was tried
    copy = running.Copy()
    try:
        for mutant, test in wanted.items():
            name = draw.mutant_name(mutant)
            if name in alive and copy.verdict_of(mutant, copy.python_command([test])).killed:
                alive.remove(name)
    finally:
        copy.close()
    assert alive == set()


def test_those_that_change_nothing_are_named_with_the_reason():
    for name, reason in command.equivalents().items():
        assert "->" in name and len(reason) > 10


def test_the_table_says_which_area_is_below_the_goal():
    mutant = operators.Mutant(Path("x.py"), "sign", 1, 0, 1, "+", "-", "")
    verdicts = [running.Verdict(mutant, killed, "") for killed in (True, False)]
    assert "| amp | 2 | 1 | 50% (below the goal) |" in command.table({"amp": verdicts})
