"""Each wall alone: what one keeps out while others are missing, and what is said of those."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.jail import JailFactory
from edutorch.classroom.jail.bwrap import find_bwrap
from edutorch.classroom.jail.settings import MIB, Settings
from edutorch.classroom.jail.watcher import Watcher
from tests.classroom.test_jail_hostile import processes_of

pytestmark = pytest.mark.slow

NAMESPACES = frozenset(
    f"{name} namespace" for name in ("user", "mount", "pid", "network", "ipc", "uts")
)
"""Without them, Landlock and seccomp stand alone."""

LIBRARIES = frozenset({"landlock", "seccomp"})
"""Without them, the namespaces stand alone."""

FORK_BOMB = """
import os, time
def f(x):
    while True:
        try: os.fork()
        except OSError: pass
"""

PROCESSES_OF_MEMORY = """
import os, time
def f(x):
    for _ in range(6):
        if os.fork() == 0: break
    kept = [os.urandom(1 << 20) for _ in range(60)]
    time.sleep(600)
"""

LEAVES_A_DAEMON = """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    time.sleep(0.3)
    return -1
"""

ALONE = {
    "a fork bomb without seccomp": ({"seccomp"}, FORK_BOMB, "TimeoutError|BlockingIOError"),
    "a fork bomb without limits, too": (
        {"seccomp", "limits"}, FORK_BOMB, "BlockingIOError: the code used more processes",
    ),
    "memory of processes without seccomp": ({"seccomp"}, PROCESSES_OF_MEMORY, "MemoryError"),
    "a daemon without seccomp": ({"seccomp"}, LEAVES_A_DAEMON, ""),
    "a daemon without a PID namespace": (NAMESPACES | {"seccomp"}, LEAVES_A_DAEMON, ""),
    "a file without namespaces": (
        NAMESPACES, "def f(x): return open('@SECRET@').read()", "PermissionError",
    ),
    "writing without namespaces": (
        NAMESPACES, "def f(x): return open('@FOLDER@/left', 'w')", "PermissionError",
    ),
    "processes without namespaces": (
        NAMESPACES, "import os\ndef f(x): return os.listdir('/proc')", "PermissionError",
    ),
    "the package's files without namespaces": (
        NAMESPACES, "import edutorch\ndef f(x): return open(edutorch.__file__, 'a')",
        "PermissionError",
    ),
    "exercises without namespaces": (
        NAMESPACES, "def f(x): return open('@SPECS@').read()", "PermissionError",
    ),
    "signals without namespaces": (
        NAMESPACES, "import os\ndef f(x): return os.kill(@GRADER@, 0)", "PermissionError",
    ),
    "a file without the libraries": (
        LIBRARIES, "def f(x): return open('@SECRET@').read()", "FileNotFoundError",
    ),
    "writing without the libraries": (
        LIBRARIES, "import edutorch\ndef f(x): return open(edutorch.__file__, 'a')",
        "OSError|PermissionError",
    ),
    "TCP without the libraries": (
        LIBRARIES,
        "import socket\ndef f(x): return socket.create_connection(('127.0.0.1', @PORT@), 2)",
        "OSError|ConnectionRefusedError",
    ),
    "abstract sockets without the libraries": (
        LIBRARIES,
        "import socket\ndef f(x): return socket.socket(socket.AF_UNIX).connect('\\0@ABSTRACT@')",
        "ConnectionRefusedError",
    ),
    "signals without the libraries": (
        LIBRARIES, "import os\ndef f(x): return os.kill(@GRADER@, 0)", "ProcessLookupError",
    ),
}  # fmt: skip

QUESTION = "def answer(theirs, x): return theirs.f(x)"
HONEST = "def f(x): return 2 * x"


@pytest.fixture(scope="module")
def factories():
    """Factories by the walls that they lack; those of the same walls are one."""
    made = {}

    def factory(without):
        without = frozenset(without)
        if without not in made:
            made[without] = JailFactory(
                Settings(without=without, fewer_walls=True, memory=128 * MIB, processes=16)
            )
        return made[without]

    yield factory
    for factory in made.values():
        factory.close()


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("others")
    (folder / "answers.txt").write_text("xyzzy-4711")
    from edutorch.classroom import specs

    tcp, abstract = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    name = f"edutorch-walls-{os.getpid()}"
    abstract.bind(f"\0{name}")
    abstract.listen()
    with tcp, abstract:
        yield {
            "@SECRET@": str(folder / "answers.txt"), "@FOLDER@": str(folder),
            "@PORT@": str(tcp.getsockname()[1]), "@ABSTRACT@": name, "@GRADER@": str(os.getpid()),
            "@SPECS@": specs.__path__[0] + "/nb02_backprop_by_hand.py",
        }  # fmt: skip
        assert sorted(os.listdir(folder)) == ["answers.txt"]


@pytest.mark.parametrize("name", ALONE)
def test_the_other_walls_hold(name, factories, targets):
    without, code, stopped = ALONE[name]
    factory = factories(without)
    assert all(factory.walls[wall][0] is False for wall in without)
    for mark, value in targets.items():
        code = code.replace(mark, value)
    with factory.jail([code]) as jail:
        attempt = jail.ask(QUESTION, {"x": 2}, seconds=5.0 if "bomb" in name else 60.0)
    print(f"{name}: {attempt.error[:90] or attempt.value}")
    assert attempt.error if stopped else attempt.value == -1
    assert any(attempt.error.startswith(text) for text in stopped.split("|")), attempt.error
    assert processes_of(factory) == []
    with factory.jail([HONEST]) as jail:
        assert jail.ask(QUESTION, {"x": 2}, seconds=60.0).value == 4


# The grader and the parent of the jails end -------------------------------------------

GRADER = """
import sys, threading, time
from edutorch.classroom.jail import JailFactory, Settings
factory = JailFactory(Settings(seconds=600))
def hang(code):
    with factory.jail([code]) as jail:
        jail.ask("def answer(theirs, x): return theirs.f(x)", {"x": 1})
