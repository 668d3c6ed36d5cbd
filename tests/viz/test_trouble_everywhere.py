"""Each sentence of the diagnostics: found in a script and in a kernel, with its line and a name."""

import re
import sys
import warnings

import pytest

from edutorch import viz
from edutorch.viz.diagnostics.messages import MESSAGES
from edutorch.viz.live.layer_health import FINE, GAUGE_MESSAGES
from edutorch.viz.live.step_graph import StepGraph
from tests.viz import correct_networks, trouble_cases_of_loops
from tests.viz.correct_loops import LOOPS
from tests.viz.gauge_cases import GAUGE_CASES, gauges_of
from tests.viz.trouble_cases import CASES
from tests.viz.viewers import PLACES

assert correct_networks and trouble_cases_of_loops  # which have added theirs to the lists


def is_op_of_pictures(frame):
    """Whether the op that is being recorded was called from `edutorch.viz` itself."""
    through_op = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("edutorch"):
            return False
        in_pictures = module.startswith("edutorch.viz")
        if in_pictures and through_op:
            return True
        through_op |= not in_pictures
        frame = frame.f_back
    return False


@pytest.fixture(autouse=True)
def ops_of_pictures(monkeypatch):
    """See that a diagnosis computes on arrays: an op on a tensor would be drawn as the user's."""
    record, wrong = StepGraph.record, []

    def watched(self, op, *arguments, **settings):
        if is_op_of_pictures(sys._getframe(1)):
            wrong.append(op.name)
        return record(self, op, *arguments, **settings)

    monkeypatch.setattr(StepGraph, "record", watched)
    yield
    assert wrong == []


@pytest.mark.parametrize("kind", MESSAGES)
def test_each_sentence_has_a_case(kind):
    assert any(case.kind == kind for case in CASES)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code.__name__)
def test_it_is_found_and_names_its_line(case, place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = case.code(PLACES[place])
    findings = told.findings if isinstance(told, viz.Report) else told.trouble.findings.values()
    said = [item for item in findings if item.kind == case.kind]
    assert said, f"not found, but {[str(item) for item in findings]}"
    text = str(said[0])
    assert case.word in text
    if case.line:
        assert said[0].line.startswith("trouble_cases"), text
        assert case.line in said[0].line, text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_nothing_is_said_of_a_correct_loop(loop, place):
    view = loop(PLACES[place])
    assert not view.trouble.findings, view.trouble.text()
    assert view.step
    told = gauges_of(view).patch()
    assert told is None or told["words"] == [FINE]


def test_there_are_many_correct_loops():
    assert len(LOOPS) >= 30


# Gauges -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GAUGE_MESSAGES)
def test_each_sentence_of_the_gauges_has_a_case(kind):
    assert kind in GAUGE_CASES


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", GAUGE_CASES)
def test_the_gauges_say_it_and_name_a_layer(kind, place):
    code, name = GAUGE_CASES[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        view = code(PLACES[place])
    words = gauges_of(view).patch()["words"]
    fixed = max(re.split(r"\{.*?\}", GAUGE_MESSAGES[kind]), key=len)
    said = [word for word in words if fixed in word]
    assert said, words
    assert name in said[0]
