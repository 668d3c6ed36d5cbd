"""The exercises of `notebooks/05_reading_graphs.ipynb`."""

import numpy as np

import edutorch as torch
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def is_scaled(attempt, factors):
    """Return whether y is about what it should be, times a factor for each row."""
    y, right = attempt.value["y"], attempt.right["y"]
    return (y - torch.tensor(factors) * right).abs().max() < 0.01 * right.abs().max()


class Normalise(Exercise):
    """A layer norm that bears a row of equal numbers."""

    id = "05.normalise"
    notebook, cell = "05_reading_graphs", "cell-32"
    points = 2
    names = ("normalise",)
    forbid = frozenset({"layer_norm", "group_norm", "instance_norm", "batch_norm"})
    # How small the small number is, is the student's choice.
    tolerance = {"float64": 5e-3}

    def cases(rng):
        # With two columns the gradient would be 0, but for the small number.
        for rows, columns in ((3, 4), (4, 6), (3, 5)):
            x = rng.normal(size=(rows, columns)) * 3
            x[:, 0] = x[:, 1] + 4 + rng.random(rows)  # no row is nearly flat
            x[-1] = float(rng.integers(1, 9))
            yield {"x": x, "weight": rng.normal(size=(rows, columns))}

    def answer(theirs, x, weight):
        x = torch.tensor(x, requires_grad=True)
        y = theirs.normalise(x)
        (y * torch.tensor(weight)).sum().backward()
        return {
            "y": y,
            "gradient": x.grad[:-1],
            "gradient of the equal row is finite": bool(x.grad[-1].isfinite().all()),
        }

    def right(x, weight):
        leaf = torch.tensor(x, requires_grad=True)
        y = F.layer_norm(leaf, leaf.shape[1:], eps=1e-5)
        (y * torch.tensor(weight)).sum().backward()
        finite = "gradient of the equal row is finite"
        return {"y": y, "gradient": leaf.grad[:-1], finite: True}

    hints = (
        Hint(
            "the row of equal numbers is still NaN: 0 is divided by 0",
            lambda attempt: attempt.value["y"].isnan().any(),
            mark="div",
        ),
        Hint(
            "the values are finite now, the gradient of the row of equal numbers is not: what is "
            "the slope of sqrt at 0?",
            lambda attempt: not attempt.value["gradient of the equal row is finite"],
            mark="sqrt",
        ),
        Hint(
            "ordinary rows come out a little too small: the variance is a mean, over all the "
            "numbers of the row",
            lambda attempt: is_scaled(attempt, np.sqrt(1 - 1 / attempt.case["x"].shape[1])),
            mark="sqrt",
        ),
        Hint(
            "that divides by the variance; the spread is its root",
            lambda attempt: is_scaled(
                attempt, 1 / np.sqrt(attempt.case["x"].var(1, keepdims=True) + 1e-30)
            ),
            mark="div",
        ),
        Hint(
            "what you add is too large: ordinary rows are another size now",
            lambda attempt: (
                attempt.value["y"].abs() < 0.999 * attempt.right["y"].abs() + 1e-9
            ).all(),
            mark="add",
        ),
    )
    mutants = (
        Mutant(
            """\
def normalise(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / ((centred**2).mean(1, keepdim=True).sqrt() + 1e-5)
""",
            hint=1,
        ),
        Mutant(
            """\
def normalise(x):
    centred = x - x.mean(1, keepdim=True)
    return torch.nan_to_num(centred / (centred**2).mean(1, keepdim=True).sqrt())
""",
            hint=1,
        ),
        Mutant(
            """\
def normalise(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / (x.var(1, keepdim=True) + 1e-5).sqrt()
""",
            hint=2,
        ),
        Mutant(
            """\
def normalise(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / ((centred**2).mean(1, keepdim=True) + 1e-5)
""",
            hint=3,
        ),
        Mutant(
            """\
def normalise(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / ((centred**2).mean(1, keepdim=True) + 1.0).sqrt()
""",
            hint=4,
        ),
        Mutant(
            """\
def normalise(x):
    return x / ((x**2).mean(1, keepdim=True) + 1e-5).sqrt()
"""
        ),
        Mutant(
            """\
def normalise(x):
    centred = x - x.mean(0)
    return centred / ((centred**2).mean(0) + 1e-5).sqrt()
"""
        ),
    )
    starter = """\
def normalise(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred**2).mean(1, keepdim=True).sqrt()  # your code
"""
    solution = """\
def normalise(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / ((centred**2).mean(1, keepdim=True) + 1e-5).sqrt()
"""


