"""The exercises of `notebooks/02_backprop_by_hand.ipynb`."""

import edutorch as torch
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


class SoftmaxGradient(Exercise):
    """The gradient of softmax and cross entropy."""

    id = "02.softmax"
    notebook, cell = "02_backprop_by_hand", "cell-37"
    points = 2
    names = ("gradient_of_logits",)
    forbid = frozenset({"cross_entropy", "nll_loss"})

    def cases(rng):
        for size in (2, 4, 7):
            yield {"z": rng.normal(size=size) * 3, "right": int(rng.integers(size))}

    def answer(theirs, z, right):
        return theirs.gradient_of_logits(torch.tensor(z), right)

    def right(z, right):
        logits = torch.tensor(z, requires_grad=True)
        F.cross_entropy(logits[None], torch.tensor([right])).backward()
        return logits.grad

    hints = (
        Hint(
            "nothing is computed yet: write one or two lines that use `z` and `right`",
            lambda attempt: attempt.is_close(torch.zeros_like(attempt.right)),
        ),
        Hint(
            "all numbers are right but one: compare that of the right class with its probability",
            lambda attempt: (
                attempt.has_right_type and ((attempt.value - attempt.right).abs() > 1e-6).sum() == 1
            ),
            mark="softmax",
        ),
        Hint(
            "every sign is the wrong way round: the loss falls where the logit of the right class "
            "rises",
            lambda attempt: attempt.is_close(-attempt.right),
        ),
    )
    mutants = (
        Mutant("def gradient_of_logits(z, right): return torch.zeros_like(z)", hint=0),
        Mutant("def gradient_of_logits(z, right): return z.softmax(0)", hint=1),
        Mutant(
            """\
def gradient_of_logits(z, right):
    result = -z.softmax(0)
    result[right] += 1
    return result
""",
            hint=2,
        ),
        Mutant("def gradient_of_logits(z, right): return z.softmax(0)[right] - 1"),
    )
    starter = """\
def gradient_of_logits(z, right):
    return torch.zeros_like(z)  # your code: one or two lines, no autograd
"""
    solution = """\
def gradient_of_logits(z, right):
    result = z.softmax(0)
    result[right] -= 1  # what it said, minus what is true
    return result
"""
