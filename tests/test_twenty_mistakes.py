"""The commonest mistakes of students, `student_mistakes.py`: the message names op, argument and
shapes, and its hint says what to do; code that catches PyTorch's error catches ours.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import edutorch
from tests.oracle import require_torch
from tests.student_mistakes import MISTAKES, Mistake

TITLES = [title.replace("_", " ") for title, _, _, _ in MISTAKES]


def caught(code: Mistake, torch: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  (which one is compared below)
        code(torch)
    return caught.value


@pytest.mark.parametrize(("title", "code", "says", "hint"), MISTAKES, ids=TITLES)
def test_the_mistake_is_explained(title, code, says, hint):
    text = str(caught(code, edutorch))
    assert text.startswith(says)
    assert hint in text.removeprefix(says)


@pytest.mark.oracle
@pytest.mark.parametrize(("title", "code", "says", "hint"), MISTAKES, ids=TITLES)
def test_code_that_catches_it_in_pytorch_catches_it_here(title, code, says, hint):
    theirs = caught(code, require_torch())
    error_class = next(cls for cls in type(theirs).__mro__ if cls.__module__ == "builtins")
    assert isinstance(caught(code, edutorch), error_class)


def test_there_are_twenty_and_more():
    assert len(MISTAKES) >= 20


def test_two_devices():
    x, y = edutorch.ones(2, 3), edutorch.ones(3, 2, device="strict")
    for code in (lambda: x @ y, lambda: edutorch.cat([x, y.t()]), lambda: x + y.t()):
        text = str(caught(lambda torch, code=code: code(), edutorch))
        assert "Expected all tensors to be on the same device" in text
        assert "on strict" in text
        assert ".to(device)" in text
    with pytest.raises(TypeError, match=r"numpy: can't convert a strict tensor[\s\S]*x\.cpu\(\)"):
        y.numpy()


# 7 and 8: softmax before the loss. It runs, so there is a warning.


def scores() -> Any:
    return edutorch.nn.Linear(4, 3)(edutorch.ones(2, 4))


LOSSES: dict[str, tuple[Mistake, str]] = {
    "softmax": (
        lambda torch: torch.nn.functional.cross_entropy(scores().softmax(1), torch.tensor([0, 1])),
        r"cross_entropy: `input` comes from softmax, but .* expects scores \(logits\)",
    ),
    "a module": (
        lambda torch: torch.nn.CrossEntropyLoss()(
            torch.nn.Softmax(1)(scores()), torch.tensor([0, 1])
        ),
        r"cross_entropy: `input` comes from softmax",
    ),
    "sigmoid": (
        lambda torch: torch.nn.BCEWithLogitsLoss()(scores().sigmoid(), torch.ones(2, 3)),
        r"binary_cross_entropy_with_logits: `input` comes from sigmoid",
    ),
    "no logarithm": (
        lambda torch: torch.nn.NLLLoss()(scores().softmax(1), torch.tensor([0, 1])),
        r"nll_loss: `input` comes from softmax, but nll_loss expects log-probabilities",
    ),
    "broadcasting": (
        lambda torch: torch.nn.MSELoss()(torch.ones(4, 1), torch.ones(4)),
        r"mse_loss: Using a target size .* It compares more pairs than meant; target.reshape_as",
    ),
    "T of three axes": (lambda torch: torch.ones(2, 3, 4).T, r"T: .* x\.mT transposes each"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_runs_but_is_not_meant_warns(name):
    code, text = LOSSES[name]
    with pytest.warns(UserWarning, match=text) as caught:
        code(edutorch)
    assert caught[0].filename == __file__, "the warning points at the user's line"


def test_right_code_does_not_warn():
    """Ordinary scores that happen to look like probabilities are no reason."""
    F, target = edutorch.nn.functional, edutorch.tensor([0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.cross_entropy(scores(), target)
        F.cross_entropy(edutorch.full((2, 3), 1 / 3, requires_grad=True), target)
        F.nll_loss(F.log_softmax(scores(), 1), target)
        F.nll_loss(scores().softmax(1).log(), target)
        F.cross_entropy(F.log_softmax(scores(), 1), target)  # the same, only slower
        F.binary_cross_entropy(scores().sigmoid(), edutorch.ones(2, 3))
        F.mse_loss(scores().softmax(1), edutorch.ones(2, 3))
        assert edutorch.ones(2, 3).T.shape == (3, 2)
