"""The exercises of `notebooks/06_modules_and_state_dict.ipynb`."""

import edutorch as torch
from edutorch import nn

from ..exercise import Exercise, Hint, Mutant


def parameter_count(case, frozen=False, biases=True):
    """Return how many elements the layers of a case have to learn.

    Args:
        frozen: count the frozen layers, too.
        biases: count the biases, too.
    """
    sizes = list(zip(case["widths"], case["widths"][1:], strict=False))
    count = sum(
        (inputs + biases) * outputs
        for index, (inputs, outputs) in enumerate(sizes)
        if frozen or index not in case["frozen"]
    )
    return count + case["norm"] * case["widths"][-1] * (1 + biases)


class CountTrainable(Exercise):
    """How many numbers of a module will be learned."""

    id = "06.count"
    notebook, cell = "06_modules_and_state_dict", "cell-55"
    names = ("count_trainable",)

    def cases(rng):
        for layers, frozen, norm in ((2, [0], True), (3, [], False), (4, [1, 2], True)):
            widths = rng.choice(range(3, 20), size=layers + 1, replace=False).tolist()
            yield {"widths": widths, "frozen": frozen, "norm": norm}

    def answer(theirs, widths, frozen, norm):
        model = nn.Sequential()
        for index in range(len(widths) - 1):
            layer = nn.Linear(widths[index], widths[index + 1])
            # Inside another module: a model is more than its first drawers.
            model.append(nn.Sequential(layer, nn.ReLU()).requires_grad_(index not in frozen))
        if norm:
            model.append(nn.BatchNorm1d(widths[-1]))
        count = theirs.count_trainable(model)
        model.eval()(torch.ones(2, widths[0]))  # for the picture: parameters at their layers
        return count

    def right(widths, frozen, norm):
        return parameter_count({"widths": widths, "frozen": frozen, "norm": norm})

    hints = (
        Hint("nothing is counted yet: return a number", lambda attempt: attempt.value is None),
        Hint(
            "the frozen ones are counted, too: nobody will change a parameter that wants no "
            "gradient",
            lambda attempt: attempt.is_close(parameter_count(attempt.case, frozen=True)),
        ),
        Hint(
            "that is how many parameters there are, each a tensor; how many numbers does it hold?",
            lambda attempt: attempt.is_close(
                2 * (len(attempt.case["widths"]) - 1 - len(attempt.case["frozen"]))
                + 2 * attempt.case["norm"]
            ),
        ),
        Hint(
            "the biases are missing: they are learned as well as the weights",
            lambda attempt: attempt.is_close(parameter_count(attempt.case, biases=False)),
            mark="bias",
        ),
        Hint(
            "the buffers are counted, too: a state_dict holds also what is remembered, not learned",
            # A batch norm remembers a mean and a variance, and the number of batches.
            lambda attempt: attempt.is_close(
                parameter_count(attempt.case, frozen=True) + 2 * attempt.case["widths"][-1] + 1
            ),
        ),
        Hint(
            "that is 0: the layers lie in other modules, at any depth",
            lambda attempt: attempt.value == 0,
        ),
    )
    mutants = (
        Mutant(
            "def count_trainable(module): return sum(p.numel() for p in module.parameters())",
            hint=1,
        ),
        Mutant(
            "def count_trainable(module):\n"
            "    return len([p for p in module.parameters() if p.requires_grad])",
            hint=2,
        ),
        Mutant(
            "def count_trainable(module):\n"
            "    weights = [p for n, p in module.named_parameters() if n.endswith('weight')]\n"
            "    return sum(p.numel() for p in weights if p.requires_grad)",
            hint=3,
        ),
        Mutant(
            "def count_trainable(module):\n"
            "    return sum(tensor.numel() for tensor in module.state_dict().values())",
            hint=4,
        ),
        Mutant(
            "def count_trainable(module):\n"
            "    own = module.parameters(recurse=False)\n"
            "    return sum(p.numel() for p in own if p.requires_grad)",
            hint=5,
        ),
        Mutant(
            "def count_trainable(module):\n"
            "    return sum(len(p) for p in module.parameters() if p.requires_grad)"
        ),
    )
    starter = """\
def count_trainable(module):
    return None  # your code
"""
    solution = """\
def count_trainable(module):
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
"""


