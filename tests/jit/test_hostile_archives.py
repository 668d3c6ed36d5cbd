"""Archives that want to do more than compute are refused with one type of error."""

import io
import os
import pickle
import struct
import time
import zipfile

import pytest

import edutorch as torch
from edutorch.jit import ArchiveError

MODULE = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
"""
DATA = b"\x80\x02c__torch__\nM\n)\x81}(X\x08\x00\x00\x00training\x88ub."
EMPTY = b"\x80\x02)."
MARKER = "edutorch_was_here"


def archive(code=None, forward=None, members=None, packed=zipfile.ZIP_STORED, **files):
    """Return an archive of one module with this forward method, or with this code."""
    if forward is not None:
        code = (
            MODULE
            + "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n"
            + "".join(f"    {line}\n" for line in forward.splitlines())
        )
    content = {
        "a/data.pkl": DATA, "a/constants.pkl": EMPTY, "a/version": b"3\n",
        "a/code/__torch__.py": (code or MODULE).encode(),
    }  # fmt: skip
    content |= {f"a/{name.replace('__', '.')}": data for name, data in files.items()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packed) as result:
        for name, data in {**content, **(members or {})}.items():
            result.writestr(name, data)
    return file.getvalue()


class Reduces:
    def __reduce__(self):
        return os.system, (f"touch {MARKER}",)


def header_lies():
    """Return an archive whose code claims to be smaller than it is."""
    data = bytearray(archive(MODULE + "  # " + "x" * 5000 + "\n", packed=zipfile.ZIP_DEFLATED))
    for sign, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        name = data.index(b"a/code/__torch__.py", data.index(sign)) if sign in data else 0
        start = data.rindex(sign, 0, name)
        data[start + offset : start + offset + 4] = struct.pack("<I", 40)
    return bytes(data)


RECURSION = """
def f(x: Tensor) -> Tensor:
  return __torch__.g(x)
def g(x: Tensor) -> Tensor:
  return __torch__.f(x)
