"""The exercises of `notebooks/19_tokens_and_bert.ipynb`."""

from collections import Counter

import numpy as np

import edutorch as torch
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def replaced(tokens, pair, new):
    """Return a list of tokens in which a pair has become one."""
    merged, index = [], 0
    while index < len(tokens):
        if tuple(tokens[index : index + 2]) == tuple(pair):
            merged.append(new)
            index += 2
        else:
            merged.append(tokens[index])
            index += 1
    return merged


def counts_of(tokens, step=1):
    return Counter(zip(tokens[::step], tokens[1::step], strict=False))


def after_merge(attempt, pair, new=None):
    """Return whether the answer is what the merge of another pair, or to another number, gives."""
    tokens = attempt.case["tokens"].tolist()
    new = attempt.case["size"] if new is None else new
    return attempt.is_close(torch.tensor(replaced(tokens, pair, new)))


def best_of(attempt, step=1):
    counts = counts_of(attempt.case["tokens"].tolist(), step)
    return max(counts, key=counts.get)


class MergeStep(Exercise):
    """One step of byte-pair encoding."""

    id = "19.merge"
    notebook, cell = "19_tokens_and_bert", "cell-35"
    points = 2
    names = ("merge_step",)

    def cases(rng):
        # One pair is the most frequent, also of every second pair, where it is another one. It is
        # there the other way round, too.
        for length, size in ((40, 6), (24, 4), (60, 5), (30, 3)):
            while True:
                tokens = rng.integers(0, size, size=length).tolist()
                counts, halves = counts_of(tokens), counts_of(tokens, 2)
                (pair, most), (_, second) = counts.most_common(2)
                (half, half_most), (_, half_second) = halves.most_common(2)
                is_clear = most > second and half_most > half_second
                others = {pair, pair[::-1], half, min(counts)}
                if is_clear and len(others) == 4 and counts[pair[::-1]]:
                    break
            yield {"tokens": np.array(tokens), "size": size}
        # An overlap: of three equal tokens, the first two are merged.
        yield {"tokens": np.array([0, 1, 1, 1, 1, 1, 0, int(rng.integers(2, 5))]), "size": 5}

    def answer(theirs, tokens, size):
        return theirs.merge_step(torch.tensor(tokens), size)

    def right(tokens, size):
        counts = counts_of(tokens.tolist())
        pair = max(counts, key=counts.get)
        return torch.tensor(replaced(tokens.tolist(), pair, size))

    hints = (
        Hint(
            "nothing is merged yet: which pair of neighbours is the most frequent?",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["tokens"])),
        ),
        Hint(
            "only every second pair is counted: tokens 0 and 1 are neighbours, and so are 1 and 2",
            lambda attempt: after_merge(attempt, best_of(attempt, 2)),
            mark="add",
        ),
        Hint(
            "the new token has a number of its own: the first that is free, `size`",
            lambda attempt: any(
                after_merge(attempt, best_of(attempt), new)
                for new in range(attempt.case["size"] + 3)
                if new != attempt.case["size"]
            ),
            mark="argmax",
        ),
        Hint(
            "that is the pair the other way round: which token stands first in it?",
            lambda attempt: after_merge(attempt, best_of(attempt)[::-1]),
            mark="add",
        ),
        Hint(
            "another pair was merged: the most frequent one has the largest count",
            lambda attempt: (attempt.value == attempt.case["size"]).any(),
            mark="add",
        ),
    )
    before = """\
def replace(tokens, pair, new):
    merged, index = [], 0
    tokens = list(tokens)
    while index < len(tokens):
        if tuple(tokens[index : index + 2]) == tuple(pair):
            merged.append(new)
            index += 2
        else:
            merged.append(tokens[index])
            index += 1
    return merged
"""
    starter = """\
def merge_step(tokens, size):
    pair = (-1, -1)  # your code: the most frequent pair of neighbours
    return torch.tensor(replace(tokens.tolist(), pair, size))
"""
    solution = """\
def merge_step(tokens, size):
    counts = torch.bincount(tokens[:-1] * size + tokens[1:])
    pair = divmod(counts.argmax().item(), size)
    return torch.tensor(replace(tokens.tolist(), pair, size))
"""
    mutants = (
        Mutant(solution.replace("tokens[:-1] * size", "tokens[:-1:2] * size")
               .replace("tokens[1:])", "tokens[1::2])"), hint=1),
        Mutant(solution.replace("pair, size)", "pair, size + 1)"), hint=2),
        Mutant(solution.replace("pair, size)", "pair, 0)"), hint=2),
        Mutant(solution.replace("tokens[:-1] * size + tokens[1:]",
                                "tokens[1:] * size + tokens[:-1]"), hint=3),
        Mutant(solution.replace("counts.argmax()", "counts.nonzero()[0, 0]"), hint=4),
        Mutant(solution.replace("torch.tensor(replace(tokens.tolist(), pair, size))",
                                "replace(tokens.tolist(), pair, size)")),
    )  # fmt: skip


