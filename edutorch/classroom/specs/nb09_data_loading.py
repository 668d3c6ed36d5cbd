"""The exercises of `notebooks/09_data_loading.ipynb`."""

from typing import ClassVar

import numpy as np

import edutorch as torch

from ..exercise import Exercise, Hint, Mutant


def has_mask(attempt, compute):
    """Return whether the mask is this function of the rows' lengths and of the widest one's."""
    lengths = [len(series) for series in attempt.case["batch"]]
    mask = np.array([compute(length, max(lengths)) for length in lengths])
    return attempt.is_close(torch.tensor(mask), "mask")


class Collate(Exercise):
    """A batch of unequal rows, and a mask of what is real in it."""

    id = "09.mask"
    notebook, cell = "09_data_loading", "cell-39"
    names = ("collate",)

    def cases(rng):
        for rows in (3, 1, 5):
            lengths = rng.permutation(range(2, 2 + rows))
            batch = [rng.normal(size=length).astype(np.float32) for length in lengths]
            for series in batch:
                series[rng.integers(len(series))] = 0  # a measurement may be 0
            yield {"batch": batch}

    def answer(theirs, batch):
        rows, mask = theirs.collate([torch.tensor(series) for series in batch])
        return {"rows": rows, "mask": mask}

    def right(batch):
        longest = max(len(series) for series in batch)
        rows = [np.pad(series, (0, longest - len(series))) for series in batch]
        mask = [np.arange(longest) < len(series) for series in batch]
        return {"rows": torch.tensor(np.array(rows)), "mask": torch.tensor(np.array(mask))}

    hints = (
        Hint(
            "the rows are still empty: write each series into the beginning of its row",
            lambda attempt: attempt.is_close(torch.zeros_like(attempt.right["rows"]), "rows"),
        ),
        Hint(
            "a measured 0 is taken for filling: the lengths say what is real, not the values",
            lambda attempt: attempt.is_close(attempt.right["rows"] != 0, "mask"),
            mark="ne",
        ),
        Hint(
            "the mask is the wrong way round: True is for what is real",
            lambda attempt: attempt.is_close(~attempt.right["mask"], "mask"),
        ),
        Hint(
            "the rows are filled; the mask still says that nothing in them is real",
            lambda attempt: has_mask(attempt, lambda length, longest: np.zeros(longest, bool)),
            mark="setitem",
        ),
        Hint(
            "the mask is one too short: a series of three has its last value at index 2",
            lambda attempt: has_mask(
                attempt, lambda length, longest: np.arange(longest) < length - 1
            ),
            mark="setitem",
        ),
        Hint(
            "the series stand at the end of their rows: the filling comes behind them",
            lambda attempt: (
                attempt.is_close(attempt.right["rows"].flip(1).sort(1)[0], "rows")
                or attempt.is_close(rows_at_the_end(attempt.case["batch"]), "rows")
            ),
            mark="setitem",
        ),
        Hint(
            "a mask is of the dtype bool: with 0 and 1 as numbers it would be an index",
            lambda attempt: (
                attempt.difference.aspect == "dtype" and "mask" in attempt.difference.path
            ),
        ),
    )
    starter = '''\
def collate(batch):
    """Rows filled up with 0, and a mask of the same shape: True where a value is real."""
    longest = max(len(series) for series in batch)
    rows = torch.zeros(len(batch), longest)
    mask = torch.zeros(len(batch), longest, dtype=torch.bool)
    return rows, mask  # your code: fill both
'''
    solution = """\
def collate(batch):
    longest = max(len(series) for series in batch)
    rows = torch.zeros(len(batch), longest)
    mask = torch.zeros(len(batch), longest, dtype=torch.bool)
    for n, series in enumerate(batch):
        rows[n, : len(series)] = series
        mask[n, : len(series)] = True
    return rows, mask
"""
    mutants = (
        Mutant(solution.replace("return rows, mask", "return rows, rows != 0"), hint=1),
        Mutant(solution.replace("return rows, mask", "return rows, ~mask"), hint=2),
        Mutant(solution.replace("        mask[n, : len(series)] = True\n", ""), hint=3),
        Mutant(
            solution.replace("mask[n, : len(series)]", "mask[n, : len(series) - 1]"),
            hint=4,
        ),
        Mutant(solution.replace("rows[n, : len(series)]", "rows[n, -len(series) :]"), hint=5),
        Mutant(solution.replace("return rows, mask", "return rows, mask.float()"), hint=6),
        Mutant(solution.replace("max(len", "sum(len")),
        Mutant(solution.replace("return rows, mask", "return rows")),
    )


def rows_at_the_end(batch):
    """Return the rows of a batch, filled up before each series."""
    longest = max(len(series) for series in batch)
    return torch.tensor(np.array([np.pad(row, (longest - len(row), 0)) for row in batch]))


