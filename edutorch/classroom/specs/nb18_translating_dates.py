"""The exercises of `notebooks/18_translating_dates.ipynb`."""

import math

import numpy as np

import edutorch as torch
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def shares_of(case, fill=-math.inf, ends=0, rows=False, dim=2, after=False):
    """Return the shares of `PaddingMask`, or what a mistake makes of them.

    Args:
        fill: what hides the padding.
        ends: how many letters too many can be seen.
        rows: whether the mask hides rows in place of columns.
        dim: the dimension of the softmax.
        after: whether the padding is hidden behind the softmax.
    """
    scores, lengths = torch.tensor(case["scores"]), torch.tensor(case["lengths"])
    padding = torch.arange(scores.shape[1 if rows else 2]) >= lengths[:, None] + ends
    padding = padding[:, :, None] if rows else padding[:, None]
    if after:
        return scores.softmax(dim).masked_fill(padding, 0.0)
    return scores.masked_fill(padding, fill).softmax(dim)


class PaddingMask(Exercise):
    """Attention that does not look at the padding."""

    id = "18.padding"
    notebook, cell = "18_translating_dates", "cell-47"
    names = ("shares_by_length",)

    def cases(rng):
        # In the first case a mask over the rows has a shape that fits, too.
        for batch, queries, letters in ((3, 6, 6), (2, 3, 7), (1, 4, 2), (2, 2, 5)):
            lengths = rng.integers(1, letters, size=batch)
            lengths[0] = max(lengths[0], letters - 2)
            yield {"scores": rng.normal(size=(batch, queries, letters)), "lengths": lengths}
        yield {"scores": rng.normal(size=(2, 3, 4)), "lengths": np.array([4, 2])}

    def answer(theirs, scores, lengths):
        return theirs.shares_by_length(torch.tensor(scores), torch.tensor(lengths))

    def right(scores, lengths):
        rows = []
        for table, length in zip(scores, lengths, strict=True):
            powers = np.exp(table[:, :length])
            shares = powers / powers.sum(1, keepdims=True)
            rows.append(np.pad(shares, ((0, 0), (0, table.shape[1] - length))))
        return torch.tensor(np.stack(rows))

    hints = (
        Hint(
            "nothing is masked yet: the letters behind `lengths` get a share, too",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["scores"]).softmax(2)),
            mark="softmax",
        ),
        Hint(
            "the padding is hidden behind the softmax: now the shares of a row do not add up to 1",
            lambda attempt: attempt.is_close(shares_of(attempt.case, after=True)),
            mark="softmax",
        ),
        Hint(
            "a score of 0 is not a share of 0: which score gives $e^{score} = 0$?",
            lambda attempt: attempt.is_close(shares_of(attempt.case, fill=0.0)),
            mark="softmax",
        ),
        Hint(
            "one letter too many can be seen: a text of 3 letters has the indices 0, 1 and 2",
            lambda attempt: attempt.is_close(shares_of(attempt.case, ends=1)),
            mark="masked_fill",
        ),
        Hint(
            "one letter too few can be seen: a text of 3 letters has the indices 0, 1 and 2",
            lambda attempt: attempt.is_close(shares_of(attempt.case, ends=-1)),
            mark="masked_fill",
        ),
        Hint(
            "the mask hides rows: a row of `scores` is what is written, a column is a letter",
            lambda attempt: attempt.is_close(shares_of(attempt.case, rows=True)),
            mark="masked_fill",
        ),
        Hint(
            "which dimension shares out one whole? Each row of `scores` does, over the letters",
            lambda attempt: any(
                attempt.is_close(shares_of(attempt.case, dim=dim)) for dim in (0, 1)
            ),
            mark="softmax",
        ),
        Hint(
            "the mask is upside down: only the padding is looked at",
            lambda attempt: (attempt.value.nan_to_num()[attempt.right > 0] == 0).all(),
            mark="masked_fill",
        ),
    )
    starter = """\
def shares_by_length(scores, lengths):
    return scores.softmax(2)  # your code: hide what is behind `lengths`
"""
    solution = """\
def shares_by_length(scores, lengths):
    padding = torch.arange(scores.shape[2]) >= lengths[:, None]  # batch × letters
    return scores.masked_fill(padding[:, None], -math.inf).softmax(2)
"""
    mutants = (
        Mutant(
            """\
def shares_by_length(scores, lengths):
    padding = torch.arange(scores.shape[2]) >= lengths[:, None]
    return scores.softmax(2).masked_fill(padding[:, None], 0.0)
""",
            hint=1,
        ),
        Mutant(
            """\
def shares_by_length(scores, lengths):
    padding = torch.arange(scores.shape[2]) >= lengths[:, None]
    return (scores * ~padding[:, None]).softmax(2)
""",
            hint=2,
        ),
        Mutant(solution.replace(">=", ">"), hint=3),
        Mutant(solution.replace("lengths[:, None]", "lengths[:, None] - 1"), hint=4),
        Mutant(
            """\
def shares_by_length(scores, lengths):
    padding = torch.arange(scores.shape[1]) >= lengths[:, None]
    return scores.masked_fill(padding[:, :, None], -math.inf).softmax(2)
""",
            hint=5,
        ),
        Mutant(solution.replace("softmax(2)", "softmax(1)"), hint=6),
        Mutant(solution.replace(">=", "<"), hint=7),
        Mutant(solution.replace("-math.inf", "math.inf"), hint=7),
        Mutant(solution.replace("padding[:, None]", "padding")),
    )


