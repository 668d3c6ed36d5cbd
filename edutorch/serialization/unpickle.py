"""Unpickling of whole objects from our own files: as data only, or with `pickle`.

The latter is what `weights_only=False` asks for: classes are imported by name and their code
makes the objects.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

from ..core.shapes import Size
from ..core.tensor import Tensor
from ..errors import EdutorchError
from .errors import CheckpointError, RefusedError
from .safe_classes import FORBIDDEN
from .torch_file import find_global, run_as_data

HARMFUL_BUILTINS = frozenset(
    "eval exec compile open input breakpoint __import__ globals locals vars".split()
)
"""Builtins that no honest pickle calls."""


def read_as_data(data: bytes, tensors: list[Tensor], name: str) -> Any:
    """Return what a pickle builds, without importing or calling anything.

    Raises: RefusedError: it refers to classes that nobody has allowed.
    """

    def find(module: str, called: str) -> Any:
        return find_global("torch" if module in ("edutorch.dtypes", SIZE) else module, called)

    return run_as_data(io.BytesIO(data), find, tensors.__getitem__, name)


SIZE = Size.__module__


class ObjectUnpickler(pickle.Unpickler):
    """An unpickler for the pickles of `objects.py`.

    Args:
        data: the pickle.
        tensors: the tensors that its persistent ids refer to.
        name: the file name, for errors.
    """

    def __init__(self, data: bytes, tensors: list[Tensor], name: str) -> None:
        super().__init__(io.BytesIO(data))
        self.tensors, self.name = tensors, name

    def persistent_load(self, pid: Any) -> Tensor:
        """Return the tensor with this index."""
        return self.tensors[pid]

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Import a module and return its attribute of this name."""
        refuse_harmful(module_name, global_name, self.name)
        try:
            return super().find_class(module_name, global_name)
        except (AttributeError, ImportError) as error:
            raise missing_class_error(f"{module_name}.{global_name}", self.name) from error

    def load(self) -> Any:
        """Return the object.

        Raises: CheckpointError: a class is not defined here, or an object cannot be made again.
        """
        try:
            return super().load()
        except EdutorchError:
            raise
        except Exception as error:
            raise construction_error(self.name, error) from error


def refuse_harmful(module: str, name: str, file: str) -> None:
    """Refuse the functions that attacks usually begin with. (A pickle can still run any code.)

    Raises: RefusedError: it is one of them.
    """
    package = module.partition(".")[0]
    if package in FORBIDDEN and (package != "builtins" or name in HARMFUL_BUILTINS):
        raise RefusedError(
            "load", f"{file} was not loaded: it runs functions that no checkpoint needs",
            {"refused": f"{module}.{name}"}, "delete the file: it was made to do harm",
        )  # fmt: skip


def missing_class_error(full: str, file: str) -> CheckpointError:
    """Return the error for a class that is not defined where the file is loaded."""
    module, _, name = full.rpartition(".")
    if module == "__main__":
        hint = f"define or import {name} in this program or notebook before loading"
    elif module.partition(".")[0] in sys.modules:
        hint = f"{module} has no {name} any more: bring it back, or load a state_dict instead"
    else:
        hint = f"put the file that defines it on the path, so that `import {module}` finds it"
    return CheckpointError(
        "load", f"{file} holds an object of the class {full}, which is not defined here", hint=hint
    )


def construction_error(file: str, error: Exception) -> CheckpointError:
    return CheckpointError(
        "load", f"{file}: an object in it cannot be made again ({type(error).__name__}: {error})",
        hint="its class is another one here than where it was saved: save its state_dict() there, "
        "and load that into a new object",
    )  # fmt: skip
