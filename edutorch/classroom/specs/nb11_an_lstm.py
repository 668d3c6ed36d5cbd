"""The exercises of `notebooks/11_an_lstm.ipynb`."""

import math
from typing import ClassVar

import edutorch as torch
from edutorch import nn

from ..exercise import Exercise, Hint, Mutant


def is_memory(attempt, compute):
    """Return whether an answer is this function of the gates and of the old memory."""
    i, f, g, _ = torch.tensor(attempt.case["sums"]).chunk(4, 1)
    c = torch.tensor(attempt.case["c"])
    return attempt.is_close(compute(i.sigmoid(), f.sigmoid(), g.tanh(), c))


class Memory(Exercise):
    """The memory of an LSTM."""

    id = "11.memory"
    notebook, cell = "11_an_lstm", "cell-45"
    names = ("new_memory",)
    forbid = frozenset({"lstm", "lstm_cell"})

    def cases(rng):
        for batch, hidden in ((1, 1), (4, 3), (3, 8)):
            sums = rng.normal(size=(batch, 4 * hidden)) * 2
            yield {"sums": sums, "c": rng.normal(size=(batch, hidden))}

    def answer(theirs, sums, c):
        i, f, g, _ = torch.tensor(sums).chunk(4, 1)
        i, f, g, c = i.sigmoid(), f.sigmoid(), g.tanh(), torch.tensor(c)
        return theirs.new_memory(i, f, g, c)

    def right(sums, c):
        hidden = c.shape[1]
        cell = nn.LSTMCell(4 * hidden, hidden, bias=False, dtype=torch.float64)
        with torch.no_grad():
            cell.weight_ih.copy_(torch.eye(4 * hidden))  # its sums are the inputs
            cell.weight_hh.zero_()
            return cell(torch.tensor(sums), 2 * (torch.tensor(c),))[1]

    hints = (
        Hint(
            "nothing is computed yet: the memory is what it was",
            lambda attempt: is_memory(attempt, lambda i, f, g, c: c),
        ),
        Hint(
            "two gates are swapped: which of them says how much is kept?",
            lambda attempt: is_memory(attempt, lambda i, f, g, c: i * c + f * g),
            mark="mul",
        ),
        Hint(
            "what is new is written whether or not the input gate is open",
            lambda attempt: is_memory(attempt, lambda i, f, g, c: f * c + g),
            mark="add",
        ),
        Hint(
            "nothing is ever forgotten: what does the forget gate do?",
            lambda attempt: is_memory(attempt, lambda i, f, g, c: c + i * g),
            mark="add",
        ),
    )
    mutants = (
        Mutant("def new_memory(i, f, g, c): return i * c + f * g", hint=1),
        Mutant("def new_memory(i, f, g, c): return f * c + g", hint=2),
        Mutant("def new_memory(i, f, g, c): return c + i * g", hint=3),
        Mutant("def new_memory(i, f, g, c): return i * g"),
        Mutant("def new_memory(i, f, g, c): return f * (c + i * g)"),
    )
    starter = """\
def new_memory(i, f, g, c):
    return c  # your code
"""
    solution = """\
def new_memory(i, f, g, c):
    return f * c + i * g
"""


class Parameters(Exercise):
    """The number of parameters of an LSTM."""

    id = "11.parameters"
    notebook, cell = "11_an_lstm", "cell-49"
    names = ("lstm_size",)
    tolerance: ClassVar = {"float64": 0.0}  # a count is right, or it is not

    def cases(rng):
        inputs, hidden = (int(number) for number in rng.integers(3, 30, size=2))
        yield {"inputs": inputs, "hidden": hidden + 1}
        yield {"inputs": inputs, "hidden": 1}
        yield {"inputs": 1, "hidden": hidden}
        yield {"inputs": 10 * inputs, "hidden": hidden}

    def answer(theirs, inputs, hidden):
        return theirs.lstm_size(inputs, hidden)

    def right(inputs, hidden):
        return sum(parameter.numel() for parameter in nn.LSTM(inputs, hidden).parameters())

    hints = (
        Hint(
            "there are four gates, and each has its own numbers",
            lambda attempt: 4 * attempt.value == attempt.right,
        ),
        Hint(
            "there are two biases for each sum, one for the input and one for the last output",
            lambda attempt: (
                attempt.right - attempt.value in (4 * hidden_of(attempt), 8 * hidden_of(attempt))
            ),
        ),
        Hint(
            "a gate does not look at the input alone: what else?",
            lambda attempt: attempt.right - attempt.value == 4 * hidden_of(attempt) ** 2,
        ),
    )
    mutants = (
        Mutant("def lstm_size(inputs, hidden): return hidden * (inputs + hidden + 2)", hint=0),
        Mutant("def lstm_size(inputs, hidden): return 4 * hidden * (inputs + hidden + 1)", hint=1),
        Mutant("def lstm_size(inputs, hidden): return 4 * hidden * (inputs + hidden)", hint=1),
        Mutant("def lstm_size(inputs, hidden): return 4 * hidden * (inputs + 2)", hint=2),
        Mutant("def lstm_size(inputs, hidden): return 4 * hidden * (inputs + hidden) + 2"),
        Mutant("def lstm_size(inputs, hidden): return 4 * inputs * (inputs + hidden + 2)"),
    )
    starter = """\
def lstm_size(inputs, hidden):
    return 0  # your code
"""
    solution = """\
def lstm_size(inputs, hidden):
    return 4 * hidden * (inputs + hidden + 2)
"""


def hidden_of(attempt):
    return attempt.case["hidden"]