"""
TOUCH = f'os.system("touch {MARKER}")'
LAMBDA_PICKLE = b"\x80\x02cbuiltins\neval\n(X\x05\x00\x00\x001 + 1tR."
GETATTR_PICKLE = b"\x80\x02cbuiltins\ngetattr\n(c__torch__\nM\nX\x09\x00\x00\x00__class__tR."
UNKNOWN_ATTRIBUTE = DATA.replace(b"X\x08\x00\x00\x00training", b"X\x09\x00\x00\x00__class__")

HOSTILE = {
    "imports": lambda: archive(forward="import os\nreturn x"),
    "imports at the top": lambda: archive("import os\n" + MODULE),
    "calls __import__": lambda: archive(forward='__import__("os")\nreturn x'),
    "opens a file": lambda: archive(forward=f'open("{MARKER}", "w")\nreturn x'),
    "evaluates": lambda: archive(forward='eval("1")\nreturn x'),
    "executes": lambda: archive(forward='exec("import os")\nreturn x'),
    "uses os": lambda: archive(forward=f"{TOUCH}\nreturn x"),
    "reads __class__": lambda: archive(forward="y = x.__class__\nreturn x"),
    "gets __class__": lambda: archive(forward='y = getattr(x, "__class__")\nreturn x'),
    "calls __subclasses__": lambda: archive(forward="y = (x).__subclasses__()\nreturn x"),
    "formats an attribute": lambda: archive(forward='y = f"{x.__class__}"\nreturn x'),
    "loads a file": lambda: archive(forward='y = torch.load("other.pt")\nreturn x'),
    "loads a library": lambda: archive(forward='ops.load_library("a.so")\nreturn x'),
    "calls an unknown operator": lambda: archive(forward="return ops.mine.steal(x)"),
    "has a lambda": lambda: archive(forward="f = lambda y: y\nreturn x"),
    "has a decorator": lambda: archive(RECURSION.replace("def f", "@print\ndef f") + MODULE),
    "recurses": lambda: archive(RECURSION + MODULE),
    "recurses as a method": lambda: archive(forward="return (self).forward(x, )"),
    "nests without end": lambda: archive(forward=f"return {'(' * 5000}x{')' * 5000}"),
    "nests minus signs": lambda: archive(forward=f"return {'-' * 200_000}x"),
    "runs code in a default": lambda: archive(
        MODULE + f"  def forward(self: __torch__.M, x: Tensor={TOUCH}) -> Tensor:\n    return x\n"
    ),
    "runs code in a constant": lambda: archive(MODULE + f"  k : Final[int] = {TOUCH}\n"),
    "runs code in a type": lambda: archive(MODULE + f"  k : {TOUCH}\n"),
    "derives from a class": lambda: archive(MODULE.replace("(Module)", "(torch.nn.Module)")),
    "pickle with reduce": lambda: archive(data__pkl=pickle.dumps(Reduces(), 2)),
    "constants with reduce": lambda: archive(constants__pkl=pickle.dumps((Reduces(),), 2)),
    "pickle that evaluates": lambda: archive(data__pkl=LAMBDA_PICKLE),
    "pickle that gets attributes": lambda: archive(data__pkl=GETATTR_PICKLE),
    "pickle that sets __class__": lambda: archive(data__pkl=UNKNOWN_ATTRIBUTE),
    "pickle without an end": lambda: archive(data__pkl=b"\x80\x02" + b"(" * 1000),
    "pickle of another class": lambda: archive(data__pkl=DATA.replace(b"M\n", b"N\n")),
    "member above the folder": lambda: archive(members={f"a/../../{MARKER}": b"x"}),
    "absolute member": lambda: archive(members={f"/tmp/{MARKER}": b"x"}),
    "member with a drive": lambda: archive(members={f"C:\\{MARKER}": b"x"}),
    "zip bomb": lambda: archive(
        members={"a/code/__torch__/big.py": b"#" * (64 * 2**20)}, packed=zipfile.ZIP_DEFLATED
    ),
    "header lies": header_lies,
    "cut short": lambda: archive(forward="return x")[:-100],
    "not a zip": lambda: b"\x80\x02." + b"x" * 100,
    "no text": lambda: archive(members={"a/code/__torch__/b.py": b"\xff\xfe\x00"}),
}  # fmt: skip


def test_the_harmless_archive_is_loaded():
    module = torch.jit.load(io.BytesIO(archive(forward="return torch.add(x, 1)")))
    assert module(torch.ones(2)).tolist() == [2, 2] and module.training


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = time.perf_counter()
    with pytest.raises(ArchiveError):
        torch.jit.load(io.BytesIO(HOSTILE[name]()))
    assert os.listdir(tmp_path) == [] and time.perf_counter() - start < 20


def test_what_hides_from_the_check_ends_when_it_runs():
    code = MODULE + (
        "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n"
        "    pair = (self, 1)\n    return ((pair)[0]).forward(x, )\n"
    )
    module = torch.jit.load(io.BytesIO(archive(code)))
    with pytest.raises(ArchiveError, match="calls inside of each other"):
        module(torch.ones(1))


def test_huge_numbers_and_lists_are_not_made():
    for line in ("y = 10 ** (10 ** 9)", "y = [0] * (10 ** 12)", "y = 1 << (10 ** 9)",
                 "for i in range(10 ** 12):\n  pass"):  # fmt: skip
        module = torch.jit.load(io.BytesIO(archive(forward=f"{line}\nreturn x")))
        start = time.perf_counter()
        if "**" in line and "range" not in line and "[" not in line and "<<" not in line:
            module(torch.ones(1))  # of 64 bits
        else:
            with pytest.raises(torch.jit.Error):
                module(torch.ones(1))
        assert time.perf_counter() - start < 5


def test_a_program_cannot_leave_gradients_switched_off():
    module = torch.jit.load(
        io.BytesIO(archive(forward="torch.set_grad_enabled(False)\nreturn torch.mul(x, 2)"))
    )
    module(torch.ones(1))
    assert torch.is_grad_enabled()