START = 11  # the sign that begins: the others are 0 to 10


def scores_read(read, last, before):
    """Return the scores of the 11 signs after those that were read, in this module's models.

    Args:
        last, before: what the last sign adds to them, and the one before it.
    """
    return last[read[-1]] + (before[read[-2]] if len(read) > 1 else 0)


def rows_of(case, early=False, remembers=True, start=True, forced=None):
    """Return the scores of `TeacherForcing`, or what a mistake makes of them.

    Args:
        early: whether the decoder reads the sign that it has to say.
        remembers: whether the state is passed on.
        start: whether START is read first.
        forced: in place of that of the case.
    """
    targets, forced = case["targets"], case["forced"] if forced is None else forced
    read, rows = [START] if start else [targets[0]], []
    for target, force in zip(targets, forced, strict=True):
        if early:
            read[-1] = target
        rows.append(scores_read(read if remembers else read[-1:], case["last"], case["before"]))
        read.append(target if force else int(rows[-1].argmax()))
    return torch.tensor(np.stack(rows))


class TeacherForcing(Exercise):
    """A decoder that reads what is right, or what it has said itself."""

    id = "18.forcing"
    notebook, cell = "18_translating_dates", "cell-51"
    points = 2
    names = ("decode_forced",)

    def cases(rng):
        for size in (8, 5, 6):
            last, before = rng.normal(size=(12, 11)), rng.normal(size=(12, 11))
            forced = [True, False, False, True, True, False, True, False][:size]
            read, targets = [START], []
            for force in forced:
                # The right sign is never the one with the highest or the lowest score.
                order = np.argsort(scores_read(read, last, before))
                targets.append(int(order[int(rng.integers(3, 9))]))
                read.append(targets[-1] if force else int(order[-1]))
            yield {"last": last, "before": before, "targets": targets, "forced": forced}

    def answer(theirs, last, before, targets, forced):
        last, before = torch.tensor(last), torch.tensor(before)

        def step(sign, state):
            scores = F.embedding(torch.tensor(int(sign)), last)
            if state is not None:
                scores = scores + F.embedding(torch.tensor(state), before)
            return scores, int(sign)

        def decode(targets, forced):
            return theirs.decode_forced(step, None, targets, forced)

        return decode(targets, forced)

    def right(last, before, targets, forced):
        return rows_of({"last": last, "before": before, "targets": targets, "forced": forced})

    hints = (
        Hint(
            "the decoder always reads what is right: what does it read where `forced` is False?",
            lambda attempt: attempt.is_close(rows_of(attempt.case, forced=[True] * 8)),
            mark="stack",
        ),
        Hint(
            "the decoder always reads what it has said: what does it read where `forced` is True?",
            lambda attempt: attempt.is_close(rows_of(attempt.case, forced=[False] * 8)),
            mark="argmax",
        ),
        Hint(
            "`forced` is upside down: True means that the decoder reads what is right",
            lambda attempt: attempt.is_close(
                rows_of(attempt.case, forced=[not force for force in attempt.case["forced"]])
            ),
            mark="argmax",
        ),
        Hint(
            "the decoder reads the sign that it has to say: then it learns to copy, and nothing "
            "else",
            lambda attempt: attempt.is_close(rows_of(attempt.case, early=True)),
            mark="stack",
        ),
        Hint(
            "the decoder forgets what it has read: which of the two results of `step` is not used?",
            lambda attempt: attempt.is_close(rows_of(attempt.case, remembers=False)),
            mark="stack",
        ),
        Hint(
            "what does a decoder read before there is a first sign?",
            lambda attempt: attempt.is_close(rows_of(attempt.case, start=False)),
            mark="index_select",
        ),
        Hint(
            "that is one step: there is a row of scores for every sign of `targets`",
            lambda attempt: attempt.value.ndim == 2 and len(attempt.value) < len(attempt.right),
            mark="index_select",
        ),
        Hint(
            "the decoder says the sign with the highest score",
            lambda attempt: attempt.graph.has("argmin", "multinomial"),
            mark="argmin",
        ),
    )
    before = "START = 11\n"
    starter = """\
def decode_forced(step, state, targets, forced):
    read, rows = START, []
    for target, is_forced in zip(targets, forced):
        scores, state = step(read, state)
        rows.append(scores)
        read = target  # your code: this is right where `is_forced`
    return torch.stack(rows)
"""
    solution = """\
def decode_forced(step, state, targets, forced):
    read, rows = START, []
    for target, is_forced in zip(targets, forced):
        scores, state = step(read, state)
        rows.append(scores)
        read = target if is_forced else scores.argmax().item()
    return torch.stack(rows)
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("target if is_forced else ", ""), hint=1),
        Mutant(solution.replace("if is_forced", "if not is_forced"), hint=2),
        Mutant(solution.replace("step(read", "step(target"), hint=3),
        Mutant(solution.replace("scores, state =", "scores, _ ="), hint=4),
        Mutant(solution.replace("START, []", "targets[0], []"), hint=5),
        Mutant(
            solution.replace("    return", "        break\n    return"),
            hint=6,
        ),
        Mutant(solution.replace("argmax", "argmin"), hint=7),
        Mutant(solution.replace("torch.stack", "torch.cat")),
    )


def log_chances(read, case):
    scores = scores_read(read, case["last"], case["before"])
    return scores - np.log(np.exp(scores).sum())


def scores_of(read, case):
    return scores_read(read, case["last"], case["before"])


def chances(read, case):
    return np.exp(log_chances(read, case))


def best_signs(case, size=2, measure=log_chances, per_beam=False, worst=False):
    """Return the signs of `Beam`, or what a mistake makes of them.

    Args:
        size: how many beginnings are kept.
        measure: what is added up for each sign.
        per_beam: whether each beginning keeps its best sign, in place of the two best of all.
        worst: whether the second best is returned.
    """
    beams = [(0.0, [START])]
    for _ in range(case["length"]):
        grown = []
        for total, read in beams:
            gains = measure(read, case)
            longer = sorted((total + gain, [*read, sign]) for sign, gain in enumerate(gains))
            grown += longer[-1:] if per_beam and len(beams) > 1 else longer
        beams = sorted(grown)[-size:]
    return beams[0 if worst else -1][1][1:]


MISTAKES = (
    {"size": 1},
    {"worst": True},
    {"measure": chances},
    {"measure": scores_of},
    {"per_beam": True},
    {"size": 3},
)
"""What gives another answer than beam search: as arguments of `best_signs`."""


def draw_case(rng, length, mistake):
    """Return a case of `Beam` that shows a mistake: no two give the same wrong answer."""
    while True:
        last = rng.normal(size=(12, 11)) + rng.normal(size=(12, 1)) * 2
        case = {"last": last, "before": rng.normal(size=(12, 11)), "length": length}
        right = best_signs(case)
        if best_signs(case, **mistake) == right:
            continue
        wrong = [best_signs(case, **other) for other in MISTAKES]
        wrong = [tuple(signs) for signs in wrong if signs != right]
        if len(set(wrong)) == len(wrong):
            return case


class Beam(Exercise):
    """Beam search: the two likeliest beginnings are kept."""

    id = "18.beam"
    notebook, cell = "18_translating_dates", "cell-55"
    points = 3
    names = ("beam_of_two",)

    def cases(rng):
        for mistake, length in zip(MISTAKES, (5, 2, 4, 4, 5, 6), strict=True):
            yield draw_case(rng, length, mistake)

    def answer(theirs, last, before, length):
        last, before = torch.tensor(last), torch.tensor(before)

        def step(sign, state):
            scores = F.embedding(torch.tensor(int(sign)), last)
            if state is not None:
                scores = scores + F.embedding(torch.tensor(state), before)
            return scores, int(sign)

        return [int(sign) for sign in theirs.beam_of_two(step, None, length)]

    def right(last, before, length):
        return best_signs({"last": last, "before": before, "length": length})

    hints = (
        Hint(
            "that is the greedy answer: only one beginning is kept",
            lambda attempt: attempt.value == best_signs(attempt.case, size=1),
            mark="log_softmax",
        ),
        Hint(
            "all the signs are right, but the sign that begins is not part of the answer",
            lambda attempt: attempt.value == [START, *attempt.right],
        ),
        Hint(
            "scores of two beginnings cannot be compared: what makes chances of them?",
            lambda attempt: attempt.value == best_signs(attempt.case, measure=scores_of),
            mark="index_select",
        ),
        Hint(
            "chances of signs are multiplied; what is added up are their logarithms",
            lambda attempt: attempt.value == best_signs(attempt.case, measure=chances),
            mark="softmax",
        ),
        Hint(
            "each of the beginnings is grown by its own best sign: compare all that are longer, "
            "and keep the two best of all",
            lambda attempt: attempt.value == best_signs(attempt.case, per_beam=True),
            mark="log_softmax",
        ),
        Hint(
            "that is the second best: which end of the sorted list is the likeliest?",
            lambda attempt: attempt.value == best_signs(attempt.case, worst=True),
            mark="log_softmax",
        ),
        Hint(
            "count the signs: how many does `length` say?",
            lambda attempt: len(attempt.value) != len(attempt.right),
        ),
        Hint(
            "more than two beginnings are kept",
            lambda attempt: attempt.value == best_signs(attempt.case, size=3),
            mark="log_softmax",
        ),
    )
    before = "START = 11\n"
    starter = """\
