"""What a loader returns: a model as a function of NumPy arrays, with named inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .errors import ModelError
from .sizes import Sizes, sizes_of_shapes

Arrays = dict[str, np.ndarray]

DATATYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
"""The names of the protocol. Its BYTES (strings of any length) is no dtype of a tensor."""

NAMES = {dtype: name for name, dtype in DATATYPES.items()}


def datatype_of(dtype: Any) -> str:
    """Return the protocol's name of a dtype of NumPy or edutorch.

    >>> datatype_of(edutorch.float32), datatype_of("int64")
    ('FP32', 'INT64')

    Raises: ModelError: the protocol has no such type.
    """
    name = str(dtype).rpartition(".")[2]
    try:
        return NAMES[DATATYPES["BF16"] if name == "bfloat16" else np.dtype(name)]
    except (KeyError, TypeError):
        raise ModelError(
            "serve",
            f"the protocol has no datatype for {dtype}",
            hint="known: " + ", ".join(DATATYPES),
        ) from None


class TensorSpec(NamedTuple):
    """An input or output: its name, datatype and sizes, -1 where any size is taken.

    >>> TensorSpec("x", "FP32", (-1, 64)).metadata()
    {'name': 'x', 'datatype': 'FP32', 'shape': [-1, 64]}
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype."""
        return DATATYPES[self.datatype]

    def metadata(self) -> dict[str, Any]:
        """Return the description that clients read."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def accepts(self, shape: Sequence[int]) -> bool:
        """Return True if an array of this shape fits."""
        return len(shape) == len(self.shape) and all(
            wanted in (-1, size) for wanted, size in zip(self.shape, shape, strict=True)
        )

    def example(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return an input to try a model with: random floats, or integers that are 0.

        0 is an index of every table.
        """
        if self.dtype.kind in "biu":
            return np.zeros(shape, self.dtype)
        return np.random.default_rng(0).standard_normal(shape).astype(self.dtype)


@dataclass(frozen=True)
class Served:
    """A model that can be served.

    Args:
        inputs: what the model takes.
        outputs: what it returns.
        call: maps arrays by the names of the inputs to arrays by the names of the outputs.
        platform: the format it came from, such as "onnx".
        batching: False if requests must not share a call even if their sizes would allow it.
        drawable: a module or function whose graph the page shows, or None.
        preprocess: maps the body of `/predictions` and its content type to inputs.
        postprocess: maps the outputs to what `/predictions` answers, as JSON.
        free_size: a size that works for axes behind the first that take any: an image's height.
        sizes: the sizes that the inputs take, if more is known than their shapes say.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    call: Callable[[Arrays], Arrays]
    platform: str = "python"
    batching: bool = True
    drawable: Any = None
    preprocess: Callable[[bytes, str], Arrays] | None = None
    postprocess: Callable[[Arrays], Any] | None = None
    free_size: int = 1
    sizes: Sizes = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.sizes is None:
            sizes = sizes_of_shapes([spec.shape for spec in self.inputs])
            object.__setattr__(self, "sizes", sizes)

    def examples(self, rows: int = 1) -> Arrays:
        """Return inputs to try the model with: so many rows, if it takes them."""
        return make_examples(self.inputs, self.sizes, rows, self.free_size)

    def row_limits(self) -> tuple[int, int] | None:
        """Return the fewest and the most rows, or None if the inputs have no rows in common."""
        has_free_rows = all(spec.shape[:1] == (-1,) for spec in (*self.inputs, *self.outputs))
        return self.sizes.rows if has_free_rows else None


def make_examples(specs: Sequence[TensorSpec], sizes: Sizes, rows: int, free_size: int) -> Arrays:
    """Return an array for each input."""
    shapes = sizes.shapes(rows, free_size)
    return {spec.name: spec.example(shape) for spec, shape in zip(specs, shapes, strict=True)}


def from_module(
    module: Any,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec] = (),
    platform: str = "edutorch",
    output_names: Sequence[str] = (),
    **settings: Any,
) -> Served:
    """Make a model to serve of a module: it is called with tensors, by the order of `inputs`.

    Args:
        module: anything that maps tensors to a tensor, or to several in a tuple, list or dict.
        outputs: taken from a first call if left out; the first axis may have any size if that of
            every input may.
        output_names: names for outputs that are taken from a first call.
        settings: further arguments of `Served`.

    >>> mlp = from_module(nn.Linear(2, 3), [TensorSpec("x", "FP32", (-1, 2))])
    >>> mlp.outputs
    (TensorSpec(name='output0', datatype='FP32', shape=(-1, 3)),)
    """
    from ..autograd import inference_mode
    from ..ops import from_numpy

    if callable(getattr(module, "eval", None)):
        with suppress(NotImplementedError):  # an exported program has no modes
            module.eval()

    def compute(arrays: Arrays) -> list[Any]:
        with inference_mode():
            tensors = [from_numpy(arrays[spec.name]) for spec in inputs]
            return [value.detach().numpy() for value in list_of(module(*tensors))]

    if not outputs:
        sizes = settings.get("sizes") or sizes_of_shapes([spec.shape for spec in inputs])
        outputs = observe_outputs(compute, inputs, sizes, settings.get("free_size", 1))
        if len(output_names) == len(outputs):
            named = zip(outputs, output_names, strict=True)
            outputs = tuple(spec._replace(name=name) for spec, name in named)

    def call(arrays: Arrays) -> Arrays:
        results = compute(arrays)
        if len(results) != len(outputs):
            raise ModelError(
                "serve", f"the model returned {len(results)} values, not {len(outputs)}"
            )
        return {spec.name: value for spec, value in zip(outputs, results, strict=True)}

    return Served(tuple(inputs), tuple(outputs), call, platform, drawable=module, **settings)