class Relabel(Exercise):
    """A checkpoint from inside another module."""

    id = "06.relabel"
    notebook, cell = "06_modules_and_state_dict", "cell-59"
    names = ("relabel",)

    def cases(rng):
        for labels in (
            ("body.0.weight", "body.0.bias", "model.weight", "embedding.weight"),
            ("head.weight", "head.bias"),
            ("encoder.model.scale", "supermodel.0.weight", "mode", "0.weight"),
        ):
            yield {
                "state": {
                    f"model.{label}": rng.normal(size=int(rng.integers(1, 5))) for label in labels
                }
            }

    def answer(theirs, state):
        return theirs.relabel({label: torch.tensor(array) for label, array in state.items()})

    def right(state):
        start = len("model.")
        return {label[start:]: torch.tensor(array) for label, array in state.items()}

    hints = (
        Hint(
            "nothing is relabelled yet: the labels are those that came",
            lambda attempt: set(attempt.value) == set(attempt.case["state"]),
        ),
        Hint(
            "look at the dots: a label begins with the name of a drawer, not with a dot",
            lambda attempt: set(attempt.value) == {f".{label}" for label in attempt.right},
        ),
        Hint(
            'a "model." in the middle of a label is gone, too: it is the beginning that is wrong',
            lambda attempt: (
                set(attempt.value)
                == {label.replace("model.", "") for label in attempt.case["state"]}
            ),
        ),
        Hint(
            "`strip` and `lstrip` take *letters* away, as many as are among those given",
            lambda attempt: (
                set(attempt.value) == {label.lstrip("model.") for label in attempt.case["state"]}
            ),
        ),
        Hint(
            "labels got lost: of names with several dots only one part is left",
            lambda attempt: not any("." in label for label in attempt.value),
        ),
        Hint(
            "the labels are right; with each stands what stood there before, the tensor itself",
            lambda attempt: attempt.value.keys() == attempt.right.keys(),
        ),
    )
    mutants = (
        Mutant("def relabel(state): return {k[5:]: v for k, v in state.items()}", hint=1),
        Mutant(
            'def relabel(state): return {k.replace("model.", ""): v for k, v in state.items()}',
            hint=2,
        ),
        Mutant(
            'def relabel(state): return {k.lstrip("model."): v for k, v in state.items()}', hint=3
        ),
        Mutant(
            'def relabel(state): return {k.split(".")[-1]: v for k, v in state.items()}', hint=4
        ),
        Mutant('def relabel(state): return {k.removeprefix("model."): k for k in state}', hint=5),
        Mutant('def relabel(state): return [k.removeprefix("model.") for k in state]'),
        Mutant(
            "def relabel(state):\n"
            "    for label in state:\n"
            "        state[label[6:]] = state.pop(label)\n"
            "    return state",
        ),
    )
    starter = """\
def relabel(state):
    return state  # your code
"""
    solution = """\
def relabel(state):
    return {name.removeprefix("model."): tensor for name, tensor in state.items()}
"""


class CallCounter(Exercise):
    """A module that counts its calls."""

    id = "06.counter"
    notebook, cell = "06_modules_and_state_dict", "cell-63"
    points = 2
    names = ("Counter",)

    def cases(rng):
        for size, calls in ((1, 3), (4, 1), (2, 6)):
            yield {"x": rng.normal(size=size), "calls": calls + int(rng.integers(3))}

    def answer(theirs, x, calls):
        counter, copy = theirs.Counter(), theirs.Counter()
        for _ in range(calls):
            output = counter(torch.tensor(x))
        copy.load_state_dict(counter.state_dict())
        return {
            "output": output,
            "calls": int(counter.calls),
            "calls of the copy": int(copy.calls),
            "calls of another": int(theirs.Counter().calls),
            "parameters": len(list(counter.parameters())),
        }

    def right(x, calls):
        return {
            "output": torch.tensor(x),
            "calls": calls,
            "calls of the copy": calls,
            "calls of another": 0,
            "parameters": 0,
        }

    hints = (
        Hint(
            "a count is not learned: an optimizer would change this parameter",
            lambda attempt: attempt.value["parameters"] > 0,
        ),
        Hint(
            "it does not count: who calls the module, runs its `forward`",
            lambda attempt: attempt.value["calls"] == 0,
            mark="calls",
        ),
        Hint(
            "it counts, and its state_dict does not know: a plain attribute is not in it",
            lambda attempt: (
                attempt.value["calls"] == attempt.case["calls"]
                and attempt.value["calls of the copy"] == 0
            ),
        ),
        Hint(
            "all modules of this class share one count: it belongs to the object, not to the class",
            lambda attempt: attempt.value["calls of another"] > 0,
        ),
        Hint(
            "it counts, but what goes in does not come out as it was",
            lambda attempt: attempt.value["calls of the copy"] == attempt.case["calls"],
        ),
    )
    mutants = (
        Mutant(
            """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = nn.Parameter(torch.tensor(0.0), requires_grad=False)

    def forward(self, x):
        self.calls += 1
        return x
""",
            hint=0,
        ),
        Mutant(
            """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        return x
""",
            hint=1,
        ),
        Mutant(
            """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = torch.tensor(0)

    def forward(self, x):
        self.calls += 1
        return x
""",
            hint=2,
        ),
        Mutant(
            """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.calls += 1
        return x
""",
            hint=2,
        ),
        Mutant(
            """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        return self.calls
""",
            hint=4,
        ),
        Mutant(
            """\
class Counter(nn.Module):
    calls = 0

    def forward(self, x):
        Counter.calls += 1
        return x
""",
            hint=3,
        ),
        Mutant(
            """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += len(x)
        return x
"""
        ),
        Mutant(
            """\
class Counter(nn.Module):
    def __init__(self):
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        return x
"""
        ),
    )
    starter = """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = torch.tensor(0)  # not good enough

    def forward(self, x):
        return x
"""
    solution = """\
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.calls += 1
        return x
"""