def statistics_of(images, axis=(0, 2, 3)):
    """Return mean and standard deviation of images, as a student's answer."""
    return {
        "mean": torch.tensor(images.mean(axis)),
        "std": torch.tensor(images.std(axis)),
    }


def batches_of(case):
    """Return the images of a case in batches."""
    size = case["batch_size"]
    return [case["images"][n : n + size] for n in range(0, len(case["images"]), size)]


def mean_of_batches(case, part):
    """Return the mean of what the batches of a case have as `part`: "mean" or "std"."""
    parts = [statistics_of(images)[part].numpy() for images in batches_of(case)]
    return torch.tensor(np.mean(parts, axis=0))


class ChannelStatistics(Exercise):
    """Mean and standard deviation of a data set that comes in batches."""

    id = "09.statistics"
    notebook, cell = "09_data_loading", "cell-43"
    points = 2
    names = ("channel_statistics",)
    tolerance: ClassVar = {"float32": 3e-3}  # dividing by N and by N - 1 are both right

    def cases(rng):
        for count, batch_size in ((14, 4), (13, 6), (9, 8)):
            images = rng.random((count, 3, 7, 8)) * rng.uniform(0.2, 0.4, size=(1, 3, 1, 1))
            # The pictures become lighter, and the batches differ.
            images += np.linspace(0.0, 0.6, count).reshape(-1, 1, 1, 1)
            yield {"images": images.astype(np.float32), "batch_size": batch_size}

    def answer(theirs, images, batch_size):
        images, labels = torch.tensor(images), torch.zeros(len(images))
        batches = list(zip(images.split(batch_size), labels.split(batch_size), strict=True))
        mean, std = theirs.channel_statistics(batches)
        return {"mean": mean, "std": std}

    def right(images, batch_size):
        return statistics_of(images)

    hints = (
        Hint(
            "that is the first batch alone: go over all of them",
            lambda attempt: attempt.is_close(
                torch.tensor(batches_of(attempt.case)[0].mean((0, 2, 3))), "mean"
            ),
            mark="mean",
        ),
        Hint(
            "the last batch has fewer pictures, and counts as much as the others: sum first, and "
            "divide once",
            lambda attempt: attempt.is_close(mean_of_batches(attempt.case, "mean"), "mean"),
            mark="mean",
        ),
        Hint(
            "the means are right; but standard deviations have no mean: how far the batches are "
            "apart is in none of them. Sum up the squares",
            lambda attempt: is_near(
                attempt.value["std"], mean_of_batches(attempt.case, "std"), 0.01
            ),
            mark="var",
        ),
        Hint(
            "that is the variance: the standard deviation is its square root",
            lambda attempt: is_near(attempt.value["std"], attempt.right["std"] ** 2, 3e-3),
            mark="sub",
        ),
        Hint(
            "the mean of the squares is not yet the variance: the square of the mean is still in "
            "it",
            lambda attempt: is_near(
                attempt.value["std"] ** 2,
                attempt.right["std"] ** 2 + attempt.right["mean"] ** 2,
                3e-3,
            ),
            mark="sqrt",
        ),
        Hint(
            "each channel has a mean of its own: sum over all axes but that of the channels",
            lambda attempt: attempt.difference.aspect == "shape",
        ),
        Hint(
            "a channel's sum is divided by the number of pictures: how many pixels are in it?",
            lambda attempt: is_near(attempt.value["mean"], attempt.right["mean"] * 56, 3e-3),
            mark="div",
        ),
    )
    starter = '''\
def channel_statistics(loader):
    """Mean and standard deviation of each channel, over all batches of images N × C × H × W."""
    for images, labels in loader:
        return images.mean((0, 2, 3)), images.std((0, 2, 3))  # your code: that is one batch
'''
    solution = """\
def channel_statistics(loader):
    count, total, squares = 0, 0, 0
    for images, labels in loader:
        count += images.shape[0] * images.shape[2] * images.shape[3]
        total = total + images.sum((0, 2, 3))
        squares = squares + (images**2).sum((0, 2, 3))
    mean = total / count
    return mean, (squares / count - mean**2).sqrt()
"""
    mutants = (
        Mutant(
            """\
def channel_statistics(loader):
    means = [images.mean((0, 2, 3)) for images, labels in loader]
    stds = [images.std((0, 2, 3)) for images, labels in loader]
    return torch.stack(means).mean(0), torch.stack(stds).mean(0)
""",
            hint=1,
        ),
        Mutant(
            """\
def channel_statistics(loader):
    images = torch.cat([images for images, labels in loader])
    stds = [images.std((0, 2, 3)) for images, labels in loader]
    return images.mean((0, 2, 3)), torch.stack(stds).mean(0)
""",
            hint=2,
        ),
        Mutant(solution.replace(".sqrt()", ""), hint=3),
        Mutant(solution.replace(" - mean**2", ""), hint=4),
        Mutant(solution.replace("(0, 2, 3)", "(0, 1, 2, 3)"), hint=5),
        Mutant(solution.replace(" * images.shape[2] * images.shape[3]", ""), hint=6),
        Mutant(solution.replace("total + images", "images")),
        Mutant(solution.replace("(images**2).sum((0, 2, 3))", "images.sum((0, 2, 3)) ** 2")),
    )


