"""An import hook that makes `import torch` import edutorch.

After `install()` every module under `torch` is the edutorch module with the same path:
`torch.nn.functional` *is* `edutorch.nn.functional`, not a copy, so a class imported under either
name is the same class. Only the current process is affected.

Where `torchvision`, `torchtext` or `torchaudio` is not installed, `edutorch.vision`, `.text` or
`.audio` takes its place in the same way.

    python -m edutorch run SCRIPT      %load_ext edutorch.alias      pytest -p edutorch.alias
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from edutorch import placeholders, version
from edutorch.backends import simulated_cards
from edutorch.errors import EdutorchError
from edutorch.nn import Module

_OURS = __name__.partition(".")[0]
_PACKAGES = {
    "torch": _OURS,
    "torchvision": f"{_OURS}.vision",
    "torchtext": f"{_OURS}.text",
    "torchaudio": f"{_OURS}.audio",
}

METADATA = f"""\
Metadata-Version: 2.1
Name: torch
Version: {version.PYTORCH}+{_OURS}
Summary: No PyTorch: edutorch answers for it. Remove this with `python -m edutorch remove torch`.
"""
"""The metadata of a package torch; `python -m edutorch add` installs it as well."""


def install() -> None:
    """Make `import torch` import edutorch in this process.

    Raises: EdutorchError: PyTorch itself has already been imported.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if "torch" in sys.modules:
        raise EdutorchError(
            "alias.install",
            "PyTorch has already been imported in this process",
            hint="install the alias before anything says `import torch`",
        )
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_LastFinder())
    placeholders.install()
    # Libraries evaluate the annotations of a module with their own names, and Pyro reads the name.
    Module.__annotations__ = get_type_hints(Module)
    vars(sys.modules[_OURS]).update(
        __name__="torch", torch=sys.modules[_OURS]
    )  # kornia: torch.torch
    # Scripts check `torch.__version__ >= "2.0"`: return the version of PyTorch that we follow.
    vars(sys.modules[_OURS])["__version__"] = version.__version__
    importlib.import_module(f"{_OURS}.ecosystem_modules")  # named by the table there
    _install_in_children()


def load_ipython_extension(shell: Any) -> None:
    """Make `import torch` import edutorch in this kernel: `%load_ext edutorch.alias`.

    `%cuda_as_cpu 2` then lets two simulated cards answer for "cuda"; so does
    `%env EDUTORCH_CUDA_AS_CPU=2` before.
    """
    install()
    if shell is not None:
        shell.register_magic_function(cuda_as_cpu, "line", "cuda_as_cpu")
    if os.environ.get("EDUTORCH_CUDA_AS_CPU") and not simulated_cards():
        cuda_as_cpu(os.environ["EDUTORCH_CUDA_AS_CPU"])


def cuda_as_cpu(line: str) -> None:
    """Let simulated cards answer for "cuda" in this kernel: `%cuda_as_cpu 2`; without a number, 1.

    Raises: InvalidValueError: it is no number of cards.
    """
    from ..backends.simulated import start

    start(line.strip() or "1", "%cuda_as_cpu")


def pytest_load_initial_conftests() -> None:
    """Make `import torch` import edutorch in these tests: `pytest -p edutorch.alias`."""
    install()


def _install_in_children() -> None:
    """Install the alias in spawned processes as well, before they import the script.

    A spawned process unpickles preparation data from its parent, then imports the parent's
    script. One more entry is added to that data, which calls `install` when it is unpickled.
    """
    import multiprocessing
    from multiprocessing import spawn

    usual = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**usual(name), "edutorch": _InstallOnUnpickle()}

    spawn.get_preparation_data = get_preparation_data
    # A fork server would import the script before the alias is installed.
    multiprocessing.set_forkserver_preload([])


class _InstallOnUnpickle:
    """An object whose unpickling calls `install`."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return install, ()


def our_name(name: str) -> str:
    """Return our name of a module: "edutorch.nn" for "torch.nn"."""
    package, dot, rest = name.partition(".")
    return _PACKAGES[package] + dot + rest


def their_name(name: str) -> str:
    """Return PyTorch's name of a module: "torchvision.ops" for "edutorch.vision.ops"."""
    for theirs, ours in reversed(_PACKAGES.items()):
        if name == ours or name.startswith(ours + "."):
            return theirs + name.removeprefix(ours)
    return name


class _Finder(MetaPathFinder):
    """Finds `torch` and its submodules, and those of `torchvision` where that is ours.

    Python's own finder would find the latter by our folder, and load each a second time.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, dot, _ = name.partition(".")
        if package == "torch" or (dot and _is_ours(package)):
            return _spec_of_ours(name)
        return None

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterator[Distribution]:
        """Yield the answer to `importlib.metadata.version("torch")`."""
        if context is not None and context.name == "torch":
            yield _Metadata()


class _LastFinder(MetaPathFinder):
    """Finds `torchvision`, `torchtext` and `torchaudio`, which nothing before it has found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, dot, _ = name.partition(".")
        if package == "torch" or package not in _PACKAGES:
            return None
        if dot:
            return None  # the real one is installed, and has no such module
        return _spec_of_ours(name)


def _is_ours(package: str) -> bool:
    """Whether a package such as `torchvision` has been imported, and is ours."""
    module = sys.modules.get(package)
    return module is not None and module.__name__ == _PACKAGES.get(package)


def _spec_of_ours(name: str) -> ModuleSpec:
    if importlib.util.find_spec(our_name(name)) is None:
        raise ModuleNotFoundError(f"edutorch has no {name} (yet)", name=name)
    return ModuleSpec(name, _Loader())


class _Metadata(Distribution):
    """The metadata of the package torch, without a file."""

    def read_text(self, filename: str) -> str | None:
        return METADATA if filename == "METADATA" else None

    def locate_file(self, path: str | PathLike[str]) -> Any:
        return Path(path)


class _Loader(Loader):
    """Returns an existing module instead of creating one."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(our_name(spec.name))
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just set `__spec__` to that of `torch…`: restore ours.
        module.__spec__ = self.own_spec
        vars(module)["__getattr__"] = _getattr_with_message(module)


def absent(module: str, name: str) -> str:
    """Return the sentence that our module lacks a name, said with PyTorch's name of the module."""
    theirs = their_name(module)
    package = theirs.partition(".")[0]
    real = "" if package == "torch" else f"; python -m edutorch add {package} installs the real one"
    return f"edutorch has no {theirs}.{name} (yet){real}"


def _getattr_with_message(module: ModuleType) -> Callable[[str], Any]:
    """Return a module `__getattr__` whose error names the missing attribute as PyTorch's."""
    inner = vars(module).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if inner is not None:
            try:
                return inner(name)
            except AttributeError:
                pass
        raise AttributeError(absent(module.__name__, name), name=name, obj=module) from None

    return __getattr__
