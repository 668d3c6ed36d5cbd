"""The benchmarks run: each workload takes a step, and tables and charts come out of a contest."""

from __future__ import annotations

import subprocess
import sys

import pytest

import edutorch
from benchmarks import against, apart, calls, charts, floors, kernel, peers, report, scaling, train
from benchmarks.call_reasons import REASONS
from benchmarks.timing import Result, contest
from benchmarks.workloads import CHAINS, WORKLOADS, Workload, same


@pytest.mark.parametrize("key", [key for key in WORKLOADS if not key.startswith("resnet")])
def test_a_workload_takes_a_step(key):
    result = WORKLOADS[key].build(edutorch, same)()
    assert result == 60_000 if key == "loader" else result.isfinite().all()


def test_resnet_takes_a_step():
    from benchmarks.networks import resnet
    from benchmarks.workloads import classifier

    build = classifier(lambda torch: resnet(torch, (4, 8), 1), 2, 3, 32, 32)
    assert build(edutorch, same)().isfinite().all()


@pytest.mark.oracle
def test_the_networks_are_the_same_ones(torch):
    from benchmarks import networks

    makers = [networks.lenet, networks.resnet, networks.vae, networks.word_model]
    makers += [lambda library: networks.gpt(library, 8)]
    makers += [lambda library, cell=cell: networks.lstm(library, cell) for cell in ("ops", "cell")]
    for make in makers:
        shapes = [
            [(name, tuple(parameter.shape)) for name, parameter in make(library).named_parameters()]
            for library in (edutorch, torch)
        ]
        assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_runs_backward(name):
    of_size, _ = CHAINS[name]
    assert of_size(3000)(edutorch, same)().isfinite().all()


def test_a_contest_becomes_a_table_and_charts(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "FOLDER", tmp_path / "results")
    workload = Workload("nothing", lambda torch, change: lambda: None, goal=0.5)
    result = contest({peers.US: lambda: None, peers.EAGER: lambda: None}, 3, 1e-4, budget=0.01)
    table = train.table({"nothing": result}, {"nothing": workload})
    assert "| nothing" in table and "0.50 |" in table and "floor" not in table
    table = train.table({"nothing": result}, {"nothing": workload}, {"nothing": 0.25})
    assert "| floor | goal |" in table and "|  0.25 | 0.50 |" in table
    charts.ratios("train", "Time", {"nothing": 0.4, "other": 1.2}, {"nothing": 0.5})
    curve = scaling.Curve("rows", [1, 10, 100], {"edutorch": [1, 10, 100], "PyTorch": [1, 1, 1]})
    assert curve.exponent("edutorch") == pytest.approx(1)
    assert curve.exponent("PyTorch") == pytest.approx(0)
    charts.curves("scaling", {"rows": curve})
    charts.bars("memory", "Memory", {"mlp": {"edutorch": 1.0, "PyTorch": 2.0}}, "MiB")
    report.leave("a machine", {"train": table}, 60.0)
    text = (tmp_path / "results" / "README.md").read_text()
    assert "a machine; 1.0 minutes" in text and "![train](train.png)" in text
    assert {path.name for path in (tmp_path / "results").glob("*.png")} == {
        "train.png", "scaling.png", "memory.png",
    }  # fmt: skip


@pytest.mark.oracle
def test_a_floor_is_the_time_of_a_steps_products(torch):
    step = apart.Apart("mlp", peers.EAGER)
    both = 784 * 128 + 128 * 10
    assert step.operations() == 2 * 64 * (both + both + 128 * 10)  # forward, weights, inputs
    names = (peers.US, peers.EAGER, floors.OURS, floors.THEIRS)
    assert floors.products({peers.US: step, peers.EAGER: step}, 1e9).keys() == set(names[2:])
    assert not floors.products({peers.US: step}, 1e9)  # there is no PyTorch to compare with
    assert not floors.products({peers.US: step, peers.EAGER: step}, 0.0)
    result = Result(dict(zip(names, ([1.0], [2.0], [0.5], [0.4]), strict=True)))
    assert floors.floor(result, 2 * 1024**3) == pytest.approx(0.2)
    assert floors.floor(Result({peers.US: [1.0]}), 1e9) is None


@pytest.mark.slow
def test_what_watching_costs_in_a_kernel():
    pytest.importorskip("jupyter_client")
    (row,) = kernel.rows([12], 0.1)
    nodes, rate, own, longer, again = row
    assert nodes == "12" and 0 < float(rate) < 60
    assert own.endswith("%") and {longer[0], again[0]} <= {"+", "-"}


