"""The exercises of `notebooks/16_gan.ipynb`."""

import math

import numpy as np

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def draw_networks(rng):
    """Return the weights of a generator and of a discriminator, for images of 6 pixels."""
    return {"of_generator": rng.normal(size=(6, 3)), "of_discriminator": rng.normal(size=(1, 6))}


class Detach(Exercise):
    """Where to detach: two losses from one batch of drawn images."""

    id = "16.detach"
    notebook, cell = "16_gan", "cell-40"
    points = 2
    names = ("both_losses",)

    def cases(rng):
        for count in (5, 3):
            yield {
                **draw_networks(rng),
                "real": rng.random((count, 6)),
                "noise": rng.normal(size=(count, 3)),
            }

    def answer(theirs, of_generator, of_discriminator, real, noise):
        generator_weight = torch.tensor(of_generator, requires_grad=True)
        discriminator_weight = torch.tensor(of_discriminator, requires_grad=True)
        weights = {"generator": generator_weight, "discriminator": discriminator_weight}

        class Generator(nn.Module):
            def forward(self, noise):
                return F.linear(noise, generator_weight).sigmoid()

        class Discriminator(nn.Module):
            def forward(self, images):
                return F.linear(images.tanh(), discriminator_weight)

        losses = theirs.both_losses(
            Generator(), Discriminator(), torch.tensor(real), torch.tensor(noise)
        )
        is_pair = isinstance(losses, tuple | list) and len(losses) == 2
        if not is_pair or not all(isinstance(loss, torch.Tensor) for loss in losses):
            return losses
        answer = {}
        for owner, loss in zip("DG", losses, strict=True):
            answer[f"{owner}'s loss"] = loss.detach()
            if loss.requires_grad:
                loss.backward(retain_graph=True)
            for name, weight in weights.items():
                grad = torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
                answer[f"{owner}'s loss, gradient of the {name}"] = grad
                weight.grad = None
        return answer

    def right(of_generator, of_discriminator, real, noise):
        weights = [torch.tensor(of_generator), torch.tensor(of_discriminator)]
        for weight in weights:
            weight.requires_grad_()
        fake = F.linear(torch.tensor(noise), weights[0]).sigmoid()
        scores = [
            F.linear(images.tanh(), weights[1])
            for images in (torch.tensor(real), fake.detach(), fake)
        ]
        d_loss, g_loss = (-F.logsigmoid(score).mean() for score in (scores[0], scores[2]))
        d_loss = d_loss - F.logsigmoid(-scores[1]).mean()
        of_d = torch.autograd.grad(d_loss, weights[1])[0]
        of_g = torch.autograd.grad(g_loss, weights)
        return {
            "D's loss": d_loss.detach(),
            "D's loss, gradient of the generator": torch.zeros_like(weights[0]),
            "D's loss, gradient of the discriminator": of_d,
            "G's loss": g_loss.detach(),
            "G's loss, gradient of the generator": of_g[0],
            "G's loss, gradient of the discriminator": of_g[1],
        }

    hints = (
        Hint(
            "the two losses come in the wrong order: first D's, then G's",
            lambda attempt: attempt.is_close(attempt.right["D's loss"], "G's loss"),
        ),
        Hint(
            "the cut is in the wrong loss: D's runs into the generator, and G's does not",
            lambda attempt: reaches_generator(attempt, "D") and not reaches_generator(attempt, "G"),
            mark="detach",
        ),
        Hint(
            "D's loss has an arrow into the generator: see what comes back to this box, where the "
            "images are made",
            lambda attempt: reaches_generator(attempt, "D"),
            mark="sigmoid",
        ),
        Hint(
            "G's loss is cut off, so the generator learns nothing: the images have to be cut for "
            "D's loss alone",
            lambda attempt: not reaches_generator(attempt, "G"),
            mark="sigmoid",
        ),
        Hint(
            "D learns nothing from the drawn images: cut the images, not the scores that D gives "
            "them",
            lambda attempt: attempt.difference.path.startswith("[\"D's loss, gradient of the d"),
            mark="detach",
        ),
        Hint(
            "the generator gets what it does not want: its images should be called real",
            lambda attempt: (
                attempt.is_close(drawn_loss(attempt.case), "G's loss")
                or attempt.is_close(-drawn_loss(attempt.case), "G's loss")
            ),
            mark="binary_cross_entropy_with_logits",
        ),
        Hint(
            "two losses are wanted: D's, then G's",
            lambda attempt: not isinstance(attempt.value, dict),
        ),
    )
    before = """\
def as_real(scores):
    return F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))


def as_drawn(scores):
    return F.binary_cross_entropy_with_logits(scores, torch.zeros_like(scores))
"""
    starter = """\
def both_losses(generator, discriminator, real, noise):
    fake = generator(noise)
    d_loss = as_real(discriminator(real)) + as_drawn(discriminator(fake))
    g_loss = as_real(discriminator(fake))
    return d_loss, g_loss  # your code: one call is missing above
"""
    solution = """\
def both_losses(generator, discriminator, real, noise):
    fake = generator(noise)
    d_loss = as_real(discriminator(real)) + as_drawn(discriminator(fake.detach()))
    g_loss = as_real(discriminator(fake))
    return d_loss, g_loss
"""
    mutants = (
        Mutant(solution.replace("return d_loss, g_loss", "return g_loss, d_loss"), hint=0),
        Mutant(
            starter.replace("    g_loss", "    fake = fake.detach()\n    g_loss"),
            hint=1,
        ),
        Mutant(starter, hint=2),
        Mutant(solution.replace("(noise)", "(noise).detach()"), hint=3),
        Mutant(
            solution.replace("fake =", "with torch.no_grad():\n        fake ="),
            hint=3,
        ),
        Mutant(solution.replace("(fake.detach())", "(fake).detach()"), hint=4),
        Mutant(solution.replace("g_loss = as_real", "g_loss = as_drawn"), hint=5),
        Mutant(solution.replace("g_loss = as_real", "g_loss = -as_drawn"), hint=5),
        Mutant(solution.replace("return d_loss, g_loss", "return d_loss"), hint=6),
        Mutant(solution.replace("g_loss = ", "g_loss = d_loss + ")),
    )  # fmt: skip


