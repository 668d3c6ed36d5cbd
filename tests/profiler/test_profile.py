"""The spans of a profile: every op once, also after errors and in other threads."""

from __future__ import annotations

import contextvars
import gc
import threading
import weakref

import pytest

import edutorch
from edutorch import nn, optim
from edutorch.modes import DEFAULT, current
from edutorch.profiler import profile, record_function, schedule
from edutorch.profiler.tree import walk


@pytest.fixture
def step(device):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    net.to(device)
    optimizer = optim.Adam(net.parameters())
    x = edutorch.ones(3, 4, device=device)

    def train():
        optimizer.zero_grad()
        with record_function("loss"):
            loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()

    train()
    return train


def names(prof):
    return [event.name for event in prof.events()]


def test_what_is_heard_and_in_which_order(step):
    with profile() as prof:
        step()
    assert names(prof) == [
        "Optimizer.zero_grad#Adam.zero_grad",
        "loss",
        "nn.Module: Sequential", "nn.Module: 0 (Linear)", "linear", "nn.Module: 1 (ReLU)", "relu",
        "nn.Module: 2 (Linear)", "linear",
        "pow", "sum",
        "backward",
        "SumBackward0", "PowBackward0", "LinearBackward0", "ReluBackward0", "LinearBackward0",
        "Optimizer.step#Adam.step",
    ]  # fmt: skip


def test_self_times_add_up_to_the_whole(step):
    with profile() as prof:
        for _ in range(3):
            step()
    events = prof.events()
    whole = sum(event.cpu_time_total for event in events if event.cpu_parent is None)
    assert events.self_cpu_time_total == pytest.approx(whole, rel=1e-9)
    assert prof.key_averages().self_cpu_time_total == pytest.approx(whole, rel=1e-9)
    assert prof.tree().ns / 1000 == pytest.approx(whole, rel=1e-9)
    for event in events:
        inside = sum(child.cpu_time_total for child in event.cpu_children)
        assert event.self_cpu_time_total >= 0
        assert event.cpu_time_total == pytest.approx(inside + event.self_cpu_time_total)
        assert event.cpu_time_total <= event.time_range.elapsed_us() + 1e-6
        for child in event.cpu_children:
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end


def test_times_are_those_of_the_clock(monkeypatch):
    """A clock that ticks once whenever it is read tells exactly what is left out."""
    ticks = iter(range(0, 10**9, 1000))
    monkeypatch.setattr("edutorch.profiler.recording.now", ticks.__next__)
    with profile() as prof, record_function("outer"), record_function("inner"):
        pass
    outer, inner = prof.events()
    # inner: begins (read), ends (read); nothing between. outer: two events of 1 tick each inside
    assert inner.cpu_time_total == 1
    assert outer.cpu_time_total == 3
    assert outer.self_cpu_time_total == 2


def test_nothing_listens_afterwards(step):
    with profile() as prof:
        step()
    assert current() is DEFAULT
    with edutorch.no_grad():
        inner = profile()
        inner.start()
    # the block took the listener with it; the other way round it brings it back
    inner.stop()
    outer = profile()
    outer.start()
    with edutorch.no_grad():
        outer.stop()
    edutorch.ones(2).add(1)  # heard for the last time, and then no more
    assert current() is DEFAULT
    assert len(prof.events()) == 18


def test_an_op_that_raises_leaves_the_nesting_right():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 2))
    with profile() as prof:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                net(edutorch.ones(1, 2))
        edutorch.ones(2).exp()
    one_try = ["nn.Module: Sequential", "nn.Module: 0 (Linear)", "linear",
               "nn.Module: 1 (Linear)", "linear"]  # fmt: skip
    assert names(prof) == [*one_try, *one_try, "exp"]
    assert [span.name for span in prof.spans] == [one_try[0], one_try[0], "exp"]
    assert [span.failed for span in walk(prof.spans) if span.name == "linear"] == [False, True] * 2


def test_an_interrupt_in_the_middle_leaves_the_nesting_right():
    class Stops(nn.Module):
        def forward(self, x):
            with record_function("deep"):
                raise KeyboardInterrupt

    prof = profile()
    with pytest.raises(KeyboardInterrupt), prof, record_function("outer"):
        Stops()(edutorch.ones(1))
    assert current() is DEFAULT
    assert names(prof) == ["outer", "nn.Module: Stops", "deep"]
    with profile() as again:
        x = edutorch.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            y.sum().backward()
        x.exp()
    assert names(again) == ["mul", "sum", "backward", "SumBackward0", "MulBackward0", "exp"]
    assert [span.name for span in again.spans] == ["mul", "sum", "backward", "exp"]


def interrupt(gradient):
    raise KeyboardInterrupt


def test_what_is_open_at_the_end_ends_there():
    prof = profile()
    prof.start()
    with record_function("open"):
        edutorch.ones(2).exp()
        prof.stop()
        edutorch.ones(2).log()
    assert names(prof) == ["open", "exp"]


def test_what_began_before_is_not_there():
    with record_function("before"):
        prof = profile()
        prof.start()
    edutorch.ones(2).exp()
    prof.stop()
    assert names(prof) == ["exp"]


