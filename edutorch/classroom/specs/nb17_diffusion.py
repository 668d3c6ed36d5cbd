"""The exercises of `notebooks/17_diffusion.ipynb`."""

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def is_noisier(attempt, compute):
    """Return whether an answer is this function of x, noise and the levels before and after."""
    case = attempt.case
    kept = torch.tensor(case["kept"])
    now, then = (kept[torch.tensor(case[name])][:, None] for name in ("start", "end"))
    x, noise = torch.tensor(case["x"]), torch.tensor(case["noise"])
    return attempt.is_close(compute(x, noise, now, then))


class MoreNoise(Exercise):
    """A jump from one noise level to a later one."""

    id = "17.noise"
    notebook, cell = "17_diffusion", "cell-41"
    names = ("more_noise",)

    def cases(rng):
        kept = np_cosine(12)
        # With as many rows as columns a factor of the wrong shape raises no error.
        for rows, columns in ((3, 3), (5, 2), (1, 4)):
            start = rng.integers(1, 6, size=rows)
            yield {
                "x": rng.normal(size=(rows, columns)),
                "start": start,
                "end": start + rng.integers(1, 6, size=rows),
                "kept": kept,
                "noise": rng.normal(size=(rows, columns)),
            }

    def answer(theirs, x, start, end, kept, noise):
        x, start, end, kept, noise = map(torch.tensor, (x, start, end, kept, noise))
        return theirs.more_noise(x, start, end, kept, noise)

    def right(x, start, end, kept, noise):
        x, noise, kept = torch.tensor(x), torch.tensor(noise), torch.tensor(kept)
        share = (kept[torch.tensor(end)] / kept[torch.tensor(start)]).unsqueeze(1)
        return share.sqrt() * x + (1 - share).sqrt() * noise

    hints = (
        Hint(
            "nothing is added yet: x still is what it was",
            lambda attempt: is_noisier(attempt, lambda x, noise, now, then: x),
        ),
        Hint(
            "this is the closed form from step 0: it takes x for the clean point, and shrinks it "
            "for the steps before `start` once more",
            lambda attempt: is_noisier(
                attempt, lambda x, noise, now, then: then.sqrt() * x + (1 - then).sqrt() * noise
            ),
            mark="sqrt",
        ),
        Hint(
            "`kept` holds variances, and a variance is the square of a factor",
            lambda attempt: is_noisier(
                attempt, lambda x, noise, now, then: then / now * x + (1 - then / now) * noise
            ),
            mark="mul",
        ),
        Hint(
            "the squares of the two factors must add up to 1; look at that of the noise",
            lambda attempt: any(
                is_noisier(attempt, rule)
                for rule in (
                    lambda x, noise, now, then: (
                        (then / now).sqrt() * x + (1 - (then / now).sqrt()) * noise
                    ),
                    lambda x, noise, now, then: (then / now).sqrt() * x + (1 - then / now) * noise,
                )
            ),
            mark="sub",
        ),
        Hint(
            "a square root of a number below 0: which of the two levels is the smaller one?",
            lambda attempt: (
                attempt.value.shape == attempt.right.shape and attempt.value.isnan().any().item()
            ),
            mark="div",
        ),
        Hint(
            "each row has its own factor, but here each column has: give it the shape rows × 1",
            lambda attempt: is_noisier(
                attempt,
                lambda x, noise, now, then: (
                    (then / now).T.sqrt() * x + (1 - (then / now).T).sqrt() * noise
                ),
            ),
            mark="mul",
        ),
        Hint(
            "the difference of the levels is not the share that is left: how much of what there "
            "was at `start` is there at `end`?",
            lambda attempt: is_noisier(
                attempt,
                lambda x, noise, now, then: (
                    (1 - (now - then)).sqrt() * x + (now - then).sqrt() * noise
                ),
            ),
            mark="sub",
        ),
    )
    starter = """\
def more_noise(x, start, end, kept, noise):
    return x  # your code
"""
    solution = """\
def more_noise(x, start, end, kept, noise):
    ratio = (kept[end] / kept[start])[:, None]
    return ratio.sqrt() * x + (1 - ratio).sqrt() * noise
"""
    mutants = (
        Mutant(solution.replace("(kept[end] / kept[start])", "kept[end]"), hint=1),
        Mutant(solution.replace(".sqrt()", ""), hint=2),
        Mutant(solution.replace("(1 - ratio).sqrt()", "(1 - ratio.sqrt())"), hint=3),
        Mutant(solution.replace("(1 - ratio).sqrt()", "(1 - ratio)"), hint=3),
        Mutant(solution.replace("kept[end] / kept[start]", "kept[start] / kept[end]"), hint=4),
        Mutant(solution.replace("[:, None]", ""), hint=5),
        Mutant(solution.replace("kept[end] / kept[start]", "1 - kept[start] + kept[end]"), hint=6),
        Mutant(solution.replace("ratio.sqrt() * x + ", "x + ")),
    )


