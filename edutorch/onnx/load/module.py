"""The module that a loaded model becomes: it checks what it is called with."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...dtypes import dtype
from ...errors import ArgumentError, DTypeError, ShapeError
from ...fx import Graph, GraphModule
from ...fx.graph_module import get_at_path, referenced_paths

__all__ = ["ImportedModule", "ValueSpec"]


class ValueSpec(NamedTuple):
    """An input or output of a model.

    Args:
        name: in the file.
        python_name: of the parameter of `forward`.
        container: "tensor", "sequence" or "optional".
        dtype: of its elements, or None where the file does not say it.
        shape: sizes, names of sizes, "?" for those without a name; or None.
    """

    name: str
    python_name: str
    container: str = "tensor"
    dtype: dtype | None = None
    shape: tuple[int | str, ...] | None = None

    def __str__(self) -> str:
        shape = "" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        return f"{str(self.dtype or self.container).removeprefix('torch.')}{shape}"


class ImportedModule(GraphModule):
    """A model that `onnx.load` brought in: a graph to read, to step through and to train further.

    Args:
        root: parameters, buffers and subgraphs by path.
        graph: the graph.
        class_name: the name of the model.
        specs: its inputs, and its outputs.
        opset: the opset it was written in.
    """

    def __init__(
        self, root: Any, graph: Graph, class_name: str,
        specs: tuple[tuple[ValueSpec, ...], tuple[ValueSpec, ...]], opset: int,
    ) -> None:  # fmt: skip
        super().__init__(root, graph, class_name)
        self.__dict__.update(inputs=specs[0], outputs=specs[1], opset=opset)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, as the file has them."""
        return [spec.name for spec in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, as the file has them."""
        return [spec.name for spec in self.outputs]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on tensors in the order of `inputs`, or by name.

        Raises: ArgumentError: an unknown or missing name. ShapeError, DTypeError: an input that
            the model does not take.
        """
        values = self._bind(args, kwargs)
        sizes: dict[str, tuple[int, str]] = {}
        for spec, value in zip(self.inputs, values, strict=True):
            if spec.container == "tensor":
                check_input(self._get_name(), spec, value, sizes)
        return super().forward(*values)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the inputs in order."""
        known = {spec.name: i for i, spec in enumerate(self.inputs)}
        known |= {spec.python_name: i for i, spec in enumerate(self.inputs)}
        described = {spec.name: str(spec) for spec in self.inputs}
        if len(args) > len(self.inputs):
            count = len(self.inputs)
            raise ArgumentError(
                self._get_name(), f"{len(args)} inputs were given, and the model has {count}",
                described,
            )  # fmt: skip
        values: dict[int, Any] = dict(enumerate(args))
        for name, value in kwargs.items():
            if name not in known or known[name] in values:
                what = "is given twice" if name in known else "is no input of the model"
                raise ArgumentError(self._get_name(), f"{name!r} {what}", described)
            values[known[name]] = value
        for index, spec in enumerate(self.inputs):
            if spec.container == "optional":
                values.setdefault(index, None)
            if index not in values:
                raise ArgumentError(self._get_name(), f"input {spec.name!r} is missing", described)
        return [values[index] for index in range(len(self.inputs))]

    def _parts(self) -> tuple[Any, ...]:
        return self._get_name(), (self.inputs, self.outputs), self.opset

    def __deepcopy__(self, memo: dict[int, Any]) -> ImportedModule:
        paths = referenced_paths(self.graph)
        root = {path: copy.deepcopy(get_at_path(self, path), memo) for path in paths}
        copied = ImportedModule(root, copy.deepcopy(self.graph), *self._parts())
        copied.training = self.training
        return copied

    def __reduce__(self) -> Any:
        root = {path: get_at_path(self, path) for path in referenced_paths(self.graph)}
        return ImportedModule, (root, self.graph, *self._parts())


def check_input(
    model: str, spec: ValueSpec, value: object, sizes: dict[str, tuple[int, str]]
) -> None:
    """Check one input against what the file says about it.

    Args:
        sizes: the named sizes so far, each with the input it was taken from; updated.

    Raises: ArgumentError, DTypeError, ShapeError: both sides are named.
    """
    if not isinstance(value, Tensor):
        raise ArgumentError(
            model, f"input {spec.name!r} must be a tensor, got a {type(value).__name__}",
            {"model": spec}, "torch.tensor(value) makes one",
        )  # fmt: skip
    actual = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    sides = {"model": spec, "given": actual}
    if spec.dtype is not None and value.dtype != spec.dtype:
        hint = f"{spec.python_name}.to({spec.dtype})"
        raise DTypeError(model, f"input {spec.name!r} has another dtype", sides, hint)
    if spec.shape is None:
        return
    if len(spec.shape) != value.dim():
        what = f"input {spec.name!r} has {value.dim()} dimensions, not {len(spec.shape)}"
        raise ShapeError(model, what, sides)
    for dim, (stated, size) in enumerate(zip(spec.shape, value.shape, strict=True)):
        if isinstance(stated, int) and stated != size:
            raise ShapeError(
                model, f"axis {dim} of input {spec.name!r} is {size}, not {stated}", sides
            )
        if isinstance(stated, str) and stated != "?":
            first, where = sizes.setdefault(stated, (size, f"axis {dim} of {spec.name!r}"))
            if first != size:
                what = f"axis {dim} of input {spec.name!r} is {size}, but {where} is {first}"
                raise ShapeError(model, what, sides, f"both are {stated!r} in the model")
