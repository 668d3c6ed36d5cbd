"""The exercises of `notebooks/08_optimizers_racing.ipynb`."""

import numpy as np

import edutorch as torch
from edutorch import optim

from ..exercise import Exercise, Hint, Mutant


def race(case, step):
    """Return x after the steps of a case, each made by `step(x, velocity, gradient)`."""
    x, velocity = case["x"], np.zeros_like(case["x"])
    for _ in range(case["steps"]):
        x, velocity = step(x, velocity, case["curvature"] * x)
    return torch.tensor(x)


def arrives(step):
    """Return the condition that x went where `step(case, x, velocity, gradient)` would lead it."""
    return lambda attempt: attempt.is_close(
        race(attempt.case, lambda *state: step(attempt.case, *state)), "x"
    )


class MomentumStep(Exercise):
    """One step with momentum."""

    id = "08.momentum"
    notebook, cell = "08_optimizers_racing", "cell-30"
    points = 2
    names = ("momentum_step",)

    def cases(rng):
        for size, steps, momentum in ((2, 5, 0.9), (1, 1, 0.5), (3, 20, 0.8), (2, 3, 0.0)):
            yield {
                "x": rng.uniform(1, 4, size=size),
                "curvature": rng.uniform(1, 10, size=size),
                "steps": steps,
                "lr": float(rng.uniform(0.03, 0.07)),
                "momentum": momentum,
            }

    def answer(theirs, x, curvature, steps, lr, momentum):
        x, curvature = torch.tensor(x), torch.tensor(curvature)
        velocity = torch.zeros_like(x)
        for _ in range(steps):
            gradient = curvature * x  # of a valley ½·curvature·x²
            x, velocity = theirs.momentum_step(x, velocity, gradient, lr, momentum)
        return {"x": x, "velocity": velocity}

    def right(x, curvature, steps, lr, momentum):
        point = torch.tensor(x, requires_grad=True)
        optimizer = optim.SGD([point], lr=lr, momentum=momentum or 1e-300)  # 0 keeps no velocity
        for _ in range(steps):
            optimizer.zero_grad()
            (torch.tensor(curvature) / 2 * point**2).sum().backward()
            optimizer.step()
        return {"x": point.detach(), "velocity": optimizer.state[point]["momentum_buffer"]}

    hints = (
        Hint(
            "x has not moved yet",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["x"]), "x"),
        ),
        Hint(
            "it climbs: the gradient says where the height grows",
            arrives(
                lambda case, x, v, g: (
                    x + case["lr"] * (case["momentum"] * v + g),
                    case["momentum"] * v + g,
                )
            ),
            mark="add",
        ),
        Hint(
            "x moves by the velocity from before this step; the new one is what counts",
            arrives(lambda case, x, v, g: (x - case["lr"] * v, case["momentum"] * v + g)),
            mark="sub",
        ),
        Hint(
            "x moves along the gradient alone: the velocity is kept, and never used",
            arrives(lambda case, x, v, g: (x - case["lr"] * g, v)),
            mark="sub",
        ),
        Hint(
            "that is a mean of the gradients, of which each new one is a small share; in PyTorch's "
            "rule it counts in full",
            arrives(lambda case, x, v, g: averaged_step(x, v, g, case["lr"], case["momentum"])),
            mark="mul",
        ),
        Hint(
            "x is right, the velocity is not: the learning rate belongs into the step, so that a "
            "scheduler can change it",
            lambda attempt: attempt.is_close(attempt.right["x"], "x"),
            mark="mul",
        ),
        Hint(
            "the velocity never slows down: what is left of it after each step?",
            arrives(lambda case, x, v, g: (x - case["lr"] * (v + g), v + g)),
            mark="add",
        ),
    )
    mutants = tuple(
        Mutant(f"def momentum_step(x, velocity, gradient, lr, momentum):\n{code}", hint)
        for code, hint in (
            (
                "    velocity = momentum * velocity + gradient\n"
                "    return x + lr * velocity, velocity",
                1,
            ),
            ("    return x - lr * velocity, momentum * velocity + gradient", 2),
            ("    return x - lr * gradient, momentum * velocity + gradient", 3),
            (
                "    velocity = momentum * velocity + (1 - momentum) * gradient\n"
                "    return x - lr * velocity, velocity",
                4,
            ),
            (
                "    velocity = momentum * velocity + lr * gradient\n"
                "    return x - velocity, velocity",
                5,
            ),
            ("    velocity = velocity + gradient\n    return x - lr * velocity, velocity", 6),
            (
                "    velocity = momentum * velocity + gradient\n"
                "    return x - lr * (gradient + momentum * velocity), velocity",
                None,
            ),
            ("    return x - lr * (momentum * velocity + gradient)", None),
        )
    )
    starter = """\
def momentum_step(x, velocity, gradient, lr, momentum):
    return x, velocity  # your code: the new x and the new velocity
"""
    solution = """\
def momentum_step(x, velocity, gradient, lr, momentum):
    velocity = momentum * velocity + gradient
    return x - lr * velocity, velocity
"""


def averaged_step(x, velocity, gradient, lr, momentum):
    """Return x and velocity after a step along a running mean of the gradients."""
    velocity = momentum * velocity + (1 - momentum) * gradient
    return x - lr * velocity, velocity


