"""The exercises of `notebooks/14_unet.ipynb`."""

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

from ..exercise import Exercise, Hint, Mutant


def small_unet(width, seed):
    """Return the U-Net of a case, as `answer` of `Skip` makes it."""

    def block(inputs, outputs):
        conv = nn.Conv2d(inputs, outputs, 3, padding=1, dtype=torch.float64)
        return nn.Sequential(conv, nn.ReLU())

    def double(inputs):
        return nn.ConvTranspose2d(inputs, inputs // 2, 2, stride=2, dtype=torch.float64)

    net = nn.Module()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net.down1, net.down2 = block(1, width), block(width, 2 * width)
        net.bottom = block(2 * width, 4 * width)
        net.up2, net.join2 = double(4 * width), block(4 * width, 2 * width)
        net.up1, net.join1 = double(2 * width), block(2 * width, width)
        net.answer = nn.Conv2d(width, 1, 1, dtype=torch.float64)
    return net


def outlines_of(case, halves=lambda fine, grown: [fine, grown], turned=False):
    """Return the outputs for a case, and the gradient of the first layer.

    Args:
        halves: what the last `cat` joins, of the fine features and those from below.
        turned: whether the other `cat` has its halves the other way round.
    """
    net = small_unet(case["width"], case["seed"])
    fine = net.down1(torch.tensor(case["images"]))
    middle = net.down2(F.max_pool2d(fine, 2))
    grown = net.up2(net.bottom(F.max_pool2d(middle, 2)))
    grown = net.join2(torch.cat([grown, middle] if turned else [middle, grown], dim=1))
    output = net.answer(net.join1(torch.cat(halves(fine, net.up1(grown)), dim=1)))
    (output**2).mean().backward()
    return {"output": output.detach(), "gradient": net.down1[0].weight.grad}


def joins(halves, turned=False):
    """Return the condition that an answer is what these halves give."""
    return lambda attempt: attempt.is_close(
        outlines_of(attempt.case, halves, turned)["output"], "output"
    )


class Skip(Exercise):
    """The skip that is missing."""

    id = "14.skip"
    notebook, cell = "14_unet", "cell-47"
    names = ("outlines",)

    def cases(rng):
        for shape in ((2, 1, 8, 8), (1, 1, 12, 8)):
            yield {
                "images": rng.normal(size=shape),
                "width": int(rng.integers(2, 5)),
                "seed": int(rng.integers(1000)),
            }

    def answer(theirs, images, width, seed):
        def block(inputs, outputs):
            conv = nn.Conv2d(inputs, outputs, 3, padding=1, dtype=torch.float64)
            return nn.Sequential(conv, nn.ReLU())

        def double(inputs):
            return nn.ConvTranspose2d(inputs, inputs // 2, 2, stride=2, dtype=torch.float64)

        net = nn.Module()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            net.down1, net.down2 = block(1, width), block(width, 2 * width)
            net.bottom = block(2 * width, 4 * width)
            net.up2, net.join2 = double(4 * width), block(4 * width, 2 * width)
            net.up1, net.join1 = double(2 * width), block(2 * width, width)
            net.answer = nn.Conv2d(width, 1, 1, dtype=torch.float64)
        output = theirs.outlines(net, torch.tensor(images))
        if not torch.is_tensor(output):
            return {"output": output, "gradient": None}
        if output.requires_grad:
            (output**2).mean().backward()
        return {"output": output.detach(), "gradient": net.down1[0].weight.grad}

    def right(images, width, seed):
        return outlines_of({"images": images, "width": width, "seed": seed})

    hints = (
        Hint(
            "one `cat` has both its arrows from the same box: which features should come from the "
            "way down?",
            joins(lambda fine, grown: [grown, grown]),
            mark="cat",
        ),
        Hint(
            "the skip is there, and what comes from below is gone: the last `cat` needs both",
            joins(lambda fine, grown: [fine, fine]),
            mark="cat",
        ),
        Hint(
            "the two halves are in the wrong order: the weights behind a `cat` belong to its "
            "channels one by one. Look at the other `cat`",
            lambda attempt: any(
                joins(lambda fine, grown, turn=turn: [fine, grown][::turn], turned)(attempt)
                for turn, turned in ((-1, False), (1, True), (-1, True))
            ),
            mark="cat",
        ),
        Hint(
            "the values are right, but no gradient comes back on the skip: what cuts it off?",
            lambda attempt: attempt.is_close(attempt.right["output"], "output"),
            mark="cat",
        ),
        Hint(
            "these two do not have the same height and width: at which point of the way down had "
            "the image the size that it has here?",
            lambda attempt: "cat" in attempt.error,
        ),
    )
    starter = '''\
def outlines(net, images):
    """What a U-Net says of images: its layers, one after the other."""
    fine = net.down1(images)
    middle = net.down2(F.max_pool2d(fine, 2))
    coarse = net.bottom(F.max_pool2d(middle, 2))
    grown = net.up2(coarse)
    grown = net.join2(torch.cat([middle, grown], dim=1))
    grown = net.up1(grown)
    grown = net.join1(torch.cat([grown, grown], dim=1))
    return net.answer(grown)
'''
    solution = starter.replace("[grown, grown]", "[fine, grown]")
    mutants = (
        Mutant(starter, hint=0),
        Mutant(starter.replace("[grown, grown]", "[fine, fine]"), hint=1),
        Mutant(starter.replace("[grown, grown]", "[grown, fine]"), hint=2),
        Mutant(solution.replace("[middle, grown]", "[grown, middle]"), hint=2),
        Mutant(starter.replace("[grown, grown]", "[fine.detach(), grown]"), hint=3),
        Mutant(starter.replace("[grown, grown]", "[middle, grown]")),
        Mutant(starter.replace("[grown, grown]", "[fine + grown, grown]")),
    )


def stamped(case, turn=lambda kernel: kernel, replaces=False):
    """Return the transposed convolution of a case, or what a mistake makes of it.

    Args:
        turn: what is done to the kernel first.
        replaces: where two stamps overlap, keep the later one and not the sum.
    """
    image, kernel = torch.tensor(case["image"]), turn(torch.tensor(case["kernel"]))
    size, stride = len(kernel), case["stride"]
    height, width = ((length - 1) * stride + size for length in image.shape)
    result = torch.zeros(height, width)
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            top, left = row * stride, column * stride
            part = result[top : top + size, left : left + size]
            part.copy_(image[row, column] * kernel + (0 if replaces else part))
    return result


class Grow(Exercise):
    """A transposed convolution by hand."""

    id = "14.grow"
    notebook, cell = "14_unet", "cell-51"
    points = 2
    names = ("grow",)
    forbid = frozenset(
        {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "fold", "interpolate"}
    )

    def cases(rng):
        # Hints are about the first case that is wrong, so each adds one difficulty.
        for shape, size, stride in (
            ((2, 2), 2, 2), ((3, 5), 2, 2), ((4, 3), 3, 2), ((2, 4), 3, 1), ((3, 2), 2, 3),
        ):  # fmt: skip
            yield {
                "image": rng.normal(size=shape).astype("float32"),
                "kernel": rng.normal(size=(size, size)).astype("float32"),
                "stride": stride,
            }

    def answer(theirs, image, kernel, stride):
        return theirs.grow(torch.tensor(image), torch.tensor(kernel), stride)

    def right(image, kernel, stride):
        image, kernel = torch.tensor(image)[None, None], torch.tensor(kernel)[None, None]
        return F.conv_transpose2d(image, kernel, stride=stride)[0, 0]

    hints = (
        Hint(
            "nothing has grown yet: how large is the result, and where does each stamp begin?",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["image"])),
        ),
        Hint(
            "that size is wrong: the last stamp begins at (height − 1) · stride; where does it "
            "end?",
            lambda attempt: "broadcast" in attempt.error or attempt.difference.aspect == "shape",
        ),
        Hint(
            "where two stamps overlap, only one of them is left: both count",
            lambda attempt: attempt.is_close(stamped(attempt.case, replaces=True)),
            mark="setitem",
        ),
        Hint(
            "the kernel is turned: a stamp shows it as it is",
            lambda attempt: any(
                attempt.is_close(stamped(attempt.case, turn))
                for turn in (lambda kernel: kernel.T, lambda kernel: kernel.flip([0, 1]))
            ),
            mark="mul",
        ),
        Hint(
            "the stamps stand in the wrong place: how far apart are two neighbours, down and to "
            "the right?",
            lambda attempt: attempt.has_right_type,
            mark="setitem",
        ),
    )
    starter = '''\
def grow(image, kernel, stride=2):
    """A transposed convolution of an image (height × width) with a kernel (size × size)."""
    return image  # your code
'''
    solution = '''\
def grow(image, kernel, stride=2):
    """A transposed convolution of an image (height × width) with a kernel (size × size)."""
    (height, width), size = image.shape, len(kernel)
    result = torch.zeros((height - 1) * stride + size, (width - 1) * stride + size)
    for row in range(height):
        for column in range(width):
            top, left = row * stride, column * stride
            result[top : top + size, left : left + size] += image[row, column] * kernel
    return result
'''
    mutants = (
        Mutant(
            solution.replace("(height - 1) * stride + size", "height * stride").replace(
                "(width - 1) * stride + size", "width * stride"
            )
        ),
        Mutant(solution.replace("(height - 1) * stride", "height * stride"), hint=1),
        Mutant(solution.replace("] += image", "] = image"), hint=2),
        Mutant(solution.replace("* kernel", "* kernel.T"), hint=3),
        Mutant(solution.replace("* kernel", "* kernel.flip([0, 1])"), hint=3),
        Mutant(solution.replace("top, left = row", "left, top = row"), hint=4),
        Mutant(solution.replace("column * stride\n", "column\n"), hint=4),
        Mutant(
            "def grow(image, kernel, stride=2):\n"
            "    image, kernel = image[None, None], kernel[None, None]\n"
            "    return F.conv_transpose2d(image, kernel, stride=stride)[0, 0]\n"
        ),
    )


