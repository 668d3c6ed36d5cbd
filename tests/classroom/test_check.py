"""`edutorch.check` in a notebook: right, or a hint with the student's own graph."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time

import pytest

import edutorch as torch
from edutorch.classroom import notebook
from edutorch.classroom.exercise import Exercise, Hint, SpecError
from edutorch.classroom.time_limit import call_in_time
from edutorch.nn import functional as F
from edutorch.viz.backward_walk.walk import WalkError

HALF_WRONG = "def gradient_of_logits(z, right):\n    return z.softmax(0)"


@pytest.fixture(autouse=True)
def no_attempts():
    notebook.progress.clear()


def defined(code):
    names = {"torch": torch}
    exec(code, names)
    return names


def test_a_right_answer():
    exercise = notebook.find_exercise("02.softmax")
    feedback = torch.check("02.softmax", defined(exercise.solution))
    assert feedback.is_right
    assert repr(feedback) == "✓ 02.softmax: right, 3 of 3 cases"
    assert feedback.drawing is None and feedback.solution == ""


def test_each_attempt_gets_the_next_hint_and_the_last_the_solution():
    names = defined(HALF_WRONG)
    first, second, third = (torch.check("02.softmax", names, seed=1) for _ in range(3))
    assert first.advice.mark == "softmax"
    assert str(second).startswith("✗ 02.softmax, attempt 2: answer is [")
    assert third.solution == notebook.find_exercise("02.softmax").solution
    assert "attempt 3. A solution" in str(third)


def test_another_mistake_gets_its_own_first_hint():
    torch.check("02.softmax", defined(HALF_WRONG), seed=1)
    nothing = "def gradient_of_logits(z, right):\n    return torch.zeros_like(z)"
    assert "nothing is computed yet" in str(torch.check("02.softmax", defined(nothing), seed=1))


def test_after_a_right_answer_the_hints_begin_anew():
    exercise = notebook.find_exercise("02.softmax")
    texts = []
    for code in (HALF_WRONG, exercise.solution, HALF_WRONG):
        texts.append(str(torch.check("02.softmax", defined(code), seed=1)))
    assert texts[0] == texts[2]


def test_the_names_are_those_of_the_caller():
    scope = {"edutorch": torch}
    exec(HALF_WRONG + "\nfeedback = edutorch.check('02.softmax', seed=1)", scope)
    assert not scope["feedback"].is_right
    assert scope["feedback"].advice.mark == "softmax"


def test_the_box_of_the_hint_is_marked_in_colour_outline_and_words():
    feedback = torch.check("02.softmax", defined(HALF_WRONG), seed=1)
    drawing = feedback.drawing
    (marked,) = [node for node in drawing.snapshot.graph.nodes if "look here" in node.label]
    assert marked.label.startswith("softmax") and drawing.snapshot.bad == (marked.id,)
    assert drawing.caption.startswith("expected 2 float64 of norm ")
    data, metadata = feedback._repr_mimebundle_()
    assert "look here" in data["text/plain"] and drawing.caption in data["text/plain"]
    assert "data:image/svg+xml" in data["text/html"]
    assert metadata["edutorch"] == {"exercise": "02.softmax", "attempts": 1, "right": False}


def marked(id, code):
    """Return the feedback on a wrong answer, and what its text says."""
    exercise = notebook.find_exercise(id)
    names = defined(exercise.before + "\n" + code)
    feedback = torch.check(id, names, seed=1)
    return feedback, feedback._repr_mimebundle_()[0]["text/plain"]


def test_the_marked_box_is_compared_with_that_of_a_solution():
    mutant = notebook.find_exercise("05.normalise").mutants[2].code
    state = torch.get_rng_state()
    feedback, text = marked("05.normalise", mutant)
    shape = r"3×1 float64 of norm \d\.\d+, gradient of norm 0\.\d+"
    assert re.search(f"sqrt: expected {shape}; got {shape}$", feedback.drawing.caption)
    assert feedback.drawing.caption in text
    assert torch.equal(torch.get_rng_state(), state), "the student's random numbers"


def test_a_box_that_no_solution_has_is_not_compared():
    feedback, _ = marked("05.carry", "def carry(state): return state.clone()")
    assert feedback.advice.mark == "clone" and "clone" not in feedback.drawing.caption


WALKS = {
    "an op": ("05.carry", "def carry(state): return state.clone()", "clone"),
    "a class of the student's": ("02.centre", None, "Centre"),
    "nothing before it": ("05.carry", "def carry(state): return state", "tanh"),
}


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_begins_at_the_marked_box(name):
    id, code, mark = WALKS[name]
    feedback, text = marked(id, code or notebook.find_exercise(id).mutants[1].code)
    assert feedback.advice.mark == mark and feedback.can_walk
    assert text.endswith("_.walk() in the next cell steps through backward, beginning at this box")
    walk = feedback.walk()
    assert mark in str(walk.station) and walk.station.number == walk.position
    assert "→ x" in str(walk) or "w" in walk.chart.names, "leaves have names"
    walk.finish()


def test_a_walk_goes_from_the_result_where_no_backward_was_asked_for():
    spec(answer=lambda theirs, x: theirs.f(torch.tensor(1.0, requires_grad=True)), hints=(
        Hint("never", lambda attempt: True, mark="exp"),))  # fmt: skip
    feedback = notebook.check("99.made", {"f": lambda x: (x * 2).exp() + 1})
    assert [station.name for station in [feedback.walk().station]] == ["exp"]


def test_without_gradients_there_is_no_walk():
    feedback, text = marked("02.softmax", HALF_WRONG)
    assert not feedback.can_walk and "walk" not in text
    with pytest.raises(WalkError, match=r"nothing in the answer to 02\.softmax has a gradient"):
        feedback.walk()


def test_a_long_name_leaves_room_for_the_mark():
    spec(answer=lambda theirs, x: theirs.f(torch.tensor([0.5])), right=lambda x: 1)

    def f(x):
        the_loss_of_this_step = F.binary_cross_entropy_with_logits(x, x)
        return the_loss_of_this_step

    feedback = notebook.check("99.made", {"f": f})
    assert "◀ look here" in feedback.drawing.table() and "◀ look here" in feedback.drawing.svg


def test_a_closed_group_does_not_hide_the_mark():
    mutant = notebook.find_exercise("10.occlusion").mutants[0].code
    feedback, text = marked("10.occlusion", mutant)
    assert len(feedback.drawing.whole.graph.nodes) > 500
    assert "◀ look here" in text and "◀ look here" in feedback.drawing.svg


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("no")


def test_an_answer_that_cannot_be_printed():
    spec(answer=lambda theirs, x: [torch.tensor(1.0) + x, theirs.f(x)][1])
    feedback = notebook.check("99.made", {"f": lambda x: Unspeakable()})
    assert feedback.drawing.caption == "expected 1; got Unspeakable"


MISTAKES = {
    "an error": (
        "def gradient_of_logits(z, right):\n    return z[right + 10]",
        "your code raised DimError: index: index 10 is out of bounds",
    ),
    "no definition": ("", "your code raised NameError: name 'gradient_of_logits' is not defined"),
    "a forbidden function": (
        "from edutorch.nn import functional\n"
        "def gradient_of_logits(z, right):\n"
        "    z = z.requires_grad_()\n"
        "    getattr(functional, 'cross_' + 'entropy')(z[None], torch.tensor([right])).backward()\n"
        "    return z.grad",
        "write it without `cross_entropy`",
    ),
    "another type": (
        "def gradient_of_logits(z, right):\n    return z.softmax(0).tolist()",
        "the type of answer is list, expected Tensor",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_bad_answers_get_one_sentence(name):
    code, sentence = MISTAKES[name]
    feedback = torch.check("02.softmax", defined(code), seed=1)
    assert sentence in str(feedback)
    assert sentence in feedback._repr_mimebundle_()[0]["text/plain"], "with what can be drawn"


def test_an_unknown_exercise_names_the_nearest():
    with pytest.raises(
        SpecError, match=r"there is no exercise '02.softmx'\n  hint: try 02.softmax"
    ):
        torch.check("02.softmx")


def spec(**changes):
    block = {
        "id": "99.made", "notebook": "99", "cell": "c", "names": ("f",), "solution": "",
        "cases": lambda rng: iter([{"x": 1}]), "answer": lambda theirs, x: theirs.f(x),
        "right": lambda x: x,
    }  # fmt: skip
    block |= changes
    return type("Made", (Exercise,), {k: v for k, v in block.items() if v is not None})


BAD_SPECS = {
    "an id": ({"id": "softmax"}, "an id is like '02.softmax'"),
    "something is missing": ({"right": None}, "an exercise needs `right`"),
    "no import": ({"answer": lambda theirs, x: nn.Identity()(x)}, "`answer` uses nn: import"),  # noqa: F821
    "a global": ({"answer": lambda theirs, x: secret + x}, "`answer` uses secret"),  # noqa: F821
}


@pytest.mark.parametrize("name", BAD_SPECS)
def test_a_bad_spec_is_refused(name):
    changes, sentence = BAD_SPECS[name]
    with pytest.raises(SpecError, match=sentence):
        spec(**changes)


def test_an_answer_may_use_builtins_and_define_a_class():
    def answer(theirs, x):
        class Model(torch.nn.Module):
            def forward(self, x):
                return sum(range(len(x))) + theirs.f(x)

        return Model()([x])

    assert spec(answer=answer).answer is answer


def test_an_answer_may_read_what_earlier_cells_define():
    spec(
        answer=lambda theirs, x: theirs.f(x) + torch.tensor(theirs.shift), reads=("shift",),
        right=lambda x: torch.tensor(3),
    )  # fmt: skip
    feedback = notebook.check("99.made", {"f": lambda x: x, "shift": 1})
    assert "add ◀ look here" in feedback._repr_mimebundle_()[0]["text/plain"]


def test_a_case_is_plain_data():
    made = spec(cases=lambda rng: iter([{"x": [torch.ones(1)]}]))
    with pytest.raises(SpecError, match="case 'x' holds a Tensor"):
        made.draw_cases(0)
    with pytest.raises(SpecError, match="yields nothing"):
        spec(cases=lambda rng: iter([])).draw_cases(0)


def test_a_hint_that_fails_is_no_hint():
    hint = Hint("never", lambda attempt: attempt.value.no_such_thing)
    made = spec(hints=(hint,))
    names = {"f": lambda x: x + 1}
    assert str(notebook.check("99.made", names)) == "✗ 99.made, attempt 1: answer is 2, expected 1"
    assert made.points == 1


def test_leaves_have_the_names_of_the_students_variables():
    names = defined("def gradient_of_B(A, B, C, G):\n    return A.T @ G")
    graph = torch.check("02.product", names, seed=1).outcome.attempt.graph
    assert graph.find("A") is not None and graph.find("G") is not None
    assert not {"B", "C"} & {box.label for box in graph.boxes}


def test_an_error_of_any_type_leaves_the_picture_up_to_it():
    names = defined("def gradient_of_logits(z, right):\n    return z.softmax(0) / {}['right']")
    feedback = torch.check("02.softmax", names, seed=1)
    data, _ = feedback._repr_mimebundle_()
    assert "your code raised KeyError: 'right'" in data["text/plain"]
    assert [node.label for node in feedback.drawing.snapshot.graph.nodes if node.kind == "op"]


def test_a_hint_comes_without_the_warnings_that_it_explains(recwarn):
    exercise = notebook.find_exercise("05.normalise")
    feedback = torch.check("05.normalise", defined(exercise.starter), seed=1)
    assert "0 is divided by 0" in str(feedback) and feedback.drawing is not None
    assert not recwarn.list


def test_of_a_dict_the_part_that_differs_is_described():
    names = defined(notebook.find_exercise("02.centre").starter)
    feedback = torch.check("02.centre", names, seed=1)
    caption = feedback.drawing.caption
    assert caption.startswith("answer['gradient']: expected 4×3 float64 of norm ")
    attempt = feedback.outcome.attempt
    assert attempt.is_close(torch.tensor(attempt.case["g"]), "gradient")
    assert not attempt.is_close(attempt.right["gradient"], "gradient")


def test_an_answer_may_use_builtins():
    assert spec(answer=lambda theirs, x: float(theirs.f(x)))


def loops(z, right):
    while True:
        z = z + 0


def loops_in_no_grad(z, right):
    while True:
        with torch.no_grad():
            z = z + 0


def loops_and_ignores(z, right):
    for _ in range(3):
        with contextlib.suppress(BaseException):
            while True:
                z = z + 0
    return z


@pytest.mark.parametrize("answer", [loops, loops_in_no_grad, loops_and_ignores])
def test_a_loop_without_end_is_interrupted(monkeypatch, answer):
    monkeypatch.setattr(notebook, "LIMIT", 0.3)
    feedback = torch.check("02.softmax", {"gradient_of_logits": answer}, seed=1)
    assert not feedback.is_right
    assert "Is there a loop that does not end?" in repr(feedback)
    assert feedback.drawing is None
    assert torch.is_grad_enabled()
    assert feedback._repr_mimebundle_()


def test_the_run_for_the_picture_has_a_limit_too(monkeypatch):
    is_checked = threading.Event()

    def loops_when_drawn(z, right):
        while is_checked.is_set():
            z = z + 0
        return z

    feedback = torch.check("02.softmax", {"gradient_of_logits": loops_when_drawn}, seed=1)
    assert not feedback.outcome.attempt.error
    is_checked.set()
    monkeypatch.setattr(notebook, "LIMIT", 0.3)
    assert feedback.drawing is None


def test_ctrl_c_is_still_ctrl_c():
    def pressed(z, right):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        torch.check("02.softmax", {"gradient_of_logits": pressed}, seed=1)


def test_a_block_in_time_is_left_alone():
    for seconds in (0.02, 0.03, 0.04) * 5:
        with contextlib.suppress(TimeoutError):
            call_in_time(seconds, lambda: time.sleep(0.03))  # about when it is interrupted
    time.sleep(0.1)  # nothing comes afterwards