def np_cosine(steps):
    """Return the noise schedule of the lesson for so many steps."""
    return (torch.arange(steps + 1).double() / (steps + 1) * torch.pi / 2).cos().square().numpy()


def is_stride(attempt, compute):
    """Return whether an answer is this function of x, noise and the levels before and after."""
    values = [torch.tensor(attempt.case[name]) for name in ("x", "noise", "now", "then")]
    return attempt.is_close(compute(*values), "x")


def clean_guess(x, noise, now):
    return (x - (1 - now).sqrt() * noise) / now.sqrt()


class Stride(Exercise):
    """A step of the sampler without chance."""

    id = "17.stride"
    notebook, cell = "17_diffusion", "cell-45"
    names = ("stride",)

    def cases(rng):
        for rows in (4, 2, 1):
            now, then = rng.uniform(0.1, 0.4), rng.uniform(0.5, 0.9)
            yield {
                "x": rng.normal(size=(rows, 2)),
                "noise": rng.normal(size=(rows, 2)),
                "now": now,
                "then": then,
            }

    def answer(theirs, x, noise, now, then):
        x, noise, now, then = (
            torch.tensor(value, dtype=torch.float64) for value in (x, noise, now, then)
        )
        first = theirs.stride(x.clone(), noise.clone(), now, then)
        again = theirs.stride(x.clone(), noise.clone(), now, then)
        is_same = not isinstance(first, torch.Tensor) or torch.equal(
            first.nan_to_num(), again.nan_to_num()
        )
        return {"x": first, "is the same again": is_same}

    def right(x, noise, now, then):
        x, noise = torch.tensor(x), torch.tensor(noise)
        clean = (x - (1 - now) ** 0.5 * noise) / now**0.5
        return {"x": then**0.5 * clean + (1 - then) ** 0.5 * noise, "is the same again": True}

    hints = (
        Hint(
            "nothing is removed yet: solve the closed form for the clean point first",
            lambda attempt: is_stride(attempt, lambda x, noise, now, then: x),
        ),
        Hint(
            "the same call gives another answer each time: the noise of the way on is the one that "
            "was guessed",
            lambda attempt: attempt.value["is the same again"] is False,
            mark="add",
        ),
        Hint(
            "this is the clean guess, the end of the whole way; here the stride ends at `then`, "
            "where some noise is left",
            lambda attempt: is_stride(
                attempt, lambda x, noise, now, then: clean_guess(x, noise, now)
            ),
            mark="div",
        ),
        Hint(
            "both points are made smaller on the way to noise, also the clean one: what has to be "
            "undone after the noise was subtracted?",
            lambda attempt: is_stride(
                attempt,
                lambda x, noise, now, then: (
                    then.sqrt() * (x - (1 - now).sqrt() * noise) + (1 - then).sqrt() * noise
                ),
            ),
            mark="sub",
        ),
        Hint(
            "the noise of the new level is missing: only the clean point was brought there",
            lambda attempt: is_stride(
                attempt, lambda x, noise, now, then: then.sqrt() * clean_guess(x, noise, now)
            ),
            mark="mul",
        ),
        Hint(
            "as much noise comes back as was removed: after the stride there is less of it",
            lambda attempt: is_stride(
                attempt,
                lambda x, noise, now, then: (
                    then.sqrt() * clean_guess(x, noise, now) + (1 - now).sqrt() * noise
                ),
            ),
            mark="add",
        ),
        Hint(
            "`now` and `then` are variances, and a variance is the square of a factor",
            lambda attempt: (
                attempt.value["x"].shape == attempt.right["x"].shape
                and not attempt.graph.has("sqrt", "pow")
            ),
            mark="mul",
        ),
    )
    starter = """\
def stride(x, noise, now, then):
    return x  # your code
"""
    solution = """\
def stride(x, noise, now, then):
    clean = (x - (1 - now).sqrt() * noise) / now.sqrt()
    return then.sqrt() * clean + (1 - then).sqrt() * noise
"""
    mutants = (
        Mutant(
            solution.replace(
                "(1 - then).sqrt() * noise", "(1 - then).sqrt() * torch.randn_like(x)"
            ),
            hint=1,
        ),
        Mutant(
            solution.replace("then.sqrt() * clean + (1 - then).sqrt() * noise", "clean"), hint=2
        ),
        Mutant(solution.replace(" / now.sqrt()", ""), hint=3),
        Mutant(solution.replace(" + (1 - then).sqrt() * noise", ""), hint=4),
        Mutant(
            solution.replace("clean + (1 - then)", "clean + (1 - now)"),
            hint=5,
        ),
        Mutant(solution.replace(".sqrt()", ""), hint=6),
        Mutant(solution.replace("(x - (1", "(x + (1")),
        Mutant(solution.replace("(1 - then).sqrt() * noise", "(1 - then.sqrt()) * noise")),
    )