def is_near(actual, expected, tolerance):
    """Return whether all elements are close, relative to the largest one expected."""
    return bool(((actual - expected).abs() <= tolerance * expected.abs().max()).all())


def has_chances(attempt, weights_of):
    """Return whether the samples' chances come of this function of shares and counts."""
    targets, shares = attempt.case["targets"], attempt.case["shares"]
    counts = np.bincount(targets.astype(int), minlength=len(shares)).clip(1)
    weights = weights_of(shares, counts)[targets]
    return attempt.is_close(torch.tensor(weights / weights.sum()))


class SamplerWeights(Exercise):
    """Weights with which a sampler draws the classes in chosen shares."""

    id = "09.weights"
    notebook, cell = "09_data_loading", "cell-47"
    names = ("weights_for",)

    def cases(rng):
        for classes, absent in ((3, 0), (6, 0), (4, 1)):  # of the last, one class has no sample
            present = classes - absent
            counts = rng.permutation(range(1, present + 1)) * 3
            targets = rng.permutation(np.repeat(np.arange(present), counts))
            shares = rng.permutation(range(1, classes + 1)).astype(np.float64)
            yield {"targets": targets, "shares": shares / shares.sum()}

    def answer(theirs, targets, shares):
        weights = theirs.weights_for(torch.tensor(targets), torch.tensor(shares))
        weights = np.asarray(weights)  # its division is no box among the student's
        return torch.tensor(weights / weights.sum())

    def right(targets, shares):
        weights = (shares / np.bincount(targets.astype(int), minlength=len(shares)).clip(1))[
            targets
        ]
        return torch.tensor(weights / weights.sum())

    hints = (
        Hint(
            "each sample has the share of its class; a class of 90 samples is then drawn 90 times "
            "as often as a class of one",
            lambda attempt: has_chances(attempt, lambda shares, counts: shares),
            mark="getitem",
        ),
        Hint(
            "that draws all classes equally often: where do the shares come in?",
            lambda attempt: has_chances(attempt, lambda shares, counts: 1 / counts),
            mark="getitem",
        ),
        Hint(
            "the samples of large classes get large weights: their share is divided among more "
            "samples",
            lambda attempt: has_chances(attempt, lambda shares, counts: shares * counts),
            mark="mul",
        ),
        Hint(
            "upside down: a class with a large share needs large weights",
            lambda attempt: (
                has_chances(attempt, lambda shares, counts: counts / shares)
                or has_chances(attempt, lambda shares, counts: 1 / (shares * counts))
            ),
            mark="div",
        ),
        Hint(
            "that is a weight for each class; the sampler wants one for each sample",
            lambda attempt: attempt.value.shape == attempt.case["shares"].shape,
            mark="div",
        ),
        Hint(
            "no sample of the last class is there, and still it has a share: what does `minlength` "
            "do?",
            lambda attempt: "size" in attempt.error or "shape" in attempt.error,
        ),
    )
    mutants = (
        Mutant("def weights_for(targets, shares): return shares[targets]", hint=0),
        Mutant(
            "def weights_for(targets, shares):\n"
            "    return 1 / torch.bincount(targets)[targets].double()",
            hint=1,
        ),
        Mutant(
            """\
def weights_for(targets, shares):
    counts = torch.bincount(targets, minlength=len(shares))
    return (shares * counts)[targets]
""",
            hint=2,
        ),
        Mutant(
            """\
def weights_for(targets, shares):
    counts = torch.bincount(targets, minlength=len(shares))
    return (counts / shares)[targets]
""",
            hint=3,
        ),
        Mutant(
            """\
def weights_for(targets, shares):
    counts = torch.bincount(targets, minlength=len(shares))
    return shares / counts
""",
            hint=4,
        ),
        Mutant(
            """\
def weights_for(targets, shares):
    return (shares / torch.bincount(targets))[targets] / torch.bincount(targets).sum()
""",
        ),
    )
    starter = '''\
def weights_for(targets, shares):
    """A weight for each sample, so that class c is drawn with the chance shares[c]."""
    return shares[targets]  # your code: is that enough?
'''
    solution = """\
def weights_for(targets, shares):
    counts = torch.bincount(targets, minlength=len(shares))
    return (shares / counts)[targets]
"""
