"""The exercises of `notebooks/13_deeper_resnet.ipynb`."""

import numpy as np

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def conv_pair(case):
    """Return the two convolutions of a case, as `answer` of `Residual` makes them."""
    with torch.random.fork_rng():
        torch.manual_seed(case["seed"])
        return [
            nn.Conv2d(case["width"], case["width"], 3, padding=1, dtype=torch.float64)
            for _ in range(2)
        ]


def residual_of(case, combine=lambda x, branch: F.relu(x + branch), inner=F.relu):
    """Return the output of a block, and the gradient of its input.

    Args:
        combine: what is made of the input and of the branch.
        inner: what stands between the two convolutions.
    """
    first, second = conv_pair(case)
    x = torch.tensor(case["x"], requires_grad=True)
    output = combine(x, second(inner(first(x))))
    (output * torch.tensor(case["g"])).sum().backward()
    return {"output": output.detach(), "gradient": x.grad}


def gives(combine, inner=F.relu):
    """Return the condition that an answer has the output of this block."""
    return lambda attempt: attempt.is_close(
        residual_of(attempt.case, combine, inner)["output"], "output"
    )


class Residual(Exercise):
    """A residual block."""

    id = "13.block"
    notebook, cell = "13_deeper_resnet", "cell-38"
    names = ("residual",)

    def cases(rng):
        for shape in ((2, 3, 4, 4), (1, 2, 5, 3)):
            yield {
                "x": rng.normal(size=shape),
                "g": rng.normal(size=shape),
                "width": shape[1],
                "seed": int(rng.integers(1000)),
            }

    def answer(theirs, x, g, width, seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            first, second = [
                nn.Conv2d(width, width, 3, padding=1, dtype=torch.float64) for _ in range(2)
            ]
        x = torch.tensor(x, requires_grad=True)
        output = theirs.residual(x, first, second)
        if not torch.is_tensor(output):
            return {"output": output, "gradient": None}
        (output * torch.tensor(g)).sum().backward()
        return {"output": output.detach(), "gradient": x.grad}

    def right(x, g, width, seed):
        return residual_of({"x": x, "g": g, "width": width, "seed": seed})

    hints = (
        Hint(
            "that is the plain pair of layers: nothing goes past it",
            gives(lambda x, branch: F.relu(branch)),
            mark="relu",
        ),
        Hint(
            "the last relu comes too early: what is added must be able to be negative, or the "
            "block can only ever make its input larger",
            gives(lambda x, branch: x + F.relu(branch)),
            mark="add",
        ),
        Hint(
            "the sum is right, but nothing bends it: where is the last relu?",
            gives(lambda x, branch: x + branch),
            mark="add",
        ),
        Hint(
            "between the two convolutions nothing is bent: two linear layers are one",
            gives(lambda x, branch: F.relu(x + branch), inner=lambda x: x),
            mark="add",
        ),
        Hint(
            "that multiplies the two paths: then each of them can close the other",
            gives(lambda x, branch: F.relu(x * branch)),
            mark="mul",
        ),
        Hint(
            "the values are right, but no gradient comes back past the layers: what cuts it off?",
            lambda attempt: attempt.is_close(attempt.right["output"], "output"),
            mark="add",
        ),
    )
    starter = '''\
def residual(x, first, second):
    """What a residual block makes of x; `first` and `second` are its two convolutions."""
    return F.relu(second(F.relu(first(x))))  # your code: let x go past
'''
    solution = '''\
def residual(x, first, second):
    """What a residual block makes of x; `first` and `second` are its two convolutions."""
    return F.relu(x + second(F.relu(first(x))))
'''
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("F.relu(x + second(", "x + F.relu(second("), hint=1),
        Mutant(solution.replace("F.relu(x + second(F.relu(first(x))))",
                                "x + second(F.relu(first(x)))"), hint=2),
        Mutant(solution.replace("F.relu(first(x))", "first(x)"), hint=3),
        Mutant(solution.replace("x + second", "x * second"), hint=4),
        Mutant(solution.replace("x + second", "x.detach() + second"), hint=5),
        Mutant(solution.replace("x + second", "x - second")),
    )  # fmt: skip


