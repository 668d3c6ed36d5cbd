"""The exercises of `notebooks/07_will_it_hold.ipynb`."""

import numpy as np

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def sends(rule):
    """Return the condition that the gradient for x is what `rule` makes of g·gamma, x_hat, std."""

    def condition(attempt):
        x, gamma, g = (attempt.case[name] for name in ("x", "gamma", "g"))
        std = np.sqrt(x.var(0) + 1e-5)
        expected = rule(g * gamma, (x - x.mean(0)) / std, std)
        return attempt.is_close(torch.tensor(expected), "gradient of x")

    return condition


class BatchNormGradient(Exercise):
    """The backward pass of batch norm."""

    id = "07.batchnorm"
    notebook, cell = "07_will_it_hold", "cell-59"
    points = 3
    names = ("BatchNorm",)
    forbid = frozenset({"batch_norm"})

    def cases(rng):
        for rows, columns in ((6, 3), (4, 1), (2, 5)):
            shape = (rows, columns)
            yield {
                "x": rng.normal(size=shape) * 2 + 1,
                "gamma": rng.uniform(0.5, 2.0, size=columns),
                "g": rng.normal(size=shape) + 1,
            }

    def answer(theirs, x, gamma, g):
        x, gamma = torch.tensor(x, requires_grad=True), torch.tensor(gamma, requires_grad=True)
        beta = torch.zeros(len(gamma), dtype=torch.float64, requires_grad=True)
        y = theirs.BatchNorm.apply(x, gamma, beta)
        y.backward(torch.tensor(g))
        return {
            "y": y.detach(),
            "gradient of gamma": gamma.grad,
            "gradient of beta": beta.grad,
            "gradient of x": x.grad,
        }

    def right(x, gamma, g):
        leaves = [torch.tensor(array, requires_grad=True) for array in (x, gamma, 0 * gamma)]
        leaf, gamma, beta = leaves
        y = F.batch_norm(leaf, None, None, gamma, beta, training=True)
        y.backward(torch.tensor(g))
        return {
            "y": y.detach(),
            "gradient of gamma": gamma.grad,
            "gradient of beta": beta.grad,
            "gradient of x": leaf.grad,
        }

    hints = (
        Hint(
            "only the direct way is there; the way through the mean (section 10, step 2) and that "
            "through the standard deviation (step 3) are missing",
            sends(lambda g, x_hat, std: g / std),
            mark="BatchNorm",
        ),
        Hint(
            "what comes back through the mean is missing: step 2",
            sends(lambda g, x_hat, std: (g - x_hat * (g * x_hat).mean(0)) / std),
            mark="BatchNorm",
        ),
        Hint(
            "what comes back through the standard deviation is missing: step 3",
            sends(lambda g, x_hat, std: (g - g.mean(0)) / std),
            mark="BatchNorm",
        ),
        Hint(
            "one of the two ways has the wrong sign: both are subtracted",
            lambda attempt: any(
                sends(
                    lambda g, x_hat, std, a=a, b=b: (
                        (g - a * g.mean(0) - b * x_hat * (g * x_hat).mean(0)) / std
                    )
                )(attempt)
                for a, b in ((-1, 1), (1, -1), (-1, -1))
            ),
            mark="BatchNorm",
        ),
        Hint(
            "on the way back the first box is the multiplication by gamma: where is it?",
            lambda attempt: sends(
                lambda g, x_hat, std: gradient_of_x(g / attempt.case["gamma"], x_hat, std)
            )(attempt),
            mark="BatchNorm",
        ),
        Hint(
            "sums, where the means divide by the number of rows: how much of it does each row get?",
            sends(lambda g, x_hat, std: (g - g.sum(0) - x_hat * (g * x_hat).sum(0)) / std),
            mark="BatchNorm",
        ),
        Hint(
            "the columns are mixed: each has a mean and a standard deviation of its own",
            lambda attempt: any(
                sends(
                    lambda g, x_hat, std, axis=axis: (
                        (g - mean(g, axis) - x_hat * mean(g * x_hat, axis)) / std
                    )
                )(attempt)
                for axis in (1, None)
            ),
            mark="BatchNorm",
        ),
        Hint(
            "all three ways are there; what is still missing is the division of step 3",
            sends(lambda g, x_hat, std: gradient_of_x(g, x_hat, 1.0)),
            mark="BatchNorm",
        ),
    )
    starter = '''\
class BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta):
        centred = x - x.mean(0)
        std = (centred.square().mean(0) + 1e-5).sqrt()
        x_hat = centred / std
        ctx.save_for_backward(x_hat, std, gamma)
        return gamma * x_hat + beta

    @staticmethod
    def backward(ctx, g):
        """The gradients for x, gamma and beta."""
        x_hat, std, gamma = ctx.saved_tensors
        g_x = g * gamma / std  # your code: two of the three ways are missing
        return g_x, (g * x_hat).sum(0), g.sum(0)
'''
    solution = """\
class BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta):
        centred = x - x.mean(0)
        std = (centred.square().mean(0) + 1e-5).sqrt()
        x_hat = centred / std
        ctx.save_for_backward(x_hat, std, gamma)
        return gamma * x_hat + beta

    @staticmethod
    def backward(ctx, g):
        x_hat, std, gamma = ctx.saved_tensors
        g_hat = g * gamma
        g_centred = (g_hat - x_hat * (g_hat * x_hat).mean(0)) / std
        g_x = g_centred - g_centred.mean(0)
        return g_x, (g * x_hat).sum(0), g.sum(0)
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("g_centred - g_centred.mean(0)", "g_centred"), hint=1),
        Mutant(solution.replace("(g_hat - x_hat * (g_hat * x_hat).mean(0))", "g_hat"), hint=2),
        Mutant(solution.replace("g_hat - x_hat", "g_hat + x_hat"), hint=3),
        Mutant(solution.replace("g_centred - g_centred", "g_centred + g_centred"), hint=3),
        Mutant(solution.replace("g_hat = g * gamma", "g_hat = g"), hint=4),
        Mutant(
            solution.replace("(g_hat * x_hat).mean(0)", "(g_hat * x_hat).sum(0)").replace(
                "g_centred.mean(0)", "g_centred.sum(0)"
            ),
            hint=5,
        ),
        Mutant(
            solution.replace("(g_hat * x_hat).mean(0)", "(g_hat * x_hat).mean()").replace(
                "g_centred.mean(0)", "g_hat.mean() / std"
            ),
            hint=6,
        ),
        Mutant(solution.replace("mean(0)) / std\n        g_x", "mean(0))\n        g_x"), hint=7),
        Mutant(solution.replace("(g * x_hat).sum(0)", "g.sum(0)")),
        Mutant(solution.replace("return g_x,", "return None,")),
    )


def mean(array, axis):
    return array.mean(axis, keepdims=True)


def gradient_of_x(g, x_hat, std):
    """Return the gradient for x of batch norm, of what comes back to x_hat."""
    return (g - g.mean(0) - x_hat * (g * x_hat).mean(0)) / std


def chances_of(inputs, running_mean, weight, dim=1):
    """Return what a model of `Evaluate` says in evaluation mode."""
    normalised = (torch.tensor(inputs) - torch.tensor(running_mean)) / (1 + 1e-5) ** 0.5
    return F.linear(F.relu(normalised), torch.tensor(weight)).softmax(dim)


class Evaluate(Exercise):
    """A model is asked outside of training, and is afterwards what it was before."""

    id = "07.evaluate"
    notebook, cell = "07_will_it_hold", "cell-63"
    points = 2
    names = ("evaluate",)

    def cases(rng):
        for rows, training in ((6, True), (3, False), (1, True)):
            yield {
                "inputs": rng.normal(size=(rows, 8)).astype(np.float32),
                "running_mean": rng.normal(size=8).astype(np.float32) + 1,
                "weight": rng.normal(size=(4, 8)).astype(np.float32),
                "training": training,
            }

    def answer(theirs, inputs, running_mean, weight, training):
        weight = nn.Parameter(torch.tensor(weight))
        running_mean = torch.tensor(running_mean)

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8, affine=False)
                self.dropout = nn.Dropout(0.5)
                self.norm.running_mean = running_mean

            def forward(self, x):
                return F.linear(self.dropout(F.relu(self.norm(x))), weight)

        model = Model().train(training)
        chances = theirs.evaluate(model, torch.tensor(inputs))
        return {
            "running mean": model.norm.running_mean.clone(),
            "modules in training": sum(module.training for module in model.modules()),
            "chances need a gradient": getattr(chances, "requires_grad", False),
            "chances": chances.detach() if isinstance(chances, torch.Tensor) else chances,
        }

    def right(inputs, running_mean, weight, training):
        return {
            "running mean": torch.tensor(running_mean),
            "modules in training": 3 * training,
            "chances need a gradient": False,
            "chances": chances_of(inputs, running_mean, weight),
        }

    hints = (
        Hint(
            "the model still trains: the running mean has moved, and dropout has struck out "
            "features by chance",
            lambda attempt: (
                not attempt.is_close(torch.tensor(attempt.case["running_mean"]), "running mean")
            ),
            mark="batch_norm",
        ),
        Hint(
            "the model is left in evaluation mode: the training that goes on has no dropout",
            lambda attempt: not attempt.value["modules in training"] and attempt.case["training"],
            mark="softmax",
        ),
        Hint(
            "the model was in evaluation mode and now trains: remember what it was",
            lambda attempt: (
                attempt.value["modules in training"] == 3 and not attempt.case["training"]
            ),
            mark="softmax",
        ),
        Hint(
            "a graph is kept behind the chances, and with it all that lies between: nobody will go "
            "back through it",
            lambda attempt: attempt.value["chances need a gradient"],
            mark="softmax",
        ),
        Hint(
            "these are the scores: chances are positive, and their sum is 1",
            lambda attempt: (
                (attempt.value["chances"].softmax(1) - attempt.right["chances"]).abs().max() < 1e-4
            ),
            mark="linear",
        ),
        Hint(
            "the sum over the classes is not 1: a row is an example, a column is a class",
            lambda attempt: (attempt.value["chances"].sum(0) - 1).abs().max() < 1e-4,
            mark="softmax",
        ),
        Hint(
            "`model.training = …` turns one switch; `train()` turns those of all modules inside",
            lambda attempt: attempt.value["modules in training"] != 3 * attempt.case["training"],
            mark="softmax",
        ),
    )
    starter = '''\
def evaluate(model, inputs):
    """The chances of each class, as the model gives them outside of training."""
    return model(inputs).softmax(1)  # your code
'''
    solution = """\
