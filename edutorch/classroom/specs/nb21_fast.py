"""The exercises of `notebooks/21_fast.ipynb`."""

import numpy as np

import edutorch as torch

from ..exercise import Exercise, Hint, Mutant


def is_loss(attempt, compute):
    """Return whether an answer is this function of the absolute errors, an array of NumPy."""
    error = np.abs(attempt.case["forecast"] - attempt.case["truth"])
    return attempt.is_close(torch.tensor((error**2).mean() + 0.1 * compute(error)), "loss")


class SlowLine(Exercise):
    """A loss with one slow line."""

    id = "21.slow"
    notebook, cell = "21_fast", "cell-54"
    names = ("strict_loss",)

    def cases(rng):
        for rows, columns in ((24, 5), (40, 3)):
            shape = (rows, columns)
            yield {"forecast": rng.normal(size=shape) * 3, "truth": rng.normal(size=shape)}

    def answer(theirs, forecast, truth):
        leaf = torch.tensor(forecast, requires_grad=True)
        loss = theirs.strict_loss(leaf, torch.tensor(truth))
        seen, waiting = set(), [loss.grad_fn]
        while waiting:  # count the ops behind the loss
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                waiting += [source for source, _ in node.next_functions]
        loss.backward()
        return {"loss": loss.detach(), "gradient": leaf.grad, "an op per row": len(seen) > 20}

    def right(forecast, truth):
        leaf = torch.tensor(forecast, requires_grad=True)
        error = (leaf - torch.tensor(truth)).abs()
        loss = (error**2).mean() + 0.1 * error.amax(1).mean()
        loss.backward()
        return {"loss": loss.detach(), "gradient": leaf.grad, "an op per row": False}

    hints = (
        Hint(
            "the number is right, and there is still an op for each row: which line is a loop, and "
            "which function takes the largest number of *every* row at once?",
            lambda attempt: attempt.value["an op per row"] and attempt.graph.has("stack"),
            mark="stack",
        ),
        Hint(
            "the loop is hidden, not gone: the graph still has an op for each row",
            lambda attempt: attempt.value["an op per row"],
            mark="mean",
        ),
        Hint(
            "that is the largest error of each *week* over all forecasts; wanted is that of each "
            "forecast over its weeks",
            lambda attempt: is_loss(attempt, lambda error: error.max(0).mean()),
            mark="mean",
        ),
        Hint(
            "that is the largest error of all; wanted is one for each row, and their mean",
            lambda attempt: is_loss(attempt, lambda error: error.max()),
            mark="add",
        ),
        Hint(
            "the worst weeks are missing: the loss has two parts",
            lambda attempt: is_loss(attempt, lambda error: 0.0),
            mark="mean",
        ),
        Hint(
            "the worst weeks are added up; wanted is their mean over the rows",
            lambda attempt: is_loss(attempt, lambda error: error.max(1).sum()),
            mark="sum",
        ),
    )
    starter = """\
def strict_loss(forecast, truth):
    error = (forecast - truth).abs()
    mean = (error**2).mean()
    worst = torch.stack([row.max() for row in error])
    return mean + 0.1 * worst.mean()  # your code: one of these lines is slow
"""
    solution = """\
def strict_loss(forecast, truth):
    error = (forecast - truth).abs()
    mean = (error**2).mean()
    worst = error.amax(1)
    return mean + 0.1 * worst.mean()
"""
    mutants = (
        Mutant(starter.replace("row.max()", "row.amax()"), hint=0),
        Mutant(
            starter.replace("torch.stack([row.max() for row in error])", "error").replace(
                "worst.mean()", "(sum(row.max() for row in worst) / len(worst))"
            ),
            hint=1,
        ),
        Mutant(solution.replace("amax(1)", "amax(0)"), hint=2),
        Mutant(solution.replace("amax(1)", "max()"), hint=3),
        Mutant(solution.replace(" + 0.1 * worst.mean()", ""), hint=4),
        Mutant(solution.replace("worst.mean()", "worst.sum()"), hint=5),
        Mutant(solution.replace(".abs()", "")),
        Mutant(solution.replace("amax(1)", "amin(1)")),
        Mutant(solution.replace("amax(1)", "amax(1).detach()")),
    )