def is_guided(attempt, compute, scale=None):
    """Return whether an answer is the noise minus this score's gradient, scaled.

    Args:
        compute: the score of a leaf x, given the classifier's logits and the labels.
        scale: the factor of the gradient, of the level; by default the right one.
    """
    case = attempt.case
    x = torch.tensor(case["x"], requires_grad=True)
    logits = torch.tanh(x @ torch.tensor(case["weight"])) @ torch.tensor(case["out"])
    (gradient,) = torch.autograd.grad(compute(logits, torch.tensor(case["label"])), x)
    factor = (1 - case["level"]) ** 0.5 if scale is None else scale(case["level"])
    guided = torch.tensor(case["noise"]) - case["strength"] * factor * gradient
    return attempt.is_close(guided, "noise")


def log_likelihood(logits, label):
    return -F.cross_entropy(logits, label, reduction="sum")


class Guidance(Exercise):
    """Noise that is changed by a classifier's gradient."""

    id = "17.guidance"
    notebook, cell = "17_diffusion", "cell-50"
    points = 2
    names = ("guided_noise",)

    def cases(rng):
        for rows, classes in ((4, 3), (3, 5)):
            yield {
                "x": rng.normal(size=(rows, 2)),
                "noise": rng.normal(size=(rows, 2)),
                "weight": rng.normal(size=(2, 6)),
                "out": rng.normal(size=(6, classes)),
                "label": rng.integers(classes, size=rows),
                "level": rng.uniform(0.2, 0.8),
                "strength": rng.uniform(1.5, 4.0),
            }

    def answer(theirs, x, noise, weight, out, label, level, strength):
        weight, out = torch.tensor(weight), torch.tensor(out)

        class Classifier(nn.Module):
            def forward(self, x):
                return torch.tanh(x @ weight) @ out

        # As in a sampler without `no_grad`: x was computed from something that has a gradient.
        earlier = torch.tensor(x, requires_grad=True)
        changed = theirs.guided_noise(
            Classifier(), earlier * 1.0, torch.tensor(noise), torch.tensor(label),
            torch.tensor(level, dtype=torch.float64), strength,
        )  # fmt: skip
        if not isinstance(changed, torch.Tensor):
            return {"noise": changed, "no gradient goes beyond x": True, "is cut from x": True}
        return {
            "noise": changed.detach(),
            "no gradient goes beyond x": earlier.grad is None,
            "is cut from x": not changed.requires_grad,
        }

    def right(x, noise, weight, out, label, level, strength):
        x = torch.tensor(x, requires_grad=True)
        logits = torch.tanh(x @ torch.tensor(weight)) @ torch.tensor(out)
        F.cross_entropy(logits, torch.tensor(label), reduction="sum").backward()
        changed = torch.tensor(noise) + strength * (1 - level) ** 0.5 * x.grad
        return {"noise": changed, "no gradient goes beyond x": True, "is cut from x": True}

    hints = (
        Hint(
            "the noise is not changed yet: begin with a leaf that has a gradient, and ask the "
            "classifier about it",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["noise"]), "noise"),
        ),
        Hint(
            "the gradient has gone on, to what x was computed from: cut x from its past first, so "
            "that it is a leaf",
            lambda attempt: attempt.value["no gradient goes beyond x"] is False,
            mark="earlier",
        ),
        Hint(
            "this makes the label less likely: look at the signs (a loss is *minus* the logarithm)",
            lambda attempt: is_guided(attempt, lambda *both: -log_likelihood(*both)),
        ),
        Hint(
            "the formula has the gradient of the *logarithm* of the probability",
            lambda attempt: is_guided(
                attempt, lambda logits, label: logits.softmax(1).gather(1, label[:, None]).sum()
            ),
            mark="softmax",
        ),
        Hint(
            "the classifier's logits are not yet logarithms of probabilities",
            lambda attempt: is_guided(
                attempt, lambda logits, label: logits.gather(1, label[:, None]).sum()
            ),
            mark="matmul",
        ),
        Hint(
            "every picture has its own gradient, and here it depends on how many there are: a mean "
            "was taken",
            lambda attempt: is_guided(
                attempt, lambda logits, label: -F.cross_entropy(logits, label)
            ),
            mark="log_softmax",
        ),
        Hint(
            "the gradient of all labels came back: only that of each row's own label counts",
            lambda attempt: is_guided(
                attempt, lambda logits, label: logits.log_softmax(1).sum()
            ),
            mark="log_softmax",
        ),
        Hint(
            "the direction is right, its length is not: how large is the noise at this level?",
            lambda attempt: any(
                is_guided(attempt, log_likelihood, scale)
                for scale in (
                    lambda level: 1.0, lambda level: 1 - level, lambda level: level**0.5,
                    lambda level: level,
                )
            ),
            mark="log_softmax",
        ),
    )  # fmt: skip
    starter = """\
def guided_noise(classifier, x, noise, label, level, strength):
    return noise  # your code
"""
    solution = """\
def guided_noise(classifier, x, noise, label, level, strength):
    x = x.detach().requires_grad_()
    score = -F.cross_entropy(classifier(x), label, reduction="sum")
    (gradient,) = torch.autograd.grad(score, x)
    return noise - strength * (1 - level).sqrt() * gradient
"""
    mutants = (
        Mutant(
            """\
def guided_noise(classifier, x, noise, label, level, strength):
    x.retain_grad()
    (-F.cross_entropy(classifier(x), label, reduction="sum")).backward()
    return noise - strength * (1 - level).sqrt() * x.grad
""",
            hint=1,
        ),
        Mutant(solution.replace("-F.cross", "F.cross"), hint=2),
        Mutant(
            solution.replace(
                '-F.cross_entropy(classifier(x), label, reduction="sum")',
                "classifier(x).softmax(1).gather(1, label[:, None]).sum()",
            ),
            hint=3,
        ),
        Mutant(
            solution.replace(
                '-F.cross_entropy(classifier(x), label, reduction="sum")',
                "classifier(x).gather(1, label[:, None]).sum()",
            ),
            hint=4,
        ),
        Mutant(solution.replace(', reduction="sum"', ""), hint=5),
        Mutant(
            solution.replace(
                '-F.cross_entropy(classifier(x), label, reduction="sum")',
                "classifier(x).log_softmax(1).sum()",
            ),
            hint=6,
        ),
        Mutant(solution.replace("strength * (1 - level).sqrt()", "strength"), hint=7),
        Mutant(solution.replace("(1 - level).sqrt()", "level.sqrt()"), hint=7),
        Mutant(solution.replace("strength * ", "")),
    )