class Carry(Exercise):
    """A recurrent state whose graph does not grow."""

    id = "05.carry"
    notebook, cell = "05_reading_graphs", "cell-36"
    names = ("carry",)

    def cases(rng):
        for steps in (3, 6, 2):
            w, state = rng.uniform(0.4, 0.9), rng.uniform(0.5, 1.5)
            yield {"w": float(w), "state": float(state), "steps": steps}

    def answer(theirs, w, state, steps):
        w = torch.tensor(w, dtype=torch.float64, requires_grad=True)
        state = torch.tensor(state, dtype=torch.float64)
        sizes = []
        for _ in range(steps):
            state = (w * theirs.carry(state)).tanh()
            seen, waiting = set(), [state.grad_fn]
            while waiting:  # count the ops behind the state
                node = waiting.pop()
                if node is not None and node not in seen:
                    seen.add(node)
                    waiting += [source for source, _ in node.next_functions]
            sizes.append(len(seen))
        state.backward()
        growth = sizes[-1] - sizes[0]
        return {"ops added to the graph": growth, "state": state.detach(), "gradient": w.grad}

    def right(w, state, steps):
        for _ in range(steps):
            before, state = state, np.tanh(w * state)
        return {
            "ops added to the graph": 0,
            "state": torch.tensor(state),
            "gradient": torch.tensor((1 - state**2) * before),  # of the last step only
        }

    hints = (
        Hint(
            "a clone has memory of its own, and still an edge in the graph",
            lambda attempt: (
                attempt.value["ops added to the graph"] > 0 and attempt.graph.has("clone")
            ),
            mark="clone",
        ),
        Hint(
            "the graph grows with each step: the state that is handed on brings all earlier steps "
            "with it",
            lambda attempt: attempt.value["ops added to the graph"] > 0,
            mark="tanh",
        ),
        Hint(
            "the chain is cut, and the state is lost: the next step needs its number",
            lambda attempt: attempt.value["state"] == 0,
            mark="tanh",
        ),
        Hint(
            "the graph stays small, but the state is not handed on as it is",
            lambda attempt: attempt.value["ops added to the graph"] == 0,
            mark="mul",
        ),
    )
    mutants = (
        Mutant("def carry(state): return state.clone()", hint=0),
        Mutant("def carry(state):\n    with torch.no_grad():\n        return state", hint=1),
        Mutant("def carry(state): return torch.zeros_like(state)", hint=2),
        Mutant("def carry(state): return state.detach().tanh()", hint=3),
        Mutant("def carry(state): return state.requires_grad_(False)"),
        Mutant("def carry(state): state = state.detach()"),
    )
    starter = """\
def carry(state):
    return state  # your code: what is handed to the next step
"""
    solution = """\
def carry(state):
    return state.detach()
"""


def is_rounded(attempt, y=None, gradient=None):
    """Return whether an answer has these values and this gradient, NumPy's arrays.

    Args:
        y, gradient: by default those that are right.
    """
    y = attempt.right["y"] if y is None else torch.tensor(y)
    gradient = attempt.right["gradient"] if gradient is None else torch.tensor(gradient)
    return attempt.is_close(y, "y") and attempt.is_close(gradient, "gradient")


class Rounded(Exercise):
    """Rounding that lets the gradient pass."""

    id = "05.rounded"
    notebook, cell = "05_reading_graphs", "cell-40"
    points = 2
    names = ("rounded",)

    def cases(rng):
        for size in (3, 6):
            x = rng.integers(-4, 5, size=size) + rng.uniform(0.1, 0.4, size=size)
            yield {"x": x, "g": rng.normal(size=size) + 3}

    def answer(theirs, x, g):
        x = torch.tensor(x, requires_grad=True)
        y = theirs.rounded(x)
        if y.requires_grad:
            y.backward(torch.tensor(g))
        gradient = torch.zeros_like(x) if x.grad is None else x.grad
        return {"y": y.detach(), "gradient": gradient}

    def right(x, g):
        return {"y": torch.tensor(x.round()), "gradient": torch.tensor(g)}

    hints = (
        Hint(
            "the way straight through x is there, and a second one takes it back: + x and − x; the "
            "difference shall be a number, without a gradient",
            lambda attempt: (
                is_rounded(attempt, gradient=0 * attempt.case["g"]) and attempt.graph.has("sub")
            ),
            mark="sub",
        ),
        Hint(
            "the values are right, and no gradient comes back: the slope of a staircase is 0; "
            "which way could the gradient go round it?",
            lambda attempt: is_rounded(attempt, gradient=0 * attempt.case["g"]),
            mark="round",
        ),
        Hint(
            "the gradient passes, but nothing is rounded",
            lambda attempt: is_rounded(attempt, y=attempt.case["x"]),
            mark="x",
        ),
        Hint(
            "that is x and the rounded x together: only what rounding *changes* is to be added",
            lambda attempt: attempt.is_close(
                torch.tensor(attempt.case["x"] + attempt.case["x"].round()), "y"
            ),
            mark="add",
        ),
        Hint(
            "the gradient arrives more than once: how many ways without a `detach` lead back to x?",
            lambda attempt: is_rounded(attempt, gradient=2 * attempt.case["g"]),
        ),
    )
    starter = """\
def rounded(x):
    return x.round()  # your code
"""
    solution = """\
def rounded(x):
    return x + (x.round() - x).detach()
"""
    mutants = (
        Mutant("def rounded(x): return x + (x.round() - x)", hint=0),
        Mutant("def rounded(x): return (x + x.round() - x).detach()", hint=0),
        Mutant("def rounded(x): return x.round().detach()", hint=1),
        Mutant("def rounded(x): return x + (x - x.round()).detach() * 0", hint=2),
        Mutant("def rounded(x): return x + x.round().detach()", hint=3),
        Mutant("def rounded(x): return 2 * x + (x.round() - 2 * x).detach()", hint=4),
        Mutant("def rounded(x): return (x.round() - x).detach()"),
        Mutant("def rounded(x): return x - (x.round() - x).detach()"),
    )
