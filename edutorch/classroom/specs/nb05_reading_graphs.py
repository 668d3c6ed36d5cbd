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