def overlap_loss(case, chance=torch.sigmoid, twice=2, extra=1.0, over=lambda p, t: p + t):
    """Return the Dice loss of a case, or what a mistake makes of it.

    Args:
        chance: makes chances of the logits.
        twice: how often the overlap counts.
        extra: what is added above and below the fraction line.
        over: what the overlap is divided by, for each pixel.
    """
    p, t = chance(torch.tensor(case["logits"])), torch.tensor(case["truth"])
    return 1 - (twice * (p * t).sum() + extra) / (over(p, t).sum() + extra)


def says(**mistake):
    """Return the condition that an answer has the loss of this mistake."""
    return lambda attempt: attempt.is_close(overlap_loss(attempt.case, **mistake), "loss")


class DiceLoss(Exercise):
    """The Dice loss."""

    id = "14.dice"
    notebook, cell = "14_unet", "cell-55"
    points = 2
    names = ("dice_loss",)

    def cases(rng):
        for shape, share in (((2, 1, 4, 4), 0.4), ((3, 1, 5, 3), 0.2), ((1, 1, 3, 3), 0.0)):
            yield {
                "logits": rng.normal(size=shape) * 3,
                "truth": (rng.random(shape) < share).astype(float),
            }

    def answer(theirs, logits, truth):
        logits = torch.tensor(logits, requires_grad=True)
        loss = theirs.dice_loss(logits, torch.tensor(truth))
        if not torch.is_tensor(loss):
            return {"loss": loss, "gradient": None}
        if loss.requires_grad:
            loss.sum().backward()
        gradient = torch.zeros_like(logits) if logits.grad is None else logits.grad
        return {"loss": loss.detach(), "gradient": gradient}

    def right(logits, truth):
        leaf = torch.tensor(logits, requires_grad=True)
        p, t = leaf.sigmoid(), torch.tensor(truth)
        loss = 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1)
        loss.backward()
        return {"loss": loss.detach(), "gradient": leaf.grad}

    hints = (
        Hint(
            "that is still the cross entropy, a mean over pixels: Dice is one fraction for all of "
            "them",
            lambda attempt: attempt.is_close(
                F.binary_cross_entropy_with_logits(
                    torch.tensor(attempt.case["logits"]), torch.tensor(attempt.case["truth"])
                ),
                "loss",
            ),
            mark="binary_cross_entropy_with_logits",
        ),
        Hint(
            "a step has no slope: with yes or no for each pixel, the network learns nothing. Let a "
            "pixel be 70 % nucleus",
            lambda attempt: attempt.graph.has("gt", "ge", "lt", "le", "round"),
            mark="logits",
        ),
        Hint(
            "logits can be −5 or 7: what makes chances of them?",
            says(chance=lambda logits: logits),
            mark="logits",
        ),
        Hint(
            "that is Dice itself, which is 1 where all is right: a loss is small there",
            lambda attempt: attempt.is_close(1 - overlap_loss(attempt.case), "loss"),
            mark="div",
        ),
        Hint(
            "a perfect outline has a loss of 1/2: how often does the overlap count?",
            lambda attempt: any(says(twice=1, extra=extra)(attempt) for extra in (0.0, 1.0)),
            mark="div",
        ),
        Hint(
            "that is right where there are nuclei; and in a crop without one? Look at the two "
            "numbers 1 in the formula",
            says(extra=0.0),
            mark="div",
        ),
        Hint(
            "that divides by the union, as IoU does: Dice divides by the sum of both areas",
            lambda attempt: any(
                says(twice=twice, over=lambda p, t: p + t - p * t)(attempt) for twice in (1, 2)
            ),
            mark="div",
        ),
        Hint(
            "one fraction for all pixels of the batch: first the sums, then the division",
            lambda attempt: attempt.graph.has("mean"),
            mark="mean",
        ),
    )
    starter = """\
def dice_loss(logits, truth):
    return F.binary_cross_entropy_with_logits(logits, truth)  # your code
"""
    solution = """\
def dice_loss(logits, truth):
    chances = logits.sigmoid()
    overlap = (chances * truth).sum()
    return 1 - (2 * overlap + 1) / (chances.sum() + truth.sum() + 1)
"""
    mutants = (
        Mutant(starter, hint=0),
        Mutant(solution.replace("logits.sigmoid()", "(logits > 0).double()"), hint=1),
        Mutant(solution.replace("logits.sigmoid()", "logits"), hint=2),
        Mutant(solution.replace("return 1 - ", "return "), hint=3),
        Mutant(solution.replace("2 * overlap", "overlap"), hint=4),
        Mutant(solution.replace(" + 1", ""), hint=5),
        Mutant(solution.replace("truth.sum()", "truth.sum() - overlap"), hint=6),
        Mutant(
            """\
def dice_loss(logits, truth):
    chances = logits.sigmoid()
    overlap = (chances * truth).sum((1, 2, 3))
    areas = chances.sum((1, 2, 3)) + truth.sum((1, 2, 3))
    return (1 - (2 * overlap + 1) / (areas + 1)).mean()
""",
            hint=7,
        ),
    )
