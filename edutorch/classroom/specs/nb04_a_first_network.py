"""The exercises of `notebooks/04_a_first_network.ipynb`."""

from typing import ClassVar

import numpy as np

import edutorch as torch
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant

# A. Cross entropy with logits --------------------------------------------------------------------


def is_loss(attempt, compute):
    """Return whether the loss is this function of the scores and the targets."""
    scores, targets = torch.tensor(attempt.case["scores"]), torch.tensor(attempt.case["targets"])
    return attempt.is_close(compute(scores, targets), "loss")


class Logits(Exercise):
    """Cross entropy with logits."""

    id = "04.logits"
    notebook, cell = "04_a_first_network", "cell-36"
    points = 2
    names = ("cross_entropy_of_logits",)
    forbid = frozenset({"cross_entropy", "log_softmax", "nll_loss", "logsumexp"})

    def cases(rng):
        for examples, classes, size in ((4, 3, 1.0), (5, 2, 2000.0), (6, 4, 20.0)):
            scores = rng.normal(size=(examples, classes)) * size
            targets = scores.argmin(1)  # all wrong: the losses are large
            targets[0] = scores[0].argmax()
            # The first row has a score whose power is infinite, if scores are large at all.
            highest = 1500.0 if size > 1000 else size
            yield {"scores": scores - scores[0].max() + highest, "targets": targets}

    def answer(theirs, scores, targets):
        scores = torch.tensor(scores, requires_grad=True)
        loss = theirs.cross_entropy_of_logits(scores, torch.tensor(targets))
        if loss.ndim == 0:
            loss.backward()
        return {"loss": loss.detach(), "gradient": scores.grad}

    def right(scores, targets):
        scores = torch.tensor(scores, requires_grad=True)
        loss = F.cross_entropy(scores, torch.tensor(targets))
        loss.backward()
        return {"loss": loss.detach(), "gradient": scores.grad}

    hints = (
        Hint(
            "NaN: the power of a large score is infinite, and infinity divided by infinity is no "
            "number; take the largest score of each row off before `exp`",
            lambda attempt: attempt.value["loss"].isnan().item(),
            mark="exp",
        ),
        Hint(
            "infinite: a probability has become 0, and then comes the logarithm; take the "
            "logarithm of the sum instead, which is at least 1",
            lambda attempt: attempt.value["loss"].isinf().item(),
            mark="log",
        ),
        Hint(
            "there is one loss for each example: their mean is wanted",
            lambda attempt: attempt.value["loss"].ndim == 1,
        ),
        Hint(
            "that is the sum over the batch: with a larger batch it gets larger, and so does each "
            "step",
            lambda attempt: is_loss(
                attempt, lambda scores, targets: F.cross_entropy(scores, targets, reduction="sum")
            ),
            mark="sum",
        ),
        Hint(
            "the sign is the wrong way round: a loss is never below 0",
            lambda attempt: is_loss(
                attempt, lambda scores, targets: -F.cross_entropy(scores, targets)
            ),
        ),
        Hint(
            "the largest score was taken off for the sum alone: the score of the right class has "
            "to come from the same shifted scores",
            lambda attempt: is_loss(
                attempt,
                lambda scores, targets: F.cross_entropy(scores, targets) - scores.amax(1).mean(),
            ),
            mark="exp",
        ),
        Hint(
            "the sum runs over the wrong axis: the classes of one example are in one row",
            lambda attempt: is_loss(
                attempt,
                lambda scores, targets: (
                    scores.logsumexp(0).mean() - scores.gather(1, targets[:, None]).mean()
                ),
            ),
            mark="sum",
        ),
    )
    starter = """\
def cross_entropy_of_logits(scores, targets):
    powers = scores.exp()
    right = powers[torch.arange(len(targets)), targets] / powers.sum(1)
    return -right.log().mean()  # repair it
"""
    solution = """\
def cross_entropy_of_logits(scores, targets):
    scores = scores - scores.amax(1, keepdim=True)
    log_sums = scores.exp().sum(1).log()
    return (log_sums - scores[torch.arange(len(targets)), targets]).mean()
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(
            starter.replace("scores.exp()", "(scores - scores.amax(1, keepdim=True)).exp()"),
            hint=1,
        ),
        Mutant(solution.replace(".mean()", ""), hint=2),
        Mutant(solution.replace(".mean()", ".sum()"), hint=3),
        Mutant(solution.replace("return (", "return -("), hint=4),
        Mutant(
            """\
def cross_entropy_of_logits(scores, targets):
    log_sums = (scores - scores.amax(1, keepdim=True)).exp().sum(1).log()
    return (log_sums - scores[torch.arange(len(targets)), targets]).mean()
""",
            hint=5,
        ),
        Mutant(
            """\
