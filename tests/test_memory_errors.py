"""A tensor that cannot be is refused at once, with its shape, its type and its bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import edutorch
from edutorch import ones, zeros
from edutorch.core import error_messages
from edutorch.core.error_messages import format_bytes
from edutorch.errors import OutOfMemory

N = 10**12
WIDE = 2**40

CREATED: dict[str, Callable[[], Any]] = {
    "zeros": lambda: zeros(N),
    "zeros of two axes": lambda: zeros(WIDE, WIDE),
    "zeros of a huge axis": lambda: zeros(2**63),
    "ones": lambda: ones((N,)),
    "empty": lambda: edutorch.empty(N),
    "full": lambda: edutorch.full((N,), 1.0),
    "full of many axes": lambda: edutorch.full((WIDE, WIDE), 1.0),
    "eye": lambda: edutorch.eye(10**7),
    "arange": lambda: edutorch.arange(1e15),
    "arange of integers": lambda: edutorch.arange(10**15),
    "range": lambda: edutorch.range(0, 1e15),
    "linspace": lambda: edutorch.linspace(0, 1, 10**13),
    "logspace": lambda: edutorch.logspace(0, 1, 10**13),
    "rand": lambda: edutorch.rand(N),
    "randn": lambda: edutorch.randn(WIDE, WIDE),
    "randint": lambda: edutorch.randint(0, 9, (N,)),
    "randperm": lambda: edutorch.randperm(10**13),
    "empty_strided": lambda: edutorch.empty_strided((2,), (N,)),
    "empty_permuted": lambda: edutorch.empty_permuted((N, 2), (1, 0)),
    "zeros_like": lambda: edutorch.zeros_like(wide()),
    "rand_like": lambda: edutorch.rand_like(wide()),
    "full_like": lambda: edutorch.full_like(wide(), 2.0),
    "new_zeros": lambda: ones(1).new_zeros(N),
    "new_full": lambda: ones(1).new_full((N,), 2.0),
    "new_empty": lambda: ones(1).new_empty((N,)),
    "Tensor": lambda: edutorch.Tensor(N, 2),
}


def wide() -> Any:
    return ones(1).expand(N)


def thin(rows: bool = True) -> Any:
    return ones(10**7, 1) if rows else ones(1, 10**7)


COMPUTED: dict[str, Callable[[], Any]] = {
    "clone": lambda: wide().clone(),
    "contiguous": lambda: wide().contiguous(),
    "add": lambda: wide() + 1,
    "broadcasting": lambda: thin() + thin(False),
    "comparison": lambda: thin() > thin(False),
    "exp": lambda: wide().exp(),
    "outer": lambda: edutorch.outer(ones(10**7), ones(10**7)),
    "matmul": lambda: thin() @ thin(False),
    "cat": lambda: edutorch.cat([wide(), wide()]),
    "stack": lambda: edutorch.stack([wide(), wide()]),
    "repeat": lambda: ones(1000).repeat(10**6, 10**6),
    "tile": lambda: ones(1000).tile(10**6, 10**6),
    "repeat_interleave": lambda: ones(1000).repeat_interleave(10**12),
    "cumsum": lambda: wide().cumsum(0),
    "to": lambda: wide().to(edutorch.float64),
    "index": lambda: wide()[wide() > 0],
    "pad": lambda: edutorch.nn.functional.pad(ones(2), (0, N)),
    "one_hot": lambda: edutorch.nn.functional.one_hot(edutorch.arange(1000), 10**12),
    "Linear": lambda: edutorch.nn.Linear(10**6, 10**7),
    "Embedding": lambda: edutorch.nn.Embedding(10**10, 512),
    "tril": lambda: wide().expand(2, N).tril(),
    "cdist": lambda: edutorch.cdist(thin(), thin()),
    "einsum": lambda: edutorch.einsum("i,j->ij", ones(10**7), ones(10**7)),
}


@pytest.mark.parametrize("name", [*CREATED, *COMPUTED])
def test_it_is_refused_at_once(name):
    call = CREATED.get(name) or COMPUTED[name]
    start = time.perf_counter()
    with pytest.raises(MemoryError) as caught:
        call()
    assert time.perf_counter() - start < 5
    assert isinstance(caught.value, OutOfMemory)
    text = str(caught.value)
    assert "out of memory" in text
    assert "hint" in text


def test_the_text():
    with pytest.raises(OutOfMemory) as caught:
        zeros(N, dtype=edutorch.float64)
    text = str(caught.value)
    assert text.startswith("zeros: out of memory: tried to allocate 7.3 TiB\n")
    assert "result  = (1000000000000,) float64" in text
    with pytest.raises(OutOfMemory) as caught:
        edutorch.outer(ones(10**7), ones(10**7))
    text = str(caught.value)
    assert "363.8 TiB" in text
    assert "(10000000, 10000000) float32" in text
    assert text.startswith("outer")


def test_its_names_and_classes():
    assert edutorch.cuda.OutOfMemoryError is edutorch.OutOfMemoryError is OutOfMemory
    assert issubclass(OutOfMemory, MemoryError)
    assert issubclass(OutOfMemory, RuntimeError)


def test_a_system_that_grants_what_it_does_not_have(monkeypatch):
    monkeypatch.setattr(error_messages, "TOTAL_MEMORY", 2**30)
    with pytest.raises(OutOfMemory, match=r"memory\s+= 1.0 GiB"):
        zeros(2**28, 2)
    assert zeros(3).tolist() == [0, 0, 0]


def test_sizes_in_words():
    sizes = {0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 8 * 10**12: "7.3 TiB"}
    assert {size: format_bytes(size) for size in sizes} == sizes
    assert format_bytes(2**90).endswith("EiB")
