"""The exercises of `notebooks/15_autoencoder_and_vae.ipynb`."""

import itertools

import numpy as np

import edutorch as torch
from edutorch import nn

from ..exercise import Exercise, Hint, Mutant


class Sample(Exercise):
    """A draw that lets the gradient through.

    What is drawn is not compared, as the noise may be drawn in many ways. From the draw itself
    follow its noise, and the gradients that it has to have.
    """

    id = "15.sample"
    notebook, cell = "15_autoencoder_and_vae", "cell-44"
    points = 2
    names = ("sample",)
    forbid = frozenset({"rsample"})

    def cases(rng):
        for shape in ((1000, 3), (3000, 1)):
            yield {
                "mu": rng.normal(size=shape),
                "log_var": rng.uniform(-4, 0, size=shape),
                "seed": int(rng.integers(1000)),
            }

    def answer(theirs, mu, log_var, seed):
        case, mu, log_var = (mu, log_var), torch.tensor(mu), torch.tensor(log_var)
        leaves = mu.requires_grad_(), log_var.requires_grad_()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            z = theirs.sample(mu, log_var)
            if not isinstance(z, torch.Tensor) or z.shape != mu.shape:
                return z
            if z.requires_grad:
                z.sum().backward()
        grads = [
            np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in leaves
        ]
        distance = z.detach().numpy() - case[0]
        eps = distance / np.exp(case[1] / 2)
        return {
            "there is noise": bool(abs(eps).max() > 0.01),
            "the noise is another one for each image": bool(eps.std(0).min() > 0.1),
            "the noise has mean 0": bool(abs(eps.mean()) < 0.15),
            "the noise has standard deviation 1": bool(abs(eps.std() - 1) < 0.15),
            "gradient for mu": torch.tensor(grads[0]),
            # d(mu + sigma * eps) / d(log_var) is half of sigma * eps
            "gradient for log_var is right": bool(np.allclose(grads[1], distance / 2)),
        }

    def right(mu, log_var, seed):
        return {
            "there is noise": True,
            "the noise is another one for each image": True,
            "the noise has mean 0": True,
            "the noise has standard deviation 1": True,
            "gradient for mu": torch.ones(mu.shape, dtype=torch.float64),
            "gradient for log_var is right": True,
        }

    hints = (
        Hint(
            "that is not a draw for each number of mu: it has to have the shape of mu",
            lambda attempt: not isinstance(attempt.value, dict),
        ),
        Hint(
            "the arrows are there, but what comes back on them is 0: `torch.normal` does not say "
            "how its draw depends on the mean and the deviation. Draw from N(0, 1), and compute "
            "the rest",
            lambda attempt: attempt.graph.box("mu").gradient_norm == 0,
            mark="mu",
        ),
        Hint(
            "the draw is not recorded: no path leads back from z to mu and log_var",
            lambda attempt: (
                has_slope(attempt, 0.0)
                and not reaches_log_var(attempt)
                and attempt.graph.box("log_var") is not None
            ),
            mark="add",
        ),
        Hint(
            "the draw is cut off from what it was computed of (`detach`?): nothing comes back to "
            "mu and log_var",
            lambda attempt: has_slope(attempt, 0.0) and attempt.graph.box("log_var") is None,
        ),
        Hint(
            "nothing is drawn: this is the middle of the cloud, each time",
            lambda attempt: not attempt.value["there is noise"],
            mark="mu",
        ),
        Hint(
            "mu gets its gradient, log_var gets none: something is cut on the way of sigma",
            lambda attempt: has_slope(attempt, 1.0) and not reaches_log_var(attempt),
            mark="mul",
        ),
        Hint(
            "log_var gets its gradient, mu gets none",
            lambda attempt: has_slope(attempt, 0.0),
            mark="add",
        ),
        Hint(
            "the noise is the same one for all images: draw as many numbers as sigma has",
            lambda attempt: not attempt.value["the noise is another one for each image"],
            mark="mul",
        ),
        Hint(
            "the mean of the noise is not 0: from which distribution is it?",
            lambda attempt: not attempt.value["the noise has mean 0"],
            mark="mul",
        ),
        Hint(
            "the cloud has a wrong width: log_var is ln σ², and ε is multiplied by σ",
            lambda attempt: not attempt.value["the noise has standard deviation 1"],
            mark="mul",
        ),
    )
    starter = """\
def sample(mu, log_var):
    sigma = (log_var / 2).exp()
    with torch.no_grad():
        return torch.normal(mu, sigma)  # your code
"""
    solution = """\
def sample(mu, log_var):
    sigma = (log_var / 2).exp()
    return mu + sigma * torch.randn_like(sigma)
"""
    mutants = (
        Mutant("def sample(mu, log_var): return torch.randn(3)", hint=0),
        Mutant("def sample(mu, log_var): return torch.normal(mu, (log_var / 2).exp())", hint=1),
        Mutant(starter, hint=2),
        Mutant(solution.replace("(sigma)", "(sigma)).detach()").replace("mu +", "(mu +"), hint=3),
        Mutant("def sample(mu, log_var): return mu + 0 * log_var", hint=4),
        Mutant(solution.replace("+ sigma", "+ sigma.detach()"), hint=5),
        Mutant(solution.replace("mu +", "mu.detach() +"), hint=6),
        Mutant(solution.replace("randn_like(sigma)", "randn(mu.shape[1], dtype=mu.dtype)"), hint=7),
        Mutant(solution.replace("randn_like", "rand_like"), hint=8),
        Mutant(solution.replace("log_var / 2", "log_var"), hint=9),
        Mutant(solution.replace("log_var / 2", "log_var * 2"), hint=9),
    )


