"""Transforms made of transforms: one after the other, one of several, in random order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...errors import ArgumentError
from .base import Transform, check_probability


def check_transforms(op: str, transforms: Any) -> None:
    """Raise ArgumentError for what is not a sequence of functions."""
    if not hasattr(transforms, "__iter__") or isinstance(transforms, str):
        hint = "Compose([ToTensor(), Normalize(…)])"
        raise ArgumentError(
            op, "expected a list of transforms", {"transforms": type(transforms).__name__}, hint
        )
    for index, transform in enumerate(transforms):
        if not callable(transform):
            raise ArgumentError(
                op, f"transforms[{index}] cannot be called", {"transforms": repr(transform)},
                "did you forget the brackets: ToTensor()?",
            )  # fmt: skip
        if is_transform_class(transform):
            raise ArgumentError(
                op, f"transforms[{index}] is a class", {"transforms": transform.__name__},
                f"make an object of it: {transform.__name__}(…)",
            )  # fmt: skip


def is_transform_class(function: object) -> bool:
    """Return True for a class of transforms, of which an object is wanted.

    Other classes may well be called, such as `float`.
    """
    return isinstance(function, type) and function.__module__.startswith("edutorch.vision.")


def show_lines(name: str, head: str, transforms: Any, tail: str = "") -> str:
    lines = "".join(f"\n    {transform}" for transform in transforms)
    return f"{name}({head}{lines}\n){tail}"


class Compose:
    """Apply transforms one after the other.

    Raises: ArgumentError: one of them cannot be called.

    >>> from edutorch.vision import transforms
    >>> Compose([transforms.Resize(2), transforms.Normalize((0.5,), (0.5,))])
    Compose(
        Resize(size=2, interpolation=bilinear, max_size=None, antialias=True)
        Normalize(mean=(0.5,), std=(0.5,))
    )
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        check_transforms("Compose", transforms)
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        """Return the image after all transforms."""
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return show_lines("Compose", "", self.transforms)


class RandomTransforms:
    """The base class of transforms that choose among others."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        check_transforms(type(self).__name__, transforms)
        self.transforms = transforms

    def __repr__(self) -> str:
        return show_lines(type(self).__name__, "", self.transforms)


class RandomApply(Transform):
    """Apply all transforms of a list with probability `p`, or none.

    >>> RandomApply([Compose([])], p=0.3).p
    0.3
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: float = 0.5) -> None:
        super().__init__()
        check_transforms("RandomApply", transforms)
        self.transforms, self.p = transforms, check_probability("RandomApply", p)

    def forward(self, img: Any) -> Any:
        """Return the image, changed or as it is."""
        if self.p < ops.rand(1).item():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return show_lines("RandomApply", f"\n    p={self.p}", self.transforms)


class RandomOrder(RandomTransforms):
    """Apply all transforms of a list in a random order, which Python's `random` draws.

    >>> import math
    >>> RandomOrder([math.fabs])(-1.0)
    1.0
    """

    def __call__(self, img: Any) -> Any:
        """Return the image after all transforms."""
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for index in order:
            img = self.transforms[index](img)
        return img


class RandomChoice(RandomTransforms):
    """Apply one transform of a list, which Python's `random` draws.

    Args:
        p: a weight for each transform, by default equal ones.

    Raises: ArgumentError: the weights are not a sequence.

    >>> import math
    >>> RandomChoice([math.fabs])(-1.0)
    1.0
    """

    def __init__(
        self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None
    ) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            hint = "one weight for each transform"
            raise ArgumentError("RandomChoice", "`p` is a list", {"p": repr(p)}, hint)
        self.p = p

    def __call__(self, *args: Any) -> Any:
        """Return what one of the transforms returns."""
        transform = random.choices(self.transforms, weights=self.p)[0]
        return transform(*args)

    def __repr__(self) -> str:
        return super().__repr__() + f"(p={self.p})"