def evaluate(model, inputs):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        chances = model(inputs).softmax(1)
    model.train(was_training)
    return chances
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("model.eval()", "model.train()"), hint=0),
        Mutant(solution.replace("    model.train(was_training)\n", ""), hint=1),
        Mutant(solution.replace("model.train(was_training)", "model.train()"), hint=2),
        Mutant(solution.replace("torch.no_grad()", "torch.enable_grad()"), hint=3),
        Mutant(solution.replace(".softmax(1)", ""), hint=4),
        Mutant(solution.replace(".softmax(1)", ".softmax(0)"), hint=5),
        Mutant(
            solution.replace("model.train(was_training)", "model.training = was_training"), hint=6
        ),
        Mutant(solution.replace("return chances", "return chances.argmax(1)")),
    )


def is_standardised(attempt, statistics, part="train"):
    """Return whether a set is standardised with mean and standard deviation of `statistics`."""
    mean, std = statistics
    rows = attempt.case[part]
    with np.errstate(all="ignore"):
        return attempt.is_close(torch.tensor((rows - mean) / std), part)


def statistics_of(*sets):
    """Return mean and standard deviation of the columns of some sets together."""
    rows = np.concatenate(sets)
    return rows.mean(0), rows.std(0, ddof=1)


class Standardise(Exercise):
    """Two sets are standardised without a leak between them."""

    id = "07.leak"
    notebook, cell = "07_will_it_hold", "cell-67"
    names = ("standardise",)

    def cases(rng):
        for train, test, columns in ((8, 5, 3), (5, 1, 2), (4, 9, 1)):
            scale = rng.uniform(0.5, 20.0, size=columns)
            yield {
                "train": rng.normal(size=(train, columns)) * scale + 3 * scale,
                "test": rng.normal(size=(test, columns)) * scale + 5 * scale,
            }

    def answer(theirs, train, test):
        train, test = theirs.standardise(torch.tensor(train), torch.tensor(test))
        return {"train": train, "test": test}

    def right(train, test):
        mean, std = statistics_of(train)
        return {
            "train": torch.tensor((train - mean) / std),
            "test": torch.tensor((test - mean) / std),
        }

    hints = (
        Hint(
            "there is the leak: an arrow leads from the test set through this box into what the "
            "network is trained on",
            lambda attempt: is_standardised(
                attempt, statistics_of(attempt.case["train"], attempt.case["test"])
            ),
            mark="cat",
        ),
        Hint(
            "the test set has a mean of its own here: if all its rows are larger, nobody will see "
            "it, and of a single row nothing is left",
            lambda attempt: (
                is_standardised(attempt, statistics_of(attempt.case["train"]))
                and attempt.value["test"].mean(0).abs().max() < 1e-6
            ),
            mark="mean",
        ),
        Hint(
            "the train set is right; the test set is still as it was: a network that is trained on "
            "standardised rows needs the same of all others",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["test"]), "test"),
        ),
        Hint(
            "that is standardised with the test set: which of the two may be looked at?",
            lambda attempt: is_standardised(attempt, statistics_of(attempt.case["test"])),
            mark="mean",
        ),
        Hint(
            "the columns are mixed: each has a mean and a standard deviation of its own",
            lambda attempt: is_standardised(
                attempt, (attempt.case["train"].mean(), attempt.case["train"].std(ddof=1))
            ),
            mark="mean",
        ),
        Hint(
            "the standard deviation is the root of the variance",
            lambda attempt: is_standardised(
                attempt,
                (attempt.case["train"].mean(0), attempt.case["train"].var(0, ddof=1)),
            ),
            mark="var",
        ),
    )
    starter = '''\
def standardise(train, test):
    """Both sets, with columns of mean 0 and standard deviation 1."""
    together = torch.cat([train, test])
    mean, std = together.mean(0), together.std(0)
    return (train - mean) / std, (test - mean) / std  # your code: repair the leak
'''
    solution = """\
def standardise(train, test):
    mean, std = train.mean(0), train.std(0)
    return (train - mean) / std, (test - mean) / std
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(
            """\
def standardise(train, test):
    return (train - train.mean(0)) / train.std(0), (test - test.mean(0)) / test.std(0)
""",
            hint=1,
        ),
        Mutant(solution.replace("(test - mean) / std", "test"), hint=2),
        Mutant(
            solution.replace("train.mean(0), train.std(0)", "test.mean(0), test.std(0)"), hint=3
        ),
        Mutant(
            solution.replace("train.mean(0), train.std(0)", "train.mean(), train.std()"), hint=4
        ),
        Mutant(solution.replace("train.std(0)", "train.var(0)"), hint=5),
        Mutant(solution.replace("(test - mean) / std", "(test - mean)")),
        Mutant(solution.replace("(train - mean) / std,", "train,")),
        Mutant(solution.replace("train.mean(0)", "torch.cat([train, test]).mean(0)")),
    )