def cross_entropy_of_logits(scores, targets):
    log_sums = scores.exp().sum(0).log()
    return log_sums.mean() - scores[torch.arange(len(targets)), targets].mean()
""",
            hint=6,
        ),
        Mutant(solution.replace("log_sums - ", "log_sums + ")),
    )


# B. He against too large -------------------------------------------------------------------------


def is_spread(attempt, compute):
    """Return whether the weights have this spread, but for chance."""
    inputs, outputs = attempt.case["inputs"], attempt.case["outputs"]
    return abs(attempt.value["spread"] / compute(inputs, outputs) - 1) < 0.05


class StartWeight(Exercise):
    """He's initialisation against weights that are too large."""

    id = "04.he"
    notebook, cell = "04_a_first_network", "cell-40"
    names = ("start_weight",)
    forbid = frozenset({"kaiming_normal_", "kaiming_uniform_"})
    tolerance: ClassVar = {"float64": 0.05}  # weights are random

    def cases(rng):
        narrow, wide = int(rng.integers(60, 80)), int(rng.integers(250, 300))
        for inputs, outputs in ((narrow, wide), (3 * wide, narrow)):
            x = rng.normal(size=(32, inputs)).astype(np.float32)
            yield {"inputs": inputs, "outputs": outputs, "x": x, "seed": int(rng.integers(1000))}

    def answer(theirs, inputs, outputs, x, seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            weight = theirs.start_weight(inputs, outputs)
            signal = (torch.tensor(x) @ weight).relu()
            for _ in range(7):
                signal = (signal @ theirs.start_weight(outputs, outputs)).relu()
        spread = weight.double().std().item()
        return {
            "shape": str(tuple(weight.shape)),
            "spread": spread,
            "mean is near 0": abs(weight.mean().item()) < 0.1 * spread,
        }

    def right(inputs, outputs, x, seed):
        return {
            "shape": str((inputs, outputs)), "spread": (2 / inputs) ** 0.5, "mean is near 0": True,
        }  # fmt: skip

    hints = (
        Hint(
            "each layer makes the signal many times larger: look at the norm of the last relu; "
            "with which spread of the weights does the mean square stay the same?",
            lambda attempt: is_spread(attempt, lambda inputs, outputs: 1.0),
            mark="relu",
        ),
        Hint(
            "that would be right without a ReLU (and before tanh): a ReLU sets one half of the "
            "values to 0, and the mean square is halved",
            lambda attempt: is_spread(attempt, lambda inputs, outputs: inputs**-0.5),
            mark="relu",
        ),
        Hint(
            "how many products does one sum have? As many as there are inputs, not outputs",
            lambda attempt: is_spread(attempt, lambda inputs, outputs: (2 / outputs) ** 0.5),
            mark="relu",
        ),
        Hint(
            "2 / n is the mean *square* of the weights; their spread is its root",
            lambda attempt: is_spread(attempt, lambda inputs, outputs: 2 / inputs),
            mark="relu",
        ),
        Hint(
            "numbers that are evenly spread from -s to s have a spread of s / √3",
            lambda attempt: is_spread(attempt, lambda inputs, outputs: (2 / inputs / 3) ** 0.5),
            mark="relu",
        ),
        Hint(
            "all weights are the same: then all units compute the same, get the same gradient, "
            "and stay the same for ever",
            lambda attempt: attempt.value["spread"] == 0,
            mark="relu",
        ),
        Hint(
            "all weights have the same sign: their mean should be 0",
            lambda attempt: not attempt.value["mean is near 0"],
            mark="relu",
        ),
    )
    starter = """\
def start_weight(inputs, outputs):
    return torch.randn(inputs, outputs)  # your code: this is too large
"""
    solution = """\
def start_weight(inputs, outputs):
    return torch.randn(inputs, outputs) * math.sqrt(2 / inputs)
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("2 / inputs", "1 / inputs"), hint=1),
        Mutant(solution.replace("2 / inputs", "2 / outputs"), hint=2),
        Mutant(solution.replace("math.sqrt(2 / inputs)", "2 / inputs"), hint=3),
        Mutant(
            solution.replace(
                "torch.randn(inputs, outputs)", "(2 * torch.rand(inputs, outputs) - 1)"
            ),
            hint=4,
        ),
        Mutant("def start_weight(inputs, outputs): return torch.zeros(inputs, outputs)", hint=5),
        Mutant(
            solution.replace(
                "torch.randn(inputs, outputs)", "torch.rand(inputs, outputs) * 12**0.5"
            ),
            hint=6,
        ),
        Mutant(solution.replace("torch.randn(inputs, outputs)", "torch.randn(outputs, inputs)")),
    )


# C. The softmax that was taken twice -------------------------------------------------------------


def is_output(attempt, part, compute):
    """Return whether a part of the answer is this function of the right scores.

    Of the probabilities only where the loss is right.
    """
    if part != "loss" and not attempt.is_close(attempt.right["loss"], "loss"):
        return False
    case = {name: torch.tensor(value) for name, value in attempt.case.items()}
    hidden = (case["x"] @ case["W1"] + case["b1"]).relu()
    scores = hidden @ case["W2"] + case["b2"]
    return attempt.is_close(compute(scores, case["targets"]), part)


class TwiceSoftmax(Exercise):
    """Find the softmax that was taken twice."""

    id = "04.twice"
    notebook, cell = "04_a_first_network", "cell-44"
    names = ("loss_of", "probabilities_of")

    def cases(rng):
        for examples, classes in ((5, 3), (4, 6)):
            yield {
                "x": rng.normal(size=(examples, 4)),
                "targets": rng.integers(classes, size=examples),
                "W1": rng.normal(size=(4, 8)),
                "b1": rng.normal(size=8),
                "W2": rng.normal(size=(8, classes)),
                "b2": rng.normal(size=classes),
            }

    def answer(theirs, x, targets, W1, b1, W2, b2):
        x, targets = torch.tensor(x), torch.tensor(targets)
        W1, b1 = torch.tensor(W1, requires_grad=True), torch.tensor(b1, requires_grad=True)
        W2, b2 = torch.tensor(W2, requires_grad=True), torch.tensor(b2, requires_grad=True)
        probabilities = theirs.probabilities_of(x, W1, b1, W2, b2)
        loss = theirs.loss_of(x, targets, W1, b1, W2, b2)
        loss.backward()
        return {"loss": loss.detach(), "probabilities": probabilities.detach(), "b2.grad": b2.grad}

    def right(x, targets, W1, b1, W2, b2):
        bias = torch.tensor(b2, requires_grad=True)
        scores = (torch.tensor(x) @ torch.tensor(W1) + torch.tensor(b1)).relu() @ torch.tensor(W2)
        loss = F.cross_entropy(scores + bias, torch.tensor(targets))
        loss.backward()
        probabilities = (scores + bias).softmax(1).detach()
        return {"loss": loss.detach(), "probabilities": probabilities, "b2.grad": bias.grad}

    hints = (
        Hint(
            "`F.cross_entropy` takes scores, and takes their softmax itself: what does it get "
            "here?",
            lambda attempt: is_output(
                attempt, "loss", lambda scores, targets: F.cross_entropy(scores.softmax(1), targets)
            ),
            mark="softmax",
        ),
        Hint(
            "the loss is right; the probabilities went through softmax twice, which makes them "
            "all more alike",
            lambda attempt: is_output(
                attempt, "probabilities", lambda scores, targets: scores.softmax(1).softmax(1)
            ),
            mark="softmax",
        ),
        Hint(
            "the loss is right; those are scores and no probabilities: they do not add up to 1",
            lambda attempt: is_output(attempt, "probabilities", lambda scores, targets: scores),
            mark="add",
        ),
        Hint(
            "`F.nll_loss` wants logarithms of probabilities, and takes none itself",
            lambda attempt: is_output(
                attempt, "loss", lambda scores, targets: F.nll_loss(scores.softmax(1), targets)
            ),
            mark="softmax",
        ),
        Hint(
            "the probabilities add up to 1 over the examples: the classes are the other axis",
            lambda attempt: is_output(
                attempt, "probabilities", lambda scores, targets: scores.softmax(0)
            ),
            mark="softmax",
        ),
    )
    starter = """\
def scores_of(x, W1, b1, W2, b2):
    hidden = (x @ W1 + b1).relu()
    return (hidden @ W2 + b2).softmax(1)


def loss_of(x, targets, *parameters):
    return F.cross_entropy(scores_of(x, *parameters), targets)


def probabilities_of(x, *parameters):
    return scores_of(x, *parameters).softmax(1)
"""
    solution = """\
def scores_of(x, W1, b1, W2, b2):
    hidden = (x @ W1 + b1).relu()
    return hidden @ W2 + b2


def loss_of(x, targets, *parameters):
    return F.cross_entropy(scores_of(x, *parameters), targets)


def probabilities_of(x, *parameters):
    return scores_of(x, *parameters).softmax(1)
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(starter.replace("parameters).softmax(1)", "parameters)"), hint=0),
        Mutant(
            starter.replace(
                "F.cross_entropy(scores_of(x, *parameters)",
                "F.nll_loss(scores_of(x, *parameters).log()",
            ),
            hint=1,
        ),
        Mutant(solution.replace(".softmax(1)", ""), hint=2),
        Mutant(starter.replace("F.cross_entropy", "F.nll_loss"), hint=3),
        Mutant(solution.replace(".softmax(1)", ".softmax(0)"), hint=4),
        Mutant(solution.replace("hidden @ W2 + b2", "(hidden @ W2 + b2).relu()")),
    )