for code in ("def f(x):\\n    while True: pass", "import time\\ndef f(x): time.sleep(600)"):
    threading.Thread(target=hang, args=(code,), daemon=True).start()
time.sleep(2)
print(factory.process.pid, factory.folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("victim", ["grader", "parent of the jails"])
def test_nothing_outlives_a_killed(victim):
    grader = subprocess.Popen([sys.executable, "-c", GRADER], stdout=subprocess.PIPE, text=True)
    try:
        pid, folder = grader.stdout.readline().split()
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        jails = Watcher(proc, int(pid)).processes()
        os.close(proc)
        assert len(jails) == 3  # the parent, and two jails
        os.kill(grader.pid if victim == "grader" else int(pid), signal.SIGKILL)
        deadline = time.monotonic() + 30
        while any(is_running(pid) for pid in jails) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(is_running(pid) for pid in jails)
    finally:
        grader.kill()
        grader.wait()
        grader.stdout.close()
    assert os.path.exists(folder)  # who was killed could not remove it: the next one does
    JailFactory(Settings()).close()
    assert not os.path.exists(folder)


def is_running(pid):
    """Whether a process is there, and is not only waiting to be reaped."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# Where namespaces are refused ---------------------------------------------------------

REFUSED_CALLS = """
import errno, sys
from seccompy import Action, Filter
rules = Filter(default=Action.ALLOW)
for name in sys.argv[1].split(","):
    rules.errno(name, errno.EPERM if name == "unshare" else errno.EOPNOTSUPP)
rules.load()
from edutorch.classroom.jail import JailFactory, MissingWalls, Settings
settings = Settings(bwrap=sys.argv[2], seconds=120, fewer_walls=len(sys.argv) > 3)
try:
    factory = JailFactory(settings)
except MissingWalls as error:
    print(error)
    sys.exit()
with factory:
    code = "def f(x): return 2 * x\\ndef g(x): return open(x).read()\\n"
    code += "def h(x):\\n    while True: pass"
    with factory.jail([code]) as jail:
        print(jail.ask("def answer(theirs, x): return theirs.f(x)", {"x": 2}).value)
        print(jail.ask("def answer(theirs, x): return theirs.g(x)", {"x": "@SECRET@"}).error)
        print(jail.ask("def answer(theirs, x): return theirs.h(x)", {"x": 2}, seconds=9).error)
    print([name for name, (stands, _) in factory.walls.items() if stands is False])
"""


UNSHARE, LANDLOCK = "unshare", "landlock_create_ruleset"


def run_without(calls, path, *arguments, program=REFUSED_CALLS):
    """Run a grader whose system calls are refused, and return what it prints."""
    code = program.replace("@SECRET@", str(path))
    command = [sys.executable, "-c", code, ",".join(calls), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


REASONS = {
    UNSHARE: ("pid-namespace", "unshare: Operation not permitted"),
    LANDLOCK: ("landlock", "the kernel has no Landlock"),
}
MISSING = {
    "namespaces": [UNSHARE], "Landlock": [LANDLOCK],
    "namespaces and Landlock": [UNSHARE, LANDLOCK],
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_without_a_wall_it_refuses_and_says_why(name, tmp_path):
    text = run_without(MISSING[name], tmp_path, "/nonexistent")
    print(text)
    assert "walls around the students' code are missing" in text
    for call in MISSING[name]:
        assert all(words in text for words in REASONS[call])
    assert "grade on another machine, or with --walls=fewer" in text


def test_without_namespaces_fewer_walls_are_allowed_to_stand(tmp_path):
    (tmp_path / "secret").write_text("xyzzy")
    lines = run_without([UNSHARE], tmp_path / "secret", "/nonexistent", "fewer").splitlines()
    assert lines[0] == "4" and lines[1].startswith("PermissionError")
    assert lines[2].startswith("TimeoutError")
    assert "pid namespace" in lines[3]


@pytest.mark.skipif(not find_bwrap(Settings()), reason="bwrap is not installed")
@pytest.mark.parametrize("name", MISSING)
def test_with_bwrap_it_goes_on(name, tmp_path):
    (tmp_path / "secret").write_text("xyzzy")
    lines = run_without(MISSING[name], tmp_path / "secret", "").splitlines()
    print(lines)
    assert lines[0] == "4" and lines[1].startswith("FileNotFoundError")
    assert lines[2].startswith("TimeoutError")
    assert lines[3] == "[]"
