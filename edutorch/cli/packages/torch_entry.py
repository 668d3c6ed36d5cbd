"""A package without code, called torch: it answers pip's question whether PyTorch is installed.

pip reads only the metadata of what is installed. Where there is an entry "torch 2.13.0+edutorch",
`pip install timm` finds its requirement `torch` met, and fetches no PyTorch; packages that ask
`importlib.metadata.version("torch")` get an answer. pip installs the entry from a wheel that is
written here, so that `pip uninstall torch` removes it as any other package.
"""

from __future__ import annotations

import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

from ...alias import METADATA
from ...errors import EdutorchError
from ...version import PYTORCH
from .installer import install, uninstall

VERSION = f"{PYTORCH}+edutorch"
"""PyTorch's version that edutorch follows; the part after "+" says who wrote the entry."""

WHEEL = """\
Wheel-Version: 1.0
Generator: edutorch
Root-Is-Purelib: true
Tag: py3-none-any
"""


def installed_torch() -> str | None:
    """Return the version of the package torch in this environment, ours or PyTorch, or None."""
    for distribution in metadata.distributions(name="torch"):
        if hasattr(distribution, "_path"):  # on disk, not the answer of `edutorch.alias`
            return distribution.version
    return None


def is_entry(version: str | None) -> bool:
    """Whether a version of torch is that of the entry.

    >>> from edutorch.cli.packages.torch_entry import is_entry
    >>> is_entry("2.13.0+edutorch"), is_entry("2.13.0+cpu"), is_entry(None)
    (True, False, False)
    """
    return version is not None and version.partition("+")[2].startswith("edutorch")


def write_wheel(folder: Path) -> Path:
    """Write the wheel of the entry into a folder, and return its path."""
    path = folder / f"torch-{VERSION}-py3-none-any.whl"
    info = f"torch-{VERSION}.dist-info"
    texts = {f"{info}/METADATA": METADATA, f"{info}/WHEEL": WHEEL}
    record = "".join(f"{name},,\n" for name in (*texts, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**texts, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def add_entry() -> bool:
    """Install the entry where there is no torch. Return True if it was installed now.

    Raises: EdutorchError: PyTorch is installed, and is not to be replaced.
    """
    version = installed_torch()
    if is_entry(version):
        return False
    if version is not None:
        raise EdutorchError(
            "add", f"PyTorch {version} is installed in this environment, and is left as it is",
            hint="try it in an environment without PyTorch (python -m venv NAME), or install the "
            "package by pip: `python -m edutorch run` works beside PyTorch, too",
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="edutorch-") as folder:
        install(["--no-deps", "--no-index", str(write_wheel(Path(folder)))])
    return True


def remove_entry() -> None:
    """Remove the entry. Raises: EdutorchError: there is none, or PyTorch itself is installed."""
    version = installed_torch()
    if not is_entry(version):
        state = "no torch is installed" if version is None else f"it is PyTorch {version} itself"
        hint = "" if version is None else "pip uninstall torch"
        raise EdutorchError("remove", f"torch: there is no entry to remove: {state}", hint=hint)
    uninstall(["torch"])