def reaches_generator(attempt, owner):
    """Return whether a loss sends a gradient to the generator."""
    grad = attempt.value[f"{owner}'s loss, gradient of the generator"]
    return bool(grad.abs().max() > 0)


def drawn_loss(case):
    """Return the loss of the generator's images if they should be called drawn."""
    fake = F.linear(torch.tensor(case["noise"]), torch.tensor(case["of_generator"])).sigmoid()
    return -F.logsigmoid(-F.linear(fake.tanh(), torch.tensor(case["of_discriminator"]))).mean()


def is_loss_with(attempt, targets):
    """Return whether an answer is the cross entropy with these targets, made of both counts."""
    case = attempt.case
    images = torch.tensor(np.concatenate([case["real"], case["fake"]]))
    scores = images @ torch.tensor(case["weight"])
    labels = torch.tensor(targets(len(case["real"]), len(case["fake"])))[:, None]
    return attempt.is_close(F.binary_cross_entropy_with_logits(scores, labels))


class Labels(Exercise):
    """The labels of real and drawn images in one batch."""

    id = "16.labels"
    notebook, cell = "16_gan", "cell-44"
    names = ("loss_in_one_batch",)

    def cases(rng):
        for reals, fakes in ((4, 4), (6, 2), (3, 5)):
            yield {
                "weight": rng.normal(size=(6, 1)) * 3,
                "real": rng.random((reals, 6)),
                "fake": rng.random((fakes, 6)),
            }

    def answer(theirs, weight, real, fake):
        weight = torch.tensor(weight, requires_grad=True)

        class Discriminator(nn.Module):
            def forward(self, images):
                return images @ weight

        loss = theirs.loss_in_one_batch(Discriminator(), torch.tensor(real), torch.tensor(fake))
        return loss.detach() if isinstance(loss, torch.Tensor) else loss

    def right(weight, real, fake):
        scores = torch.tensor(np.concatenate([real, -fake])) @ torch.tensor(weight)
        return -F.logsigmoid(scores).mean()

    hints = (
        Hint(
            "all labels are 0: D would learn to call everything drawn",
            lambda attempt: is_loss_with(attempt, lambda m, n: np.zeros(m + n)),
            mark="binary_cross_entropy_with_logits",
        ),
        Hint(
            "all labels are 1: D would learn to call everything real",
            lambda attempt: is_loss_with(attempt, lambda m, n: np.ones(m + n)),
            mark="binary_cross_entropy_with_logits",
        ),
        Hint(
            "the labels are the wrong way round: which images come first in the batch, and is 1 "
            "real or drawn?",
            lambda attempt: is_loss_with(attempt, lambda m, n: np.repeat([0.0, 1.0], [m, n])),
            mark="cat",
        ),
        Hint(
            "half of the labels are 1, but there are not as many real images as drawn ones",
            lambda attempt: is_loss_with(
                attempt, lambda m, n: np.repeat([1.0, 0.0], [(m + n) // 2, m + n - (m + n) // 2])
            ),
            mark="cat",
        ),
        Hint(
            "as many labels are 1 as there are *drawn* images: count the real ones",
            lambda attempt: is_loss_with(attempt, lambda m, n: np.repeat([1.0, 0.0], [n, m])),
            mark="cat",
        ),
        Hint(
            "scores and labels are swapped: the function takes the scores first",
            lambda attempt: attempt.is_close(swapped_loss(**attempt.case)),
            mark="binary_cross_entropy_with_logits",
        ),
        Hint(
            "one mean over all scores: two means, one for real and one for drawn, are not the same "
            "if there are more of one of them",
            lambda attempt: attempt.is_close(loss_of_groups(**attempt.case)),
            mark="add",
        ),
    )
    starter = """\
def loss_in_one_batch(discriminator, real, fake):
    scores = discriminator(torch.cat([real, fake]))
    labels = torch.zeros_like(scores)  # your code: which of them are 1?
    return F.binary_cross_entropy_with_logits(scores, labels)
"""
    solution = """\
def loss_in_one_batch(discriminator, real, fake):
    scores = discriminator(torch.cat([real, fake]))
    labels = torch.zeros_like(scores)
    labels[: len(real)] = 1
    return F.binary_cross_entropy_with_logits(scores, labels)
"""
    mutants = (
        Mutant(solution.replace("    labels[: len(real)] = 1\n", ""), hint=0),
        Mutant(solution.replace("labels[: len(real)]", "labels[:]"), hint=1),
        Mutant(solution.replace("labels[: len(real)]", "labels[len(real) :]"), hint=2),
        Mutant(solution.replace("[real, fake]", "[fake, real]").replace("len(real)", "len(fake)"),
               hint=2),
        Mutant(solution.replace("len(real)", "len(scores) // 2"), hint=3),
        Mutant(solution.replace("len(real)", "len(fake)"), hint=4),
        Mutant(solution.replace("(scores, labels)", "(labels, scores)"), hint=5),
        Mutant(
            "def loss_in_one_batch(discriminator, real, fake):\n"
            "    return -(F.logsigmoid(discriminator(real)).mean()\n"
            "             + F.logsigmoid(-discriminator(fake)).mean())\n",
        ),
        Mutant(solution.replace("scores, labels)", "scores, labels, reduction='sum')")),
        Mutant(solution.replace("_with_logits(scores", "(scores.sigmoid()").replace(
            "= 1", "= 0.9")),
    )  # fmt: skip


def swapped_loss(weight, real, fake):
    labels = torch.tensor(np.repeat([1.0, 0.0], [len(real), len(fake)])[:, None])
    scores = torch.tensor(np.concatenate([real, fake])) @ torch.tensor(weight)
    return F.binary_cross_entropy_with_logits(labels, scores)


def loss_of_groups(weight, real, fake):
    """Return the mean of two means."""
    parts = [
        torch.tensor(sign * images) @ torch.tensor(weight)
        for sign, images in ((1, real), (-1, fake))
    ]
    return -(F.logsigmoid(parts[0]).mean() + F.logsigmoid(parts[1]).mean()) / 2


def shares_in(scores):
    """Return how often each class has the highest score, without those that never have it."""
    counts = np.bincount(scores.argmax(1), minlength=10) / len(scores)
    return counts[counts > 0]


def entropy(shares):
    return -(shares * np.log(shares)).sum()


class Diversity(Exercise):
    """The effective number of classes."""

    id = "16.diversity"
    notebook, cell = "16_gan", "cell-48"
    points = 2
    names = ("effective_classes",)

    def cases(rng):
        # All classes, then some that never come, then a collapse.
        for classes in (np.arange(10), rng.permutation(10)[:4], rng.permutation(10)[:1]):
            chosen = np.concatenate([classes, rng.choice(classes, 30 - len(classes))])
            yield {"scores": rng.random((30, 10)) + 2 * np.eye(10)[chosen]}

    def answer(theirs, scores):
        class Judge(nn.Module):
            def forward(self, images):
                return images @ torch.eye(10, dtype=torch.float64)

        count = theirs.effective_classes(Judge(), torch.tensor(scores))
        return count.double().tolist() if isinstance(count, torch.Tensor) else count

    def right(scores):
        return float(np.exp(entropy(shares_in(scores))))

    hints = (
        Hint(
            "nothing is counted yet: `judge(images)` gives ten scores for each image, and the "
            "highest says the class",
            lambda attempt: attempt.value == 10 and not attempt.graph.has("argmax", "max"),
        ),
        Hint(
            "0 · ln 0 is not a number here: leave out the classes that never come",
            lambda attempt: math.isnan(attempt.value),
            mark="log",
        ),
        Hint(
            "that is the exponent: one step is missing",
            lambda attempt: attempt.is_close(float(entropy(shares_in(attempt.case["scores"])))),
            mark="sum",
        ),
        Hint(
            "the sign of the exponent is wrong: the number can't be below 1",
            lambda attempt: attempt.value < 0.999,
            mark="exp",
        ),
        Hint(
            "that is how many classes come at all: one image is enough for that, and the shares "
            "do not matter",
            lambda attempt: attempt.is_close(float(len(shares_in(attempt.case["scores"])))),
        ),
        Hint(
            "each image belongs to one class, that of its highest score; here it is divided up "
            "among all of them",
            lambda attempt: attempt.graph.has("softmax"),
            mark="softmax",
        ),
        Hint(
            "the highest score is wanted for each image, and not for each class",
            lambda attempt: attempt.is_close(
                float(np.exp(entropy(shares_in(attempt.case["scores"].T))))
            ),
            mark="argmax",
        ),
    )
    starter = """\
def effective_classes(judge, images):
    return 10.0  # your code: begin with the class of each image
"""
    solution = """\
def effective_classes(judge, images):
    classes = judge(images).argmax(1)
    shares = torch.bincount(classes, minlength=10) / len(images)
    shares = shares[shares > 0]
    return (-shares * shares.log()).sum().exp()
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("    shares = shares[shares > 0]\n", ""), hint=1),
        Mutant(solution.replace(".sum().exp()", ".sum()"), hint=2),
        Mutant(solution.replace("(-shares", "(shares"), hint=3),
        Mutant(solution.replace("(-shares * shares.log()).sum().exp()", "len(shares)"), hint=4),
        Mutant(
            """\
def effective_classes(judge, images):
    shares = judge(images).softmax(1).mean(0)
    return (-shares * shares.log()).sum().exp()
""",
            hint=5,
        ),
        Mutant(solution.replace("/ len(images)", "/ 10")),
        Mutant(solution.replace(".log()", ".log2()")),
    )