class Cliff(Exercise):
    """The largest learning rate that is stable."""

    id = "08.cliff"
    notebook, cell = "08_optimizers_racing", "cell-34"
    names = ("cliff",)

    def cases(rng):
        for low, high in ((0.3, 0.9), (3.0, 9.0), (30.0, 90.0)):
            yield {"curvature": float(rng.uniform(low, high))}

    def answer(theirs, curvature):
        return theirs.cliff(curvature)

    def right(curvature):
        low, high = 0.0, 20.0
        for _ in range(50):
            rate = (low + high) / 2
            x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
            (curvature / 2 * x**2).backward()
            optim.SGD([x], lr=rate).step()
            low, high = (low, rate) if abs(x.item()) > 1 else (rate, high)
        return low

    hints = (
        Hint(
            "the same for every curvature? A steeper valley wants a smaller rate",
            lambda attempt: attempt.value in (1.0, 0.2),
        ),
        Hint(
            "with this rate one step goes to the very bottom; it may go further, and still come "
            "closer",
            lambda attempt: attempt.is_close(attempt.right / 2),
        ),
        Hint(
            "it grows with the curvature: a steeper valley wants a smaller rate",
            lambda attempt: any(
                attempt.is_close(factor * attempt.case["curvature"]) for factor in (0.5, 1, 2)
            ),
        ),
        Hint(
            "one step multiplies x by 1 − lr · curvature; that may also be negative",
            lambda attempt: attempt.value is None or attempt.value == 0,
        ),
    )
    mutants = (
        Mutant("def cliff(curvature): return 2 / 10", hint=0),
        Mutant("def cliff(curvature): return 1 / curvature", hint=1),
        Mutant("def cliff(curvature): return 2 * curvature", hint=2),
        Mutant("def cliff(curvature): return curvature / 2", hint=2),
        Mutant("def cliff(curvature): return 0.0", hint=3),
        Mutant("def cliff(curvature): return 2 / curvature**0.5"),
        Mutant("def cliff(curvature): return 2 * (1 + 0.9) / curvature"),
    )
    starter = """\
def cliff(curvature):
    return 1.0  # your code
"""
    solution = """\
def cliff(curvature):
    return 2 / curvature
"""


class Factor(Exercise):
    """A schedule that warms up, stays, and cools down."""

    id = "08.factor"
    notebook, cell = "08_optimizers_racing", "cell-38"
    names = ("factor",)

    def cases(rng):
        # Of each part both ends, where off by one shows, and some steps between.
        for first, last in ((0, 10), (10, 49), (50, 100)):
            between = rng.choice(range(first + 2, last - 1), size=3, replace=False).tolist()
            yield {"steps": sorted([first, first + 1, *between, last - 1, last])}

    def answer(theirs, steps):
        return {step: theirs.factor(step) for step in steps}

    def right(steps):
        return {step: float(np.interp(step, [0, 10, 50, 100], [0.1, 1, 1, 0])) for step in steps}

    hints = (
        Hint(
            "it stands still where it should climb: draw the line that is wanted on paper, with "
            "its four corners",
            lambda attempt: len(set(attempt.value.values())) == 1 and 0 in attempt.value,
        ),
        Hint(
            "it starts at 0, and nothing would be learned in the first step: the line begins at "
            "0.1",
            lambda attempt: attempt.value[0] == 0,
        ),
        Hint(
            "it climbs beyond 1: from 0.1 to 1 it is less than 1",
            lambda attempt: max(attempt.value.values()) > 1.001,
        ),
        Hint(
            "the climb is too low at its end: at step 10 it has arrived at 1",
            lambda attempt: attempt.value[10] < 0.999 and 0 in attempt.value,
        ),
        Hint(
            "it rises after step 50; it has to fall there",
            lambda attempt: attempt.value[99] > attempt.value[51],
        ),
        Hint(
            "it jumps at step 50: the fall begins at 1, and is at 0 after 50 steps, not after 100",
            lambda attempt: abs(attempt.value[51] - attempt.right[51]) > 0.2,
        ),
        Hint(
            "it does not fall: after step 50 the rate has to go down",
            lambda attempt: attempt.value[100] >= attempt.value[50],
        ),
        Hint(
            "it falls, but not to 0 at step 100",
            lambda attempt: abs(attempt.value[100]) > 0.001,
        ),
    )
    mutants = tuple(
        Mutant(f"def factor(step):\n{code}", hint)
        for code, hint in (
            (
                "    if step < 10:\n        return step / 10\n"
                "    return 1.0 if step < 50 else (100 - step) / 50",
                1,
            ),
            (
                "    if step <= 10:\n        return 0.1 + step / 10\n"
                "    return 1.0 if step < 50 else (100 - step) / 50",
                2,
            ),
            (
                "    if step <= 10:\n        return 0.1 + 0.9 * step / 11\n"
                "    return 1.0 if step < 50 else (100 - step) / 50",
                3,
            ),
            (
                "    if step < 10:\n        return 0.1 + 0.9 * step / 10\n"
                "    return 1.0 if step < 50 else (step - 50) / 50",
                4,
            ),
            (
                "    if step < 10:\n        return 0.1 + 0.9 * step / 10\n"
                "    return 1.0 if step < 50 else (100 - step) / 100",
                5,
            ),
            (
                "    if step < 10:\n        return 0.1 + 0.9 * step / 10\n"
                "    return 1.0 if step < 50 else 1 - 0.9 * (step - 50) / 50",
                7,
            ),
            ("    return [0.1, 1, 1, 0][step // 33]", 0),
            ("    return min(1.0, 0.1 + 0.09 * step)", 6),
            (
                "    if step < 10:\n        return 0.1 + 0.9 * step / 9\n"
                "    return 1.0 if step < 50 else (100 - step) / 50",
                None,
            ),
        )
    )
    starter = """\
def factor(step):
    return 1.0  # your code
"""
    solution = """\
def factor(step):
    if step < 10:
        return 0.1 + 0.9 * step / 10
    return 1.0 if step < 50 else (100 - step) / 50
"""
