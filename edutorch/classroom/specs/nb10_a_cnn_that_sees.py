"""The exercises of `notebooks/10_a_cnn_that_sees.ipynb`."""

import numpy as np

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


class AnswerSize(Exercise):
    """The size of what a convolution returns."""

    id = "10.size"
    notebook, cell = "10_a_cnn_that_sees", "cell-43"
    names = ("answer_size",)
    forbid = frozenset({"conv1d", "conv2d"})

    def cases(rng):
        # Hints are about the first case that is wrong, so each adds one difficulty.
        kernel, padding, steps = (int(rng.integers(3, 7)) for _ in range(3))
        size = int(rng.integers(20, 40))
        yield {"size": size, "kernel": kernel, "options": {}}
        yield {"size": size, "kernel": kernel, "options": {"padding": padding}}
        # A remainder of 1 in three: rounding up, and adding 1 too early, are both noticed.
        yield {"size": kernel + 3 * steps + 1, "kernel": kernel, "options": {"stride": 3}}
        yield {"size": size, "kernel": kernel, "options": {"padding": padding, "stride": 2}}
        yield {"size": kernel, "kernel": kernel, "options": {"stride": 2}}

    def answer(theirs, size, kernel, options):
        return theirs.answer_size(size, kernel, **options)

    def right(size, kernel, options):
        return F.conv1d(torch.zeros(1, 1, size), torch.zeros(1, 1, kernel), **options).shape[-1]

    hints = (
        Hint(
            "without padding the answer is narrower than the image: where does the last window "
            "start that still fits?",
            lambda attempt: not attempt.case["options"] and attempt.value == attempt.case["size"],
        ),
        Hint(
            "one position is missing: think of a kernel as wide as the image",
            lambda attempt: (
                "stride" not in attempt.case["options"] and attempt.value == attempt.right - 1
            ),
        ),
        Hint(
            "the padding makes the image wider: by how much, with all its sides?",
            lambda attempt: (
                [*attempt.case["options"]] == ["padding"] and attempt.value < attempt.right
            ),
        ),
        Hint(
            "look at the stride: how many whole steps can the first window take, and how many "
            "positions is that?",
            lambda attempt: (
                "stride" in attempt.case["options"] and abs(attempt.value - attempt.right) <= 1
            ),
        ),
    )
    mutants = (
        Mutant(
            "def answer_size(size, kernel, padding=0, stride=1):\n"
            "    return (size + 2 * padding - kernel) // stride",
            hint=1,
        ),
        Mutant(
            "def answer_size(size, kernel, padding=0, stride=1):\n"
            "    return (size + padding - kernel) // stride + 1",
            hint=2,
        ),
        Mutant(
            "def answer_size(size, kernel, padding=0, stride=1):\n"
            "    return (size + 2 * padding - kernel + 1) // stride",
            hint=3,
        ),
        Mutant(
            "def answer_size(size, kernel, padding=0, stride=1):\n"
            "    return (size + 2 * padding - kernel) / stride + 1",
            hint=3,
        ),
        Mutant(
            "def answer_size(size, kernel, padding=0, stride=1):\n"
            "    return size + 2 * padding - kernel + 1"
        ),
        Mutant(
            "def answer_size(size, kernel, padding=0, stride=1):\n"
            "    layer = nn.Conv2d(1, 1, kernel, stride, padding)\n"
            "    return layer(torch.zeros(1, 1, size, size)).shape[-1]"
        ),
    )
    starter = """\
def answer_size(size, kernel, padding=0, stride=1):
    return size  # your code
"""
    solution = """\
def answer_size(size, kernel, padding=0, stride=1):
    return (size + 2 * padding - kernel) // stride + 1
"""


def shift_image(images, down, right):
    """Return images that are moved by at most one pixel; zeros come in from outside."""
    height, width = images.shape[-2:]
    padded = F.pad(torch.tensor(images), (1, 1, 1, 1))
    return padded[..., 1 - down : 1 - down + height, 1 - right : 1 - right + width]