def test_threads_are_heard_in_a_copy_of_the_context():
    def other():
        with record_function("there"):
            edutorch.ones(2).exp()

    with profile() as prof, record_function("here"):
        copied = threading.Thread(target=contextvars.copy_context().run, args=(other,))
        fresh = threading.Thread(target=other)  # of its own, as in PyTorch
        for thread in (copied, fresh):
            thread.start()
            thread.join()
    assert sorted(names(prof)) == ["exp", "here", "there"]
    by_name = {event.name: event for event in prof.events()}
    assert by_name["exp"].cpu_parent is by_name["there"]
    assert by_name["there"].cpu_parent is None
    assert by_name["there"].thread != by_name["here"].thread


def test_a_profile_inside_a_profile_hears_too():
    with profile() as outer:
        edutorch.ones(2).exp()
        with profile() as inner:
            edutorch.ones(2).log()
        edutorch.ones(2).sin()
    assert names(outer) == ["exp", "log", "sin"]
    assert names(inner) == ["log"]


def test_nothing_is_kept_alive(device):
    net = nn.Linear(4, 4).to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x = edutorch.ones(2, 4, device=device)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as prof:
        y = net(x).sum()
        y.backward()
        optimizer.step()
    gone = [weakref.ref(owner) for owner in (x, y, y.grad_fn, net, net.weight, optimizer)]
    del x, y, net, optimizer
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)
    assert len(prof.events()) == 7


def test_own_functions_have_their_names():
    class Cube(edutorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    x = edutorch.tensor(2.0, requires_grad=True)
    with profile() as prof:
        Cube.apply(x).backward()
    event_names = names(prof)
    assert event_names[:4] == ["Cube", "pow", "backward", "CubeBackward"]
    by_name = {event.name: event for event in prof.events()}
    assert by_name["pow"].cpu_parent is not None


def test_backward_of_a_second_order_nests_its_ops():
    x = edutorch.tensor(2.0, requires_grad=True)
    with profile() as prof:
        (g,) = edutorch.autograd.grad(x**3, x, create_graph=True)
        g.backward()
    nodes = [event for event in prof.events() if event.kind == "node"]
    assert nodes[0].name == "PowBackward0"
    assert any(child.kind == "op" for child in nodes[0].cpu_children)
    assert x.grad.item() == 12


def test_results_are_the_same_under_a_profile(device):
    def run():
        edutorch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1)).to(device)
        optimizer = optim.Adam(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(edutorch.ones(2, 4, device=device)).sum().backward()
            optimizer.step()
        return [parameter.tolist() for parameter in net.parameters()]

    plain = run()
    with profile(record_shapes=True, profile_memory=True, with_flops=True):
        assert run() == plain


def test_record_function_decorates():
    @record_function("named")
    def double(x):
        """Twice x."""
        return x * 2

    assert double.__doc__ == "Twice x."
    with profile() as prof:
        double(edutorch.ones(2))
    assert names(prof) == ["named", "mul"]
    with profile() as prof, record_function("with", "n=3"):
        pass
    assert names(prof) == ["with (n=3)"]


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"record_function: argument `name` must be text, got int"):
        record_function(3)
    with pytest.raises(AssertionError, match=r"profile.key_averages: nothing was recorded"):
        profile().key_averages()
    with pytest.raises(AssertionError, match=r"profile: no activities to measure"):
        profile(activities=[])
    with profile() as prof:
        with pytest.raises(AssertionError, match=r"profile.events: it has not finished"):
            prof.events()
        with pytest.raises(AssertionError, match=r"profile.start: it is running"):
            prof.start()
        edutorch.ones(2).exp()
    with pytest.raises(AssertionError, match=r"profile\(profile_memory=True\)"):
        prof.memory()
    with pytest.raises(AssertionError, match=r"profile\(with_stack=True\)"):
        prof.export_stacks("unused")
    with pytest.raises(AttributeError, match=r"table: rows do not have that[\s\S]*'bogus'"):
        prof.key_averages().table(sort_by="bogus")
    with pytest.raises(ValueError, match=r"schedule: active must be at least 1"):
        schedule(wait=0, warmup=0, active=0)


def test_the_profiler_tells_its_own_cost(step):
    with profile() as prof:
        step()
    cost = prof.overhead()
    assert cost.events > 2 * 18
    assert cost.seconds > 0
    assert cost.per_span > 0


def test_the_older_door():
    with edutorch.autograd.profiler.profile(record_shapes=True, use_cuda=False) as prof:
        edutorch.ones(2, 3).exp()
    assert [event.name for event in prof.function_events] == ["exp"]
    assert "exp" in prof.table()
    assert prof.key_averages(group_by_input_shape=True)[0].input_shapes == "[[2, 3]]"
    assert prof.total_average().count == 1
    assert prof.self_cpu_time_total == pytest.approx(prof.total_average().self_cpu_time_total)
    with edutorch.autograd.profiler.profile(enabled=False) as nothing:
        edutorch.ones(2).exp()
    assert nothing is None
    with edutorch.autograd.profiler.emit_nvtx(enabled=False), edutorch.autograd.profiler.emit_itt():
        edutorch.ones(2).exp()
    assert edutorch.autograd.profiler.record_function is record_function


def test_the_older_door_groups_by_name_unless_told_otherwise():
    with edutorch.autograd.profiler.profile(record_shapes=True, with_stack=True) as prof:
        edutorch.ones(2, 3).exp()
        edutorch.ones(4).exp()
    assert [row.count for row in prof.key_averages()] == [2]
    assert [row.count for row in prof.key_averages(group_by_input_shape=True)] == [1, 1]
    assert [row.count for row in prof.key_averages(group_by_stack_n=1)] == [1, 1]
