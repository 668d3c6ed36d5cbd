"""Matrix products by cuBLASLt, through the bindings of nvmath-python.

CuPy's own products may not be captured in a CUDA graph, take no bfloat16 in batches, and copy
float16 to float32. These may, do, and do not. A product can add a bias to each row and apply ReLU
or GELU (tanh) before it is written, and its counterpart in backward multiplies by their derivative
and sums the gradient of the bias. The product that is the gradient of a weight can sum it as well.

cuBLASLt knows matrices by columns. The memory of a matrix by rows is that of its transpose by
columns, so that y = a·b is computed as yᵀ = bᵀ·aᵀ: no element is moved, and what is one per column
of y, such as a bias, is one per row there, which is what cuBLASLt wants.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ... import backends, ops
from ...backends import Backend
from ...backends import cuda as switches
from ...backends.numpy import Array
from ...nn import functional

__all__ = [
    "Bindings", "Epilogue", "product", "product_gradient", "use_bindings", "weight_gradient",
]  # fmt: skip

WORKSPACE_BYTES = 32 << 20
"""The most memory that an algorithm may take besides its matrices: NVIDIA's advice for sm_90."""

ALIGNMENT = 16
"""Addresses divisible by this let cuBLASLt load 16 bytes at a time."""

NOT_SUPPORTED = 15
"""The status of a product that cuBLASLt has no algorithm for."""

Run = Callable[..., Any]


class Bindings(NamedTuple):
    """The modules of nvmath that are called."""

    lt: ModuleType | Any  # nvmath.bindings.cublasLt
    data: Any  # the enumeration of the types of elements
    compute: Any  # the enumeration of the types to compute in


class Epilogue(NamedTuple):
    """What happens to a product before it is written.

    Args:
        activation: "", "relu" or "gelu". NVIDIA's text says "GELU" only, but its function is the
            form by tanh: PyTorch (`_addmm_activation`) and XLA (`kBiasThenGeLUApproximate`) use it
            for that one alone. So the exact one, by erf, must not be computed by it.
        bias: whether a bias is added; in backward, whether its gradient is summed.
        aux: whether what the derivative needs is kept.
        is_gradient: whether the product is multiplied by the derivative of the activation. Without
            an activation it is the gradient of a weight, whose right factor (in cuBLASLt's order)
            is the gradient that the bias's is summed from.
    """

    activation: str = ""
    bias: bool = False
    aux: bool = False
    is_gradient: bool = False

    @property
    def name(self) -> str:
        """The name in cuBLASLt's enumeration."""
        if self.is_gradient and not self.activation:
            return "BGRADB"
        if self.is_gradient:
            return f"D{self.activation.upper()}" + "_BGRAD" * self.bias
        parts = [self.activation.upper(), "AUX" * self.aux, "BIAS" * self.bias]
        return "_".join(filter(None, parts)) or "DEFAULT"


PLAIN = Epilogue()

_replaced: list[Bindings] = []  # by the tests


@functools.cache
def installed_bindings() -> Bindings | None:
    """Return nvmath's modules, or None where they are not installed."""
    try:
        from nvmath import CudaDataType
        from nvmath.bindings import cublas, cublasLt
    except ImportError:
        return None
    # Not `nvmath.ComputeType`, which has other numbers under the same names.
    return Bindings(cublasLt, CudaDataType, cublas.ComputeType)


@contextmanager
def use_bindings(bindings: Bindings) -> Iterator[None]:
    """Call other modules in place of nvmath's inside the block, for the device "strict" too."""
    _replaced.append(bindings)
    find_plan.cache_clear()
    handle.cache_clear()
    try:
        yield
    finally:
        _replaced.pop()
        find_plan.cache_clear()
        handle.cache_clear()


def bindings_for(backend: Backend) -> Bindings | None:
    """Return the modules for the arrays of a device; None: it is left to the definition."""
    if _replaced:
        return _replaced[-1]
    if not backend.is_accelerator or backend.is_simulated:
        return None
    return installed_bindings()


# Matrices in memory ------------------------------------------------------------------------------


class Matrix(NamedTuple):
    """How a matrix, or a batch of them, lies in memory.

    Attributes:
        rows, columns: its shape.
        by_rows: whether the elements of a row are next to each other; else those of a column.
        stride: from one row (or column) to the next, in elements.
        batch, batch_stride: the number of matrices, and the stride between them.
    """

    rows: int
    columns: int
    by_rows: bool
    stride: int
    batch: int = 1
    batch_stride: int = 0