class Projection(Exercise):
    """A projection where the channels change."""

    id = "13.projection"
    notebook, cell = "13_deeper_resnet", "cell-42"
    names = ("projection",)

    def cases(rng):
        # Hints are about the first case that is wrong, so each adds one difficulty.
        small, large = int(rng.integers(2, 4)), int(rng.integers(5, 8))
        for inputs, outputs, stride in (
            (small, small, 1), (small, large, 1), (small, large, 2), (small, small, 2),
        ):  # fmt: skip
            yield {
                "x": rng.normal(size=(2, inputs, 8, 6)).astype("float32"),
                "outputs": outputs,
                "stride": stride,
            }

    def answer(theirs, x, outputs, stride):
        inputs = x.shape[1]
        layer = theirs.projection(inputs, outputs, stride)
        if not isinstance(layer, nn.Module):
            raise TypeError(f"`projection` has to return a layer, not a {type(layer).__name__}")
        x = torch.tensor(x)
        y = layer(x)
        shapes = [tuple(parameter.shape) for parameter in layer.parameters()]
        return {
            "shape": tuple(y.shape),
            "leaves its input alone": tuple(y.shape) == tuple(x.shape) and bool((y == x).all()),
            "weights": int(sum(np.prod(shape) for shape in shapes if len(shape) == 4)),
        }

    def right(x, outputs, stride):
        batch, inputs, height, width = x.shape
        same = inputs == outputs and stride == 1
        return {
            "shape": (batch, outputs, height // stride, width // stride),
            "leaves its input alone": same,
            "weights": 0 if same else inputs * outputs,
        }

    hints = (
        Hint(
            "where nothing changes, the skip should leave its input as it is, and have nothing to "
            "learn",
            lambda attempt: (
                attempt.right["leaves its input alone"]
                and not attempt.value["leaves its input alone"]
            ),
            mark="conv2d",
        ),
        Hint(
            "the number of channels has to change: the branch and the skip can't be added",
            lambda attempt: attempt.value["shape"][1] != attempt.right["shape"][1],
            mark="x",
        ),
        Hint(
            "the branch has a stride: the skip's image has to become as small",
            lambda attempt: (
                attempt.case["stride"] > 1 and attempt.value["shape"] != attempt.right["shape"]
            ),
            mark="x",
        ),
        Hint(
            "that projection looks at neighbours: it should only mix the channels of one pixel. "
            "How large is its kernel?",
            lambda attempt: attempt.value["weights"] > attempt.right["weights"] > 0,
            mark="conv2d",
        ),
    )
    starter = '''\
def projection(inputs, outputs, stride):
    """The layer on the skip of a block: from `inputs` channels to `outputs`."""
    return nn.Identity()  # your code
'''
    solution = '''\
def projection(inputs, outputs, stride):
    """The layer on the skip of a block: from `inputs` channels to `outputs`."""
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return nn.Conv2d(inputs, outputs, 1, stride=stride)
'''
    mutants = (
        Mutant(
            "def projection(inputs, outputs, stride):\n"
            "    return nn.Conv2d(inputs, outputs, 1, stride=stride)\n",
            hint=0,
        ),
        Mutant(starter, hint=1),
        Mutant(solution.replace(", stride=stride", ""), hint=2),
        Mutant(solution.replace(", 1, stride=stride", ", 3, stride=stride, padding=1"), hint=3),
        Mutant(solution.replace(" and stride == 1", ""), hint=2),
        Mutant(solution.replace("inputs, outputs, 1", "outputs, inputs, 1")),
    )


def frozen_after(case, head_too=False, body_open=False):
    """Return which parameters are to be learned after a mistake."""
    names = [f"body.{index}.{name}" for index in range(case["layers"])
             for name in ("weight", "bias")]  # fmt: skip
    learned = dict.fromkeys(names, body_open)
    return learned | dict.fromkeys(["head.weight", "head.bias"], not head_too)


def learned_in_body(attempt):
    return [learns for name, learns in attempt.value["learned"].items() if name.startswith("body")]


class Freeze(Exercise):
    """A frozen body with a new head."""

    id = "13.freeze"
    notebook, cell = "13_deeper_resnet", "cell-46"
    points = 2
    names = ("with_new_head",)

    def cases(rng):
        for layers, classes in ((1, 2), (3, 5)):
            yield {
                "x": rng.normal(size=(4, 6)).astype("float32"),
                "layers": layers,
                "classes": classes,
                "seed": int(rng.integers(1000)),
            }

    def answer(theirs, x, layers, classes, seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            net = nn.Module()
            net.body = nn.Sequential(*(nn.Linear(6, 6) for _ in range(layers)))
            net.head = nn.Linear(6, 10)
        before = {name: value.clone() for name, value in net.body.state_dict().items()}
        result = theirs.with_new_head(net, classes)
        if not isinstance(result, nn.Module):
            raise TypeError(f"`with_new_head` has to return the net, not a {type(result).__name__}")
        scores = result.head(result.body(torch.tensor(x)))
        loss = (scores**2).sum()
        if loss.requires_grad:
            loss.backward()
        after = result.body.state_dict()
        return {
            "scores": tuple(scores.shape),
            "body kept": all(bool((after[name] == value).all()) for name, value in before.items()),
            "learned": {name: value.requires_grad for name, value in result.named_parameters()},
        }

    def right(x, layers, classes, seed):
        return {
            "scores": (len(x), classes),
            "body kept": True,
            "learned": frozen_after({"layers": layers}),
        }

    hints = (
        Hint(
            "the head still knows ten classes",
            lambda attempt: attempt.value["scores"][1] != attempt.case["classes"],
            mark="linear",
        ),
        Hint(
            "the body learns, too: the gradient reaches its weights",
            lambda attempt: attempt.is_close(frozen_after(attempt.case, body_open=True), "learned"),
            mark="linear",
        ),
        Hint(
            "now nothing learns: the new head is frozen as well. Which of the two comes first, "
            "freezing or the new head?",
            lambda attempt: attempt.is_close(frozen_after(attempt.case, head_too=True), "learned"),
            mark="linear",
        ),
        Hint(
            "the weights of the body are frozen, but its biases learn (or the other way round)",
            lambda attempt: len(set(learned_in_body(attempt))) == 2,
            mark="linear",
        ),
    )
    starter = '''\
def with_new_head(net, classes):
    """The net with a frozen body, and a new `nn.Linear` as its head."""
    return net  # your code
'''
    solution = '''\
def with_new_head(net, classes):
    """The net with a frozen body, and a new `nn.Linear` as its head."""
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    net.head = nn.Linear(net.head.in_features, classes)
    return net
'''
    mutants = (
        Mutant(starter, hint=0),
        Mutant(
            "def with_new_head(net, classes):\n"
            "    net.head = nn.Linear(net.head.in_features, classes)\n"
            "    return net\n",
            hint=1,
        ),
        Mutant(
            """\
def with_new_head(net, classes):
    net.head = nn.Linear(net.head.in_features, classes)
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    return net
""",
            hint=2,
        ),
        Mutant(
            """\
def with_new_head(net, classes):
    for layer in net.body:
        layer.weight.requires_grad_(False)
    net.head = nn.Linear(net.head.in_features, classes)
    return net
""",
            hint=3,
        ),
        Mutant(
            """\
def with_new_head(net, classes):
    net.body[0].requires_grad_(False)
    with torch.no_grad():
        net.body[0].weight.zero_()
    net.head = nn.Linear(net.head.in_features, classes)
    return net
"""
        ),
        Mutant(solution.replace("classes)\n    return", "10)\n    return"), hint=0),
    )
