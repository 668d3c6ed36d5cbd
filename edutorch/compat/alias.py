"""An import hook that makes `import torch` import edutorch.

After `install()` every module under `torch` is the edutorch module with the same path:
`torch.nn.functional` *is* `edutorch.nn.functional`, not a copy, so a class imported under either
name is the same class. Only the current process is affected.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from edutorch import version
from edutorch.errors import EdutorchError

_OURS = __name__.partition(".")[0]


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
    # Scripts check `torch.__version__ >= "2.0"`: return the version of PyTorch that we follow.
    vars(sys.modules[_OURS])["__version__"] = version.__version__
    _install_in_children()


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
    return _OURS + name.removeprefix("torch")


class _Finder(MetaPathFinder):
    """Finds `torch` and its submodules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" and not name.startswith("torch."):
            return None
        if importlib.util.find_spec(our_name(name)) is None:
            raise ModuleNotFoundError(f"edutorch has no {name} (yet)", name=name)
        return ModuleSpec(name, _Loader())


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


def _getattr_with_message(module: ModuleType) -> Callable[[str], Any]:
    """Return a module `__getattr__` whose error names the missing attribute as PyTorch's."""
    inner = vars(module).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if inner is not None:
            try:
                return inner(name)
            except AttributeError:
                pass
        theirs = "torch" + module.__name__.removeprefix(_OURS)
        raise AttributeError(
            f"edutorch has no {theirs}.{name} (yet)", name=name, obj=module
        ) from None

    return __getattr__
