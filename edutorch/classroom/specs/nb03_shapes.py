"""The exercises of `notebooks/03_shapes.ipynb`."""

import numpy as np

import edutorch as torch

from ..exercise import Exercise, Hint, Mutant

# A. Who sums what back -------------------------------------------------------------------------


def sum_to(g, shape):
    """Return what an input of a shape gets back, by NumPy."""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    ones = tuple(axis for axis, length in enumerate(shape) if length == 1)
    return g.sum(axis=ones, keepdims=True)


def shapes_of(attempt, name):
    """Return the shape of an answer for one input, and the right one."""
    return tuple(attempt.value[name].shape), tuple(attempt.right[name].shape)


def is_for_one(attempt, compute):
    """Return whether a wrong answer for a or b is this function of g and the right shape."""
    g = attempt.case["g"]
    for name in ("a", "b"):
        right = attempt.right[name]
        wrong = np.asarray(compute(g, tuple(right.shape)))
        if not attempt.is_close(right, name) and attempt.is_close(torch.tensor(wrong), name):
            return True
    return False


class BroadcastAdd(Exercise):
    """Backward of a broadcast add."""

    id = "03.broadcast"
    notebook, cell = "03_shapes", "cell-48"
    points = 2
    names = ("backward_of_add",)
    forbid = frozenset({"sum_to_size", "backward", "grad"})

    def cases(rng):
        n, k, m = (int(length) for length in rng.permutation(np.arange(2, 6))[:3])
        for a, b in (
            ((n, k), (k,)),
            ((n, k), (n, 1)),
            ((k, k), (k,)),
            ((n, 1), (k,)),
            ((n, 1, k), (m, 1)),
            ((), (n, k)),
            ((1, k), (n, k)),
            ((m, n, k), (1, 1)),
        ):
            g = rng.normal(size=np.broadcast_shapes(a, b)) + 1
            yield {"a": rng.normal(size=a), "b": rng.normal(size=b), "g": g}

    def answer(theirs, a, b, g):
        a, b = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
        g = torch.tensor(g)
        a.expand(g.shape) + b.expand(g.shape)  # what the picture shows of the way there
        a_grad, b_grad = theirs.backward_of_add(g, a.shape, b.shape)
        return {"a": a_grad, "b": b_grad}

    def right(a, b, g):
        inputs = {name: torch.tensor(x, requires_grad=True) for name, x in (("a", a), ("b", b))}
        (inputs["a"] + inputs["b"]).backward(torch.tensor(g))
        return {name: tensor.grad for name, tensor in inputs.items()}

    hints = (
        Hint(
            "expand, but no sum over dim 0: the copies of a row have all sent a gradient, and "
            "what comes back has the shape of the copies, not that of the input",
            lambda attempt: (
                shapes_of(attempt, "b")[0] == attempt.case["g"].shape
                and attempt.case["b"].ndim == 1
            ),
            mark="expand",
        ),
        Hint(
            "expand, but no sum over the axis of length 1: it was copied along this axis, too",
            lambda attempt: any(
                len(actual) == len(wanted) and actual == np.broadcast_shapes(actual, wanted)
                for actual, wanted in (shapes_of(attempt, name) for name in ("a", "b"))
                if actual != wanted
            ),
            mark="expand",
        ),
        Hint(
            "an axis of length 1 is gone: the input has it, so its gradient has it as well; "
            "which argument of `sum` keeps an axis?",
            lambda attempt: any(
                actual == tuple(length for length in wanted if length != 1) != wanted
                for actual, wanted in (shapes_of(attempt, name) for name in ("a", "b"))
            ),
            mark="sum",
        ),
        Hint(
            "an axis too many: the result can have several axes more than the input, and all of "
            "them go",
            lambda attempt: any(
                len(actual) > len(wanted)
                for actual, wanted in (shapes_of(attempt, name) for name in ("a", "b"))
            ),
            mark="sum",
        ),
        Hint(
            "the sum goes over the wrong axis: along which one was the input copied? (Shapes are "
            "aligned on the right.)",
            lambda attempt: is_for_one(attempt, lambda g, shape: g.sum(-1)),
            mark="sum",
        ),
        Hint(
            "that is the mean over the copies: each of them counts in full",
            lambda attempt: is_for_one(
                attempt, lambda g, shape: sum_to(g, shape) * max(1, np.prod(shape)) / g.size
            ),
            mark="mean",
        ),
        Hint(
            "that is what one of the copies sends: what about the others?",
            lambda attempt: is_for_one(
                attempt, lambda g, shape: g[tuple(0 for _ in range(g.ndim - len(shape)))]
            ),
            mark="expand",
        ),
    )
    starter = """\
def sum_to(g, shape):
    return g  # your code


def backward_of_add(g, a_shape, b_shape):
    return sum_to(g, a_shape), sum_to(g, b_shape)
"""
    solution = """\
def sum_to(g, shape):
    while g.ndim > len(shape):
        g = g.sum(0)  # an axis that the input does not have
    for axis, length in enumerate(shape):
        if length == 1:
            g = g.sum(axis, keepdim=True)
    return g


def backward_of_add(g, a_shape, b_shape):
    return sum_to(g, a_shape), sum_to(g, b_shape)
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(
            solution.replace("        if length == 1:\n", "        if False:\n"),
            hint=1,
        ),
        Mutant(solution.replace("axis, keepdim=True", "axis"), hint=2),
        Mutant(solution.replace("    while g.ndim", "    if g.ndim"), hint=3),
        Mutant(solution.replace("g.sum(0)", "g.sum(-1)"), hint=4),
        Mutant(solution.replace("g.sum(0)", "g.mean(0)"), hint=5),
        Mutant(solution.replace("g.sum(0)", "g[0]"), hint=6),
        Mutant(solution.replace("sum_to(g, a_shape), sum", "g, sum"), hint=1),
        Mutant(solution.replace("return sum_to(g, a_shape)", "return -sum_to(g, a_shape)")),
        Mutant(solution.replace(", sum_to(g, b_shape)", ", None")),
    )


# B. A view that is not one ---------------------------------------------------------------------


def is_unchanged(attempt):
    return attempt.is_close(torch.tensor(attempt.case["paper"]), "paper")


def count_up(attempt, order, first=0):
    """Return the table with the counts, in NumPy's order "C" (rows) or "F" (columns)."""
    shape = tuple(attempt.right["table"].shape)
    counts = np.arange(first, first + np.prod(shape), dtype=np.float64)
    return torch.tensor(counts.reshape(shape, order=order))


