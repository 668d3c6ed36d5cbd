"""Stand-ins for NVIDIA's libraries: they check each call, and compute by NumPy.

A stand-in has the names, the signatures and the enumerations of the installed package, which can be
imported without a GPU: a name that is not there, an argument too many and a value that the
enumeration lacks are errors here as well. Pointers are addresses of NumPy's memory, which is what
the strict device has; a call on a stream is noted by the recording stream (`recording.py`).
"""

from __future__ import annotations

import ctypes
import enum
import inspect
import itertools
import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from edutorch import dtypes
from edutorch.kernels.gpu.matmul import Bindings
from tests.gpu.recording import RECORDER

NOT_SUPPORTED = 15
"""CUBLAS_STATUS_NOT_SUPPORTED."""

INTEGERS = {"intptr_t", "int", "size_t", "uint64_t", "int64_t"}


class Autospec:
    """A module's functions, checked against the real ones and answered by `answers`."""

    def __init__(self, real: ModuleType, answers: Any) -> None:
        self.real, self.answers, self.calls = real, answers, dict[str, int]()

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.real, name)  # AttributeError: the package has no such name
        if isinstance(member, type) or not callable(member):
            return member
        if name.startswith("get_") and name.endswith("_dtype"):
            return member  # a table, which needs no library
        answer = getattr(self.answers, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(member).bind(*args, **kwargs)
            self.calls[name] = self.calls.get(name, 0) + 1
            for parameter, role in argument_types(member).items():
                value = bound.arguments[parameter]
                if role in INTEGERS:
                    assert isinstance(value, int | enum.IntEnum), (
                        f"{name}: {parameter} is {value!r}"
                    )
            return answer(*bound.args)

        return call


def argument_types(function: Any) -> dict[str, str]:
    """Return the C types of a binding's arguments, from the first line of its docstring."""
    line = (function.__doc__ or "").splitlines()[0]
    match = re.fullmatch(r"\w+\((.*)\)(?: -> \w+)?", line)
    pairs = [part.split() for part in match[1].split(", ")] if match and match[1] else []
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def memory(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any
) -> np.ndarray:
    """Return the array at an address; strides are in elements."""
    item = np.dtype(dtype).itemsize
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    buffer = (ctypes.c_uint8 * (span * item)).from_address(address)
    flat = np.frombuffer(buffer, np.uint8).view(dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [step * item for step in strides])


class CublasLt:
    """cuBLASLt by NumPy: matrices by columns, as the library has them."""

    def __init__(self) -> None:
        from nvmath import CudaDataType
        from nvmath.bindings import cublas, cublasLt

        self.lt, self.data, self.compute = cublasLt, CudaDataType, cublas.ComputeType
        self.counter = itertools.count(1000)
        self.made: dict[int, dict[str, Any]] = {}
        self.products: list[str] = []  # the epilogue of each product
        self.refused: set[str] = set()  # epilogues that it has no algorithm for

    def make(self, **attributes: Any) -> int:
        number = next(self.counter)
        self.made[number] = attributes
        return number

    def create(self) -> int:
        return self.make(role="handle")

    def matmul_desc_create(self, compute_type: int, scale_type: int) -> int:
        compute = self.compute(compute_type)
        self.data(scale_type)
        return self.make(role="desc", compute=compute, EPILOGUE=1, TRANSA=0, TRANSB=0)

    def matrix_layout_create(self, type: int, rows: int, cols: int, ld: int) -> int:
        assert ld >= rows, f"a column of {rows} elements does not fit into {ld}"
        assert rows
        assert cols
        return self.make(role="layout", type=self.data(type), rows=rows, cols=cols,
                         ld=ld, BATCH_COUNT=1, STRIDED_BATCH_OFFSET=0)  # fmt: skip

    def matmul_preference_create(self) -> int:
        return self.make(role="preference")

    def matmul_preference_destroy(self, pref: int) -> None:
        assert self.made.pop(pref)["role"] == "preference"

    def set_attribute(
        self, number: int, role: str, names: Any, dtype: Any, buf: int, size: int
    ) -> None:  # fmt: skip
        dtype = np.dtype(dtype)
        assert self.made[number]["role"] == role
        assert size == dtype.itemsize, f"{names} has {dtype.itemsize} bytes, not {size}"
        value = np.frombuffer((ctypes.c_uint8 * size).from_address(buf), dtype)[0]
        self.made[number][names.name] = int(value)

    def matmul_desc_set_attribute(self, matmul_desc: int, attr: int, buf: int, size: int) -> None:
        name = self.lt.MatmulDescAttribute(attr)
        dtype = self.lt.get_matmul_desc_attribute_dtype(name)
        self.set_attribute(matmul_desc, "desc", name, dtype, buf, size)

    def matrix_layout_set_attribute(self, mat_layout: int, attr: int, buf: int, size: int) -> None:
        name = self.lt.MatrixLayoutAttribute(attr)
        dtype = self.lt.get_matrix_layout_attribute_dtype(name)
        self.set_attribute(mat_layout, "layout", name, dtype, buf, size)

    def matmul_preference_set_attribute(self, pref: int, attr: int, buf: int, size: int) -> None:
        name = self.lt.MatmulPreferenceAttribute(attr)
        dtype = self.lt.get_matmul_preference_attribute_dtype(name)
        self.set_attribute(pref, "preference", name, dtype, buf, size)

    def matmul_algo_get_heuristic(
        self, light_handle: int, operation_desc: int, adesc: int, bdesc: int, cdesc: int,
        ddesc: int, preference: int, requested_algo_count: int, heuristic_results_array: int,
        return_algo_count: int,
    ) -> None:  # fmt: skip
        assert RECORDER.operations is None, "an algorithm is chosen while a step is captured"
        assert self.made[light_handle]["role"] == "handle"
        _, _, k = self.shapes(operation_desc, adesc, bdesc, ddesc)
        name = self.lt.Epilogue(self.made[operation_desc]["EPILOGUE"]).name
        if name in self.refused:
            raise not_supported(self.lt)
        assert k > 1 or not name.startswith(("DRELU", "DGELU", "BGRAD")), f"{name} with k = 1"
        is_double = self.made[adesc]["type"] == self.data.CUDA_R_64F
        assert not is_double or name in ("DEFAULT", "BIAS"), f"{name} in float64"
        assert {self.made[preference][f"MIN_ALIGNMENT_{name}_BYTES"] for name in "ABCD"} == {16}
        dtype = self.lt.matmul_heuristic_result_dtype
        buffer = (ctypes.c_uint8 * dtype.itemsize).from_address(heuristic_results_array)
        np.frombuffer(buffer, dtype)["workspace_size"] = 4096
        assert requested_algo_count == 1
        ctypes.c_int32.from_address(return_algo_count).value = 1

    def shapes(self, desc: int, adesc: int, bdesc: int, ddesc: int) -> tuple[int, int, int]:
        """Return the sizes m, n and k of D (m, n) = A (m, k) · B (k, n); they have to agree."""
        plan, a, b, d = (self.made[number] for number in (desc, adesc, bdesc, ddesc))
        m, k = (a["cols"], a["rows"]) if plan["TRANSA"] else (a["rows"], a["cols"])
        inner, n = (b["cols"], b["rows"]) if plan["TRANSB"] else (b["rows"], b["cols"])
        assert (m, n) == (d["rows"], d["cols"]), "the result has another shape than the product"
        assert k == inner, "the factors do not fit"
        assert a["type"] == b["type"] == d["type"], "the factors have several dtypes"
        assert a["BATCH_COUNT"] == b["BATCH_COUNT"] == d["BATCH_COUNT"], "the batches differ"
        return m, n, k

    def dtype(self, type_: Any) -> Any:
        types = self.data
        return {
            types.CUDA_R_32F: np.float32, types.CUDA_R_64F: np.float64,
            types.CUDA_R_16F: np.float16, types.CUDA_R_16BF: dtypes.bfloat16.numpy,
        }[type_]  # fmt: skip

    def matrix(self, address: int, number: int) -> np.ndarray:
        """Return the matrices (batch, rows, columns) at an address."""
        layout = self.made[number]
        assert address % 16 == 0, "an operand is not aligned to 16 bytes"
        shape = (layout["BATCH_COUNT"], layout["rows"], layout["cols"])
        strides = (layout["STRIDED_BATCH_OFFSET"], 1, layout["ld"])
        return memory(address, shape, strides, self.dtype(layout["type"]))

    def matmul(
        self, light_handle: int, compute_desc: int, alpha: int, a: int, adesc: int, b: int,
        bdesc: int, beta: int, c: int, cdesc: int, d: int, ddesc: int, algo: int, workspace: int,
        workspace_size_in_bytes: int, stream: int,
    ) -> None:  # fmt: skip
        plan = dict(self.made[compute_desc])  # as it is now: pointers in it change
        self.shapes(compute_desc, adesc, bdesc, ddesc)
        assert bool(workspace) == bool(workspace_size_in_bytes)
        assert algo
        name = self.lt.Epilogue(plan["EPILOGUE"]).name
        self.products.append(name)

        def work() -> None:
            first, second = self.matrix(a, adesc), self.matrix(b, bdesc)
            first = first.swapaxes(1, 2) if plan["TRANSA"] else first
            second = second.swapaxes(1, 2) if plan["TRANSB"] else second
            wide = np.float64 if first.dtype == np.float64 else np.float32
            y = first.astype(wide) @ second.astype(wide)
            out = self.matrix(d, ddesc)
            out[...] = self.finish(name, plan, y, out.dtype)
            if name == "BGRADB":  # over the axis that the product sums over
                total = memory(plan["BIAS_POINTER"], (out.shape[2],), (1,), out.dtype)
                total[...] = second.astype(wide)[0].sum(0)

        RECORDER.launch("cublasLtMatmul", stream, work)

    def finish(self, name: str, plan: dict[str, Any], y: np.ndarray, dtype: Any) -> np.ndarray:
        """Apply the epilogue to a product by columns."""
        rows = y.shape[1]
        if "BIAS" in name:
            assert plan["BIAS_POINTER"] % 16 == 0, "the bias is not aligned to 16 bytes"
            y = y + memory(plan["BIAS_POINTER"], (rows, 1), (1, 1), dtype).astype(y.dtype)
        if "AUX" in name or (name.startswith("D") and name != "DEFAULT"):
            y = self.with_aux(name, plan, y[0], dtype)[None]
        elif "RELU" in name:
            y = np.maximum(y, 0)
        elif "GELU" in name:
            y = gelu(y)
        if name.endswith("_BGRAD"):
            memory(plan["BIAS_POINTER"], (rows,), (1,), dtype)[...] = y[0].sum(1)
        return y

    def with_aux(self, name: str, plan: dict[str, Any], y: np.ndarray, dtype: Any) -> np.ndarray:
        """Keep what the derivative needs, or multiply by the derivative."""
        rows, columns = y.shape
        stride, address = plan["EPILOGUE_AUX_LD"], plan["EPILOGUE_AUX_POINTER"]
        assert stride >= rows
        assert stride % (128 if "RELU" in name else 8) == 0
        if "RELU" in name:  # one bit for each element
            bits = memory(address, (stride // 8, columns), (1, stride // 8), np.uint8)
            if name.startswith("D"):
                mask = np.unpackbits(bits, axis=0, bitorder="little")[:rows]
                return y * mask
            full = np.zeros((stride, columns), np.uint8)
            full[:rows] = y > 0
            bits[...] = np.packbits(full, axis=0, bitorder="little")
            return np.maximum(y, 0)
        kept = memory(address, (rows, columns), (1, stride), dtype)
        if name.startswith("D"):
            return y * gelu_slope(kept.astype(y.dtype))
        kept[...] = y
        return gelu(y)


def not_supported(lt: Any) -> Exception:
    """Return the library's error; its own constructor would ask the library for the text."""

    class NotSupported(lt.cuBLASLtError):
        status = NOT_SUPPORTED

        def __init__(self) -> None:
            Exception.__init__(self, "CUBLAS_STATUS_NOT_SUPPORTED")

    return NotSupported()


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_slope(x: np.ndarray) -> np.ndarray:
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * np.sqrt(2 / np.pi) * (1 + 0.134145 * x * x)


def cublas_lt() -> tuple[Bindings, CublasLt]:
    """Return the stand-in for nvmath's bindings, and what computes for it."""
    pytest.importorskip("nvmath", reason="needs nvmath-python: see `make test-gpu`")
    library = CublasLt()
    return Bindings(Autospec(library.lt, library), library.data, library.compute), library
