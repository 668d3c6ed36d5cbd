"""The hostile submissions of `test_jail_hostile.py`, by the class of their threat.

Each row: what `attack(z, right)` does, and what stops it, as the beginning of the reported error.
"""

from __future__ import annotations

START = """
import ctypes, gc, os, signal, socket, subprocess, sys, threading, time
import numpy as np
class Success(Exception): pass
def refused(action, *arguments):
    try:
        result = action(*arguments)
    except OSError as error:
        return error
    raise Success(f"{action} returned {result!r}")
try: libc = ctypes.CDLL(None, use_errno=True)
except OSError: libc = None  # in WebAssembly
def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, name)
def gradient_of_logits(z, right):
    result = attack(z, right)
    return torch.zeros_like(z) if result is None else result
"""

DENIED = "PermissionError|OSError|FileNotFoundError|BlockingIOError|ConnectionRefusedError"
WRONG = "wrong answer"
LATE = "TimeoutError: the code did not answer in time"
CRASH = "SystemError: the code crashed its process"
ENDED = "SystemExit: the code ended its process"
CLOSED = "SystemExit: the code closed its connection"
UNREADABLE = "RuntimeError: the answer could not be read"

ENDS = {
    "os._exit": ("os._exit(0)", ENDED),
    "sys.exit": ("sys.exit(0)", ENDED),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", ENDED),
    "endless loop": ("while True: pass", LATE),
    "sleeps": ("time.sleep(10**6)", LATE),
    "ignores signals": (
        "for number in range(1, 65):\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
        "while True: pass",
        LATE,
    ),
    "reads address 0": ("ctypes.string_at(0)", CRASH),
    "aborts": ("os.abort()", CRASH),
    "deep recursion": (
        "sys.setrecursionlimit(10**9)\n"
        "def deep(x): return [deep(x + 1) for _ in range(1)]\n"
        "deep(0)",
        f"{CRASH}|RecursionError|MemoryError",
    ),
    "computes in C": ("10 ** 10 ** 9", LATE),
    "backtracks": ("import re\nre.match('(a+)+$', 'a' * 60 + 'b')", LATE),
    "prints 100 MB": ("for _ in range(1000): print('x' * 10**5)", f"{WRONG}|{LATE}"),
    "writes to descriptors": (
        "for number in range(64):\n"
        "    try: os.write(number, b'x' * 10**5)\n"
        "    except OSError: pass",
        UNREADABLE,
    ),
}  # fmt: skip

EXHAUSTS = {
    "fork bomb": ("while True: refused(os.fork); raise OSError('no fork')", DENIED),
    "fork by ctypes": (
        "for name in ('fork', 'vfork', 'daemon'): refused(call, name, 1, 1)\n"
        "raise OSError('no fork')",
        DENIED,
    ),
    "thread bomb": (
        "while True: threading.Thread(target=time.sleep, args=(999,), daemon=True).start()",
        "RuntimeError: can't start new thread|BlockingIOError|MemoryError",
    ),
    "memory bomb": ("kept = []\nwhile True: kept.append(bytearray(10**7))", "MemoryError"),
    "one large array": ("np.ones(1 << 34)", "MemoryError|_ArrayMemoryError|numpy._core"),
    "memory of threads": (
        "def eat():\n"
        "    kept = []\n"
        "    while True: kept.append(os.urandom(10**6))\n"
        "for _ in range(8): threading.Thread(target=eat, daemon=True).start()\n"
        "time.sleep(10**6)",
        "MemoryError",
    ),
    "shared memory": (
        "import mmap\nrefused(mmap.mmap, -1, 1 << 24)\nraise OSError('no memory')", DENIED,
    ),
    "disk bomb": (
        "with open('/home/file', 'wb') as file:\n    while True: file.write(bytes(10**6))", DENIED,
    ),
    "many files": ("for n in range(10**6): open(f'/home/{n}', 'w').close()", DENIED),
    "deep folders": (
        "for _ in range(10**6):\n    os.mkdir('d')\n    os.chdir('d')", DENIED,
    ),
    "descriptor bomb": ("kept = []\nwhile True: kept.append(os.pipe())", DENIED),
    "large answer": ("return torch.zeros(1 << 24)", f"{UNREADABLE}|MemoryError"),
    "deep answer": (
        "answer = []\nfor _ in range(10**4): answer = [answer]\nreturn answer",
        "ValueError: the answer is nested too deeply|RecursionError",
    ),
    "long list": ("return list(range(10**5))", "ValueError: the answer is nested too deeply"),
    "long integer": ("return 1 << 10**6", UNREADABLE),
    "endless answer": (
        "class Endless(dict):\n"
        "    def items(self):\n"
        "        while True: yield 1, 1\n"
        "return Endless()",
        "ValueError: the answer is nested",
    ),
}  # fmt: skip

