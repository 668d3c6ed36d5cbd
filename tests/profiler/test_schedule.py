"""Schedules: which steps are recorded, compared with PyTorch."""

from __future__ import annotations

import itertools
import json
import warnings

import pytest

import edutorch
from edutorch.modes import DEFAULT, current
from edutorch.profiler import ProfilerAction, profile, schedule, tensorboard_trace_handler


def test_every_schedule_does_what_pytorchs_does(torch):
    settings = itertools.product((0, 1, 3), (0, 2), (1, 2), (0, 1, 2), (0, 3), (0, 1))
    names = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
    for values in settings:
        chosen = dict(zip(names, values, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs, ours = torch.profiler.schedule(**chosen), schedule(**chosen)
        actions = [[plan(step).name for step in range(25)] for plan in (ours, theirs)]
        assert actions[0] == actions[1], chosen


def train(library, steps, **settings):
    """Run a loop under a profile; return what was ready when, and which steps it held."""
    ready, active = [], library.profiler.ProfilerActivity.CPU

    def on_ready(prof):
        assert "ProfilerStep*" in {row.key for row in prof.key_averages()}
        step_names = {e.trace_name for e in prof.events() if e.name == "ProfilerStep*"}
        ready.append((prof.step_num, sorted(step_names)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = library.profiler.schedule(**settings)
        with library.profiler.profile(
            activities=[active], schedule=plan, on_trace_ready=on_ready
        ) as prof:
            for _ in range(steps):
                library.ones(2).exp()
                prof.step()
    return ready


@pytest.mark.parametrize(
    ("steps", "settings"),
    [
        (8, {"wait": 1, "warmup": 1, "active": 2, "repeat": 1}),
        (9, {"wait": 1, "warmup": 1, "active": 2}),
        (4, {"wait": 0, "warmup": 1, "active": 3, "skip_first": 1}),
    ],
)
def test_the_same_steps_are_ready_at_the_same_time(torch, steps, settings):
    assert train(edutorch, steps, **settings) == train(torch, steps, **settings)


def test_without_warmup_no_step_is_lost(torch):
    """PyTorch is ready at the same steps, but its traces miss what it had no time to prepare."""
    ours, theirs = [train(lib, 5, wait=0, warmup=0, active=2) for lib in (edutorch, torch)]
    assert [step for step, _ in ours] == [step for step, _ in theirs] == [2, 4, 5]
    assert ours[1] == (4, ["ProfilerStep#2", "ProfilerStep#3"])


def test_nothing_listens_while_it_waits():
    heard = []
    with profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=1)) as prof:
        for _ in range(4):
            heard.append(current() is not DEFAULT)
            edutorch.ones(2).exp()
            prof.step()
    assert heard == [False, True, True, False]
    assert [event.trace_name for event in prof.events()] == ["ProfilerStep#2", "exp"]


def test_cycles_can_be_kept():
    plan = schedule(wait=1, warmup=1, active=1)
    for kept, count in ((False, 1), (True, 2)):
        with profile(schedule=plan, acc_events=kept) as prof:
            for _ in range(6):
                edutorch.ones(2).exp()
                prof.step()
        assert sum(event.name == "exp" for event in prof.events()) == count


def test_a_schedule_that_forgets_to_save_is_noticed():
    plan = [ProfilerAction.RECORD, ProfilerAction.NONE, ProfilerAction.NONE]
    with (
        profile(schedule=plan.__getitem__) as prof,
        pytest.warns(UserWarning, match="from RECORD to NONE"),
    ):
        prof.step()


def test_without_warmup_it_says_so():
    with pytest.warns(UserWarning, match="without a warmup"):
        schedule(wait=0, warmup=0, active=1)


@pytest.mark.parametrize("use_gzip", [False, True])
def test_traces_go_into_a_folder(tmp_path, use_gzip):
    folder = tmp_path / "logs"
    handler = tensorboard_trace_handler(str(folder), "me", use_gzip=use_gzip)
    with profile(on_trace_ready=handler):
        edutorch.ones(2).exp()
    (file,) = folder.iterdir()
    assert file.name.startswith("me.")
    assert file.name.endswith(".pt.trace.json.gz" if use_gzip else ".pt.trace.json")
    if not use_gzip:
        assert json.loads(file.read_text())["traceEvents"]


def test_stepping_a_stopped_profile_does_nothing():
    prof = profile(schedule=schedule(wait=0, warmup=1, active=1))
    prof.step()
    assert (prof.step_num, current() is DEFAULT) == (0, True)