def has_slope(attempt, slope):
    """Return whether the gradient for mu is this number for all of it."""
    shape = attempt.case["mu"].shape
    return attempt.is_close(torch.full(shape, slope, dtype=torch.float64), "gradient for mu")


def reaches_log_var(attempt):
    """Return whether any gradient came back to log_var."""
    box = attempt.graph.box("log_var")
    return box is not None and box.gradient_norm not in (None, 0.0)


def is_price(attempt, rule):
    """Return whether an answer is the mean over images of what a rule makes of mu and log_var."""
    mu, log_var = attempt.case["mu"], attempt.case["log_var"]
    return attempt.is_close(torch.tensor(rule(mu, log_var).sum(1).mean()))


def price(mu, log_var):
    return (mu**2 + np.exp(log_var) - 1 - log_var) / 2


class PriceOfCodes(Exercise):
    """The price of the codes: a Kullback-Leibler divergence."""

    id = "15.kl"
    notebook, cell = "15_autoencoder_and_vae", "cell-48"
    names = ("price_of_codes",)
    forbid = frozenset({"kl_divergence", "kl_div"})

    def cases(rng):
        for shape in ((5, 3), (4, 2), (1, 6)):
            yield {"mu": rng.normal(size=shape) * 2, "log_var": rng.normal(size=shape) - 1}

    def answer(theirs, mu, log_var):
        mu = torch.tensor(mu, requires_grad=True)
        price = theirs.price_of_codes(mu, torch.tensor(log_var, requires_grad=True))
        return price.detach() if isinstance(price, torch.Tensor) else price

    def right(mu, log_var):
        cloud = torch.distributions.Normal(torch.tensor(mu), torch.tensor(np.exp(log_var / 2)))
        prior = torch.distributions.Normal(0.0, 1.0)
        return torch.distributions.kl_divergence(cloud, prior).sum(1).mean()

    hints = (
        Hint(
            "nothing is computed yet: write the formula with `mu` and `log_var` first, for all "
            "numbers at once",
            lambda attempt: attempt.is_close(torch.tensor(0.0, dtype=torch.float64)),
        ),
        Hint(
            "each number has its price, and they are not added up yet",
            lambda attempt: np.shape(attempt.value) != (),
            mark="log_var",
        ),
        Hint(
            "σ² is e to the power of the log variance; e to the power of its half is σ",
            lambda attempt: is_price(
                attempt, lambda mu, log_var: price(mu, log_var) + gap(log_var / 2, log_var)
            ),
            mark="exp",
        ),
        Hint(
            "where is σ² itself? `log_var` is its logarithm, and its square is something else",
            lambda attempt: is_price(
                attempt,
                lambda mu, log_var: price(mu, log_var) + (log_var**2 - np.exp(log_var)) / 2,
            ),
            mark="log_var",
        ),
        Hint(
            "the half is missing",
            lambda attempt: is_price(attempt, lambda mu, log_var: 2 * price(mu, log_var)),
            mark="mean",
        ),
        Hint(
            "the sign is wrong: a price is never negative",
            lambda attempt: is_price(attempt, lambda mu, log_var: -price(mu, log_var)),
        ),
        Hint(
            "the prices of the codes of an image add up: a code of 6 numbers costs more than one "
            "of 2, and a mean hides that",
            lambda attempt: attempt.is_close(torch.tensor(price(**attempt.case).mean())),
            mark="mean",
        ),
        Hint(
            "that is the price of all images together: it grows with the batch",
            lambda attempt: attempt.is_close(torch.tensor(price(**attempt.case).sum())),
            mark="sum",
        ),
        Hint(
            "the sum goes over the images, and the mean over the codes: it is the other way round",
            lambda attempt: attempt.is_close(torch.tensor(price(**attempt.case).sum(0).mean())),
            mark="sum",
        ),
    )
    starter = """\
def price_of_codes(mu, log_var):
    return mu.sum() * 0  # your code; both are images × codes
"""
    solution = """\
def price_of_codes(mu, log_var):
    price = (mu**2 + log_var.exp() - 1 - log_var) / 2
    return price.sum(1).mean()
"""
    mutants = (
        Mutant(solution.replace(".sum(1).mean()", ""), hint=1),
        Mutant(solution.replace(".mean()", ""), hint=1),
        Mutant(solution.replace("log_var.exp()", "(log_var / 2).exp()"), hint=2),
        Mutant(solution.replace("log_var.exp()", "log_var**2"), hint=3),
        Mutant(solution.replace(" / 2", ""), hint=4),
        Mutant(solution.replace("return price", "return -price"), hint=5),
        Mutant(solution.replace(".sum(1)", ""), hint=6),
        Mutant(solution.replace(".sum(1).mean()", ".sum()"), hint=7),
        Mutant(solution.replace("sum(1)", "sum(0)"), hint=8),
        Mutant(solution.replace("- 1 ", "")),
        Mutant(solution.replace("mu**2", "mu")),
    )