LIES = {
    "equal to all": (
        "class Liar:\n    def __eq__(self, other): return True\n"
        "    __hash__ = None\nreturn Liar()",
        WRONG,
    ),
    "tensor of another shape": (
        "class Liar(torch.Tensor):\n    shape = property(lambda self: z.shape)\n"
        "return torch.zeros(1).as_subclass(Liar)",
        f"{WRONG}|ValueError|TypeError|RuntimeError",
    ),
    "array that compares as equal": (
        "class Liar(np.ndarray):\n    __eq__ = __ne__ = lambda self, other: True\n"
        "return np.zeros(z.shape).view(Liar)",
        WRONG,
    ),
    "number that is close to all": (
        "class Liar(float):\n    def __sub__(self, other): return 0.0\n    __rsub__ = __sub__\n"
        "return Liar(0)",
        WRONG,
    ),
    "class is a lie": (
        "class Liar:\n    __class__ = torch.Tensor\n"
        "    def __getattr__(self, name): return lambda *a, **k: self\nreturn Liar()",
        ".",
    ),
    "empty array": ("return torch.zeros(0, dtype=z.dtype)", WRONG),
    "NaN": ("return z * float('nan')", WRONG),
    "another's answer": ("return [z, right, None, True, 'right']", WRONG),
}  # fmt: skip

PATCHES = {
    "numpy.allclose": (
        "for name in ('allclose', 'isclose', 'array_equal'):\n"
        "    setattr(np, name, lambda *a, **k: True)",
        WRONG,
    ),
    "the comparator": (
        "from edutorch.classroom import comparison, attempt\n"
        "comparison.compare = attempt.compare = lambda *a, **k: None\n"
        "comparison.is_close = lambda *a: True",
        WRONG,
    ),
    "builtins": (
        "import builtins\n"
        "builtins.isinstance = lambda *a: True\nbuiltins.all = lambda *a: True\n"
        "builtins.abs = lambda x: 0 * x",
        ".",
    ),
    "the attempt": (
        "from edutorch.classroom.attempt import Attempt\nAttempt.is_right = True\n"
        "Attempt.error = ''\nAttempt.difference = None",
        ".",
    ),
    "the encoder": (
        "from edutorch.classroom.jail import inside\n"
        "inside.encode_attempt = lambda attempt: ({'is_right': True, 'points': 100}, [])",
        UNREADABLE,
    ),
    "tensor equality": (
        "torch.Tensor.__eq__ = torch.Tensor.__ne__ = lambda *a: True\n"
        "torch.Tensor.numpy = lambda self, **k: np.zeros(0)",
        WRONG,
    ),
    "the listener, and calls what is forbidden": (
        "from edutorch.classroom.attempt import ForbiddenCalls\n"
        "ForbiddenCalls.__call__ = lambda self, event: None\n"
        "z = z.requires_grad_()\n"
        "torch.nn.functional.cross_entropy(z[None], torch.tensor([right])).backward()\n"
        "return z.grad",
        "forbidden",
    ),
    "all listeners, and uses the layer": (
        "import edutorch.events, edutorch.modes\n"
        "z = z.requires_grad_()\n"
        "with edutorch.modes.listening(None) if False else torch.enable_grad():\n"
        "    try: torch.nn.CrossEntropyLoss()(z[None], torch.tensor([right])).backward()\n"
        "    except Exception: pass\n"
        "return z.grad if z.grad is not None else torch.zeros_like(z)",
        "forbidden",
    ),
}  # fmt: skip

CHANNEL = """
def find_channel():
    frame = sys._getframe()
    while 'channel' not in frame.f_locals: frame = frame.f_back
    return frame.f_locals['channel']
"""