def test_a_part_by_its_name(monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "off")  # else all of them are made first
    command = [sys.executable, "-m", "benchmarks", "--quick", "train", "--only", "scalars"]
    done = subprocess.run([*command, "--peers", peers.US], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| 100 ops on single numbers |" in done.stdout


def test_peers_that_cannot_are_left_out():
    work = Workload("one", lambda torch, change: lambda: torch.ones(1))
    assert list(peers.rivals("one", work, (peers.US,))) == [peers.US]


def test_where_the_time_goes():
    from benchmarks.spent import spent

    text = spent(WORKLOADS["scalars"])
    assert "misses its goal" in text
    assert "TanhBackward0" in text and "`mul`" in text


# Against another commit ----------------------------------------------------------------


class Timed:
    """A checkout whose rows take known times."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.asked: list[str] = []

    def ask(self, row: str, number: int) -> float:
        self.asked.append(row)
        return number * self.seconds[row]


def test_rows_that_moved_are_measured_twice(capsys):
    before = Timed({"overhead/add/1/forward": 1e-3, "train/mlp": 0.1, "train/scalars": 0.1})
    now = Timed({"overhead/add/1/forward": 1e-3, "train/mlp": 0.109, "train/scalars": 0.05})
    text = against.compare(list(before.seconds), before, now, rounds=5)
    assert "train/mlp: 1.090" in capsys.readouterr().out
    assert "| all      |    3 |        0.817 |" in text  # (1 · 1.09 · 0.5) ** (1 / 3)
    assert "| overhead |    1 |        1.000 |" in text
    moved = text.partition("Rows that moved by more than 8%:")[2]
    assert "add" not in moved and moved.count("twice") == 2
    assert moved.index("train/mlp") < moved.index("train/scalars")  # the slowest first
    assert now.asked.count("train/mlp") >= 2 * 5 > now.asked.count("overhead/add/1/forward") - 5


def test_when_nothing_moved_it_says_so():
    still = Timed({"train/mlp": 0.1})
    assert "No row moved by more than 8%." in against.compare(["train/mlp"], still, still, 1)


def test_rows_are_chosen_by_board_workload_or_name():
    every = against.rows()
    assert {"overhead/add/1/forward", "train/mlp"} <= set(every)
    assert against.rows(["train"]) == [row for row in every if row.startswith("train/")]
    assert against.rows(["add"]) == [row for row in every if "/add/" in row]
    assert against.rows(["train/mlp"]) == ["train/mlp"]
    with pytest.raises(SystemExit, match="no row is called nothing"):
        against.rows(["nothing"])


@pytest.mark.parametrize("row", ["overhead/add/1/forward", "overhead/sum/64/backward"])
def test_a_row_of_a_checkout_runs(row):
    assert against.work_of(row)() is None


def test_every_call_of_the_board_runs():
    rows = calls.rows((32,), boards=calls.WIDE)
    assert len(rows) == len(set(rows)) and len(calls.rows((32,))) == 324
    backward = {row for row in rows if row.endswith("backward")}
    for row in rows:
        if row.replace("forward", "backward") not in backward - {row}:
            calls.work_of(edutorch, row)()


@pytest.mark.oracle
def test_a_call_has_a_floor(torch):
    matrix = 4 * 32 * 32
    for call, moved, operations in [
        ("x + y", 3 * matrix, 0), ("x.t()", 0, 0), ("x @ y", 3 * matrix, 2 * 32**3),
        ("buffer.add_(y)", 3 * matrix, 0), ("x[rows, labels]", 4 * 4 * 32, 0),
    ]:  # fmt: skip
        assert calls.amounts(torch, f"calls/{call}/32/forward") == (moved, operations)
    assert calls.amounts(torch, "calls/x @ y/32/backward") == (6 * matrix, 6 * 32**3)


def test_calls_become_a_table():
    timed = [
        calls.Timed("x + y", 32, "forward", 1.0, 2.0, 0.5, 0.25),
        calls.Timed("x + y", 32, "backward", 4.0, 2.0, 2.0, 0.25),
    ]
    text = calls.written(timed)
    assert "| 32 x 32 |    2 |   1.25 |  50% |" in text
    assert text.index("backward") < text.index("forward")  # the slowest first
    assert "- `x + y`: no reason is known." in text
    assert REASONS.keys() <= {calls.parts(row)[0] for row in calls.rows((32,))}


def test_a_call_that_is_slower_twice_fails_the_check():
    """The third run decides where the first two disagree."""
    before = Timed({"overhead/add/1/forward": 1.0, "overhead/mul/1/forward": 1.0})
    now = Timed({"overhead/add/1/forward": 1.05, "overhead/mul/1/forward": 1.2})
    slower = against.check(list(now.seconds), before, now, rounds=1)
    assert slower == ["overhead/mul/1/forward: 1.20, 1.20"]


def test_a_checkout_answers_from_its_own_process():
    checkout = against.Checkout(against.ROOT)
    took = checkout.ask("overhead/add/1/forward", 3)
    checkout.close()
    assert 0 < took < 10 and checkout.process.returncode == 0


def test_an_unknown_commit_is_named():
    with pytest.raises(SystemExit, match="--against no-such-commit"):
        against.worktree("no-such-commit").__enter__()


@pytest.mark.slow
def test_two_commits_are_compared():
    command = [sys.executable, "-m", "benchmarks", "--quick", "--against", "HEAD"]
    row = "overhead/add/1/forward"
    done = subprocess.run([*command, "--only", row], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{row}: " in done.stdout and "| board" in done.stdout
    left = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True).stdout
    assert "edutorch-" not in left


def test_pipelines_of_transforms_run():
    pytest.importorskip("PIL", reason="needs the extra `vision`")
    from benchmarks import transforms
    from edutorch.vision import transforms as ours

    for size, transform in transforms.pipelines(ours).values():
        transforms.work(((40, 50, size[2]), transform))()