def root_mean_square(x):
    """Return what is right, in float64."""
    return torch.tensor(np.sqrt((x.astype(np.float64) ** 2).mean(1)))


class Overflow(Exercise):
    """A root mean square that fits into float16."""

    id = "21.overflow"
    notebook, cell = "21_fast", "cell-58"
    names = ("rms",)
    forbid = frozenset({"vector_norm", "norm"})
    tolerance = {"float16": 4e-3}

    def cases(rng):
        for exponent in (
            2.8,
            -3.8,
            0.0,
            3.0,
        ):  # a square of 10⁵.⁶ is too large, of 10⁻⁷.⁶ too small
            x = rng.uniform(0.5, 1.5, size=(3, 6)) * rng.choice([-1, 1], size=(3, 6))
            yield {"x": (x * 10**exponent).astype(np.float16)}

    def answer(theirs, x):
        return theirs.rms(torch.tensor(x))

    def right(x):
        return root_mean_square(x).to(torch.float16)

    hints = (
        Hint(
            "the square of a number above 256 is larger than float16 can hold, which ends at "
            "65504: it is inf, and what comes behind it cannot repair that",
            lambda attempt: attempt.graph.has("pow") and not attempt.value.isfinite().all(),
            mark="pow",
        ),
        Hint(
            "a product is larger than float16 can hold, which ends at 65504",
            lambda attempt: not attempt.value.isfinite().all(),
            mark="mul",
        ),
        Hint(
            "large rows are right. The squares of small numbers are below 6·10⁻⁸, where float16 "
            "has only 0 and a few other numbers",
            lambda attempt: attempt.graph.has("pow") and np.abs(attempt.case["x"]).max() < 0.01,
            mark="pow",
        ),
        Hint(
            "the numbers are right, but the result is another type than the input",
            lambda attempt: (
                str(attempt.value.dtype) != str(attempt.right.dtype)
                and attempt.value.double().allclose(root_mean_square(attempt.case["x"]), rtol=4e-3)
            ),
            mark="sqrt",
        ),
        Hint(
            "that is the mean of the squares; wanted is its root",
            lambda attempt: attempt.graph.has("pow", "mul") and not attempt.graph.has("sqrt"),
            mark="mean",
        ),
    )
    starter = """\
def rms(x):
    return (x**2).mean(1).sqrt()  # your code
"""
    solution = """\
def rms(x):
    return (x.float() ** 2).mean(1).sqrt().to(x.dtype)
"""
    mutants = (
        Mutant("def rms(x): return (x**2).float().mean(1).sqrt().to(x.dtype)", hint=0),
        Mutant("def rms(x): return (x * x).mean(1).sqrt()", hint=1),
        Mutant("def rms(x): return 16 * ((x / 16) ** 2).mean(1).sqrt()", hint=2),
        Mutant("def rms(x): return (x.float() ** 2).mean(1).sqrt()", hint=3),
        Mutant("def rms(x): return x.float().pow(2).mean(1)", hint=4),
        Mutant("def rms(x): return (x.float() ** 2).mean(0).sqrt().to(x.dtype)"),
        Mutant("def rms(x): return x.float().abs().mean(1).to(x.dtype)"),
    )


def lengths_of(attempt):
    return np.linalg.norm(attempt.case["gradients"], axis=1, keepdims=True)


def is_clipped(attempt, factor):
    """Return whether each gradient is multiplied by this function of its length and the limit."""
    gradients, limit = attempt.case["gradients"], attempt.case["limit"]
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = gradients * factor(lengths_of(attempt), limit)
    return attempt.is_close(torch.tensor(expected), "clipped")


