"""The exercises of `notebooks/02_backprop_by_hand.ipynb`."""

import functools

import numpy as np

import edutorch as torch
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


class ProductGradient(Exercise):
    """The gradient for the middle one of three matrices."""

    id = "02.product"
    notebook, cell = "02_backprop_by_hand", "cell-33"
    names = ("gradient_of_B",)

    def cases(rng):
        # With square matrices any transpose fits, so the shapes say nothing.
        for n, k, m, p in ((5, 4, 3, 2), (3, 3, 3, 3), (1, 2, 1, 4)):
            shapes = {"A": (n, k), "B": (k, m), "C": (m, p), "G": (n, p)}
            yield {name: rng.normal(size=shape) for name, shape in shapes.items()}

    def answer(theirs, A, B, C, G):
        A, B, C, G = [torch.tensor(matrix) for matrix in (A, B, C, G)]
        return theirs.gradient_of_B(A, B, C, G)

    def right(A, B, C, G):
        leaf = torch.tensor(B, requires_grad=True)
        (torch.tensor(A) @ leaf @ torch.tensor(C)).backward(torch.tensor(G))
        return leaf.grad

    hints = (
        Hint(
            "nothing is computed yet: B has the shape 4×3; which products of A, C and G have it?",
            lambda attempt: attempt.is_close(torch.zeros_like(attempt.right)),
        ),
        Hint(
            "all the numbers are there, in the transposed matrix: a gradient has the shape of what "
            "it is the gradient of",
            lambda attempt: attempt.is_close(attempt.right.T),
            mark="matmul",
        ),
        Hint(
            "that is the gradient for the product B·C: the way back goes on through C",
            lambda attempt: attempt.is_close(product(attempt.case["A"].T, attempt.case["G"])),
            mark="matmul",
        ),
        Hint(
            "that is the gradient for the product A·B: the way back goes on through A",
            lambda attempt: attempt.is_close(product(attempt.case["G"], attempt.case["C"].T)),
            mark="matmul",
        ),
        Hint(
            "what comes back to Y is G, and it is not used: the loss need not be the sum of Y",
            lambda attempt: attempt.is_close(
                product(attempt.case["A"].T, np.ones_like(attempt.case["G"]), attempt.case["C"].T)
            ),
        ),
    )
    mutants = (
        Mutant("def gradient_of_B(A, B, C, G): return C @ G.T @ A", hint=1),
        Mutant("def gradient_of_B(A, B, C, G): return A.T @ G", hint=2),
        Mutant("def gradient_of_B(A, B, C, G): return G @ C.T", hint=3),
        Mutant(
            "def gradient_of_B(A, B, C, G): return A.T @ torch.ones_like(G) @ C.T",
            hint=4,
        ),
        Mutant("def gradient_of_B(A, B, C, G): return A @ G @ C"),
        Mutant("def gradient_of_B(A, B, C, G): return -A.T @ G @ C.T"),
        Mutant("def gradient_of_B(A, B, C, G): return (A.T @ G @ C.T).sum(0)"),
    )
    starter = """\
def gradient_of_B(A, B, C, G):
    return torch.zeros_like(B)  # your code
"""
    solution = """\
def gradient_of_B(A, B, C, G):
    return A.T @ G @ C.T
"""


def product(*matrices):
    """Return the product of NumPy's matrices as a tensor."""
    return torch.tensor(functools.reduce(np.matmul, matrices))


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


def sends(rule):
    """Return the condition that `backward` returns what `rule` makes of g."""
    return lambda attempt: attempt.is_close(torch.tensor(rule(attempt.case["g"])), "gradient")


class Centre(Exercise):
    """The backward pass of a layer that centres."""

    id = "02.centre"
    notebook, cell = "02_backprop_by_hand", "cell-41"
    points = 2
    names = ("Centre",)

    def cases(rng):
        for shape in ((4, 3), (6, 2), (5, 1), (1, 2)):
            yield {"x": rng.normal(size=shape), "g": rng.normal(size=shape) + 1}

    def answer(theirs, x, g):
        x = torch.tensor(x, requires_grad=True)
        y = theirs.Centre.apply(x)
        y.backward(torch.tensor(g))
        return {"y": y.detach(), "gradient": x.grad}

    def right(x, g):
        leaf = torch.tensor(x, requires_grad=True)
        y = leaf - leaf.mean(0)
        y.backward(torch.tensor(g))
        return {"y": y.detach(), "gradient": leaf.grad}

    hints = (
        Hint(
            "only the direct way is there: what comes back through the mean is missing",
            sends(lambda g: g),
            mark="Centre",
        ),
        Hint(
            "both ways are there, and one has the wrong sign: the mean is *subtracted*",
            sends(lambda g: g + g.mean(0)),
            mark="Centre",
        ),
        Hint(
            "what comes back to the mean is the sum over the rows; how much of it does each of the "
            "rows get, if the mean divides by their number?",
            sends(lambda g: g - g.sum(0)),
            mark="Centre",
        ),
        Hint(
            "the columns are mixed: each has a mean of its own",
            lambda attempt: any(
                sends(lambda g, axis=axis: g - g.mean(axis, keepdims=True))(attempt)
                for axis in (1, None)
            ),
            mark="Centre",
        ),
        Hint(
            "only the way through the mean is there: where is the direct one?",
            sends(lambda g: np.broadcast_to(-g.mean(0), g.shape).copy()),
            mark="Centre",
        ),
    )
    mutants = tuple(
        Mutant(
            f"""\
class Centre(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x - x.mean({forward})

    @staticmethod
    def backward(ctx, g):
        return {backward}
""",
            hint,
        )
        for forward, backward, hint in (
            ("0", "g + g.mean(0)", 1),
            ("0", "g - g.sum(0)", 2),
            ("0", "g - g.mean()", 3),
            ("0", "g - g.mean(1, keepdim=True)", 3),
            ("0", "(-g.mean(0)).expand(g.shape)", 4),
            ("", "g - g.mean()", 3),
            ("0", "g * (1 - 1 / len(g))", None),
            ("0", "None", None),
        )
    )
    starter = """\
class Centre(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x - x.mean(0)

    @staticmethod
    def backward(ctx, g):
        return g  # your code: one of the two ways is missing
"""
    solution = """\
class Centre(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x - x.mean(0)

    @staticmethod
    def backward(ctx, g):
        return g - g.mean(0)
"""
