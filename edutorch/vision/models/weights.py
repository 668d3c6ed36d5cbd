"""Weights of models: which files there are, and loading them from this machine.

Nothing is fetched. `weights="DEFAULT"` reads the file of the published name from the folder where
PyTorch keeps it too, and says which file goes where if it is not there; a path is read as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ... import nn
from ...errors import EdutorchError, InvalidValueError
from ...serialization import load
from .checkpoints import CHECKPOINTS


class WeightsNotFoundError(EdutorchError, FileNotFoundError, RuntimeError):
    """A file of weights is not on this machine."""


class WeightsFileError(EdutorchError, RuntimeError):
    """A file of weights is not the one that its name says."""


class WeightsEnum(Enum):
    """The published weights of one model. The value of a member is the name of its file."""

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.value

    def get_state_dict(self, progress: bool = True, check_hash: bool = False) -> dict[str, Any]:
        """Read the weights from their file on this machine, the hash in its name compared.

        Args:
            progress, check_hash: for PyTorch's sake; nothing is downloaded, the hash is compared.

        Raises: WeightsNotFoundError (a FileNotFoundError): the file is not here.
            WeightsFileError (a RuntimeError): its hash differs.
        """
        return read_state_dict(type(self).__name__, self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


WeightsLike = WeightsEnum | str | os.PathLike[str] | None
"""What the argument `weights` takes: published weights, their name, a path or a file:// address."""


def parse_checkpoints(text: str) -> dict[str, type[WeightsEnum]]:
    """Return the enum of each model. A line: model, name of the enum, its default, name=file …"""
    enums = {}
    for line in text.split("\n"):
        model, enum_name, default, *members = line.split()
        files = dict(member.split("=") for member in members)
        # The second name of a value is an alias of the first.
        enums[model] = WeightsEnum(enum_name, {**files, "DEFAULT": files[default]})
        enums[model].__doc__ = f"The published weights of `{model}`."
    return enums


WEIGHTS = parse_checkpoints(CHECKPOINTS)
"""The published weights of each model by its name."""


def load_weights(model: nn.Module, name: str, weights: WeightsLike) -> None:
    """Load weights into the model `name`.

    Raises: WeightsNotFoundError (a FileNotFoundError): the file is not on this machine.
        WeightsFileError (a RuntimeError): its hash differs. StateDictError (a RuntimeError): it is
        of another architecture.
    """
    if isinstance(weights, str):
        weights = member_of(name, weights) or weights
    if isinstance(weights, WeightsEnum) and weights not in WEIGHTS.get(name, ()):
        raise InvalidValueError(
            name, f"{weights!r} are weights of another model",
            hint=f"get_model_weights({name!r}) lists those of this one",
        )  # fmt: skip
    model.load_state_dict(read_state_dict(name, weights))


def member_of(name: str, weights: str) -> WeightsEnum | None:
    """Return the published weights of a model by their name, or None where it is a path.

    >>> member_of("resnet18", "ResNet18_Weights.DEFAULT")
    ResNet18_Weights.IMAGENET1K_V1
    """
    if re.search(r"[/\\]|\.\w{2,11}$", weights) and not re.search(r"_Weights\.", weights):
        return None  # a path: with a folder, or with the ending of a file
    enum = WEIGHTS.get(name)
    members = enum.__members__ if enum else {}
    member = members.get(weights.removeprefix(f"{enum.__name__}.") if enum else weights)
    if member is None:
        raise InvalidValueError(
            name, f"there are no weights {weights!r}",
            hint=f"{', '.join(members) or 'none are published'}; or pass the path of a file",
        )  # fmt: skip
    return member


def read_state_dict(name: str, weights: WeightsLike) -> dict[str, Any]:
    """Read a file of weights; `name` is for errors."""
    if isinstance(weights, WeightsEnum):
        path, label = checkpoint_folder() / weights.file, repr(weights)
    else:
        path, label = local_path(name, os.fspath(weights or "")), None
    if not path.is_file():
        raise WeightsNotFoundError(
            name,
            f"{label} are not on this machine, and nothing is downloaded" if label
            else "there is no such file of weights",
            {"file": path.name, "folder": path.parent},
            "put the file that PyTorch publishes under this name into the folder, or pass "
            "weights='path/of/the/file'" if label else None,
        )  # fmt: skip
    if label:
        check_hash_in_name(name, path)
    return load(path, map_location="cpu")


def checkpoint_folder() -> Path:
    """Return the folder in which PyTorch keeps published weights: `hub/checkpoints`."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", f"{cache}/torch")
    return Path(home).expanduser() / "hub" / "checkpoints"


def local_path(name: str, address: str) -> Path:
    """Return the path of a file:// address; a path stays as it is.

    Raises: InvalidValueError: an address of another machine.
    """
    if "://" not in address:
        return Path(address).expanduser()
    parts = urlsplit(address)
    if parts.scheme != "file":
        raise InvalidValueError(
            name, f"weights are read from this machine only, got {address!r}",
            hint="download the file, and pass its path",
        )  # fmt: skip
    return Path(url2pathname(parts.path))


def check_hash_in_name(name: str, path: Path) -> None:
    """Compare the file with the beginning of its SHA-256 hash, which stands in its name."""
    match = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if match is None:
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if not digest.startswith(match[1]):
        raise WeightsFileError(
            name, "the file of weights is damaged or another one",
            {"file": path, "expected": f"SHA-256 {match[1]}…", "found": f"SHA-256 {digest[:8]}…"},
            "download it once more",
        )  # fmt: skip