def gap(wrong, log_var):
    """Return by how much a price changes if e**wrong stands for the variance."""
    return (np.exp(wrong) - np.exp(log_var)) / 2


def images_of(case, codes):
    """Return what the model of `Tour` makes of codes."""
    return torch.tensor(codes @ case["decoder"]).sigmoid()


def middles_of(case):
    return np.tanh(case["images"] @ case["encoder"])


def stops(rows, shares, last=True):
    """Return the points of a tour along some rows: shares of each stretch, and the last row."""
    points = [
        start + (end - start) * share for start, end in itertools.pairwise(rows) for share in shares
    ]
    return np.stack([*points, rows[-1]] if last else points)


def is_tour(attempt, make):
    """Return whether an answer is what `make` makes of the case, the middles and the shares."""
    case = attempt.case
    shares = np.arange(case["steps"]) / case["steps"]
    return attempt.is_close(make(case, middles_of(case), shares), "images")


def is_tour_of(attempt, codes):
    """Return whether the images are those of some codes: a function of the middles and shares."""
    return is_tour(attempt, lambda case, mu, shares: images_of(case, codes(mu, shares)))


def whole_stretches(mu, shares, more):
    """Return codes that begin and end each stretch with an image."""
    return stops(mu, np.linspace(0, 1, len(shares) + more), last=False)