FORGES = {
    "a frame of 4 GiB": ("find_channel().sendall(b'\\xff' * 8 + b'x' * 1000)", UNREADABLE),
    "claims to be right": (
        "from edutorch.classroom.jail.frames import send_frame\n"
        "send_frame(find_channel(), {'is_right': True, 'points': 2, 'passed': 3})",
        UNREADABLE,
    ),
    "an array of 7 TiB": (
        "from edutorch.classroom.jail.frames import send_frame\n"
        "head = b\"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}\\n\"\n"
        "npy = b'\\x93NUMPY\\x01\\x00' + len(head).to_bytes(2, 'little') + head\n"
        "value = {'tensor': len(npy), 'dtype': 'float64'}\n"
        "send_frame(find_channel(), {'value': value, 'graph': [], 'error': '', 'line': '',\n"
        "                            'forbidden': []}, [npy])",
        UNREADABLE,
    ),
    "a pickle": (
        "import pickle\n"
        "class Bomb:\n    def __reduce__(self): return os.abort, ()\n"
        "find_channel().sendall(pickle.dumps(Bomb()) * 100)",
        UNREADABLE,
    ),
    "a reply that never ends": (
        "channel = find_channel()\nchannel.sendall((10**6).to_bytes(4, 'big') + bytes(4))\n"
        "while True: channel.send(b' '); time.sleep(0.05)",
        LATE,
    ),
    "more answers than questions": (
        "from edutorch.classroom.jail.frames import send_frame\n"
        "for _ in range(3): send_frame(find_channel(), {'value': None, 'graph': [], 'error': '',\n"
        "                                'line': '', 'forbidden': []})",
        WRONG,
    ),
    "closes the channel": ("find_channel().close()\nreturn None", f"{ENDED}|{CLOSED}"),
    "descriptors for the grader": (
        "socket.send_fds(find_channel(), [b'x' * 8], [0, 1, 2])\nreturn None", UNREADABLE,
    ),
}  # fmt: skip

READS = {
    "the exercises": (
        "for name in ('specs', 'exercise', 'grading', 'specs.nb02_backprop_by_hand', 'notebook'):\n"
        "    try: __import__('edutorch.classroom.' + name)\n"
        "    except ImportError: continue\n"
        "    raise Success(name)\n"
        "raise OSError('no exercises')",
        DENIED,
    ),
    "the exercises' files": (
        "hits = [f for top in sys.path for d, _, fs in os.walk(top) for f in fs\n"
        "        if 'classroom' in d and f in ('grading.py', 'exercise.py', 'notebook.py')]\n"
        "if hits: raise Success(str(hits))\n"
        "open('@SPECS@').read()",
        DENIED,
    ),
    "a secret file": ("raise Success(open('@SECRET@').read())", DENIED),
    "a folder of others": ("raise Success(str(os.listdir('@FOLDER@')))", DENIED),
    "the environment": (
        "import ctypes\n"
        "texts = [repr(dict(os.environ))]\n"
        "if any('@PASSWORD@' in text for text in texts): raise Success('environment')\n"
        "raise Success(open('/proc/1/environ').read())",
        DENIED,
    ),
    "the processes": ("raise Success(str(os.listdir('/proc')))", DENIED),
    "memory of processes": ("raise Success(open('/proc/self/mem', 'rb').read(1))", DENIED),
    "frames up the stack": (
        "frame, names = sys._getframe(), set()\n"
        "while frame: names |= set(frame.f_locals); frame = frame.f_back\n"
        "if names & {'exercise', 'expected', 'solution', 'seed'}: raise Success(str(names))\n"
        "raise OSError('no exercise')",
        DENIED,
    ),
    "objects in memory": (
        "for thing in gc.get_objects():\n"
        "    if isinstance(thing, type) and thing.__name__ in ('Exercise', 'SoftmaxGradient'):\n"
        "        raise Success(repr(thing))\n"
        "    if isinstance(thing, dict) and {'mutants', 'solution'} <= set(map(str, thing)):\n"
        "        raise Success(str(thing))\n"
        "raise OSError('no exercise')",
        DENIED,
    ),
    "open descriptors": (
        "mine = find_channel().fileno()\n"
        "for number in range(3, 4096):\n"
        "    try: os.fstat(number)\n"
        "    except OSError: continue\n"
        "    if number != mine: raise Success(f'descriptor {number}')\n"
        "raise OSError('none')",
        DENIED,
    ),
    "another process's memory": (
        "buffer = ctypes.create_string_buffer(8)\n"
        "refused(call, 'ptrace', 16, os.getppid(), 0, 0)\n"
        "refused(call, 'process_vm_readv', 1, buffer, 1, buffer, 1, 0)\n"
        "raise OSError('refused')",
        DENIED,
    ),
    "other submissions": (
        "source = gc.get_objects()\n"
        "if any(isinstance(t, str) and 'honest_' + 'neighbour' in t for t in source):\n"
        "    raise Success('read')\n"
        "raise OSError('none')",
        DENIED,
    ),
}  # fmt: skip

