"""What the data sets of pictures share: a root, and transforms of pictures and of targets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError
from ...utils.data import Dataset
from ..transforms.containers import is_transform_class

Transform = Callable[..., Any]


class VisionDataset(Dataset):
    """The base class of data sets of pictures.

    Args:
        root: the folder of the data.
        transforms: takes a picture and its target, and returns both.
        transform: takes a picture, and returns what the network gets.
        target_transform: takes the target.

    Raises: ArgumentError: `transforms` is given beside one of the others.

    >>> data = VisionDataset("data", transform=math.fabs)
    >>> data.transforms(-1.0, "cat")
    (1.0, 'cat')
    """

    def __init__(
        self, root: Any = None, transforms: Transform | None = None,
        transform: Transform | None = None, target_transform: Transform | None = None,
    ) -> None:  # fmt: skip
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ArgumentError(
                type(self).__name__, "give `transforms`, or `transform` and `target_transform`",
                hint="`transforms` gets the picture and its target together",
            )  # fmt: skip
        for name, function in (("transform", transform), ("target_transform", target_transform)):
            if function is not None and (not callable(function) or is_transform_class(function)):
                raise ArgumentError(
                    type(self).__name__, f"`{name}` is no function", {name: repr(function)},
                    "an object such as ToTensor(), with brackets",
                )  # fmt: skip
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform, self.target_transform = transform, target_transform
        if transforms is None and (transform is not None or target_transform is not None):
            transforms = StandardTransform(transform, target_transform)
        self.transforms = transforms

    def __getitem__(self, index: int) -> Any:
        """Return a picture and its target."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def change(self, picture: Any, target: Any) -> tuple[Any, Any]:
        """Return a picture and its target after the transforms."""
        if self.transform is not None:
            picture = self.transform(picture)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return picture, target

    def __repr__(self) -> str:
        lines = [f"Dataset {type(self).__name__}", f"    Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"    Root location: {self.root}")
        lines += [f"    {line}" for line in self.extra_repr().splitlines()]
        if self.transforms is not None:
            lines += [f"    {line}" for line in repr(self.transforms).splitlines()]
        return "\n".join(lines)

    def extra_repr(self) -> str:
        """Return further lines of the description."""
        return ""


class StandardTransform:
    """A transform of pictures and one of targets, as one of both.

    >>> StandardTransform(math.fabs)(-1.0, -2)
    (1.0, -2)
    """

    def __init__(
        self, transform: Transform | None = None, target_transform: Transform | None = None
    ) -> None:
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        """Return both after their transforms."""
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for head, function in (
            ("Transform: ", self.transform), ("Target transform: ", self.target_transform),
        ):  # fmt: skip
            if function is not None:
                first, *rest = repr(function).splitlines()
                lines += [head + first, *(" " * len(head) + line for line in rest)]
        return "\n".join(lines)