class Columns(Exercise):
    """A view that is not one."""

    id = "03.columns"
    notebook, cell = "03_shapes", "cell-52"
    names = ("number_by_columns",)

    def cases(rng):
        n, m = (int(length) for length in rng.permutation(np.arange(2, 6))[:2])
        for layout, shape, cut in (
            ("rows", (n, m), (0, n, 0, m)),
            ("cut out", (n + 2, m + 3), (1, n + 1, 2, m + 2)),
            ("columns", (n, m), (0, n, 0, m)),
            ("rows", (n, n), (0, n, 0, n)),
        ):
            yield {"paper": rng.normal(size=shape) - 9, "layout": layout, "cut": cut}

    def answer(theirs, paper, layout, cut):
        top, bottom, left, right = cut
        paper = torch.tensor(paper)
        if layout == "columns":
            paper = paper.T.contiguous().T  # the same table, column after column in memory
        table = paper if layout != "cut out" else paper[top:bottom, left:right]
        theirs.number_by_columns(table)
        return {"table": table, "paper": paper}

    def right(paper, layout, cut):
        top, bottom, left, right = cut
        shape = (bottom - top, right - left)
        paper = paper.copy()
        paper[top:bottom, left:right] = np.arange(np.prod(shape)).reshape(shape, order="F")
        paper = torch.tensor(paper)
        return {"table": paper[top:bottom, left:right], "paper": paper}

    hints = (
        Hint(
            "right for a table in one piece, and lost for one that is cut out of a larger one, or "
            "lies column after column: there `reshape` has to copy",
            lambda attempt: (
                is_unchanged(attempt)
                and attempt.case["layout"] != "rows"
                and attempt.graph.has("reshape")
            ),
            mark="reshape",
        ),
        Hint(
            "the table is as it was: `reshape` of a transposed table is a copy, and the copy was "
            "written into; which view of the table can stand on the left side of the `=`?",
            lambda attempt: is_unchanged(attempt) and attempt.graph.has("setitem"),
            mark="reshape",
        ),
        Hint(
            "the table is as it was: `name = …` gives the name to another tensor; `name[:] = …` "
            "writes into this one",
            is_unchanged,
        ),
        Hint(
            "it counts along the rows: `reshape` never changes the order of elements; `T` does",
            lambda attempt: attempt.is_close(count_up(attempt, "C"), "table"),
            mark="setitem",
        ),
        Hint(
            "the order is right; the first number shall be 0",
            lambda attempt: attempt.is_close(count_up(attempt, "F", 1), "table"),
            mark="setitem",
        ),
    )
    starter = """\
def number_by_columns(table):
    table.T.reshape(-1)[:] = torch.arange(table.numel())  # repair this line
"""
    solution = """\
def number_by_columns(table):
    table.T[:] = torch.arange(table.numel()).reshape(table.T.shape)
"""
    mutants = (
        Mutant(
            """\
def number_by_columns(table):
    columns = torch.arange(table.numel()).reshape(table.T.shape).T
    table.reshape(-1)[:] = columns.flatten()
""",
            hint=0,
        ),
        Mutant(starter, hint=1),
        Mutant(
            """\
def number_by_columns(table):
    table = torch.arange(table.numel()).reshape(table.T.shape).T
    return table
""",
            hint=2,
        ),
        Mutant(
            """\
def number_by_columns(table):
    table[:] = torch.arange(table.numel()).reshape(table.T.shape).reshape(table.shape)
""",
            hint=3,
        ),
        Mutant(
            """\
def number_by_columns(table):
    table.T[:] = torch.arange(1, table.numel() + 1).reshape(table.T.shape)
""",
            hint=4,
        ),
        Mutant(
            """\
def number_by_columns(table):
    table.view(-1)[:] = torch.arange(table.numel())
""",
            hint=3,
        ),
        Mutant(
            """\
def number_by_columns(table):
    table.T.view(-1)[:] = torch.arange(table.numel())
"""
        ),
    )


