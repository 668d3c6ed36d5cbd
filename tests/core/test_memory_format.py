"""Memory formats: strides, contiguity and storages, as in PyTorch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import edutorch
from edutorch.errors import GradientError, ShapeError
from tests.oracle import require_torch
from tests.test_functions import close, plain

# t is the library, v counts from 1 to 6, i is (3, 4) of integers, c (2, 3, 4), img (2, 3, 4, 5).
LINES = """
v[2:].storage_offset(), v.view(2, 3).t().stride(), v[None].stride(), v.unsqueeze(-1).stride()
v.expand(1, 6).stride(), v[:, None].stride(), c.unsqueeze(1).stride(), c[:, ::2].storage_offset()
v[1:].as_strided((2, 2), (1, 2)), v[1:].as_strided((2, 2), (1, 2), 0)
v[4:].as_strided((6,), (1,), 0)
v.view(2, 3).t().as_strided((2,), (1,)), v[2:].as_strided_scatter(t.zeros(2), (2,), (1,))
img.to(memory_format=t.channels_last).stride(), last.is_contiguous(memory_format=t.channels_last)
img.is_contiguous(memory_format=t.channels_last), last.is_contiguous(), last.dim_order()
last.clone().stride(), last.contiguous().stride()
last.to(memory_format=t.contiguous_format).stride()
t.empty_like(last).stride(), t.zeros_like(img, memory_format=t.channels_last).stride()
t.ones_like(last, memory_format=t.contiguous_format).stride(), t.full_like(last, 2.0).stride()
(last * 2).stride(), last.double().stride()
last.to(t.float64, memory_format=t.channels_last).stride()
vol.to(memory_format=t.channels_last_3d).stride(), v.is_contiguous(memory_format=t.channels_last)
v.view(2, 3).t().clone().stride(), c.permute(2, 0, 1).clone().stride(), c[:, ::2].clone().stride()
v.expand(2, 6).clone().stride(), t.zeros_like(v.view(2, 3).t()).stride()
v.view(2, 3).t().clone(memory_format=t.contiguous_format).stride(), c[:, :, ::2].double().stride()
last.sum((2, 3)), last.reshape(2, -1), last.flatten(), last + img, last[0].stride()
v.contiguous(memory_format=t.channels_last)
v.clone(memory_format=t.channels_last)
v.untyped_storage().nbytes(), v[2:].untyped_storage().nbytes(), len(v.untyped_storage())
v.storage().size(), v.view(2, 3).storage().tolist(), v[1:].storage()[0], v.storage().nbytes()
v.untyped_storage().tolist()[:4], v.storage().element_size(), v.untyped_storage().element_size()
v.nelement(), c.ndimension(), v.get_device(), v.is_cpu, v.is_cuda, v.is_meta, v.is_sparse
v.is_quantized, v.is_mkldnn, v.is_mps, v.is_xpu, v.is_nested, v.is_vulkan, v.is_xla, v.is_ipu
v.is_mtia, v.is_maia, v.is_sparse_csr, v.is_pinned(), v.is_inference(), v.is_distributed()
v.output_nr, v.retains_grad, v.name, v.volatile, v.dense_dim(), v.sparse_dim(), str(v.layout)
v.is_signed(), i.is_signed(), m.is_signed(), v.is_set_to(v), v.is_set_to(v.clone())
v.is_set_to(v[1:]), v.is_same_size(v), v.is_same_size(c), v.to_dense() is v
c.sum_to_size(3, 4), c.sum_to_size((2, 1, 4)), c.sum_to_size(1), c.sum_to_size(2, 3, 4)
c.sum_to_size(3)
v.clone().apply_(lambda x: x * 2), v.clone().map_(v, lambda x, y: x + y), v.new(2).shape
v.clone().map2_(v, v, lambda x, y, z: x + y * z), v.new([1, 2]), v.new().shape, v.new(v)
repr(t.channels_last), repr(t.contiguous_format), repr(t.preserve_format), repr(t.strided)
v.view(t.int32), c.view(t.float64).shape, v.view(t.float64), v.view(t.uint8), v.view(dtype=t.int32)
i.view(t.int32), i.view(t.float64).shape, v.view(t.float32) is v
v.view(2, 3).t().view(t.float64)
v[:5].view(t.float64)
v.view(2, 3).clone().t_(), c.clone().transpose_(0, 1).stride(), c.clone().unsqueeze_(1).shape
c[None].clone().squeeze_(0).shape, c.clone().swapaxes_(0, 2), c.clone().swapdims_(0, 2).stride()
v.clone().as_strided_((2, 2), (1, 1), 1), v.clone().resize_(2, 2), v.clone().resize_(3)
i.clone().resize_((2, 2)), v.clone().resize_as_(c[0, :, :2]), v.resize(2, 3)
v.resize_as(c[0, :, :2])
v.clone().set_(v.untyped_storage(), 1, (2, 2), (1, 1))
t.empty(0).set_(v.storage(), 2, (2,)), v.clone().set_(c.transpose(0, 1)).stride(), v.detach().set_()
img.clone().resize_((1, 2, 2, 2), memory_format=t.channels_last).stride()
t.as_strided_(v.clone(), (2,), (3,)), t.resize_as_(v.clone(), t.zeros(2)), t.detach(v)
"""


def answer(t, line):
    v = t.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    i, m = t.arange(12).reshape(3, 4), v > 2
    c, img = t.arange(24.0).reshape(2, 3, 4), t.arange(120.0).reshape(2, 3, 4, 5)
    last, vol = img.contiguous(memory_format=t.channels_last), t.zeros(2, 3, 2, 2, 2)
    try:
        return eval(f"[{line}]", locals())
    except (RuntimeError, ValueError, TypeError) as error:
        return error


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", LINES.strip().splitlines(), ids=lambda line: line[:40])
def test_as_in_pytorch(line):
    theirs = answer(require_torch(), line)
    ours = answer(edutorch, line)
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception)
    else:
        assert not isinstance(ours, Exception), ours
        assert close(plain(ours), plain(theirs))


def test_on_the_strict_device():
    x = edutorch.arange(120.0, device="strict").reshape(2, 3, 4, 5)
    last = x.to(memory_format=edutorch.channels_last)
    assert last.stride() == (60, 1, 15, 3)
    assert last.tolist() == x.tolist()
    assert (last.is_cpu, last.get_device(), last.is_shared()) == (False, -1, False)
    assert x[1:].untyped_storage() == x.untyped_storage() != last.untyped_storage()
    assert x.storage().tolist()[:3] == [0, 1, 2]
    assert x[1].as_strided((2,), (1,), 3).tolist() == [3, 4]


def test_gradients_in_any_format():
    x = edutorch.randn(2, 3, 2, 2, dtype=edutorch.float64, requires_grad=True)

    def program(x):
        y = x.contiguous(memory_format=edutorch.channels_last) * 2
        return y.clone() * edutorch.ones_like(y) + x.to(memory_format=edutorch.channels_last)

    assert edutorch.autograd.gradcheck(program, x)
    program(x).sum().backward()
    assert x.grad.tolist() == edutorch.full_like(x, 3.0).tolist()


def test_storages_say_whose_memory_it_is():
    x = edutorch.zeros(6)
    storage = x[2:].untyped_storage()
    assert storage == x.untyped_storage()
    assert hash(storage) == hash(x.untyped_storage())
    assert storage != x.clone().untyped_storage()
    assert storage.data_ptr() == x.data_ptr() == x[2:].data_ptr() - 8
    assert repr(storage) == "[torch.storage.UntypedStorage(device=cpu) of size 24]"
    assert (storage.device.type, storage.is_cuda, storage.is_shared()) == ("cpu", False, False)
    assert x.storage().dtype is edutorch.float32
    assert list(x.storage()) == [0.0] * 6
    assert x.storage().untyped() == storage
    assert edutorch.zeros(0).data_ptr() == 0
    assert x.const_data_ptr() == x.data_ptr()


def test_numpy_memory_is_a_storage_too():
    elements = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    x = edutorch.from_numpy(elements)
    assert x.stride() == (1, 2)
    assert x.as_strided((6,), (1,)).tolist() == [0, 3, 1, 4, 2, 5]
    x.as_strided((2,), (1,), 2).zero_()
    assert elements.tolist() == [[0, 0, 2], [3, 0, 5]]


def test_as_subclass_keeps_the_past():
    class Named(edutorch.Tensor):
        pass

    x = edutorch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2).as_subclass(Named)
    assert type(y) is Named
    (y * y).sum().backward()
    assert x.grad.tolist() == [8, 16]


def test_what_is_asked_of_a_tensor_with_a_past():
    x = edutorch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    assert (y.retains_grad, x.retains_grad) == (False, False)
    y.retain_grad()
    assert y.retains_grad
    with pytest.raises(GradientError, match="apply_"):
        y.apply_(lambda number: number)
    with pytest.raises(RuntimeError, match="removed"):
        y.reinforce(1)
    with pytest.raises(ShapeError, match="not expandable"):
        y.sum_to_size(3)
    with pytest.raises(TypeError, match="expected memory of torch"):
        edutorch.zeros(1).set_(edutorch.zeros(1, dtype=edutorch.int64))
    with pytest.raises(RuntimeError, match="preserve_format"):
        y.is_contiguous(memory_format=edutorch.preserve_format)


def test_formats_are_themselves_when_copied():
    for form in (edutorch.channels_last, edutorch.preserve_format, edutorch.strided):
        assert pickle.loads(pickle.dumps(form)) is form
        assert copy.deepcopy(form) is form
