"""The exercises of `notebooks/12_a_small_gpt.ipynb`."""

import math

import numpy as np

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class WindowMask(Exercise):
    """A mask with a short memory."""

    id = "12.window"
    notebook, cell = "12_a_small_gpt", "cell-40"
    names = ("window_mask",)

    def cases(rng):
        places = int(rng.integers(6, 12))
        yield {"places": places, "window": int(rng.integers(2, 5))}
        yield {"places": places + 1, "window": 1}
        yield {"places": 4, "window": 7}
        yield {"places": 1, "window": 1}

    def answer(theirs, places, window):
        return theirs.window_mask(places, window)

    def right(places, window):
        allowed = [
            [place - window < looked_at <= place for looked_at in range(places)]
            for place in range(places)
        ]
        return torch.tensor(allowed)

    hints = (
        Hint(
            "the mask hides the future, but remembers all of the past",
            lambda attempt: attempt.is_close(torch.ones_like(attempt.right).tril()),
            mark="tril",
        ),
        Hint(
            "the window is one place too wide: it counts the place itself, too",
            lambda attempt: attempt.is_close(band(attempt, attempt.case["window"] + 1)),
            mark="le",
        ),
        Hint(
            "the window is one place too narrow: it counts the place itself, too",
            lambda attempt: attempt.is_close(band(attempt, attempt.case["window"] - 1)),
            mark="lt",
        ),
        Hint(
            "rows and columns are swapped: row 0 is the first place, and can only look at itself",
            lambda attempt: attempt.is_close(attempt.right.T),
        ),
        Hint(
            "places look into the future: look at the upper triangle",
            lambda attempt: attempt.value.triu(1).any(),
        ),
    )
    mutants = (
        Mutant(
            """\
def window_mask(places, window):
    row, column = torch.arange(places)[:, None], torch.arange(places)
    return (column <= row) & (row - column <= window)
""",
            hint=1,
        ),
        Mutant(
            """\
def window_mask(places, window):
    row, column = torch.arange(places)[:, None], torch.arange(places)
    return (column <= row) & (row - column < window - 1)
""",
            hint=2,
        ),
        Mutant(
            """\
def window_mask(places, window):
    column, row = torch.arange(places)[:, None], torch.arange(places)
    return (column <= row) & (row - column < window)
""",
            hint=3,
        ),
        Mutant(
            """\
def window_mask(places, window):
    row, column = torch.arange(places)[:, None], torch.arange(places)
    return (row - column).abs() < window
""",
            hint=4,
        ),
        Mutant(
            """\
def window_mask(places, window):
    return torch.ones(places, places).tril().triu(1 - window)
"""
        ),
    )
    starter = """\
def window_mask(places, window):
    return torch.ones(places, places, dtype=torch.bool).tril()  # your code
"""
    solution = """\
def window_mask(places, window):
    row, column = torch.arange(places)[:, None], torch.arange(places)
    return (column <= row) & (row - column < window)
"""


def band(attempt, window):
    """Return the mask of another window."""
    return torch.ones_like(attempt.right).tril().triu(1 - window)


ALPHABET = """\
LENGTH = 48
alphabet = sorted("\\n abcdefghijklmnopqrstuvwxyz")
number_of = {letter: number for number, letter in enumerate(alphabet)}


def encode(text):
    return torch.tensor([number_of[letter] for letter in text])


def decode(numbers):
    return "".join(alphabet[number] for number in numbers)


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
"""
"""What the notebook has defined above its exercises."""


def scores_after(text, last, before):
    """Return the scores of the 26 letters behind a text, in the models of this module.

    Args:
        last, before: what the last letter of the text adds to them, and the one before it.
    """
    numbers = [LETTERS.index(letter) for letter in text]
    return last[numbers[-1]] + (before[numbers[-2]] if len(numbers) > 1 else 0)


def greedy_text(beginning, letters, last, before):
    text = beginning
    for _ in range(letters):
        text += LETTERS[scores_after(text, last, before).argmax()]
    return text