def matrix_of(array: Array) -> Matrix | None:
    """Return how an array (…, rows, columns) lies in memory, or None if no product can read it."""
    item = array.dtype.itemsize
    rows, columns = array.shape[-2:]
    down, along = (stride // item for stride in array.strides[-2:])
    batch = batch_of(array.shape[:-2], [stride // item for stride in array.strides[:-2]])
    if batch is None:
        return None
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return Matrix(rows, columns, True, max(down if rows > 1 else columns, columns, 1), *batch)
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return Matrix(rows, columns, False, max(along if columns > 1 else rows, rows, 1), *batch)
    return None


def batch_of(sizes: tuple[int, ...], strides: list[int]) -> tuple[int, int] | None:
    """Return several axes as one: its size and stride; None if they have no common stride."""
    count, stride = 1, 0
    for size, step in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if count > 1 and step != stride * count:
            return None
        stride = step if count == 1 else stride
        count *= size
    return count, stride


def readable(array: Array) -> tuple[Array, Matrix]:
    """Return an array that a product can read, and how it lies: itself, or a copy."""
    matrix = matrix_of(array)
    aligned = backends.of(array).address(array) % ALIGNMENT == 0
    if matrix is None or not aligned:
        array = array.copy()
        matrix = matrix_of(array)
    assert matrix is not None
    return array, matrix


def aligned(array: Array) -> Array:
    """Return a vector at an address that cuBLASLt can read 16 bytes from: itself, or a copy."""
    backend = backends.of(array)
    is_dense = array.flags.c_contiguous and backend.address(array) % ALIGNMENT == 0
    return array if is_dense else array.copy()


# One product --------------------------------------------------------------------------------------


class Key(NamedTuple):
    """What a plan depends on."""

    left: Matrix
    right: Matrix
    dtype: str
    epilogue: Epilogue
    tf32: bool
    device: str


class Plan:
    """The descriptors of a product and its algorithm, made once for each `Key`.

    Attributes:
        workspace: the memory that the algorithm needs, in bytes.
    """

    def __init__(self, bindings: Bindings, handle: int, key: Key) -> None:
        self.lt, self.handle, self.key = bindings.lt, handle, key
        compute, scale, data = types_of(bindings, key)
        self.desc = self.lt.matmul_desc_create(compute, scale)
        left, right = key.left, key.right
        # The transposes, by columns: the right factor comes first.
        self.set("TRANSA", int(not right.by_rows))
        self.set("TRANSB", int(not left.by_rows))
        self.set("EPILOGUE", int(self.lt.Epilogue[key.epilogue.name]))
        batch = max(left.batch, right.batch)
        self.a, self.b = self.layout(right, data, batch), self.layout(left, data, batch)
        result = Matrix(left.rows, right.columns, True, right.columns, batch,
                        left.rows * right.columns)  # fmt: skip
        self.d = self.layout(result, data, batch)
        number = np.float64 if key.dtype == "float64" else np.float32
        self.one, self.zero = np.array(1, number), np.array(0, number)
        if key.epilogue.aux or (key.epilogue.is_gradient and key.epilogue.activation):
            self.set("EPILOGUE_AUX_LD", aux_stride(key))
        self.workspace, self.lock = 0, threading.Lock()
        self.choose_algorithm()

    def set(self, name: str, value: int) -> None:
        """Set an attribute of the product."""
        attribute = self.lt.MatmulDescAttribute[name]
        buffer = np.array(value, self.lt.get_matmul_desc_attribute_dtype(attribute))
        self.lt.matmul_desc_set_attribute(
            self.desc, attribute, buffer.ctypes.data, buffer.dtype.itemsize
        )

    def layout(self, matrix: Matrix, data: int, batch: int) -> int:
        """Make the description of the transpose of a matrix."""
        sizes = (matrix.columns, matrix.rows) if matrix.by_rows else (matrix.rows, matrix.columns)
        made = self.lt.matrix_layout_create(data, *sizes, matrix.stride)
        stride = matrix.batch_stride if matrix.batch > 1 else 0
        pairs = {"BATCH_COUNT": batch, "STRIDED_BATCH_OFFSET": stride} if batch > 1 else {}
        for name, value in pairs.items():
            attribute = self.lt.MatrixLayoutAttribute[name]
            buffer = np.array(value, self.lt.get_matrix_layout_attribute_dtype(attribute))
            self.lt.matrix_layout_set_attribute(
                made, attribute, buffer.ctypes.data, buffer.dtype.itemsize
            )
        return made

    def choose_algorithm(self) -> None:
        """Ask cuBLASLt for its best algorithm, which does not wait for the GPU."""
        lt = self.lt
        preference = lt.matmul_preference_create()
        limits = {"MAX_WORKSPACE_BYTES": WORKSPACE_BYTES}
        # Otherwise it assumes 256, which views do not have.
        limits |= {f"MIN_ALIGNMENT_{operand}_BYTES": ALIGNMENT for operand in "ABCD"}
        for name, value in limits.items():
            attribute = lt.MatmulPreferenceAttribute[name]
            limit = np.array(value, lt.get_matmul_preference_attribute_dtype(attribute))
            lt.matmul_preference_set_attribute(
                preference, attribute, limit.ctypes.data, limit.dtype.itemsize
            )
        self.algorithm = np.zeros(1, lt.matmul_heuristic_result_dtype)
        chosen = np.zeros(1, np.int32)
        try:
            lt.matmul_algo_get_heuristic(
                self.handle, self.desc, self.a, self.b, self.d, self.d, preference, 1,
                self.algorithm.ctypes.data, chosen.ctypes.data,
            )  # fmt: skip
        except lt.cuBLASLtError as error:
            if error.status != NOT_SUPPORTED:
                raise
            chosen[0] = 0  # such as an epilogue that it does not have for these matrices
        finally:
            lt.matmul_preference_destroy(preference)
        self.is_usable = bool(chosen[0])
        self.workspace = int(self.algorithm["workspace_size"][0])

    def run(
        self, left: Array, right: Array, y: Array, bias: Array | None, aux: Array | None
    ) -> None:
        """Write the product into `y`, on the current stream."""
        backend = backends.of(left)
        address = backend.address
        # From the current pool: inside of a captured step it is the step's own.
        space = backend.xp.empty((self.workspace,), np.uint8) if self.workspace else None
        stream = backend.xp.cuda.get_current_stream().ptr
        with self.lock:  # pointers are attributes of the plan, which other threads use as well
            if bias is not None:
                self.set("BIAS_POINTER", address(bias))
            if aux is not None:
                self.set("EPILOGUE_AUX_POINTER", address(aux))
            self.lt.matmul(
                self.handle, self.desc, self.one.ctypes.data, address(right), self.a, address(left),
                self.b, self.zero.ctypes.data, address(y), self.d, address(y), self.d,
                self.algorithm.ctypes.data, 0 if space is None else address(space), self.workspace,
                stream,
            )  # fmt: skip


def types_of(bindings: Bindings, key: Key) -> tuple[int, int, int]:
    """Return the types in which a product is computed, scaled, and of its elements."""
    data, compute = bindings.data, bindings.compute
    if key.dtype == "float64":
        return compute.COMPUTE_64F, data.CUDA_R_64F, data.CUDA_R_64F
    elements = {
        "float32": data.CUDA_R_32F, "float16": data.CUDA_R_16F, "bfloat16": data.CUDA_R_16BF
    }[key.dtype]  # fmt: skip
    is_tf32 = key.tf32 and key.dtype == "float32"
    computed = compute.COMPUTE_32F_FAST_TF32 if is_tf32 else compute.COMPUTE_32F
    return computed, data.CUDA_R_32F, elements


def aux_stride(key: Key) -> int:
    """Return the stride of what ReLU or GELU keeps: bits, or the values before it."""
    columns = key.right.columns
    unit = 128 if key.epilogue.activation == "relu" else 8  # cuBLASLt wants a multiple
    return -(-columns // unit) * unit


def aux_like(key: Key, backend: Backend, dtype: Any) -> Array:
    """Return memory for what the derivative needs: one bit, or one value, of each element."""
    shape = (key.left.rows, aux_stride(key))
    if key.epilogue.activation == "relu":
        return backend.xp.empty((shape[0], shape[1] // 8), np.uint8)
    return backend.xp.empty(shape, dtype)


@functools.cache
def handle(device: str) -> int:
    """Return the library's handle for a device."""
    bindings = _replaced[-1] if _replaced else installed_bindings()
    assert bindings is not None
    return bindings.lt.create()


@functools.lru_cache(maxsize=4096)
def find_plan(bindings: Bindings, key: Key) -> Plan:
    """Return the plan of a product; the same one for the same shapes and layouts."""
    return Plan(bindings, handle(key.device), key)


DTYPES = ("float16", "bfloat16", "float32", "float64")

EPILOGUE_DTYPES = DTYPES[:3]
"""What activations and gradients are computed for: of float64, cuBLASLt has products alone."""


def plan_of(left: Array, right: Array, epilogue: Epilogue = PLAIN) -> tuple[Any, ...] | None:
    """Return the plan of a product with its arrays as it reads them, or None without one."""
    backend = backends.of(left)
    bindings = bindings_for(backend)
    name = left.dtype.name
    if bindings is None or name not in DTYPES or right.dtype.name != name:
        return None
    if not left.size or not right.size:
        return None
    if (epilogue.activation or epilogue.is_gradient) and name not in EPILOGUE_DTYPES:
        return None
    if epilogue.is_gradient and left.shape[-1] == 1:  # older versions refuse sums of one product
        return None
    left, first = readable(left)
    right, second = readable(right)
    if {first.batch, second.batch} - {1, max(first.batch, second.batch)}:
        return None
    key = Key(first, second, name, epilogue, bool(switches.matmul.allow_tf32), backend.device_name)
    plan = find_plan(bindings, key)
    return (plan, left, right) if plan.is_usable else None


def product(
    left: Array, right: Array, bias: Array | None = None, activation: str = "", aux: bool = False
) -> Any:
    """Return left · right, plus a bias for each column, after an activation; or None.

    Args:
        left: (…, n, k).
        right: (…, k, m), with the same axes in front, or none.
        bias: (m).
        activation: "", "relu" or "gelu" (by tanh).
        aux: return what the derivative needs as well, a second array.
    """
    if right.ndim == 2 and left.ndim > 2:  # one large product
        y = product(left.reshape(-1, left.shape[-1]), right, bias, activation, aux)
        if y is None or aux:
            return y
        return y.reshape(*left.shape[:-1], right.shape[-1])
    if left.ndim != right.ndim or left.shape[:-2] != right.shape[:-2]:
        return None
    chosen = plan_of(left, right, Epilogue(activation, bias is not None, aux))
    if chosen is None or (bias is not None and bias.dtype != left.dtype):
        return None
    plan, first, second = chosen
    backend = backends.of(left)
    shape = (*left.shape[:-1], right.shape[-1])
    y = backend.xp.empty(shape, left.dtype)
    kept = aux_like(plan.key, backend, left.dtype) if aux else None
    plan.run(first, second, y, None if bias is None else aligned(bias.reshape(-1)), kept)
    return (y, kept) if aux else y


def product_gradient(
    g: Array, weight: Array, aux: Array, activation: str, bias: bool = False
) -> Any:
    """Return the gradient before an activation, (g · weight) times its derivative; or None.

    Args:
        g: (n, k), the gradient after the next layer.
        weight: (k, m), the weight of the next layer.
        aux: what `product` has kept for the derivative.
        bias: return the sum over the rows as well, the gradient of the bias.
    """
    chosen = plan_of(g, weight, Epilogue(activation, bias, is_gradient=True))
    if chosen is None:
        return None
    plan, first, second = chosen
    backend = backends.of(g)
    y = backend.xp.empty((g.shape[0], weight.shape[1]), g.dtype)
    total = backend.xp.empty((weight.shape[1],), g.dtype) if bias else None
    plan.run(first, second, y, total, aux)
    return (y, total) if bias else y


def weight_gradient(g: Array, x: Array) -> Any:
    """Return the gradients of the weight and of the bias of y = x Wᵀ + b in one product; or None.

    Args:
        g: (n, m), the gradient of y.
        x: (n, k).
    """
    chosen = plan_of(g.T, x, Epilogue(bias=True, is_gradient=True))
    if chosen is None:
        return None
    plan, first, second = chosen
    backend = backends.of(g)
    y = backend.xp.empty((g.shape[1], x.shape[1]), g.dtype)
    total = backend.xp.empty((g.shape[1],), g.dtype)
    plan.run(first, second, y, total, None)
    return y, total


# In the slots of ops -----------------------------------------------------------------------------


@ops.mm.kernel("cuda", min_size=0)
@ops.matmul.kernel("cuda", min_size=0)
@ops.bmm.kernel("cuda", min_size=0)
def products() -> Run:
    """Make the products of matrices and of batches of them."""

    def run(input: Array, other: Array) -> Any:
        return product(input, other) if input.ndim > 1 and other.ndim > 1 else None

    return run


@functional.linear.kernel("cuda", min_size=0)
def linear() -> Run:
    """Make y = x Wᵀ + b, with the bias added before y is written."""

    def run(input: Array, weight: Array, bias: Array | None = None) -> Any:
        if weight.ndim != 2 or input.ndim < 1:
            return None
        rows = input.reshape(-1, input.shape[-1])
        y = product(rows, weight.T, bias)
        return None if y is None else y.reshape(*input.shape[:-1], weight.shape[0])

    return run


@functional.linear.kernel("cuda", "input", min_size=0)
def linear_input() -> Run:
    """Make the gradient of x: g · W."""

    def run(g: Array, weight: Array) -> Any:
        return product(g, weight) if g.ndim > 1 and weight.ndim == 2 else None

    return run


@functional.linear.kernel("cuda", "weight", min_size=0)
def linear_weight() -> Run:
    """Make the gradient of W: gᵀ · x, over all rows."""

    def run(g: Array, input: Array) -> Any:
        if g.ndim < 2:
            return None
        return product(g.reshape(-1, g.shape[-1]).T, input.reshape(-1, input.shape[-1]))

    return run