class Tour(Exercise):
    """A tour along several images: interpolation."""

    id = "15.tour"
    notebook, cell = "15_autoencoder_and_vae", "cell-52"
    points = 2
    names = ("tour",)

    def cases(rng):
        for count, steps in ((2, 4), (4, 3), (3, 7)):
            yield {
                "images": rng.random((count, 9)),
                "encoder": rng.normal(size=(9, 2)),
                "decoder": rng.normal(size=(2, 9)) * 2,
                "steps": steps,
            }

    def answer(theirs, images, encoder, decoder, steps):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder, self.decode = torch.tensor(encoder), torch.tensor(decoder)

            def encode(self, images):
                mu = (images @ self.encoder).tanh()
                return mu, 0.3 * torch.ones_like(mu)

            def decoder(self, z):
                return (z @ self.decode).sigmoid()

            def forward(self, images):
                mu, sigma = self.encode(images)
                return self.decoder(mu + sigma * torch.randn_like(mu)), mu, sigma

        model, images = Model(), torch.tensor(images)
        visited = theirs.tour(model, images, steps)
        again = theirs.tour(model, images, steps)
        same = not isinstance(visited, torch.Tensor) or np.array_equal(
            visited.numpy(), again.numpy(), equal_nan=True
        )
        return {"images": visited, "is the same each time": same}

    def right(images, encoder, decoder, steps):
        case = {"images": images, "encoder": encoder, "decoder": decoder}
        points = stops(middles_of(case), np.arange(steps) / steps)
        return {"images": images_of(case, points), "is the same each time": True}

    hints = (
        Hint(
            "it visits the images, and draws nothing on the way: between two codes lie the points "
            "start + (end − start) · share",
            lambda attempt: is_tour_of(attempt, lambda mu, shares: stops(mu, [0.0])),
            mark="sigmoid",
        ),
        Hint(
            "the last image is missing",
            lambda attempt: is_tour_of(attempt, lambda mu, shares: stops(mu, shares, last=False)),
            mark="sigmoid",
        ),
        Hint(
            "an image in the middle of the tour comes twice: it ends one stretch, and begins the "
            "next",
            lambda attempt: any(
                is_tour_of(attempt, lambda mu, shares, more=more: whole_stretches(mu, shares, more))
                for more in (0, 1)
            ),
            mark="sigmoid",
        ),
        Hint(
            "these are mixed pixels: two images at once. Mix the codes, and let the decoder draw",
            lambda attempt: (
                is_tour(
                    attempt, lambda case, mu, shares: torch.tensor(stops(case["images"], shares))
                )
                or is_tour(
                    attempt,
                    lambda case, mu, shares: images_of(
                        case, np.tanh(stops(case["images"], shares) @ case["encoder"])
                    ),
                )
            ),
        ),
        Hint(
            "these are codes: who draws an image of them?",
            lambda attempt: is_tour(
                attempt, lambda case, mu, shares: torch.tensor(stops(mu, shares))
            ),
        ),
        Hint(
            "each stretch goes from its end to its start",
            lambda attempt: is_tour_of(attempt, lambda mu, shares: stops(mu, 1 - shares)),
            mark="sigmoid",
        ),
        Hint(
            "the tour is another one each time: go through the middles of the clouds, and draw "
            "nothing at random",
            lambda attempt: not attempt.value["is the same each time"],
            mark="sigmoid",
        ),
    )
    starter = """\
def tour(model, images, steps):
    mu, _ = model.encode(images)
    return model.decoder(mu)  # your code: this visits the images, with nothing between them
"""
    solution = """\
def tour(model, images, steps):
    mu, _ = model.encode(images)
    stops = []
    for start, end in zip(mu[:-1], mu[1:]):
        for step in range(steps):
            stops.append(start + (end - start) * step / steps)
    return model.decoder(torch.stack([*stops, mu[-1]]))
"""
    mutants = (
        Mutant(solution.replace("[*stops, mu[-1]]", "stops"), hint=1),
        Mutant(
            solution.replace("step / steps", "step / (steps - 1)").replace(
                "[*stops, mu[-1]]", "stops"
            ),
            hint=2,
        ),
        Mutant(
            solution.replace("range(steps)", "range(steps + 1)").replace(
                "[*stops, mu[-1]]", "stops"
            ),
            hint=2,
        ),
        Mutant(
            solution.replace("mu, _ = model.encode(images)", "mu = images").replace(
                "model.decoder(torch.stack([*stops, mu[-1]]))", "torch.stack([*stops, mu[-1]])"
            ),
            hint=3,
        ),
        Mutant(
            solution.replace("mu, _ = model.encode(images)", "mu = images").replace(
                "torch.stack([*stops, mu[-1]])", "model.encode(torch.stack([*stops, mu[-1]]))[0]"
            ),
            hint=3,
        ),
        Mutant(
            solution.replace(
                "model.decoder(torch.stack([*stops, mu[-1]]))", "torch.stack([*stops, mu[-1]])"
            ),
            hint=4,
        ),
        Mutant(solution.replace("start + (end - start)", "end + (start - end)"), hint=5),
        Mutant(
            solution.replace(
                "    stops = []", "    mu = mu + 0.3 * torch.randn_like(mu)\n    stops = []"
            ),
            hint=6,
        ),
        Mutant(solution.replace("step / steps", "step / (steps - 1)")),
        Mutant(solution.replace("mu[1:]", "mu[::-1]")),
    )
