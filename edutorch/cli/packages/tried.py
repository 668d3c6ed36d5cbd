"""The packages written for PyTorch that were tried on edutorch, each at the version tried."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata


@dataclass(frozen=True, slots=True)
class Package:
    """A package, and what is known of it.

    Args:
        version: the version that was tried.
        module: the name to import; by default the package's, with "_" for "-".
        apart: whether it asks for another version of PyTorch, or for one that PyTorch's own
            packages share: it is installed without its dependencies, and they after it.
        note: what does not work, or who takes its place.
    """

    name: str
    version: str
    module: str = ""
    apart: bool = False
    note: str = ""

    @property
    def import_name(self) -> str:
        return self.module or self.name.replace("-", "_")

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


TRIED = {
    package.name: package
    for package in (
        Package("torchvision", "0.28.0"),
        Package("torchaudio", "2.11.0", apart=True),
        Package("timm", "1.0.31"),
        Package("transformers", "5.24.0"),
        Package("lightning", "2.6.6"),
        Package("torchmetrics", "1.9.0"),
        Package("einops", "0.8.2"),
        Package("accelerate", "1.15.0"),
        Package("sentence-transformers", "6.2.0"),
        Package("kornia", "0.9.0"),
        Package("x-transformers", "2.31.10"),
        Package("fastai", "2.8.12"),
        Package("pyro-ppl", "1.9.2", module="pyro"),
        Package("torchdiffeq", "0.2.5"),
        Package("skorch", "1.4.0"),
        Package("torchinfo", "1.8.0"),
        Package("safetensors", "0.8.0", note="safetensors.torch; comes with edutorch"),
        Package("gymnasium", "1.4.0", note="needs no PyTorch"),
    )
}

INSTEAD = {
    "torch": "edutorch is what answers to `import torch`: python -m edutorch run SCRIPT",
    "torchtext": "its last version fits PyTorch 2.3 only; `import torchtext` means edutorch.text",
    "torchdata": "edutorch.utils.data has Dataset, DataLoader and the samplers",
}
"""What is not installed, and what takes its place."""


def normalized(name: str) -> str:
    """Return a package's name as pip compares it.

    >>> from edutorch.cli.packages.tried import normalized
    >>> normalized("Pyro_PPL")
    'pyro-ppl'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_packages() -> Iterator[tuple[Package, str]]:
    """Yield each known package that is installed, with its version there."""
    for package in TRIED.values():
        if importlib.util.find_spec(package.import_name) is None:
            continue
        try:
            yield package, metadata.version(package.name)
        except metadata.PackageNotFoundError:  # ours under its name, or a folder beside the script
            continue


def dependencies(name: str) -> list[str]:
    """Return what an installed package requires, but PyTorch and the extras."""
    requirements = metadata.requires(name) or []
    return [
        requirement
        for requirement in requirements
        if normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) not in ("torch", "triton")
        and "extra ==" not in requirement
    ]