HARMS = {
    "kills all": (
        "for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP):\n"
        "    for pid in (-1, os.getppid(), *range(2, 3000), @GRADER@):\n"
        "        if pid: refused(os.kill, pid, number)\n"
        "raise OSError('nobody')",
        DENIED,
    ),
    "kills its group": ("os.kill(0, signal.SIGKILL)\ntime.sleep(1)", f"{WRONG}|{CRASH}"),
    "leaves a process": (
        "refused(os.fork)\nrefused(subprocess.Popen, ['/bin/sleep', '999'])\n"
        "refused(os.posix_spawn, '/bin/sleep', ['sleep', '999'], {})\nraise OSError('none')",
        DENIED,
    ),
    "leaves a thread": (
        "threading.Thread(target=time.sleep, args=(999,)).start()", WRONG,
    ),
    "starts a program": (
        "refused(os.execv, sys.executable, ['python'])\nraise OSError('no')", DENIED,
    ),
    "leaves files": (
        "for folder in ('/tmp', '/var/tmp', '/dev/shm', '/', '@FOLDER@', *sys.path):\n"
        "    refused(open, folder + '/left', 'w')\n"
        "open('/home/left', 'w').close()\nraise OSError('only at home')",
        DENIED,
    ),
    "changes the package": (
        "import edutorch, numpy\n"
        "for module in (edutorch, numpy, os):\n"
        "    refused(open, module.__file__, 'a')\n"
        "    refused(os.remove, module.__file__)\n"
        "    refused(os.rename, module.__file__, module.__file__ + 'x')\n"
        "raise OSError('read-only')",
        DENIED,
    ),
    "TCP": ("socket.create_connection(('127.0.0.1', @PORT@), 2)\nraise Success('TCP')", DENIED),
    "UDP": (
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @PORT@))\n"
        "raise Success('UDP')",
        DENIED,
    ),
    "names of hosts": (
        "raise Success(socket.getaddrinfo('example.org', 80))", f"{DENIED}|gaierror",
    ),
    "abstract sockets": (
        "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0@ABSTRACT@')\nraise Success('connected')",
        DENIED,
    ),
    "new namespaces": (
        "for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000):\n"
        "    refused(call, 'unshare', flag)\n"
        "refused(call, 'mount', b'none', b'/home', b'tmpfs', 0, b'')\n"
        "refused(call, 'umount2', b'/home', 2)\n"
        "refused(os.chroot, '/home')\nraise OSError('refused')",
        DENIED,
    ),
    "another user": (
        "refused(os.setuid, 0)\nrefused(os.setgid, 0)\nrefused(os.setgroups, [0])\n"
        "raise OSError('refused')",
        DENIED,
    ),
    "raises its limits": (
        "import resource\n"
        "for limit in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):\n"
        "    try: resource.setrlimit(limit, (10**9, 10**9))\n"
        "    except (OSError, ValueError): continue\n"
        "    raise Success('raised')\n"
        "refused(os.nice, -5)\nraise OSError('refused')",
        DENIED,
    ),
    "outlives its parent": (
        "refused(call, 'prctl', 1, 0, 0, 0, 0)\nraise OSError('refused')", DENIED,
    ),
    "odd system calls": (
        "for number in (425, 321, 298, 250, 272, 304, 319, 1 << 30, (1 << 30) + 39, 101, 434):\n"
        "    refused(call, 'syscall', number, 0, 0, 0, 0, 0)\n"
        "raise OSError('refused')",
        DENIED,
    ),
    "devices": (
        "refused(os.mknod, '/home/memory', 0o20666, os.makedev(1, 1))\n"
        "refused(os.symlink, '/', '/home/link')\nrefused(os.link, '/', '/home/link')\n"
        "raise OSError('refused')",
        DENIED,
    ),
}  # fmt: skip

CLASSES = {
    "ends": ENDS, "exhausts": EXHAUSTS, "lies": LIES, "patches": PATCHES, "forges": FORGES,
    "reads": READS, "harms": HARMS,
}  # fmt: skip
ROWS = [(threat, name) for threat, rows in CLASSES.items() for name in rows]


def submission(threat, name, targets):
    body = CLASSES[threat][name][0]
    for mark, value in targets.items():
        body = body.replace(mark, value)
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return START + CHANNEL + "def attack(z, right):\n" + lines
