"""The rows of a profile, and the printed table."""

from __future__ import annotations

import re

import pytest

import edutorch
from edutorch import nn
from edutorch.profiler import profile
from edutorch.profiler.tree import bytes_text, time_text

F = nn.functional


@pytest.fixture
def recorded():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = edutorch.ones(5, 8)
    with profile(record_shapes=True, profile_memory=True, with_flops=True, with_stack=True) as prof:
        for _ in range(2):
            net(x).sum().backward()
    return prof


def columns(text):
    """Return the titles of a table, and its rows as lists of cells."""
    lines = text.splitlines()
    rules = [number for number, line in enumerate(lines) if set(line) == {"-", " "}]
    widths = [len(part) for part in lines[rules[0]].split("  ")]

    def cells(line):
        texts, start = [], 0
        for width in widths:
            texts.append(line[start : start + width].strip())
            start += width + 2
        return texts

    return cells(lines[rules[0] + 1]), [cells(line) for line in lines[rules[1] + 1 : rules[2]]]


def test_columns_are_pytorchs(torch, recorded):
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    ) as theirs:
        torch.nn.Linear(8, 16)(torch.ones(5, 8))
    titles, _ = columns(theirs.key_averages(group_by_input_shape=True).table())
    ours, _ = columns(recorded.key_averages(group_by_input_shape=True).table())
    titles = [title for title in titles if title]
    assert [our for our in ours if our in titles] == titles
    assert set(ours) - set(titles) == {"Saved Mem", "Total KFLOPs"}


def test_rows_say_what_was_done(recorded):
    rows = {row.key: row for row in recorded.key_averages()}
    assert rows["linear"].count == 4
    assert rows["nn.Module: 0 (Linear)"].count == 2
    assert rows["linear"].flops == 2 * (2 * 5 * 8 * 16 + 2 * 5 * 16 * 4)
    assert rows["relu"].flops == 2 * 5 * 16
    assert rows["linear"].cpu_memory_usage == 2 * 4 * (5 * 16 + 5 * 4)
    for row in rows.values():
        assert row.cpu_time == pytest.approx(row.cpu_time_total / row.count)
        assert 0 <= row.self_cpu_time_total <= row.cpu_time_total


