"""The exercises of `notebooks/22_many.ipynb`."""

import numpy as np

import edutorch as torch

from ..exercise import Exercise, Hint, Mutant


def weighted(gradients, rows):
    """Return the mean of gradients, each with a weight."""
    weights = np.array(rows, float) / sum(rows)
    return torch.tensor(np.tensordot(weights, np.stack(gradients), 1))


class MeanOfMeans(Exercise):
    """The gradient of a batch whose parts have different sizes."""

    id = "22.mean"
    notebook, cell = "22_many", "cell-18"
    names = ("combine",)

    def cases(rng):
        for rows, shape in (((64, 16), (2, 3)), ((5, 3, 2), (4,)), ((1, 7), (3,))):
            yield {"gradients": [rng.normal(size=shape) for _ in rows], "rows": list(rows)}

    def answer(theirs, gradients, rows):
        return theirs.combine([torch.tensor(gradient) for gradient in gradients], rows)

    def right(gradients, rows):
        return weighted(gradients, rows)

    hints = (
        Hint(
            "this is the mean over the ranks; a rank with fewer rows must count less",
            lambda attempt: attempt.is_close(
                torch.tensor(np.mean(attempt.case["gradients"], axis=0))
            ),
            mark="mean",
        ),
        Hint(
            "this is a sum over the rows of all ranks; a mean is divided by their number",
            lambda attempt: attempt.is_close(
                weighted(attempt.case["gradients"], attempt.case["rows"])
                * float(sum(attempt.case["rows"]))
            ),
            mark="mul",
        ),
    )
    starter = """\
def combine(gradients, rows):
    return torch.stack(gradients).mean(0)  # your code
"""
    solution = """\
def combine(gradients, rows):
    weights = torch.tensor([float(n) for n in rows]) / sum(rows)
    return sum(weight * gradient for weight, gradient in zip(weights, gradients))
"""
    mutants = (
        Mutant(starter.replace("  # your code", ""), hint=0),
        Mutant(solution.replace(" / sum(rows)", ""), hint=1),
        Mutant(solution.replace("sum(rows)", "max(rows)")),
        Mutant(solution.replace("float(n)", "1 / n")),
        Mutant(solution.replace("zip(weights, gradients)", "zip(weights.flip(0), gradients)")),
    )


class Pieces(Exercise):
    """The first half of an all_reduce."""

    id = "22.pieces"
    notebook, cell = "22_many", "cell-22"
    names = ("reduce_scatter",)

    def cases(rng):
        for ranks, length in ((2, 6), (3, 6), (4, 8)):
            yield {"tensors": [rng.normal(size=length) for _ in range(ranks)]}

    def answer(theirs, tensors):
        pieces = theirs.reduce_scatter([torch.tensor(tensor) for tensor in tensors])
        return {f"rank {rank}": piece for rank, piece in enumerate(pieces)}

    def right(tensors):
        pieces = np.split(sum(tensors), len(tensors))
        return {f"rank {rank}": torch.tensor(piece) for rank, piece in enumerate(pieces)}

    hints = (
        Hint(
            "each rank has got the whole sum: that is all_reduce; rank 0 keeps the first piece, "
            "rank 1 the second, and so on",
            lambda attempt: attempt.is_close(torch.tensor(sum(attempt.case["tensors"])), "rank 0"),
            mark="add",
        ),
        Hint(
            "nothing has been summed: these are pieces of one rank's tensor",
            lambda attempt: any(
                attempt.is_close(
                    torch.tensor(np.split(tensor, len(attempt.case["tensors"]))[0]), "rank 0"
                )
                for tensor in attempt.case["tensors"]
            ),
            mark="split",
        ),
    )
    starter = """\
def reduce_scatter(tensors):
    total = sum(tensors)
    return [total for _ in tensors]  # your code
"""
    solution = """\
def reduce_scatter(tensors):
    total = sum(tensors)
    return list(total.chunk(len(tensors)))
"""
    mutants = (
        Mutant(starter.replace("  # your code", ""), hint=0),
        Mutant(solution.replace("sum(tensors)", "tensors[0]"), hint=1),
        Mutant(solution.replace("sum(tensors)", "sum(tensors) / len(tensors)")),
        Mutant(solution.replace("list(", "list(reversed(").replace("tensors)))", "tensors))))")),
        Mutant(solution.replace("total.chunk(len(tensors))", "total.view(-1, len(tensors)).T")),
    )


class RowsOfARank(Exercise):
    """Which rows of a data set a rank trains on."""

    id = "22.rows"
    notebook, cell = "22_many", "cell-26"
    names = ("rows_of",)

    def cases(rng):
        for size, rest in ((4, 2), (3, 1), (2, 0)):
            yield {"n": size * int(rng.integers(2, 20)) + rest, "size": size}

    def answer(theirs, n, size):
        return {
            f"rank {rank}": torch.tensor([float(i) for i in theirs.rows_of(n, rank, size)])
            for rank in range(size)
        }

    def right(n, size):
        rows = [*range(n), *range(-n % size)]
        return {
            f"rank {rank}": torch.tensor([float(i) for i in rows[rank::size]])
            for rank in range(size)
        }

    hints = (
        Hint(
            "the ranks have different numbers of rows: fill the list of all rows up, before it is "
            "divided",
            lambda attempt: len({len(rows) for rows in attempt.value.values()}) > 1,
        ),
        Hint(
            "rows are left out: a row that is seen twice does less harm than one that never is",
            lambda attempt: (
                len({float(i) for rows in attempt.value.values() for i in rows}) < attempt.case["n"]
            ),
        ),
    )
    starter = """\
def rows_of(n, rank, size):
    return list(range(rank, n, size))  # your code
"""
    solution = """\
def rows_of(n, rank, size):
    rows = list(range(n))
    rows += rows[: -n % size]
    return rows[rank::size]
"""
    mutants = (
        Mutant(starter.replace("  # your code", ""), hint=0),
        Mutant(
            solution.replace("rows += rows[: -n % size]", "rows = rows[: n - n % size]"), hint=1
        ),
        Mutant(
            solution.replace("[: -n % size]", "[-1:] * (-n % size)"),
        ),
        Mutant(
            solution.replace(
                "rows[rank::size]", "rows[rank * len(rows) // size :][: len(rows) // size]"
            )
        ),
    )