class Mover(Exercise):
    """A kernel that moves an image to the right."""

    id = "10.mover"
    notebook, cell = "10_a_cnn_that_sees", "cell-47"
    names = ("mover",)

    def cases(rng):
        for shape in ((1, 1, 4, 4), (3, 1, 5, 7), (2, 1, 8, 6)):
            yield {"images": rng.random(shape, dtype=np.float32)}

    def answer(theirs, images):
        return F.conv2d(torch.tensor(images), theirs.mover.float()[None, None], padding=1)

    def right(images):
        return shift_image(images, down=0, right=1)

    hints = (
        Hint(
            "all of the answer is 0: one of the nine pixels under the window has to come through",
            lambda attempt: attempt.is_close(torch.zeros_like(attempt.right)),
            mark="conv2d",
        ),
        Hint(
            "the image moves to the left: each number of the kernel takes the pixel that lies "
            "under it, and the result is written where the middle is",
            lambda attempt: attempt.is_close(shift_image(attempt.case["images"], 0, -1)),
            mark="conv2d",
        ),
        Hint(
            "the image stays where it is: the middle number takes the pixel in the middle",
            lambda attempt: attempt.is_close(shift_image(attempt.case["images"], 0, 0)),
            mark="conv2d",
        ),
        Hint(
            "the image moves up or down: the first index of the kernel counts rows, the second "
            "columns",
            lambda attempt: any(
                attempt.is_close(shift_image(attempt.case["images"], down, 0)) for down in (-1, 1)
            ),
            mark="conv2d",
        ),
    )
    mutants = (
        Mutant("mover = torch.zeros(3, 3)\nmover[1, 2] = 1.0", hint=1),
        Mutant("mover = torch.zeros(3, 3)\nmover[1, 1] = 1.0", hint=2),
        Mutant("mover = torch.zeros(3, 3)\nmover[0, 1] = 1.0", hint=3),
        Mutant("mover = torch.zeros(3, 3)\nmover[2, 1] = 1.0", hint=3),
        Mutant("mover = torch.zeros(3, 3)\nmover[:, 0] = 1 / 3"),
        Mutant("mover = torch.tensor([[0.0, 0, 0], [1, 0, -1], [0, 0, 0]])"),
    )
    starter = """\
mover = torch.zeros(3, 3)  # your code
"""
    solution = """\
mover = torch.zeros(3, 3)
mover[1, 0] = 1.0  # each place takes what is on its left
"""


def falls_of_score(weight, image, digit, wiped):
    """Return by how much the score falls for each row of `wiped`, a mask of the 64 pixels."""
    pixels = image.reshape(-1)
    whole, without = np.tanh(pixels @ weight[digit]), np.tanh((pixels * ~wiped) @ weight[digit])
    return torch.tensor((whole - without).reshape(8, 8))


class Occlusion(Exercise):
    """Occlusion: which pixels does the score depend on?"""

    id = "10.occlusion"
    notebook, cell = "10_a_cnn_that_sees", "cell-51"
    points = 2
    names = ("occlusion",)

    def cases(rng):
        for classes in (3, 7, 10):
            image = rng.random((1, 8, 8), dtype=np.float32)
            yield {
                "weight": rng.normal(size=(classes, 64), scale=0.3).astype(np.float32),
                "image": image * (rng.random((1, 8, 8)) < 0.7),  # some paper is empty
                "digit": int(rng.integers(1, classes)),
            }

    def answer(theirs, weight, image, digit):
        weight = torch.tensor(weight)

        class Model(nn.Module):
            def forward(self, images):
                return F.linear(images.flatten(1), weight).tanh()

        return theirs.occlusion(Model(), torch.tensor(image), digit)

    def right(weight, image, digit):
        return falls_of_score(weight, image, digit, wiped=np.eye(64, dtype=bool))

    hints = (
        Hint(
            "nothing is computed yet: ask the model for the score of the whole image first",
            lambda attempt: attempt.is_close(torch.zeros(8, 8)),
        ),
        Hint(
            "every sign is the wrong way round: a pixel that speaks for the digit is one without "
            "which the score falls",
            lambda attempt: attempt.is_close(-attempt.right),
            mark="sub",
        ),
        Hint(
            "only the first pixel is right: is the image still whole when the second one is wiped "
            "out?",
            lambda attempt: attempt.is_close(
                falls_of_score(**attempt.case, wiped=np.tri(64, dtype=bool))
            ),
            mark="setitem",
        ),
        Hint(
            "rows and columns are swapped",
            lambda attempt: attempt.is_close(attempt.right.T),
            mark="setitem",
        ),
        Hint(
            "compare the scores themselves: the chances depend on the other digits, too",
            lambda attempt: attempt.graph.has("softmax"),
            mark="softmax",
        ),
    )
    starter = '''\
def occlusion(model, image, digit):
    """By how much the score falls when a pixel of the image (1 × 8 × 8) is wiped out: 8 × 8."""
    return torch.zeros(8, 8)  # your code
'''
    solution = """\
def occlusion(model, image, digit):
    falls = torch.zeros(8, 8)
    whole = model(image[None])[0, digit]
    for row in range(8):
        for column in range(8):
            without = image.clone()
            without[0, row, column] = 0
            falls[row, column] = whole - model(without[None])[0, digit]
    return falls
"""
    mutants = (
        Mutant(solution.replace("return falls", "return -falls"), hint=1),
        Mutant(solution.replace("image.clone()", "image"), hint=2),
        Mutant(solution.replace("falls[row, column]", "falls[column, row]"), hint=3),
        Mutant(solution.replace("None])", "None]).softmax(1)"), hint=4),
        Mutant(
            """\
def occlusion(model, image, digit):
    image.requires_grad_()
    model(image[None])[0, digit].backward()
    return (image.grad * image.detach())[0]
"""
        ),
    )
