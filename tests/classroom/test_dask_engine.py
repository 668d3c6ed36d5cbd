"""A class that is graded on the workers of a Dask cluster, of which some are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from edutorch.__main__ import main
from edutorch.classroom import dask_engine, engines
from edutorch.classroom.dask_engine import EngineError, grade_shard, refuse_other_versions
from edutorch.classroom.engines import Content, Plan, Shard, versions
from edutorch.classroom.jail.settings import Settings
from edutorch.classroom.submissions import Submission, SubmissionError
from tests.classroom.own_exercises import RIGHT, WRONG, write_class, write_specs

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from tests.classroom.jails import open_factory

FILES = ("grades.csv", "results.json")
SLOW = "import time\ndef average(x):\n    time.sleep(0.4)\n    return x.sum() / len(x)\n"
SECONDS = 60


def test_without_the_library_an_error_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    folder = write_class(tmp_path, {"ada": RIGHT})
    command = ["grade", str(folder), "--specs", str(write_specs(tmp_path)), "--out",
               str(tmp_path / "out"), "--engine", "dask", "--scheduler", "tcp://h:1"]  # fmt: skip
    assert main(command) == 1
    assert "edutorch[classroom-dask]" in capsys.readouterr().err


def test_a_worker_with_other_versions_is_refused():
    plan = Plan(("02.softmax",), (), 1, 1.0, Settings())
    with pytest.raises(EngineError, match="a worker has another version of numpy") as error:
        grade_shard(plan, Shard(1, {}), {**versions(), "numpy": "1.0"})
    assert "and 1.0 here" in str(error.value)
    refuse_other_versions(versions(), versions())


def test_files_travel_as_bytes():
    import pickle

    def fails():
        raise SubmissionError("grade", "too large")

    files = [Submission("ada", "a.py", lambda: b"x"), Submission("ada", "b.py", fails)]
    shard = pickle.loads(pickle.dumps(Shard(1, {"ada": files}).with_content()))
    first, second = shard.students["ada"]
    assert isinstance(first.read, Content) and first.read() == b"x"
    with pytest.raises(SubmissionError, match="too large"):
        second.read()


class Cluster:
    """A scheduler and its workers, as processes of their own."""

    def __init__(self, folder, workers, **environment):
        self.file, self.log = folder / "scheduler.json", (folder / "log").open("wb")
        self.environment = {**os.environ, **environment,
                            "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # fmt: skip
        options = ["--port", "0", "--host", "127.0.0.1", "--no-dashboard"]
        self.processes = [self.start("scheduler", *options)]
        self.wait_until(lambda: self.file.exists() and self.file.stat().st_size)
        self.address = json.loads(self.file.read_text())["address"]
        self.workers = [self.add_worker() for _ in range(workers)]

    def start(self, name, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--scheduler-file",
                   str(self.file), *options]  # fmt: skip
        return subprocess.Popen(
            command, stdout=self.log, stderr=self.log, env=self.environment, cwd=self.file.parent
        )

    def add_worker(self):
        process = self.start("worker", "--no-nanny", "--no-dashboard", "--nthreads", "1",
                             "--local-directory", str(self.file.parent))  # fmt: skip
        self.processes.append(process)
        return process

    @staticmethod
    def wait_until(condition):
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.05)

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.log.close()


@pytest.fixture
def cluster(tmp_path):
    """Return what starts a cluster."""
    pytest.importorskip("distributed", reason="needs the extra `classroom-dask`")
    open_factory(Settings()).close()
    clusters = []

    def start(workers, **environment):
        folder = tmp_path / "cluster"
        folder.mkdir()
        clusters.append(Cluster(folder, workers, **environment))
        return clusters[-1]

    yield start
    for one in clusters:
        one.close()


def grade(folder, out, *options, cluster=None):
    command = ["grade", str(folder / "class"), "--specs", str(folder / "specs"), "--out",
               str(folder / out), "--seed", "7", *options]  # fmt: skip
    if cluster is not None:
        command += ["--engine", "dask", "--scheduler", cluster.address]
    return main(command)


def assert_same_results(folder, count):
    for name in FILES:
        assert (folder / "local" / name).read_bytes() == (folder / "dask" / name).read_bytes()
    lines = (folder / "dask" / "progress.jsonl").read_text().splitlines()
    students = [json.loads(line)["student"] for line in lines]
    assert len(students) == len(set(students)) == count


@pytest.mark.slow
def test_results_are_those_of_one_machine(tmp_path, cluster):
    answers = {f"s{number}": RIGHT if number % 3 else WRONG for number in range(7)}
    answers["eve"] = "import os\nos._exit(0)"
    write_class(tmp_path, answers)
    (tmp_path / "class" / "broken").mkdir()
    (tmp_path / "class" / "broken" / "71_averages.ipynb").write_text("{")
    write_specs(tmp_path)
    assert grade(tmp_path, "local", "--workers", "2") == 1  # of the broken file
    assert grade(tmp_path, "dask", "--shard-size", "2", cluster=cluster(2)) == 1
    assert_same_results(tmp_path, 9)
    walls = json.loads((tmp_path / "dask" / "run.json").read_text())["walls"]
    assert walls == json.loads((tmp_path / "local" / "run.json").read_text())["walls"]


def kill_busy_worker(cluster, progress, killed):
    """Wait until something is graded, kill a worker that grades, and keep what it had started."""
    import distributed
    import psutil

    cluster.wait_until(lambda: progress.exists() and progress.stat().st_size)
    with distributed.Client(cluster.address, set_as_default=False) as client:
        process = cluster.workers[0]

        def is_busy():
            pids = client.run(os.getpid)
            own = next(address for address, pid in pids.items() if pid == process.pid)
            return client.processing()[own] and psutil.Process(process.pid).children()

        cluster.wait_until(is_busy)
        killed += psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_is_killed_and_nothing_is_lost_or_twice(tmp_path, cluster):
    write_class(tmp_path, {f"s{number}": SLOW for number in range(12)})
    write_specs(tmp_path)
    assert grade(tmp_path, "local", "--workers", "4") == 0
    started, killed = cluster(2), []
    arguments = (started, tmp_path / "dask" / "progress.jsonl", killed)
    killer = threading.Thread(target=kill_busy_worker, args=arguments)
    killer.start()
    assert grade(tmp_path, "dask", "--shard-size", "2", cluster=started) == 0
    killer.join()
    assert started.workers[0].wait() == -signal.SIGKILL
    assert_same_results(tmp_path, 12)
    assert killed  # the parent of its jails, and a jail
    started.wait_until(lambda: not any(process.is_running() for process in killed))


@pytest.mark.slow
def test_where_no_worker_is_left_a_sentence_says_so_and_resume_goes_on(tmp_path, cluster, capsys):
    write_class(tmp_path, {f"s{number}": SLOW for number in range(6)})
    write_specs(tmp_path)
    started = cluster(1, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    arguments = (started, tmp_path / "dask" / "progress.jsonl", [])
    killer = threading.Thread(target=kill_busy_worker, args=arguments)
    killer.start()
    assert grade(tmp_path, "dask", "--shard-size", "1", cluster=started) == 1
    killer.join()
    assert "several workers were lost with shard" in capsys.readouterr().err
    started.add_worker()
    assert grade(tmp_path, "dask", "--resume", cluster=started) == 0
    assert grade(tmp_path, "local", "--workers", "4") == 0
    assert_same_results(tmp_path, 6)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_no_fault_of_anybody(tmp_path, cluster, capsys):
    write_class(tmp_path, {f"s{number}": SLOW for number in range(4)})
    write_specs(tmp_path)
    started, progress = cluster(1), tmp_path / "dask" / "progress.jsonl"

    def kill():
        started.wait_until(lambda: progress.exists() and progress.stat().st_size)
        started.processes[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    assert grade(tmp_path, "dask", "--shard-size", "1", cluster=started) == 1
    killer.join()
    assert "the connection to the scheduler was lost" in capsys.readouterr().err
    assert progress.read_text().count("\n") < 4


@pytest.mark.slow
def test_a_cluster_that_cannot_grade(tmp_path, cluster, capsys, monkeypatch):
    write_class(tmp_path, {"ada": RIGHT})
    write_specs(tmp_path)
    started = cluster(0)
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.5)
    assert grade(tmp_path, "dask", cluster=started) == 1
    assert f"the scheduler at '{started.address}' has no worker" in capsys.readouterr().err
    started.address, address = "tcp://127.0.0.1:1", started.address
    assert grade(tmp_path, "dask", cluster=started) == 1
    assert "no scheduler answers at 'tcp://127.0.0.1:1'" in capsys.readouterr().err
    started.address = address
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(engines.np, "__version__", "0.1")
    started.add_worker()
    assert grade(tmp_path, "dask", cluster=started) == 1
    assert "a worker has another version of numpy" in capsys.readouterr().err