def hidden(case, limits=(0.8, 0.9), everywhere=False, swapped=False):
    """Return what `HideTokens` reads, or what a mistake makes of it.

    Args:
        limits: up to which dice the tokens become MASK, and up to which a stranger.
        everywhere: whether `chosen` is ignored.
        swapped: whether MASK and the stranger are swapped.
    """
    tokens, dice = case["tokens"], case["dice"]
    chosen = np.ones_like(case["chosen"]) if everywhere else case["chosen"]
    first, second = np.full_like(tokens, 1), case["strangers"]
    if swapped:
        first, second = second, first
    read = np.where(chosen & (dice < limits[0]), first, tokens)
    strange = chosen & (dice >= limits[0]) & (dice < limits[1])
    return torch.tensor(np.where(strange, second, read))


class HideTokens(Exercise):
    """What BERT hides: 80 % masked, 10 % replaced, 10 % kept."""

    id = "19.hide"
    notebook, cell = "19_tokens_and_bert", "cell-39"
    points = 2
    names = ("hide_some",)

    def cases(rng):
        for rows, length in ((4, 25), (2, 60), (1, 40)):
            shape = rows, length
            dice = rng.random(shape)
            chosen = rng.random(shape) < 0.5
            dice[0, :6] = rng.permutation([0.1, 0.5, 0.82, 0.87, 0.93, 0.97])
            chosen[0, :6] = True
            dice[0, 6:9], chosen[0, 6:9] = [0.3, 0.85, 0.95], False
            yield {
                "tokens": rng.integers(2, 50, size=shape),
                "chosen": chosen,
                "dice": dice,
                "strangers": rng.integers(50, 90, size=shape),
            }

    def answer(theirs, tokens, chosen, dice, strangers):
        tokens = torch.tensor(tokens)
        before = tokens.clone()
        read = theirs.hide_some(
            tokens, torch.tensor(chosen), torch.tensor(dice), torch.tensor(strangers)
        )
        return {"read": read, "tokens are as before": torch.equal(tokens, before)}

    def right(tokens, chosen, dice, strangers):
        case = {"tokens": tokens, "chosen": chosen, "dice": dice, "strangers": strangers}
        return {"read": hidden(case), "tokens are as before": True}

    hints = (
        Hint(
            "the tokens themselves were changed: they are the targets, and the model shall guess "
            "them. Work on a copy, or use `torch.where`",
            lambda attempt: not attempt.value["tokens are as before"],
        ),
        Hint(
            "all that are chosen become MASK: what of those with a dice of 0.8 and more?",
            lambda attempt: attempt.is_close(hidden(attempt.case, (1.0, 1.0)), "read"),
            mark="where",
        ),
        Hint(
            "no token stays as it is: what of the chosen ones with a dice of 0.9 and more?",
            lambda attempt: attempt.is_close(hidden(attempt.case, (0.8, 1.0)), "read"),
            mark="where",
        ),
        Hint(
            "there are no strangers: what of the chosen ones with a dice between 0.8 and 0.9?",
            lambda attempt: attempt.is_close(hidden(attempt.case, (0.8, 0.8)), "read"),
            mark="where",
        ),
        Hint(
            "tokens have changed that were not chosen",
            lambda attempt: (attempt.value["read"].numpy() != attempt.case["tokens"])[
                ~attempt.case["chosen"]
            ].any(),
            mark="where",
        ),
        Hint(
            "80 % become MASK and 10 % a stranger, not the other way round",
            lambda attempt: attempt.is_close(hidden(attempt.case, swapped=True), "read"),
            mark="where",
        ),
    )
    before = "MASK = 1\n"
    starter = """\
def hide_some(tokens, chosen, dice, strangers):
    return torch.where(chosen, MASK, tokens)  # your code: this is right below 0.8
"""
    solution = """\
def hide_some(tokens, chosen, dice, strangers):
    read = torch.where(chosen & (dice < 0.8), MASK, tokens)
    return torch.where(chosen & (dice >= 0.8) & (dice < 0.9), strangers, read)
"""
    mutants = (
        Mutant(
            """\
def hide_some(tokens, chosen, dice, strangers):
    tokens[chosen & (dice < 0.8)] = MASK
    return torch.where(chosen & (dice >= 0.8) & (dice < 0.9), strangers, tokens)
""",
            hint=0,
        ),
        Mutant(starter, hint=1),
        Mutant(solution.replace(" & (dice < 0.9)", ""), hint=2),
        Mutant(
            "def hide_some(tokens, chosen, dice, strangers):\n"
            "    return torch.where(chosen & (dice < 0.8), MASK, tokens)\n",
            hint=3,
        ),
        Mutant(solution.replace("chosen & (dice < 0.8)", "dice < 0.8"), hint=4),
        Mutant(solution.replace("chosen & (dice >= 0.8)", "(dice >= 0.8)"), hint=4),
        Mutant(
            solution.replace("MASK", "swap").replace("strangers, read", "MASK, read")
            .replace("swap", "strangers"),
            hint=5,
        ),
        Mutant(solution.replace("0.8", "0.5")),
    )  # fmt: skip