def list_of(result: Any) -> list[Any]:
    """Return the tensors of a result: one, or those in tuples, lists and dicts."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, tuple | list):
        return [tensor for part in result for tensor in list_of(part)]
    return [] if result is None else [result]


FREE_SIZES = ((16, 48), (64, 192), (224, 448), (1, 2))
"""Pairs of sizes for axes that take any: the first that works is used. Some layers need many."""


def observe_outputs(
    compute: Callable[[Arrays], list[np.ndarray]],
    inputs: Sequence[TensorSpec],
    sizes: Sizes,
    free_size: int,
) -> tuple[TensorSpec, ...]:
    """Return the outputs that a model has: a size that changes with those of the inputs is any.

    Args:
        free_size: what `model.json` says, or 1.

    Raises: ModelError: the model fails with all sizes that are tried.
    """
    failure: Exception | None = None
    own = ((free_size, 2 * free_size),) if free_size > 1 else ()
    rows = sizes.rows[0] if sizes.rows else 1
    for small, large in (*own, *FREE_SIZES):
        try:
            results = [
                compute(make_examples(inputs, sizes, count, size))
                for count, size in ((rows, small), (rows + 1, small), (rows, large))
            ]
        except Exception as error:  # noqa: BLE001  (a model may raise anything)
            failure = failure or error
        else:
            return tuple(
                TensorSpec(f"output{index}", datatype_of(arrays[0].dtype), common_shape(arrays))
                for index, arrays in enumerate(zip(*results, strict=True))
            )
    raise ModelError("serve", f"the warm-up failed: {failure}") from failure


def common_shape(arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return the shape of some arrays, -1 where they differ."""
    sizes = zip(*(array.shape for array in arrays), strict=True)
    return tuple(axis[0] if len(set(axis)) == 1 else -1 for axis in sizes)


def check_outputs(served: Served, arrays: Arrays) -> None:
    """Refuse outputs that are not what the metadata say.

    Raises: ModelError: a name, a dtype or a shape differs.
    """
    names = {spec.name for spec in served.outputs}
    if set(arrays) != names:
        raise ModelError("serve", f"the model returned {sorted(arrays)}, not {sorted(names)}")
    for spec in served.outputs:
        array = arrays[spec.name]
        if array.dtype != spec.dtype or not spec.accepts(array.shape):
            raise ModelError(
                "serve", f"output {spec.name!r} is not what the metadata say",
                {"returned": f"{array.dtype} {list(array.shape)}",
                 "metadata": f"{spec.datatype} {list(spec.shape)}"},
            )  # fmt: skip
