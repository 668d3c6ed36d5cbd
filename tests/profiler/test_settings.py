"""The settings of a profile: their defaults and effects."""

from __future__ import annotations

import inspect
import itertools
import json
import time

import pytest

import edutorch
from edutorch import nn
from edutorch.profiler import EventList, ProfilerActivity, profile, record_function, schedule
from edutorch.profiler.key_averages import share

OURS = {
    "EventList": "rows=() with_memory=False with_flops=False with_stack=False with_device=False "
    "total_us=0.0",
    "EventList.key_averages": "group_by_input_shapes=False group_by_stack_n=0 "
    "group_by_overload_name=False",
    "EventList.table": "sort_by=None row_limit=100 max_src_column_width=75 "
    "max_name_column_width=55 max_shapes_column_width=80 header=None top_level_events_only=False "
    "time_unit=None",
    "profile.text": "limit=60",
    "profile.export_stacks": "metric='self_cpu_time_total'",
}
PYTORCHS = ["profile", "schedule", "tensorboard_trace_handler", "record_function",
            "profile.key_averages"]  # fmt: skip


def named(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def defaults_of(function):
    parameters = inspect.signature(function).parameters.items()
    return {key: p.default for key, p in parameters if p.default is not p.empty}


@pytest.mark.parametrize("name", OURS)
def test_defaults(name):
    defaults = defaults_of(named(edutorch.profiler, name)).items()
    assert [f"{key}={value!r}" for key, value in defaults] == OURS[name].split()


@pytest.mark.parametrize("name", PYTORCHS)
def test_defaults_are_pytorchs(name, torch):
    theirs = defaults_of(named(torch.profiler, name))
    ours = defaults_of(named(edutorch.profiler, name))
    assert ours == {key: theirs[key] for key in ours}


@pytest.mark.parametrize("name", ["wait", "warmup", "active", "repeat", "skip_first"])
def test_a_schedule_of_negative_numbers_is_refused(name):
    settings = {"wait": 1, "warmup": 1, "active": 1, name: -1}
    with pytest.raises(ValueError, match=f"active must be at least 1(.|\n)*{name} += -1"):
        schedule(**settings)
    least = {"wait": 0, "warmup": 1, "active": 1, "repeat": 0, "skip_first": 0}
    assert schedule(**least)(0).name == "WARMUP"
    with pytest.raises(ValueError, match="active must be at least 1"):
        schedule(**{**least, "active": 0})


# Steps --------------------------------------------------------------------------------------------


def test_a_step_ends_where_the_next_begins():
    with profile(schedule=schedule(wait=0, warmup=1, active=3)) as prof:
        for _ in range(4):
            edutorch.ones(2).exp()
            prof.step()
    steps = [event for event in prof.events() if event.name == "ProfilerStep*"]
    assert [event.trace_name for event in steps] == [f"ProfilerStep#{i}" for i in (1, 2, 3)]
    assert all(event.cpu_parent is None for event in steps)
    assert [[child.name for child in event.cpu_children] for event in steps] == [["exp"]] * 3
    for one, other in itertools.pairwise(steps):
        assert one.time_range.end <= other.time_range.start


def test_each_span_knows_its_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.second(self.first(x.exp()).sin()).cos()

    net, x = Net(), edutorch.ones(1, 2)
    with profile() as prof:
        net(x).sum()
    modules = [(event.name, event.module[-1:]) for event in prof.events()]
    assert [pair for pair in modules if "Module" not in pair[0]] == [
        ("exp", ("Net",)), ("linear", ("first (Linear)",)), ("sin", ("Net",)),
        ("linear", ("second (Linear)",)), ("cos", ("Net",)), ("sum", ()),
    ]  # fmt: skip


def test_only_gradients_of_products_have_operations():
    x = edutorch.ones(3, 3, requires_grad=True)
    with profile(with_flops=True) as prof:
        ((x.exp() * x) @ x).sum().backward()
    flops = {event.name: event.flops for event in prof.events() if event.kind == "node"}
    assert flops.pop("MmBackward0") == 2 * 2 * 3**3
    assert set(flops) == {"ExpBackward0", "MulBackward0", "SumBackward0"}
    assert not any(flops.values())


def test_what_the_profiler_costs_is_part_of_the_whole():
    start = time.perf_counter()
    with profile() as prof:
        for _ in range(20):
            edutorch.ones(2).exp()
    whole = time.perf_counter() - start
    overhead = prof.overhead()
    assert overhead.events >= 20
    assert 0 < overhead.seconds < whole
    assert 0 < overhead.per_span < 0.1


# Tables and files ---------------------------------------------------------------------------------


def test_shares_of_nothing_are_not_shown():
    assert [share(1, 4), share(0.25, 0.5), share(0, 1), share(0, 0), share(1, 0)] == [
        "25.00%", "50.00%", "0.00%", "--", "--",
    ]  # fmt: skip


@pytest.mark.parametrize("setting", ["record_shapes", "profile_memory", "with_flops",
                                     "with_stack"])  # fmt: skip
def test_each_setting_has_a_column_of_its_own(setting):
    titles = {"record_shapes": "Input Shapes", "profile_memory": "CPU Mem",
              "with_flops": "FLOPs", "with_stack": "Source Location"}  # fmt: skip
    wanted = {setting} | ({"record_shapes"} if setting == "with_flops" else set())
    with profile(**{setting: True}) as prof:
        edutorch.ones(2, 3) @ edutorch.ones(3, 4)
    for rows in (prof.events(), prof.key_averages(True, 1), prof.events().key_averages(True, 1)):
        shown = rows.table().splitlines()[1]
        assert {name for name, title in titles.items() if title in shown} == wanted
    with profile() as prof:
        edutorch.ones(2).exp()
    assert not any(title in prof.events().table() for title in titles.values())


def test_a_table_of_rows_that_have_no_stack():
    """The column of lines is left out where no row has any."""
    with profile() as prof:
        edutorch.ones(2).exp()
    text = EventList(prof.events(), with_stack=True, with_flops=True).table()
    assert "Source Location" not in text
    assert "exp" in text


def test_nested_rows_are_left_out_only_on_demand():
    with profile() as prof, record_function("outer"):
        edutorch.ones(2).exp()
    assert "exp" in prof.events().table()
    assert "exp" not in prof.events().table(top_level_events_only=True)


def größe(x):
    return x.exp()


def test_stacks_are_written_as_utf8_with_all_that_took_any_time(tmp_path):
    with profile(with_stack=True) as prof:
        größe(edutorch.ones(2))
    events = prof.events()
    for microseconds, count in ((0.9, 0), (1.0, 1), (2.7, 1)):
        events[-1].cpu_time_total = microseconds
        EventList(events[-1:]).export_stacks(tmp_path / "stacks.txt", "cpu_time_total")
        lines = (tmp_path / "stacks.txt").read_bytes().decode("utf-8").splitlines()
        assert len(lines) == count
        assert all("größe" in line and line.endswith(f" {int(microseconds)}") for line in lines)


def test_files_name_their_encoding(tmp_path, monkeypatch):
    """Whatever the system's is, a trace and its stacks are UTF-8."""
    with profile(with_stack=True) as prof:
        größe(edutorch.ones(2))
    opened = []

    def spy(path, mode, encoding=None, **settings):
        opened.append(encoding)
        return open(path, mode, encoding=encoding, **settings)

    for module in ("key_averages", "chrome_trace"):
        monkeypatch.setattr(f"edutorch.profiler.{module}.open", spy, raising=False)
    prof.export_stacks(tmp_path / "stacks.txt")
    prof.export_chrome_trace(tmp_path / "trace.json")
    prof.events().export_chrome_trace(tmp_path / "plain.json")
    assert opened == ["utf-8"] * 3


def test_times_in_a_trace_are_microseconds(tmp_path, monkeypatch):
    class Clock:
        """Marks are numbers; what lies between two is 1000 ns per step."""

        count = 0

        def record_event(self):
            self.count += 1
            return self.count

        def elapsed_ns(self, start, end):
            return (end - start) * 1000

    monkeypatch.setattr("edutorch.profiler.recording.device_clock", Clock)
    ticks = iter(range(0, 10**9, 1000))
    monkeypatch.setattr("edutorch.profiler.recording.now", ticks.__next__)
    with profile(activities=list(ProfilerActivity)) as prof, record_function("outer"):
        edutorch.ones(2).exp()
    prof.export_chrome_trace(tmp_path / "trace.json")
    spans = [
        event
        for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        if event["ph"] == "X"
    ]
    assert [span["args"]["GPU (us)"] for span in spans] == [3, 1]
    assert spans[0]["args"]["without profiler (us)"] == prof.events()[0].cpu_time_total
    assert [span["dur"] for span in spans] == [
        event.time_range.elapsed_us() for event in prof.events()
    ]