class Greedy(Exercise):
    """Greedy writing: always the likeliest letter."""

    id = "12.greedy"
    notebook, cell = "12_a_small_gpt", "cell-44"
    points = 2
    names = ("greedy",)
    reads = ("alphabet", "encode", "LENGTH")

    def cases(rng):
        # The last beginning is longer than what the model can read.
        for length, letters in ((2, 8), (1, 5), (5, 0), (60, 3)):
            yield {
                "beginning": "".join(rng.choice([*LETTERS], length)),
                "letters": letters,
                "last": rng.normal(size=(26, 26)),
                "before": rng.normal(size=(26, 26)),
            }

    def answer(theirs, beginning, letters, last, before):
        signs, known = len(theirs.alphabet), theirs.encode("abcdefghijklmnopqrstuvwxyz").numpy()

        def table(values, otherwise):
            # The alphabet of the notebook has other signs, too: they are never likely.
            whole = np.full((signs, signs), otherwise)
            whole[np.ix_(known, known)] = values
            return torch.tensor(whole)

        last, before = table(last, -50.0), table(before, 0.0)

        class Model(nn.Module):
            def forward(self, numbers):
                if numbers.shape[1] > theirs.LENGTH:
                    raise IndexError(f"the model reads at most LENGTH = {theirs.LENGTH} numbers")
                return last[numbers] + F.pad(before[numbers[:, :-1]], (0, 0, 1, 0))

        return theirs.greedy(Model(), beginning, letters)

    def right(beginning, letters, last, before):
        return greedy_text(beginning, letters, last, before)

    hints = (
        Hint(
            "nothing is written yet: ask the model for the scores, and append one letter",
            lambda attempt: attempt.value == attempt.case["beginning"] and not attempt.graph.ops,
        ),
        Hint(
            "chance still has a say: which letter is the likeliest?",
            lambda attempt: (
                attempt.graph.has("softmax") and not attempt.graph.has("argmax", "max", "topk")
            ),
            mark="softmax",
        ),
        Hint(
            "the new letters are right, but the text has to begin as it was given",
            lambda attempt: attempt.case["beginning"] + attempt.value == attempt.right,
        ),
        Hint(
            "count the letters: how many are new?",
            lambda attempt: len(attempt.value) != len(attempt.right),
        ),
        Hint(
            "the model gets the last letter alone: it can read more",
            lambda attempt: (
                attempt.value
                == greedy_text(**{**attempt.case, "before": np.zeros_like(attempt.case["before"])})
            ),
        ),
        Hint(
            "look at the place whose scores you take: which one guesses the letter that is new?",
            lambda attempt: (
                attempt.value[: len(attempt.case["beginning"])] == attempt.case["beginning"]
            ),
            mark="argmax",
        ),
    )
    before = ALPHABET
    starter = """\
@torch.no_grad()
def greedy(model, beginning, letters):
    return beginning  # your code
"""
    solution = """\
@torch.no_grad()
def greedy(model, beginning, letters):
    written = encode(beginning).tolist()
    for _ in range(letters):
        scores = model(torch.tensor([written[-LENGTH:]]))[0, -1]
        written.append(scores.argmax().item())
    return decode(written)
"""
    mutants = (
        Mutant(
            solution.replace("scores.argmax()", "torch.multinomial(scores.softmax(0), 1)"), hint=1
        ),
        Mutant(solution.replace("decode(written)", "decode(written)[len(beginning) :]"), hint=2),
        Mutant(solution.replace("range(letters)", "range(letters - len(beginning))"), hint=3),
        Mutant(solution.replace("[-LENGTH:]", "[-1:]"), hint=4),
        Mutant(solution.replace("[0, -1]", "[0, 0]"), hint=5),
        Mutant(solution.replace("[-LENGTH:]", "")),
    )


def losses_of_letters(text, last, before):
    """Return -log of the chance of each letter of a text but the first."""
    losses = []
    for place in range(1, len(text)):
        scores = scores_after(text[:place], last, before)
        losses.append(np.log(np.exp(scores).sum()) - scores[LETTERS.index(text[place])])
    return np.array(losses)


def mean_loss(attempt):
    case = attempt.case
    return losses_of_letters(case["text"], case["last"], case["before"]).mean()


class Perplexity(Exercise):
    """The perplexity of a text."""

    id = "12.perplexity"
    notebook, cell = "12_a_small_gpt", "cell-48"
    points = 2
    names = ("perplexity",)
    reads = ("alphabet", "encode")

    def cases(rng):
        for length in (7, 2, 30):
            yield {
                "text": "".join(rng.choice([*LETTERS], length)),
                "last": rng.normal(size=(26, 26)),
                "before": rng.normal(size=(26, 26)),
            }

    def answer(theirs, text, last, before):
        signs, known = len(theirs.alphabet), theirs.encode("abcdefghijklmnopqrstuvwxyz").numpy()

        def table(values, otherwise):
            # The alphabet of the notebook has other signs, too: they are never likely.
            whole = np.full((signs, signs), otherwise)
            whole[np.ix_(known, known)] = values
            return torch.tensor(whole)

        last, before = table(last, -50.0), table(before, 0.0)

        class Model(nn.Module):
            def forward(self, numbers):
                return last[numbers] + F.pad(before[numbers[:, :-1]], (0, 0, 1, 0))

        return float(theirs.perplexity(Model(), text))

    def right(text, last, before):
        return math.exp(losses_of_letters(text, last, before).mean())

    hints = (
        Hint(
            "that is the size of the alphabet: how sure is this model, of this text?",
            lambda attempt: (
                not attempt.graph.has("logsumexp", "log_softmax", "cross_entropy")
                and attempt.value == int(attempt.value)
            ),
        ),
        Hint(
            "that is the loss: the perplexity is a number of letters",
            lambda attempt: attempt.is_close(mean_loss(attempt)),
            mark="nll_loss",
        ),
        Hint(
            "the mean over all letters that are guessed, not their sum",
            lambda attempt: math.isclose(
                math.log(attempt.value),
                mean_loss(attempt) * (len(attempt.case["text"]) - 1),
                rel_tol=1e-6,
            ),
        ),
        Hint(
            "the loss of the notebook is a natural logarithm: which function undoes it?",
            lambda attempt: math.isclose(
                math.log(attempt.value) / math.log(2), mean_loss(attempt), rel_tol=1e-6
            ),
        ),
        Hint(
            "the loss is another one: which letter is read first, and which is its target?",
            lambda attempt: not attempt.error,
        ),
    )
    before = ALPHABET
    starter = """\
@torch.no_grad()
def perplexity(model, text):
    return len(alphabet)  # your code
"""
    solution = """\
@torch.no_grad()
def perplexity(model, text):
    numbers = encode(text)[None]
    return math.exp(loss_of(model, numbers[:, :-1], numbers[:, 1:]).item())
"""
    mutants = (
        Mutant(solution.replace("math.exp(", "("), hint=1),
        Mutant(solution.replace(".item()", ".item() * (len(text) - 1)"), hint=2),
        Mutant(solution.replace("math.exp(", "2 ** ("), hint=3),
        Mutant(solution.replace("[:, :-1], numbers[:, 1:]", ", numbers"), hint=4),
        Mutant(solution.replace("[:, :-1], numbers[:, 1:]", "[:, 1:], numbers[:, :-1]"), hint=4),
        Mutant(solution.replace("encode(text)[None]", "encode(text)")),
    )