def test_percentages_and_order(recorded):
    average = recorded.key_averages()
    titles, rows = columns(average.table(sort_by="self_cpu_time_total"))
    assert len(rows) == len(average)
    shares = [float(row[titles.index("Self CPU %")].rstrip("%")) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert shares == sorted(shares, reverse=True)
    by_count = columns(average.table(sort_by="count", row_limit=1))[1]
    assert [row[0] for row in by_count] in (["linear"], ["LinearBackward0"])


def test_how_a_table_can_be_shaped(recorded):
    average = recorded.key_averages()
    text = average.table(header="My header", row_limit=2, max_name_column_width=10, time_unit="ms")
    assert text.splitlines()[1] == "My header"
    titles, rows = columns(text)
    assert len(rows) == 2
    assert all(len(row[0]) <= 10 for row in rows)
    assert all(row[titles.index("CPU total")].endswith("ms") for row in rows)
    top = columns(recorded.events().table(top_level_events_only=True))[1]
    assert [row[0] for row in top] == ["nn.Module: Sequential", "sum", "backward"] * 2
    assert edutorch.profiler.EventList().table() == ""
    with pytest.raises(ValueError, match="table: unknown time unit"):
        average.table(time_unit="min")
    assert "Self CPU time total" in str(average)


def test_rows_by_shape_and_by_line(recorded):
    by_shape = recorded.key_averages(group_by_input_shape=True)
    shapes = [row.input_shapes for row in by_shape if row.key == "linear"]
    assert shapes == ["[[5, 8], [16, 8], [16]]", "[[5, 16], [4, 16], [4]]"]
    by_line = recorded.key_averages(group_by_stack_n=1)
    titles, rows = columns(by_line.table())
    source_lines = {row[titles.index("Source Location")] for row in rows if row[0] == "linear"}
    assert len(source_lines) == 1
    assert re.search(r"test_tables\.py\(\d+\): recorded$", source_lines.pop())


def test_stacks_go_into_a_file(recorded, tmp_path):
    recorded.export_stacks(tmp_path / "stacks.txt", "cpu_time_total")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert lines
    for line in lines:
        assert re.fullmatch(r"\S+ \d+", line)
        assert line.rpartition(" ")[0].endswith("_recorded")


def test_recursion_counts_once_in_the_total():
    x = edutorch.ones(2)
    named = edutorch.profiler.record_function("f")
    with profile() as prof, named, named:
        x.exp()
    outer = prof.events()[0]
    (row,) = [row for row in prof.key_averages() if row.key == "f"]
    assert (row.count, row.cpu_time_total) == (2, outer.cpu_time_total)
    assert row.self_cpu_time_total < row.cpu_time_total


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        (lambda: edutorch.ones(3, 4) @ edutorch.ones(4, 5), 2 * 3 * 4 * 5),
        (lambda: edutorch.ones(2, 3, 4) @ edutorch.ones(2, 4, 5), 2 * 2 * 3 * 4 * 5),
        (lambda: edutorch.ones(4) @ edutorch.ones(4), 2 * 4),
        (lambda: F.conv2d(edutorch.ones(2, 4, 6, 6), edutorch.ones(8, 2, 3, 3), groups=2),
         2 * (2 * 8 * 4 * 4) * (2 * 3 * 3)),
        (lambda: F.conv_transpose2d(edutorch.ones(2, 4, 6, 6), edutorch.ones(4, 8, 3, 3)),
         2 * (2 * 4 * 6 * 6) * (8 * 3 * 3)),
        (lambda: edutorch.ones(3, 4) * edutorch.ones(4), 12),
        (lambda: edutorch.ones(3, 4).sum(0), 12),
        (lambda: edutorch.ones(3, 4).t(), 0),
    ],
)  # fmt: skip
def test_operations_are_counted(call, flops):
    with profile(with_flops=True) as prof:
        call()
    assert prof.total_average().flops == flops


def test_each_gradient_of_a_product_costs_as_much():
    a = edutorch.ones(3, 4, requires_grad=True)
    for b in (edutorch.ones(4, 5), edutorch.ones(4, 5, requires_grad=True)):
        with profile(with_flops=True) as prof:
            (a @ b).sum().backward()
        (node,) = [event for event in prof.events() if event.name == "MmBackward0"]
        assert node.flops == 120 * (1 + b.requires_grad)


def test_a_gpus_clock_has_columns_of_its_own(monkeypatch):
    class Clock:
        """Marks are numbers; what lies between two is 1000 ns per step."""

        count = 0

        def record_event(self):
            self.count += 1
            return self.count

        def elapsed_ns(self, start, end):
            return (end - start) * 1000

    monkeypatch.setattr("edutorch.profiler.recording.device_clock", Clock)
    activities = list(edutorch.profiler.ProfilerActivity)
    with profile(activities=activities) as prof, edutorch.profiler.record_function("outer"):
        edutorch.ones(2).exp()
    outer, inner = prof.events()
    assert (outer.device_time_total, inner.device_time_total) == (3, 1)
    assert (outer.self_device_time_total, outer.cuda_time_total) == (2, 3)
    titles, rows = columns(prof.key_averages().table(sort_by="self_cuda_time_total"))
    assert rows[0][titles.index("Self CUDA")] == "2.000us"
    assert rows[0][titles.index("Self CUDA %")] == "66.67%"
    assert "Self CUDA time total: 3.000us" in prof.key_averages().table()


def test_numbers_are_written_as_pytorch_writes_them():
    assert [time_text(us) for us in (0.5, 999.0, 1000.0, 2.5e6)] == [
        "0.500us", "999.000us", "1.000ms", "2.500s",
    ]  # fmt: skip
    assert [bytes_text(count) for count in (0, 1023, 1024, -2**21, 2**30)] == [
        "0 B", "1023 B", "1.00 KB", "-2.00 MB", "1.00 GB",
    ]  # fmt: skip
