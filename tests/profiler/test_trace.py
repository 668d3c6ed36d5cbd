"""Chrome traces: the timeline for trace viewers."""

from __future__ import annotations

import gzip
import json

import pytest

import edutorch
from edutorch import nn, optim
from edutorch.profiler import profile, schedule


@pytest.fixture
def recorded():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(schedule=plan, record_shapes=True, profile_memory=True, with_flops=True) as prof:
        for _ in range(3):
            optimizer.zero_grad()
            net(edutorch.ones(2, 4)).sum().backward()
            optimizer.step()
            prof.step()
    return prof


@pytest.fixture
def trace(recorded, tmp_path):
    recorded.add_metadata("who", "me")
    recorded.add_metadata_json("numbers", "[1, 2]")
    recorded.export_chrome_trace(tmp_path / "trace.json")
    return json.loads((tmp_path / "trace.json").read_text())


def test_spans_nest_and_none_is_negative(recorded, trace):
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == len(recorded.events())
    open_until = []
    for span in spans:  # in the order in which they began
        assert {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= span.keys()
        assert span["dur"] >= 0
        while open_until and open_until[-1] <= span["ts"]:
            open_until.pop()
        end = span["ts"] + span["dur"]
        assert not open_until or end <= open_until[-1] + 1e-3
        open_until.append(end)
    starts = [span["ts"] for span in spans]
    assert starts == sorted(starts)
    assert starts[0] >= 0


def test_what_spans_tell(trace):
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    named = {span["name"]: span for span in spans}
    linear = next(span for span in spans if span["name"] == "linear")
    assert linear["args"]["Input Dims"] == [[2, 4], [8, 4], [8]]
    assert linear["args"]["Input type"] == ["float32", "float32", "float32"]
    assert linear["args"]["Flops"] == 2 * 2 * 4 * 8
    assert linear["args"]["Bytes made"] == 64
    assert linear["args"]["Module"] == "0 (Linear)"
    assert named["nn.Module: 0 (Linear)"]["cat"] == "python_function"
    assert named["Optimizer.step#SGD.step"]["cat"] == "user_annotation"
    assert {"ProfilerStep#1", "ProfilerStep#2"} <= named.keys()
    assert "ProfilerStep#0" not in named
    assert (trace["who"], trace["numbers"]) == ("me", [1, 2])


def test_arrows_lead_from_each_op_to_its_backward(trace):
    events = trace["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == sum(span["args"]["kind"] == "node" for span in spans) == 2 * 4
    at = {(span["ts"], span["args"]["kind"]): span for span in spans}
    pairs = {
        (at[starts[key]["ts"], "op"]["name"], at[ends[key]["ts"], "node"]["name"]) for key in starts
    }
    assert pairs == {
        ("linear", "LinearBackward0"), ("tanh", "TanhBackward0"), ("sum", "SumBackward0"),
    }  # fmt: skip
    assert all(starts[key]["ts"] < ends[key]["ts"] for key in starts)
    assert all(end["bp"] == "e" for end in ends.values())


def test_memory_is_a_counter(recorded, trace):
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert [counter["args"]["bytes in use"] for counter in counters] == [
        live for _, live in recorded.memory().history
    ]
    assert counters


def test_it_can_be_compressed(recorded, tmp_path):
    recorded.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file)["traceEvents"]
    recorded.events().export_chrome_trace(tmp_path / "plain.json")
    plain = json.loads((tmp_path / "plain.json").read_text())["traceEvents"]
    assert [event["name"] for event in plain] == [event.trace_name for event in recorded.events()]