def beam_of_two(step, state, length):
    beams = [(0.0, [START], state)]  # of each: log chance, signs, state
    for _ in range(length):
        longer = []
        for total, signs, state in beams:
            scores, after = step(signs[-1], state)
            chances = scores.log_softmax(0)
            best = chances.argmax().item()
            longer.append((total + chances[best].item(), [*signs, best], after))
        beams = longer  # your code: try all signs, and keep the two best of all that are longer
    return beams[0][1][1:]
"""
    solution = """\
def beam_of_two(step, state, length):
    beams = [(0.0, [START], state)]  # of each: log chance, signs, state
    for _ in range(length):
        longer = []
        for total, signs, state in beams:
            scores, after = step(signs[-1], state)
            for sign, chance in enumerate(scores.log_softmax(0).tolist()):
                longer.append((total + chance, [*signs, sign], after))
        beams = sorted(longer, key=lambda beam: beam[0], reverse=True)[:2]
    return beams[0][1][1:]
"""
    mutants = (
        Mutant(solution.replace("[:2]", "[:1]"), hint=0),
        Mutant(solution.replace("[1][1:]", "[1]"), hint=1),
        Mutant(solution.replace(".log_softmax(0)", ""), hint=2),
        Mutant(solution.replace("log_softmax", "softmax"), hint=3),
        Mutant(
            """\
def beam_of_two(step, state, length):
    beams = [(0.0, [START], state)]
    for number in range(length):
        longer = []
        for total, signs, state in beams:
            scores, after = step(signs[-1], state)
            best = scores.log_softmax(0).topk(2 if number == 0 else 1)
            for chance, sign in zip(best.values.tolist(), best.indices.tolist()):
                longer.append((total + chance, [*signs, sign], after))
        beams = sorted(longer, key=lambda beam: beam[0], reverse=True)
    return beams[0][1][1:]
""",
            hint=4,
        ),
        Mutant(solution.replace("beams[0]", "beams[-1]"), hint=5),
        Mutant(solution.replace("range(length)", "range(length - 1)"), hint=6),
        Mutant(solution.replace("[:2]", "[:3]"), hint=7),
        Mutant(solution.replace(", reverse=True", "")),
        Mutant(solution.replace("[*signs, sign], after", "[*signs, sign], state")),
    )
