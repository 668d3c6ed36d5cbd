"""Training never makes the host wait for the GPU: one wait per step would halve its speed."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.backends import strict
from edutorch.errors import DimError
from edutorch.nn import functional
from tests.backends.networks import NETWORKS


@pytest.fixture
def on_strict():
    edutorch.set_default_device("strict")
    yield
    edutorch.set_default_device("cpu")
    edutorch.empty(1, device="strict").tolist()  # so that no check is left for the next test


pytestmark = pytest.mark.usefixtures("on_strict")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_does_not_wait(name):
    edutorch.manual_seed(0)
    step = NETWORKS[name]()
    first = step().item()
    with strict.no_synchronisation():
        losses = [step() for _ in range(2)]
    assert np.isfinite([first, *(loss.item() for loss in losses)]).all()


# Indices out of range: found where the host waits next ------------------------------------------


def index(*values: int) -> edutorch.Tensor:
    return edutorch.tensor(values)


def rows() -> edutorch.Tensor:
    return edutorch.arange(6.0).reshape(3, 2)


CALLS = {
    "index_select": lambda: rows().index_select(0, index(1, 7)),
    "embedding": lambda: functional.embedding(index(7), rows(), sparse=True),
    "gather": lambda: rows().gather(0, index(0, 7).reshape(1, 2)),
    "scatter": lambda: rows().scatter(0, index(0, 7).reshape(1, 2), 1.0),
    "scatter_add": lambda: rows().scatter_add(0, index(0, 7).reshape(1, 2), rows()),
    "scatter_reduce": lambda: rows().scatter_reduce(0, index(7, 0).reshape(1, 2), rows(), "mean"),
    "index_add": lambda: rows().index_add(0, index(7), rows()[:1]),
    "index_copy": lambda: rows().index_copy(0, index(7), rows()[:1]),
    "index_fill": lambda: rows().index_fill(0, index(7), 1.0),
    "index": lambda: rows()[index(0, 7)],
    "one_hot": lambda: functional.one_hot(index(0, 7), 3),
    "cross_entropy": lambda: functional.cross_entropy(rows(), index(0, 7, 1)),
}


def read(how: str, y: edutorch.Tensor) -> None:
    {
        "item": lambda: y.sum().item(), "tolist": y.tolist, "cpu": y.cpu, "print": lambda: repr(y),
        "numpy": lambda: y.numpy(force=True), "bool": lambda: bool(y[0, 0]),
        "synchronize": lambda: edutorch.backends.get("strict").synchronize(),
    }[how]()  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_index_out_of_range_is_found_later(name):
    with strict.no_synchronisation():
        CALLS[name]()
    with pytest.raises(DimError) as raised:
        rows().tolist()
    assert isinstance(raised.value, IndexError)
    text = str(raised.value)
    assert text.startswith(f"{name}: ")
    assert " 7 is out of bounds" in text or "from 7 to 7" in text
    assert "found later, where the program waited" in text
    assert "test_no_waiting.py" in text.partition("\n  call ")[2]
    assert rows().tolist() == [[0, 1], [2, 3], [4, 5]]  # it is raised once


@pytest.mark.parametrize("name", CALLS)
def test_on_the_cpu_it_is_found_at_once(name):
    edutorch.set_default_device("cpu")
    with pytest.raises(DimError, match=r"7 is out of bounds|to 7\b") as raised:
        CALLS[name]()
    assert "later" not in str(raised.value)


@pytest.mark.parametrize("how", ["item", "tolist", "cpu", "numpy", "print", "bool", "synchronize"])
def test_where_it_is_found(how):
    y = rows()[index(0, 1)]
    read(how, y)
    rows()[index(-4)]
    with pytest.raises(DimError, match="index -4 is out of bounds for dimension 0 with size 3"):
        read(how, y)


def test_the_first_wrong_call_is_named_and_a_right_one_is_not():
    table = nn.Embedding(3, 2)
    table(index(0, 2))
    table(index(-1))
    rows()[index(9)]
    with pytest.raises(DimError, match=r"index -1 [\s\S]*table\(index\(-1\)\)"):
        rows().tolist()


def test_indices_out_of_range_reach_no_other_memory():
    memory = edutorch.zeros(5, 2)
    part = memory[1:4]
    with strict.no_synchronisation():
        part[index(7, -8)] = 1.0
        part.index_put_((index(11),), edutorch.ones(1, 2), accumulate=True)
        x = rows().requires_grad_()
        x[index(7)].sum().backward()
        x.gather(0, index(0, 9).reshape(1, 2)).sum().backward()
    with pytest.raises(DimError):
        memory.tolist()
    assert memory.tolist() == [[0, 0], [1, 1], [0, 0], [2, 2], [0, 0]]
    assert x.grad.tolist() == [[1, 0], [0, 0], [1, 2]]


def test_an_empty_axis_is_refused_at_once():
    with pytest.raises(DimError, match="no elements"):
        rows()[:0].index_select(0, index(0))


def test_more_calls_than_are_remembered():
    before = strict.synchronisations()
    for size in range(1, 300):
        edutorch.zeros(size)[index(0)]
    assert strict.synchronisations() == before + 1
    edutorch.zeros(1)[index(1)]

    def go_on() -> None:
        for size in range(1, 300):
            edutorch.zeros(size)[index(0)]

    with pytest.raises(DimError, match="index 1 is out of bounds"):
        go_on()


# Loss scaling -----------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}, "RMSprop": {"centered": True},
    "Adagrad": {"lr_decay": 0.1}, "Adadelta": {}, "Adamax": {}, "NAdam": {}, "RAdam": {},
}  # fmt: skip


def scaled_steps(device: str, name: str, dtype: str = "float32", **more: object) -> list[object]:
    """Five steps, the first and the third with an overflow."""
    edutorch.set_default_device(device)
    x = edutorch.tensor([1.0, -2.0], dtype=getattr(edutorch, dtype), requires_grad=True)
    optimizer = getattr(optim, name)([x], lr=0.1, **OPTIMIZERS[name], **more)
    scaler = edutorch.amp.GradScaler(device, init_scale=4.0, growth_interval=2)
    seen = []
    for number in range(5):
        optimizer.zero_grad()
        scaler.scale((x * x).sum()).backward()
        if number in (0, 2):
            x.grad[0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        seen += [x.tolist(), scaler.get_scale()]
    return seen


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_that_is_skipped_on_the_device(name, dtype):
    ours, cpus = (scaled_steps(device, name, dtype) for device in ("strict", "cpu"))
    assert ours[1::2] == cpus[1::2] == [2, 2, 1, 1, 2]
    np.testing.assert_allclose(ours[::2], cpus[::2], rtol=1e-6)
    assert ours[0] == [1, -2]


def test_a_step_of_ones_own_is_skipped_by_waiting():
    class Own(optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                for param in group["params"]:
                    param.data -= param.grad

    x = edutorch.ones(1, requires_grad=True)
    optimizer, scaler = Own([x]), edutorch.amp.GradScaler("strict")
    scaler.scale((x * float("inf")).sum()).backward()
    scaler.step(optimizer)
    assert x.item() == 1


# Learning rates and step counts on the device -----------------------------------------------------


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax"])
def test_capturable_counts_on_the_device(name):
    settings = {} if name == "Adagrad" else {"capturable": True}
    ends = []
    for device in ("strict", "cpu"):
        edutorch.set_default_device(device)
        x = edutorch.tensor([1.0, -2.0], requires_grad=True)
        lr = edutorch.tensor(0.1)
        extra = settings if device == "strict" else {}
        optimizer = getattr(optim, name)([x], lr=lr, **extra)
        schedule = optim.lr_scheduler.StepLR(optimizer, 2)

        def step(x=x, optimizer=optimizer, schedule=schedule):
            optimizer.zero_grad()
            (x * x).sum().backward()
            optimizer.step()
            schedule.step()

        step()
        if device == "strict":
            with strict.no_synchronisation():
                step()
                step()
            assert optimizer.state[x]["step"].device.type == ("strict" if extra else "cpu")
        else:
            step()
            step()
        ends.append(x.tolist())
    np.testing.assert_allclose(*ends, rtol=1e-6)