def loss_and_gradient(case, where=None, divide_by_all=False):
    """Return the loss of `MaskedLoss` and its gradient, or what a mistake makes of them.

    Args:
        where: the positions that have a loss, in place of those that were chosen.
        divide_by_all: whether the sum is divided by the number of all positions.
    """
    scores = torch.tensor(case["scores"], requires_grad=True)
    where = torch.tensor(case["chosen"] if where is None else where)
    losses = F.cross_entropy(
        scores.flatten(0, 1), torch.tensor(case["tokens"]).flatten(), reduction="none"
    )
    losses = losses * where.flatten()
    loss = losses.sum() / (where.numel() if divide_by_all else where.sum())
    loss.backward()
    return {"loss": loss.detach(), "gradient": scores.grad}


class MaskedLoss(Exercise):
    """Which positions of a masked language model have a loss."""

    id = "19.loss"
    notebook, cell = "19_tokens_and_bert", "cell-43"
    points = 2
    names = ("masked_loss",)

    def cases(rng):
        for rows, length, size in ((2, 10, 7), (3, 6, 5), (1, 8, 4)):
            tokens = rng.integers(2, size, size=(rows, length))
            chosen = rng.random((rows, length)) < 0.4
            chosen[0, :4], chosen[0, 4:6] = True, False
            read = np.where(chosen & (rng.random((rows, length)) < 0.7), 1, tokens)
            read[0, 0], read[0, 1] = 1, tokens[0, 1]
            yield {
                "scores": rng.normal(size=(rows, length, size)),
                "tokens": tokens,
                "chosen": chosen,
                "read": read,
            }

    def answer(theirs, scores, tokens, chosen, read):
        scores = torch.tensor(scores, requires_grad=True)
        loss = theirs.masked_loss(
            scores, torch.tensor(tokens), torch.tensor(chosen), torch.tensor(read)
        )
        loss.backward()
        return {"loss": loss.detach(), "gradient": scores.grad}

    def right(scores, tokens, chosen, read):
        return loss_and_gradient({"scores": scores, "tokens": tokens, "chosen": chosen})

    def has(mistake):
        return lambda attempt: attempt.is_close(mistake(attempt.case))

    hints = (
        Hint(
            "every position has a loss: most of them can be copied from what was read, and that "
            "is what the model would learn",
            has(lambda case: loss_and_gradient(case, np.ones_like(case["chosen"]))),
            mark="scores",
        ),
        Hint(
            "only where MASK was read there is a loss: a chosen token that was replaced, or left "
            "as it was, has to be guessed, too",
            has(lambda case: loss_and_gradient(case, case["read"] == 1)),
            mark="scores",
        ),
        Hint(
            "that is the loss of those that were *not* chosen",
            has(lambda case: loss_and_gradient(case, ~case["chosen"])),
            mark="scores",
        ),
        Hint(
            "the mean is over all positions: divide by the number of those that were chosen",
            has(lambda case: loss_and_gradient(case, divide_by_all=True)),
            mark="scores",
        ),
        Hint(
            "the target is what stood there before, `tokens`, not what the model has read",
            has(lambda case: loss_and_gradient({**case, "tokens": case["read"]})),
            mark="scores",
        ),
        Hint(
            "the mean over those that were chosen, not their sum",
            lambda attempt: attempt.is_close(
                attempt.right["loss"] * int(attempt.case["chosen"].sum()), "loss"
            ),
            mark="scores",
        ),
    )
    before = "MASK = 1\n"
    starter = """\
def masked_loss(scores, tokens, chosen, read):
    return F.cross_entropy(scores.flatten(0, 1), tokens.flatten())  # your code: not everywhere
"""
    solution = """\
def masked_loss(scores, tokens, chosen, read):
    return F.cross_entropy(scores[chosen], tokens[chosen])
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("[chosen]", "[read == MASK]"), hint=1),
        Mutant(solution.replace("[chosen]", "[~chosen]"), hint=2),
        Mutant(
            """\
def masked_loss(scores, tokens, chosen, read):
    losses = F.cross_entropy(scores.flatten(0, 1), tokens.flatten(), reduction="none")
    return (losses * chosen.flatten()).mean()
""",
            hint=3,
        ),
        Mutant(solution.replace("tokens[chosen]", "read[chosen]"), hint=4),
        Mutant(solution.replace("tokens[chosen])", 'tokens[chosen], reduction="sum")'), hint=5),
        Mutant(solution.replace("scores[chosen]", "scores[chosen].softmax(1)")),
    )
