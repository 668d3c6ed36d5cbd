"""The exercises of `notebooks/23_out.ipynb`."""

import numpy as np

import edutorch as torch

from ..exercise import Exercise, Hint, Mutant


def doubts(scores, limit=5.0):
    """Return each row as it is, or half of it where its largest score is not above the limit."""
    is_sure = scores.max(1, keepdims=True) > limit
    return torch.tensor(np.where(is_sure, scores, scores / 2))


class OneWay(Exercise):
    """A choice without an `if`."""

    id = "23.way"
    notebook, cell = "23_out", "cell-38"
    names = ("doubt",)

    def cases(rng):
        for rows, columns in ((4, 5), (3, 7)):
            scores = rng.uniform(0.0, 4.0, size=(rows, columns))
            scores[::2, 1] = rng.uniform(5.1, 5.9)  # every second row is sure, just so
            scores[1::2, 0] = rng.uniform(4.1, 4.9)
            yield {"scores": scores}

    def answer(theirs, scores):
        rows = torch.tensor(scores)
        try:  # for all rows at once: possible if nobody looks at one of them
            return {"rows": torch.vmap(theirs.doubt)(rows), "has an if": False}
        except (RuntimeError, ValueError, TypeError):
            return {"rows": torch.stack([theirs.doubt(row) for row in rows]), "has an if": True}

    def right(scores):
        return {"rows": doubts(scores), "has an if": False}

    hints = (
        Hint(
            "the numbers are right, but the way still depends on them: `if` and `.item()` need a "
            "number of Python's; which op chooses between two tensors?",
            lambda attempt: (
                attempt.value["has an if"]
                and attempt.is_close(doubts(attempt.case["scores"]), "rows")
            ),
            mark="stack",
        ),
        Hint(
            "the two answers are the wrong way round: where the largest score is above 5, the "
            "scores stay",
            lambda attempt: attempt.is_close(
                torch.tensor(attempt.case["scores"]) * 1.5 - doubts(attempt.case["scores"]), "rows"
            ),
            mark="where",
        ),
        Hint(
            "each score is compared by itself; one comparison decides for the whole row",
            lambda attempt: attempt.is_close(
                torch.tensor(
                    np.where(
                        attempt.case["scores"] > 5,
                        attempt.case["scores"],
                        attempt.case["scores"] / 2,
                    )
                ),
                "rows",
            ),
            mark="where",
        ),
    )
    starter = """\
def doubt(scores):
    if scores.max() > 5:  # your code
        return scores
    return scores / 2
"""
    solution = """\
def doubt(scores):
    return torch.where(scores.max() > 5, scores, scores / 2)
"""
    mutants = (
        Mutant(starter.replace("  # your code", ""), hint=0),
        Mutant(
            "def doubt(scores):\n    return scores if scores.max().item() > 5 else scores / 2",
            hint=0,
        ),
        Mutant(solution.replace("scores, scores / 2", "scores / 2, scores"), hint=1),
        Mutant(solution.replace("scores.max() > 5", "scores > 5"), hint=2),
        Mutant(solution.replace("/ 2", "/ 3")),
        Mutant(solution.replace("max()", "min()")),
    )


class AnyBatch(Exercise):
    """Rows of pictures for every batch."""

    id = "23.batch"
    notebook, cell = "23_out", "cell-42"
    names = ("rows",)

    def cases(rng):
        for shape in ((4, 1, 2, 3), (6, 2, 2, 4), (2, 1, 4, 4)):
            yield {"pictures": rng.normal(size=shape)}

    def answer(theirs, pictures):
        return theirs.rows(torch.tensor(pictures))

    def right(pictures):
        return torch.tensor(pictures.reshape(len(pictures), -1))

    hints = (
        Hint(
            "it always makes 2 rows: the 2 is a size of the example; ask the pictures how many "
            "they are",
            lambda attempt: len(attempt.value) == 2 != len(attempt.case["pictures"]),
            mark="reshape",
        ),
        Hint(
            "the pixels of several pictures have come into one row: the first axis must stay the "
            "batch",
            lambda attempt: (
                attempt.value.numel() == attempt.case["pictures"].size
                and len(attempt.value) != len(attempt.case["pictures"])
            ),
            mark="reshape",
        ),
    )
    starter = """\
def rows(pictures):
    return pictures.reshape(2, -1)  # your code
"""
    solution = """\
def rows(pictures):
    return pictures.reshape(pictures.shape[0], -1)
"""
    mutants = (
        Mutant(starter.replace("  # your code", ""), hint=0),
        Mutant(solution.replace("shape[0], -1", "shape[-1], -1"), hint=1),
        Mutant("def rows(pictures): return pictures.flatten()", hint=1),
        Mutant("def rows(pictures): return pictures.flatten(2)"),
        Mutant("def rows(pictures): return pictures.transpose(0, 1).reshape(len(pictures), -1)"),
    )


def rounded(weight, scale):
    """Return a matrix rounded to multiples of a scale."""
    return torch.tensor(np.round(weight / scale) * scale)


class EightBits(Exercise):
    """Weights in eight bits, with a scale for each row."""

    id = "23.bits"
    notebook, cell = "23_out", "cell-46"
    points = 2
    names = ("eight_bits",)

    def cases(rng):
        for rows, columns in ((3, 6), (5, 4)):
            weight = rng.normal(size=(rows, columns))
            weight[0] *= 100  # beside it the others are rounded to nothing
            yield {"weight": weight}

    def answer(theirs, weight):
        return theirs.eight_bits(torch.tensor(weight))

    def right(weight):
        return rounded(weight, np.abs(weight).max(1, keepdims=True) / 127)

    hints = (
        Hint(
            "there is one scale for the whole matrix: the large row decides, and the small ones "
            "are rounded to a few values; take the largest of every row",
            lambda attempt: attempt.is_close(
                rounded(attempt.case["weight"], np.abs(attempt.case["weight"]).max() / 127)
            ),
            mark="abs",
        ),
        Hint(
            "that is a scale for each column: which axis runs along a row?",
            lambda attempt: attempt.is_close(
                rounded(
                    attempt.case["weight"],
                    np.abs(attempt.case["weight"]).max(0, keepdims=True) / 127,
                )
            ),
            mark="amax",
        ),
        Hint(
            "these are the whole numbers; multiplied by the scale they become weights again",
            lambda attempt: np.allclose(attempt.value, np.round(attempt.value)),
            mark="round",
        ),
        Hint(
            "nothing is rounded: the scale cancels out",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["weight"])),
            mark="mul",
        ),
    )
    starter = """\
def eight_bits(weight):
    scale = weight.abs().max() / 127  # your code
    return (weight / scale).round() * scale
"""
    solution = """\
def eight_bits(weight):
    scale = weight.abs().amax(1, keepdim=True) / 127
    return (weight / scale).round() * scale
"""
    mutants = (
        Mutant(starter.replace("  # your code", ""), hint=0),
        Mutant(solution.replace("amax(1,", "amax(0,"), hint=1),
        Mutant(solution.replace(".round() * scale", ".round()"), hint=2),
        Mutant(solution.replace(".round()", ""), hint=3),
        Mutant(solution.replace("127", "128")),
        Mutant(solution.replace(".abs()", "")),
        Mutant(solution.replace(".round()", ".trunc()")),
    )