# C. Attention scores ---------------------------------------------------------------------------


def is_scores(attempt, letters, scale=lambda q: q.shape[3] ** 0.5):
    """Return whether an answer is this einsum of queries and keys, divided by `scale`."""
    queries, keys = attempt.case["queries"], attempt.case["keys"]
    scores = np.einsum(f"bqhd,bkhd->{letters}", queries, keys) / scale(queries)
    return attempt.is_close(torch.tensor(scores))


class AttentionScores(Exercise):
    """Attention scores in one einsum."""

    id = "03.attention"
    notebook, cell = "03_shapes", "cell-56"
    names = ("attention_scores",)
    forbid = frozenset({"scaled_dot_product_attention"})  # einsum itself uses matmul

    def cases(rng):
        lengths = (int(length) for length in rng.permutation(np.arange(2, 7)))
        b, q, k, h, d = lengths
        for size in ((b, q, k, h, d), (q, k, k, k, b), (1, d, d, 1, q)):
            b, q, k, h, d = size
            queries, keys = rng.normal(size=(b, q, h, d)), rng.normal(size=(b, k, h, d))
            yield {"queries": queries, "keys": keys}

    def answer(theirs, queries, keys):
        return theirs.attention_scores(torch.tensor(queries), torch.tensor(keys))

    def right(queries, keys):
        queries, keys = (torch.tensor(x).transpose(1, 2) for x in (queries, keys))
        return queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5

    hints = (
        Hint(
            "nothing is computed yet: write the letters of both inputs, an arrow, and the letters "
            "of the scores",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["queries"])),
        ),
        Hint(
            "the inner products are right, and not yet divided by the root of the number of "
            "features",
            lambda attempt: is_scores(attempt, "bhqk", lambda queries: 1),
            mark="einsum",
        ),
        Hint(
            "divided by the number of features, not by its square root",
            lambda attempt: is_scores(attempt, "bhqk", lambda queries: queries.shape[3]),
            mark="div",
        ),
        Hint(
            "divided by the root of the wrong length: the features are the last axis",
            lambda attempt: any(
                is_scores(attempt, "bhqk", lambda queries, axis=axis: queries.shape[axis] ** 0.5)
                for axis in range(3)
            ),
            mark="div",
        ),
        Hint(
            "all the numbers are there, with their axes in another order: the letters behind the "
            "arrow say the order",
            lambda attempt: any(
                is_scores(attempt, letters) or is_scores(attempt, letters, lambda queries: 1)
                for letters in ("bhkq", "bqhk", "bqkh", "bkqh", "bkhq", "hbqk")
            ),
            mark="einsum",
        ),
        Hint(
            "the heads are added up: a letter that does not stand behind the arrow is summed",
            lambda attempt: attempt.value.ndim == 3,
            mark="einsum",
        ),
        Hint(
            "the features are still there: leave their letter out behind the arrow, and they are "
            "summed",
            lambda attempt: attempt.value.ndim == 5,
            mark="einsum",
        ),
    )
    starter = """\
def attention_scores(queries, keys):
    return queries  # your code
"""
    solution = """\
def attention_scores(queries, keys):
    return torch.einsum("bqhd,bkhd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace(" / queries.shape[-1] ** 0.5", ""), hint=1),
        Mutant(solution.replace(" ** 0.5", ""), hint=2),
        Mutant(solution.replace("shape[-1]", "shape[1]"), hint=3),
        Mutant(solution.replace("->bhqk", "->bqhk"), hint=4),
        Mutant(solution.replace("->bhqk", "->bhkq"), hint=4),
        Mutant(solution.replace("->bhqk", "->bqk"), hint=5),
        Mutant(solution.replace("->bhqk", "->bhqkd"), hint=6),
        Mutant(solution.replace("bqhd,bkhd", "bqhd,bkgd")),
        Mutant(solution.replace(" / ", " * ")),
    )