class Wait(Exercise):
    """Clip a gradient without a question to the GPU."""

    id = "21.wait"
    notebook, cell = "21_fast", "cell-63"
    points = 2
    names = ("clipped",)
    forbid = frozenset({"clip_grad_norm_", "renorm"})

    def cases(rng):
        for size in (4, 7):
            gradients = rng.normal(size=(4, size))
            gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
            yield {
                "gradients": gradients * np.array([[3.0], [0.4], [1.7], [0.2]]),
                "limit": float(rng.uniform(0.8, 1.2)),
            }
        yield {"gradients": np.stack([np.zeros(3), rng.normal(size=3) * 4]), "limit": 1.0}

    def answer(theirs, gradients, limit):
        gradients = torch.tensor(gradients)
        result = torch.stack([theirs.clipped(gradient, limit) for gradient in gradients])
        try:  # for many at once: possible if nobody looks at one of them
            torch.vmap(lambda gradient: theirs.clipped(gradient, limit))(gradients)
            waits = False
        except (RuntimeError, ValueError, TypeError):
            waits = True
        return {"clipped": result, "the host waits": waits}

    def right(gradients, limit):
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        factor = limit / np.maximum(lengths, limit)
        return {"clipped": torch.tensor(gradients * factor), "the host waits": False}

    hints = (
        Hint(
            "an `if` needs to know whether the comparison is true: the number travels to the host, "
            "which waits; compute a factor that is 1 where nothing is to be done",
            lambda attempt: attempt.value["the host waits"] and attempt.graph.has("gt", "lt", "ge"),
            mark="gt",
        ),
        Hint(
            "a number of Python's (`.item()`, `float`, `.tolist()`, `.numpy()`) lies on the host: "
            "keep it a tensor",
            lambda attempt: attempt.value["the host waits"],
            mark="mul",
        ),
        Hint(
            "a gradient of zeros has the length 0: what is 0 / 0?",
            lambda attempt: attempt.value["clipped"].isnan().any(),
            mark="div",
        ),
        Hint(
            "all have the length `limit` now: those that were shorter have grown; the factor must "
            "not be above 1",
            lambda attempt: is_clipped(attempt, lambda length, limit: limit / length),
            mark="mul",
        ),
        Hint(
            "the wrong ones are changed: those that are short grow, those that are long stay",
            lambda attempt: is_clipped(
                attempt, lambda length, limit: np.maximum(limit / length, 1.0)
            ),
            mark="clamp",
        ),
        Hint(
            "each number is cut off by itself, so the direction changes; the length is to be "
            "limited",
            lambda attempt: attempt.is_close(
                torch.tensor(attempt.case["gradients"]).clamp(
                    -attempt.case["limit"], attempt.case["limit"]
                ),
                "clipped",
            ),
            mark="clamp",
        ),
    )
    starter = """\
def clipped(gradient, limit):
    norm = gradient.norm()
    if norm > limit:  # your code
        gradient = gradient * (limit / norm)
    return gradient
"""
    solution = """\
def clipped(gradient, limit):
    return gradient * (limit / gradient.norm()).clamp(max=1.0)
"""
    mutants = (
        Mutant(starter.replace("  # your code", ""), hint=0),
        Mutant(
            "def clipped(gradient, limit):\n"
            "    return gradient * (limit / max(limit, gradient.norm().item()))",
            hint=1,
        ),
        Mutant(solution.replace(".clamp(max=1.0)", ""), hint=3),
        Mutant(solution.replace("max=1.0", "min=1.0"), hint=4),
        Mutant(
            "def clipped(gradient, limit):\n"
            "    norm = gradient.norm()\n"
            "    return gradient / norm * norm.clamp(max=limit)",
            hint=2,
        ),
        Mutant("def clipped(gradient, limit): return gradient.clamp(-limit, limit)", hint=5),
        Mutant(solution.replace("norm()", "norm(1)")),
        Mutant(solution.replace("norm()", "abs().max()")),
    )
