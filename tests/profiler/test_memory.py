"""Memory of programs with known allocations."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn, optim
from edutorch.profiler import profile, record_function


def test_each_byte_of_a_known_program():
    x = edutorch.ones(256, dtype=edutorch.float32, requires_grad=True)
    with profile(profile_memory=True) as prof:
        with record_function("forward"):
            a = x * 2  # 1024 bytes; what is saved is the number 2
            b = a.exp()  # 1024, saved for backward
            c = b.sum()  # 4
        c.backward()  # 1024 for exp, 1024 for mul: that becomes x.grad
        del a, b, c
    rows = {event.name: event for event in prof.events()}
    made = {name: row.self_cpu_memory_usage for name, row in rows.items()}
    assert made == {
        "forward": 0, "mul": 1024, "exp": 1024, "sum": 4, "backward": -1024, "SumBackward0": 0,
        "ExpBackward0": 1024, "MulBackward0": 1024,
    }  # fmt: skip
    assert rows["forward"].cpu_memory_usage == 2052
    assert rows["backward"].cpu_memory_usage == 1024
    assert {name: row.saved_memory_usage for name, row in rows.items() if row.saved_memory_usage} \
        == {"exp": 1024}  # fmt: skip
    memory = prof.memory()
    assert memory[:4] == (4100, 4100 - 1024, 4100, 1024)
    assert memory.history[-1][1] == x.grad.nbytes == 1024
    assert max(live for _, live in memory.history) == memory.peak


def test_what_backward_releases():
    x = edutorch.ones(256, dtype=edutorch.float32, requires_grad=True)
    with profile(profile_memory=True) as prof:
        loss = (x * 2).exp().sum()
        before = prof._recording.memory.live
        loss.backward()
        after = prof._recording.memory.live
    assert before == 1024 + 4  # what mul made is gone: nobody saved it
    assert after == 1024 + 4  # now it is the gradient, and the loss
    (backward,) = [event for event in prof.events() if event.name == "backward"]
    assert backward.cpu_memory_usage == 0


def test_views_are_not_memory():
    x = edutorch.ones(4, 4, dtype=edutorch.float32)
    with profile(profile_memory=True) as prof:
        y = x.t().reshape(2, 8)[0]  # transposed, hence copied once: 64 bytes
        z = x.view(16)[2:]
    assert prof.memory().made == 64
    assert prof.memory().freed == 0
    del y, z


def test_what_was_made_before_does_not_count():
    x = edutorch.ones(100)
    with profile(profile_memory=True) as prof:
        x.add_(0)  # a result of 400 bytes that replaces the numbers
        del x
    memory = prof.memory()
    assert memory.made == memory.freed


def test_creation_and_out_count_once():
    with profile(profile_memory=True) as prof:
        x = edutorch.zeros(100, dtype=edutorch.float32)
        y = edutorch.rand(10, dtype=edutorch.float32)
    assert prof.memory()[:3] == (440, 0, 440)
    out = edutorch.zeros(100, dtype=edutorch.float32)
    with profile(profile_memory=True) as prof:
        edutorch.exp(x, out=out)
    assert prof.memory().made == 0
    del x, y


def test_the_state_of_an_optimizer_counts_when_it_is_made():
    weight = nn.Parameter(edutorch.zeros(64, dtype=edutorch.float32))
    optimizer = optim.Adam([weight])
    weight.grad = edutorch.ones(64, dtype=edutorch.float32)
    made = []
    for _ in range(2):
        with profile(profile_memory=True) as prof:
            optimizer.step()
        made.append(prof.memory().made)
    assert 512 <= made[0] <= 512 + 8  # two averages, and perhaps a count
    assert made[1] <= 8


def test_sums_of_gradients_count():
    x = edutorch.ones(256, dtype=edutorch.float32, requires_grad=True)
    with profile(profile_memory=True) as prof:
        (x.exp() + x.sin()).sum().backward()
    assert prof.memory().history[-1][1] == x.grad.nbytes


def test_memory_on_every_device(device):
    x = edutorch.ones(256, dtype=edutorch.float32, device=device, requires_grad=True)
    with profile(profile_memory=True) as prof:
        y = x.exp()
    assert prof.memory().made == pytest.approx(y.nbytes)
