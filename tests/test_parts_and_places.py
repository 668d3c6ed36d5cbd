"""Slices as copies, and elements written by index: each line as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import edutorch
from tests.devices import DEVICES
from tests.golden_lines import golden
from tests.test_functions import close, plain

# t is the library; a (2, 3) and c (2, 3, 4) hold numbers, v counts from 1 to 6, i is (3, 4) of
# integers, k has positions in rows of a, m is a mask like a, z holds complex numbers.
LINES = """
a.clone().unsqueeze_(1), a[None].clone().squeeze_(0)
v.storage().size(), a.storage().tolist(), v[1:].storage()[0]
v.nelement(), a.ndimension(), v.get_device(), v.is_cuda, v.is_meta, v.is_sparse, v.is_quantized
v.is_mkldnn, v.is_mps, v.is_xpu, v.is_nested, v.is_vulkan, v.is_xla, v.is_ipu, v.is_mtia
v.is_maia, v.is_sparse_csr
v.output_nr, v.retains_grad, v.name, v.volatile, v.dense_dim(), v.sparse_dim(), v.is_signed()
i.is_signed(), m.is_signed(), str(v.layout), v.is_set_to(v), v.is_set_to(v.clone())
v.is_set_to(v[1:]), v.is_same_size(v), v.is_inference(), v.is_distributed()
a.clone().map_(a, lambda x, y:x+y), v.new(2).shape, v.new([1, 2]), v.new().shape
v.to_dense() is v, repr(t.contiguous_format), repr(t.preserve_format), repr(t.strided)
a.view(t.float32).shape, v.view(t.uint8), z.view(t.float32), v.view(dtype=t.int32)
t.alias_copy(v), t.detach_copy(v), t.diagonal_copy(a, 1), t.expand_copy(v, (2, 6))
t.narrow_copy(v, 0, 1, 2), a.narrow_copy(1, 0, 2), t.permute_copy(c, (2, 0, 1))
t.select_copy(a, 1, 0), t.slice_copy(v, 0, 1, 5, 2), t.split_copy(v, 4)
t.split_with_sizes_copy(v, [2, 4])
t.squeeze_copy(a[None]), t.t_copy(a), t.transpose_copy(c, 0, 1), t.unbind_copy(a)
t.unfold_copy(v, 0, 2, 1), t.unsqueeze_copy(v, 0), t.view_copy(v, (2, 3)), t.view_as_real_copy(z)
t.view_as_complex_copy(v.view(3, 2))
a.select_scatter(t.zeros(3, dtype=t.float64), 0, 1)
a.select_scatter(t.zeros(2, dtype=t.float64), -1, -1), v.slice_scatter(t.zeros(2), 0, 1, 5, 2)
v.slice_scatter(t.zeros(2), start=-2), a.diagonal_scatter(t.zeros(2, dtype=t.float64))
a.diagonal_scatter(t.zeros(2, dtype=t.float64), 1), c.diagonal_scatter(t.zeros(3, 2), 0, 0, 2)
c.diagonal_scatter(t.zeros(2, 3), 0, 1, 2)
a.select_scatter(t.zeros(2, dtype=t.float64), 0, 1)
v.slice_scatter(t.zeros(3), 0, 1, 5, 2)
v.put(t.tensor([1, -1]), t.tensor([9., 8.])), a.put(k[0], t.zeros(3, dtype=t.float64))
v.clone().put_(t.tensor([0, 0]), t.tensor([9., 8.]), accumulate=True)
t.put(v, t.tensor([[1]]), t.tensor([[2.]]))
v.put(t.tensor([9]), t.tensor([1.]))
v.put(t.tensor([1, 2]), t.tensor([1.]))
a.masked_scatter(m, t.arange(6.).double()), a.clone().masked_scatter_(m, t.arange(6.).double())
a.masked_scatter(t.tensor([True, False, True]), t.arange(6.).double())
v[:3].masked_scatter(m, v)
a.masked_scatter(m, t.arange(2.).double())
a.masked_scatter(m, t.arange(6.))
a.index_reduce(0, t.tensor([0, 0]), a, "prod"), a.index_reduce(1, t.tensor([2, 0, 2]), a, "mean")
a.clone().index_reduce_(1, t.tensor([2, 0, 2]), a, "amax", include_self=False)
t.index_reduce(a, 1, t.tensor([2, 0, 2]), a, "amin")
c.index_reduce(1, t.tensor([0, 0, 1]), c, "amax")
a.index_reduce(0, t.tensor([0]), a, "prod")
a.index_reduce(0, t.tensor([0, 1]), a, "sum")
t.zeros(3, 3).fill_diagonal_(5), t.zeros(7, 3).fill_diagonal_(5)
t.zeros(7, 3).fill_diagonal_(5, wrap=True), t.zeros(3, 7).fill_diagonal_(5, True)
t.zeros(2, 2, 2).fill_diagonal_(1), i.clone().fill_diagonal_(9)
t.zeros(3).fill_diagonal_(5)
t.zeros(2, 3, 2).fill_diagonal_(5)
t.diagflat(v[:2]), t.diagflat(a[:, :1], 1), v[:2].diagflat(-1)
t.index_put_(v.clone(), (t.tensor([0, 0]), ), t.tensor([5., 6.]))
v.clone().index_put_((t.tensor([0, 0]), ), t.tensor([5., 6.]), accumulate=True)
a.clone().index_put_((t.tensor([0, 1]), ), t.tensor(1., dtype=t.float64))
a.index_put((m, ), t.tensor(3., dtype=t.float64), True)
a.index_put((t.tensor([0, 1]), t.tensor([True, False, True])), t.tensor(3., dtype=t.float64))
a.index_put([t.tensor([0]), None], t.tensor(3., dtype=t.float64))
a.scatter(1, k, a), a.scatter(1, k, 2.0), a.scatter(1, k, value=2.0)
a.scatter(1, k, a, reduce="add"), a.scatter(1, k, 2.0, reduce="multiply")
a.clone().scatter_(1, k, 2.0, reduce="add"), a.clone().scatter_(1, k, a)
a.clone().scatter_(1, k, a, reduce="multiply")
t.scatter(a, 1, k, a, reduce="mean")
a.take_along_dim(k, 1), t.take_along_dim(a, k[:1], 1), a.take_along_dim(t.tensor([[0]]))
a.take_along_dim(k)
t.index_add(a, 1, t.tensor([0, 0]), a[:, :2], alpha=2)
t.index_add(a, 1, t.tensor([0, 0]), a[:, :2]), i.index_add(0, t.tensor([0, 0]), i[:2], alpha=3)
t.index_copy(a, 1, t.tensor([0]), a[:, 1:2]), a.index_copy(0, t.tensor(1), a[0])
a.index_fill(1, t.tensor([0]), t.tensor(9.)), a.index_fill(1, t.tensor([0]), 9)
i.index_fill(0, t.tensor([-1]), 9), i.index_fill(0, t.tensor(1), 9)
i.index_fill(0, t.tensor([5]), 9)
a.masked_fill(m, t.tensor(5.)), a.masked_fill(m, 5), i.masked_fill(i>3, t.tensor(5))
i.masked_fill(i>3, 2.0), a[0].masked_fill(m, 0.)
i.masked_fill(i>3, 2.5)
a.masked_fill(m, t.tensor([5.]))
a.masked_fill(k, 5.)
t.where(m), t.where(m, a, 0.), t.where(m, 1., a), t.where(m, 1., 2.), t.where(m, 1, 2)
t.where(m, 1, 2.5), t.where(m, a, k), t.where(m, k, 1.5), t.where(m, True, False), a.where(m, 0.)
a.where(m, a*2), t.where(m, t.tensor(1), a), t.where(k)
t.hsplit(a, 3), t.vsplit(a, 2), t.dsplit(c, 2), a.hsplit([1]), v.hsplit(2)
v.split_with_sizes([1, 5]), t.split_with_sizes(a, (1, 2), 1), t.unsafe_chunk(v, 2)
t.unsafe_split(v, 2), t.unsafe_split_with_sizes(v, [2, 4]), a.unsafe_chunk(2)
v.tensor_split(t.tensor([1, 3])), v.tensor_split(indices=[2]), v.tensor_split(sections=3)
v.split(split_size=4)
a.hsplit(2)
t.vsplit(v, 2)
t.dsplit(a, 2)
v.chunk(0)
v.split([1, 2])
v.split(2, 1)
a.T, a.mT, c.mT, z.T, z.H, z.mH, a.H, a.adjoint(), z.adjoint(), v.movedim(0, 0)
c.movedim((0, 1), (1, 2)), c.moveaxis(0, -1), c.swapaxes(0, 1), t.squeeze(a[None], (0, ))
a.view_as(a.view(3, 2)), c.diagonal(0, 1, 2)
v.H
c.H
z.real, z.imag, a.real, t.real(z)
v.unfold(0, 2, 3), a.t().unfold(0, 2, 1), c.unfold(1, 2, 1).unfold(2, 2, 2)
v.reshape_as(a), t.detach(v), t.slice_inverse(v[1:3], v, 0, 1, 3)
v.index_select(0, t.tensor(1)), a.index_select(1, t.tensor([2, 0]))
t.tensor(5.).index_select(0, t.tensor([0]))
a.gather(1, k), a.gather(1, k[:, :1]), t.gather(a, -1, k), t.tensor(5.).gather(0, t.tensor(0))
t.gather(a, 1, k[:1])
a.take(t.tensor([-1, 0])), a.take(k)
v.repeat(2, 2), v.flip(0), c.flip(0, 1), c.flip((0, 1)), v.roll(2), c.roll((1, 1), (0, 1))
c.permute(2, 0, 1).flatten(1)
"""


def answer(t, line):
    a = t.tensor([[0.5, -1.5, 2.0], [1.25, -0.75, 3.0]], dtype=t.float64)
    v = t.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    i, c = t.arange(12).reshape(3, 4), t.arange(24.0).reshape(2, 3, 4)
    k = t.tensor([[0, 2, 1], [1, 0, 2]])
    m = t.tensor([[True, False, True], [False, True, False]])
    z = t.view_as_complex(t.arange(12.0).reshape(3, 2, 2))
    try:
        results = eval(f"[{line}]", locals())
        if t is edutorch:
            edutorch.backends.get("strict").synchronize()  # where a wrong index is found
        return results
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return error


def outcome(line: str, library: Any) -> Any:
    """Return the values of a line; "refused" if there is an error."""
    values = answer(library, line)
    return "refused" if isinstance(values, Exception) else plain(values)


def expressions() -> list[str]:
    return LINES.strip().splitlines()


DUPLICATES = "t.index_put_(v.clone(), (t.tensor([0, 0]), ), t.tensor([5., 6.]))"
ABOUT_THE_DEVICE = next(line for line in expressions() if "get_device" in line)


def accepted(line: str, device: str) -> list[Any]:
    """Return the outcomes that are right on a device: PyTorch's are of the CPU."""
    theirs = golden("test_parts_and_places", line)
    if device != "cuda":
        return [theirs]
    if line == DUPLICATES:  # which of two values for one place stays is undefined on a GPU
        return [theirs, [("torch.float32", (6,), [5.0, 2.0, 3.0, 4.0, 5.0, 6.0])]]
    if line == ABOUT_THE_DEVICE:
        values = dict(zip(line.split(", "), theirs, strict=True))
        return [[*(values | {"v.get_device()": 0, "v.is_cuda": True}).values()]]
    return [theirs]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("line", LINES.strip().splitlines(), ids=lambda line: line[:40])
def test_line(line, device):
    edutorch.set_default_device(device)
    try:
        ours, right = outcome(line, edutorch), accepted(line, device)
        assert any(close(ours, theirs) for theirs in right), (ours, right)
    finally:
        edutorch.set_default_device("cpu")