def sure_word(beginning, order, end, start=(0,), remembers=True):
    """Return the word that the model of `ContinueWord` writes, or how a mistake continues it.

    Args:
        start: what is read before the beginning.
        remembers: whether the state is passed on from one letter to the next.
    """
    numbers = [*start, *(ord(letter) - ord("a") + 1 for letter in beginning)]
    first = len(numbers)
    while len(numbers) < end:
        read = numbers if remembers or len(numbers) == first else numbers[-1:]
        numbers.append(order[(sum(read) + len(read)) % 26])
    return "".join(chr(ord("a") + number - 1) for number in numbers[len(start) :])


class ContinueWord(Exercise):
    """A word with a given beginning.

    The model is sure of each next letter: it follows from all that were read, in its state. So
    what is written at a temperature near 0 is known, and shows what the model was given.
    """

    id = "11.continue"
    notebook, cell = "11_an_lstm", "cell-53"
    points = 2
    names = ("continue_word",)

    def cases(rng):
        for length in (1, 3, 5):
            yield {
                "beginning": "".join(rng.choice([*"abcdefghijklmnopqrstuvwxyz"], length)),
                "order": (rng.permutation(26) + 1).tolist(),
                "end": length + int(rng.integers(4, 7)),
            }

    def answer(theirs, beginning, order, end):
        scores = torch.eye(28)
        scores[:27, [0, 27]] = -math.inf  # no word ends before its time

        class Model(nn.Module):
            def __init__(self, end):
                super().__init__()
                self.end = end  # a word is over when so many numbers were read

            def forward(self, numbers, state=None):
                read, following = list(state or ()), []
                for number in numbers[0].tolist():
                    read.append(number)
                    letter = order[(sum(read) + len(read)) % 26]
                    following.append(27 if len(read) >= self.end else letter)
                return scores[torch.tensor([following])], tuple(read)

        def write(end, **settings):
            return theirs.continue_word(Model(end), beginning, **settings)

        longest = len(beginning) + 4
        word = write(end, temperature=0.02)
        endless = write(longest + 4, temperature=0.02, longest=longest)
        with torch.random.fork_rng():
            torch.manual_seed(end)
            tries = {write(longest + 4, temperature=50.0, longest=longest) for _ in range(3)}
        # With or without the number that begins the word: both are as long as `longest` says.
        return {
            "word": word,
            "stops at `longest`": longest - 1 <= len(endless) <= longest,
            "differs at high temperature": len(tries) > 1,
        }

    def right(beginning, order, end):
        word = sure_word(beginning, order, end)
        return {"word": word, "stops at `longest`": True, "differs at high temperature": True}

    hints = (
        Hint(
            "the model is not asked yet: give it the beginning, and look at the scores behind its "
            "last letter",
            lambda attempt: (
                attempt.value["word"] == attempt.case["beginning"] and not attempt.graph.ops
            ),
        ),
        Hint(
            "nothing is added to the beginning: what is the last number of `encode(beginning)`, "
            "and what does your loop make of it?",
            lambda attempt: attempt.value["word"] == attempt.case["beginning"],
        ),
        Hint(
            "the new letters are right, but the word has to begin as it was given",
            lambda attempt: (
                attempt.case["beginning"] + attempt.value["word"] == attempt.right["word"]
            ),
        ),
        Hint(
            "each letter follows from the last one alone: what does the model remember the others "
            "by?",
            lambda attempt: attempt.value["word"].startswith(
                sure_word(**attempt.case, remembers=False)
            ),
            mark="softmax",
        ),
        Hint(
            "the model has learned that a number stands before the first letter: which?",
            lambda attempt: attempt.value["word"] == sure_word(**attempt.case, start=()),
        ),
        Hint(
            "the word is always the same: chances are there to draw from",
            lambda attempt: not attempt.value["differs at high temperature"],
            mark="argmax",
        ),
        Hint(
            "a word that does not end by itself has to stop at `longest`",
            lambda attempt: not attempt.value["stops at `longest`"],
        ),
        Hint(
            "the word is another one although the model is sure: look at the temperature",
            lambda attempt: not attempt.graph.has("div", "mul"),
            mark="softmax",
        ),
    )
    before = """\
START, END = 0, 27


def encode(word):
    return torch.tensor([START, *(ord(letter) - ord("a") + 1 for letter in word), END])


def decode(numbers):
    return "".join(chr(ord("a") + n - 1) for n in numbers if 0 < n < END)
"""
    starter = """\
@torch.no_grad()
def continue_word(model, beginning, temperature=0.7, longest=14):
    return beginning  # your code: read the beginning, then go on like `invent`
"""
    solution = """\
@torch.no_grad()
def continue_word(model, beginning, temperature=0.7, longest=14):
    written = encode(beginning)[:-1].tolist()  # without the end
    scores, state = model(torch.tensor([written]))
    while written[-1] != END and len(written) < longest:
        chances = (scores[0, -1] / temperature).softmax(0)
        written.append(torch.multinomial(chances, 1).item())
        scores, state = model(torch.tensor([written[-1:]]), state)
    return decode(written)
"""
    mutants = (
        Mutant(solution.replace("[:-1].tolist()", ".tolist()"), hint=1),
        Mutant(solution.replace("decode(written)", "decode(written)[len(beginning) :]"), hint=2),
        Mutant(solution.replace("]), state)", "]))"), hint=3),
        Mutant(solution.replace("[:-1].tolist()", "[1:-1].tolist()"), hint=4),
        Mutant(
            solution.replace("torch.multinomial(chances, 1).item()", "chances.argmax().item()"),
            hint=5,
        ),
        Mutant(solution.replace(" and len(written) < longest", ""), hint=6),
        Mutant(solution.replace(" / temperature", ""), hint=7),
        Mutant(solution.replace("scores[0, -1]", "scores[0, 0]")),
    )
