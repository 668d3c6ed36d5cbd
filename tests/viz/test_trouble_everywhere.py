"""Each sentence of the diagnostics: found in a script and in a kernel, with its line and a name."""

import warnings

import pytest

from edutorch import viz
from edutorch.viz.trouble_words import WORDS
from tests.viz.correct_loops import LOOPS
from tests.viz.trouble_cases import CASES
from tests.viz.viewers import PLACES


@pytest.mark.parametrize("kind", WORDS)
def test_each_sentence_has_a_case(kind):
    assert any(case.kind == kind for case in CASES)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code.__name__)
def test_it_is_found_and_names_its_line(case, place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = case.code(PLACES[place])
    found = told.findings if isinstance(told, viz.Report) else told.trouble.found.values()
    said = [each for each in found if each.kind == case.kind]
    assert said, f"not found, but {[str(each) for each in found]}"
    text = str(said[0])
    assert case.word in text
    if case.line:
        assert said[0].line.startswith("trouble_cases.py:"), text
        assert case.line in said[0].line, text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_nothing_is_said_of_a_correct_loop(loop, place):
    view = loop(PLACES[place])
    assert not view.trouble.found, view.trouble.text()
    assert view.step


def test_there_are_many_correct_loops():
    assert len(LOOPS) >= 30
