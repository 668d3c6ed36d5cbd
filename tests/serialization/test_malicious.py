"""Malicious pickles: none of them runs code, hangs, or exhausts memory."""

from __future__ import annotations

import builtins
import functools
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import pytest

import edutorch
from edutorch.serialization import CheckpointError, RefusedError, torch_file, unpickle

HARM = "touch harm-was-done"
assert unpickle  # imported here: an import while a file is loaded is reported


class Calls:
    """Pickles to a call of anything."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def dumped(value, protocol=2):
    return pickle.dumps(value, protocol)


def g(module, name):
    return f"c{module}\n{name}\n".encode()


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


SHELL = g("posix", "system") + text(HARM) + b"\x85R"
SIMPLE = {
    "os.system": dumped(Calls(os.system, (HARM,))),
    "protocol 0": dumped(Calls(os.system, (HARM,)), 0),
    "protocol 4": dumped(Calls(os.system, (HARM,)), 4),
    "protocol 5": dumped(Calls(os.system, (HARM,)), 5),
    "eval": dumped(Calls(eval, ("__import__('os').system('touch harm-was-done')",))),
    "exec": dumped(Calls(exec, ("raise SystemExit",))),
    "import": dumped(Calls(builtins.__import__, ("antigravity",))),
    "getattr": g("builtins", "getattr") + g("posix", "system") + text("__call__") + b"\x86R.",
    "getattr of what is allowed": (
        g("builtins", "getattr") + g("collections", "OrderedDict") + text("__init_subclass__")
        + b"\x86R" + b"."
    ),
    "popen": dumped(Calls(subprocess.Popen, (["touch", "harm-was-done"],))),
    "partial": g("functools", "partial") + g("posix", "system") + text(HARM) + b"\x86R)R.",
    "a real partial": dumped(functools.partial(os.system, HARM)),
    "codecs": g("_codecs", "decode") + text(HARM) + text("rot13") + b"\x86R.",
    "another codec": g("_codecs", "encode") + text(HARM) + text("zlib") + b"\x86R.",
    "nested": b"]" + b"(" + b"}" + text("x") + SHELL + b"s" + b"e.",
    "as a key": b"}" + SHELL + b"Ns.",
    "twice": SHELL + b"0" + SHELL + b".",
    "a factory": g("collections", "defaultdict") + g("posix", "system") + b"\x85R.",
    "a factory that was called": g("collections", "defaultdict") + SHELL + b"\x85R.",
    "numpy's object arrays": g("numpy", "dtype") + text("O8") + b"\x85R.",
    "numpy.load": g("numpy", "load") + text("/etc/passwd") + b"\x85R.",
    "numpy's runstring": g("numpy.testing._private.utils", "runstring") + text("1") + b"}\x86R.",
    "torch's own loader": g("torch", "load") + text("x.pt") + b"\x85R.",
    "a dotted name": b"\x80\x04" + b"\x8c\x05torch\x8c\x10serialization.os\x93.",
    "a module": g("sys", "modules") + b".", "instance": b"(" + text(HARM) + b"iposix\nsystem\n.",
    "object": b"(" + g("posix", "system") + text(HARM) + b"o.",
    "build": g("posix", "system") + b"}" + text("x") + b"Nsb.",
    "torch.hub": g("torch.hub", "load") + text("x") + b"\x85R.",
    "pickle in a pickle": g("_pickle", "loads") + b"U\x02N." + b"\x85R.",
    "a new object": g("subprocess", "Popen") + text(HARM) + b"\x85\x81.",
    "a new object with names": b"\x80\x04" + g("subprocess", "Popen") + b")}\x92.",
}  # fmt: skip
ODD = {
    "a name of numbers": b"\x80\x04K\x01K\x02\x93.", "a name of lists": b"\x80\x04]]\x93.",
    "extension 1": b"\x82\x01.", "extension 2": b"\x83\x01\x00.", "extension 4": b"\x84\x01\0\0\0.",
    "a reference in text": b"Pstorage\n.", "a reference that is a list": b"]Q.",
    "a reference that is empty": b")Q.", "a reference that is a number": b"K\x01Q.",
    "a reference of one": text("storage") + b"\x85Q.",
    "a reference to lists": b"(" + text("storage") + b"]]]]tQ.",
    "a storage of no type": b"(" + text("storage") + b"N" + text("0") + text("cpu") + b"K\x04tQ.",
    "a storage of minus": b"(" + text("storage") + g("torch", "FloatStorage") + text("0")
    + text("cpu") + b"J\xff\xff\xff\xfftQ.",
    "a storage of exabytes": b"(" + text("storage") + g("torch", "FloatStorage") + text("0")
    + text("cpu") + b"\x8a\x08" + b"\xff" * 7 + b"\x0ftQ.",
    "a storage elsewhere": b"(" + text("storage") + g("torch", "FloatStorage") + text("../x")
    + text("cpu") + b"K\x01tQ.",
    "call of a text": text("x") + b")R.", "call with a list": g("torch", "Size") + b"]R.",
    "call of a storage": g("torch", "FloatStorage") + b")R.",
    "call of a dtype": g("torch", "float32") + b")R.",
    "items of a text": text("x") + b"NNs.", "append to a tuple": b")Na.",
    "add to a list": b"](N\x90.",
    "half an item": b"}(Nu.", "a state of a list": b"]}b.", "a state of a dict": b"}}b.",
    "slots of a dict": g("collections", "OrderedDict") + b")R}}" + text("items") + b"Ns\x86b.",
    "methods of a dict": g("collections", "OrderedDict") + b")R}" + text("__class__") + b"Nsb.",
    "a list as a key": b"}]Ns.", "a tensor's method": g("torch", "Tensor") + b")R.",
    "sizes of text": g("torch", "Size") + b"]" + text("x") + b"a\x85R.",
    "sizes of minus": g("torch", "Size") + b"]J\xff\xff\xff\xffa\x85R.",
    "an OrderedDict of a text": g("collections", "OrderedDict") + text("ab") + b"\x85R.",
    "a default by a function": g("collections", "defaultdict")
    + g("torch._utils", "_rebuild_tensor_v2") + b"\x85R.",
    "a default by a number": g("collections", "defaultdict") + b"K\x01\x85R.",
    "a Counter of a dict of dicts": g("collections", "Counter") + b"]]a\x85R.",
    "a device of numbers": g("torch", "device") + b"K\x01\x85R.",
    "a tensor of nothing": g("torch._utils", "_rebuild_tensor_v2") + b")R.",
    "a tensor of texts": g("torch._utils", "_rebuild_tensor_v2") + b"(" + text("x") * 7 + b"tR.",
    "a parameter of nothing": g("torch.nn.parameter", "Parameter") + b"N\x85R.",
    "a subclass by system": g("torch._tensor", "_rebuild_from_type_v2")
    + b"(" + g("torch", "Size") + g("torch", "Tensor") + b")NtR.",
    "an array too large": g("numpy.core.multiarray", "_reconstruct") + g("numpy", "ndarray")
    + b"K\0\x85C\x01b\x87R(K\x01\x8a\x05\0\0\0\0\x10\x85" + g("numpy", "dtype") + text("f8")
    + b"\x85R\x89C\x08" + bytes(8) + b"tb.",
    "an array of texts": g("numpy.core.multiarray", "_reconstruct") + text("x") + b")N\x87R.",
    "a number cut short": g("numpy.core.multiarray", "scalar") + g("numpy", "dtype") + text("f8")
    + b"\x85RC\x01x\x86R.",
    "a number of a bytearray": g("numpy.core.multiarray", "scalar") + g("numpy", "dtype")
    + text("f8") + b"\x85R\x96\x08" + bytes(7) + b"abcdefgh" + b"\x86R.",
    "a dtype with fields": g("numpy", "dtype") + text("f8") + b"\x85R(K\x03" + text("|")
    + b"N)}J\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb.",
    "memo of nobody": b"h\x05.", "memo far away": b"Nr\xff\xff\xff\x7f0j\xff\xff\xff\x6f.",
    "marks only": b"((((.", "nothing": b".", "two results": b"NN.", "no end": b"N", "empty": b"",
    "pop of nothing": b"0.", "text of terabytes": b"\x80\x04\x8d" + b"\xff" * 6 + b"\0\0x.",
    "bytes of terabytes": b"\x80\x04\x8e" + b"\0" * 5 + b"\xff\0\0x.",
    "bytearray of terabytes": b"\x80\x05\x96" + b"\0" * 5 + b"\xff\0\0x.",
    "a long of gigabytes": b"\x8b\xff\xff\xff\x7fx.", "a negative long": b"\x8b\xff\xff\xff\xff.",
    "a long text": b"L" + b"9" * 100_000 + b"L\n.", "a frame of exabytes": b"\x80\x04\x95"
    + b"\xff" * 7 + b"\x7f]\x94h\x01.", "buffers": b"\x80\x05\x97.", "read-only": b"\x80\x05\x98.",
    "a deep list": b"]" * 50_000 + b"a" * 49_999 + b".",
    "a deep chain": b"]" + b"\x85" * 50_000 + b".",
    "a tuple that takes forever to hash": b"}N" + b"\x85q\0h\0\x86" * 60 + b"Ns.",
    "copies of copies": b"(" + b"N" * 20_000 + b"l" + b"q\0" + b"0" + b"("
    + (g("builtins", "list") + b"h\0\x85R") * 2000 + b"l.",
}  # fmt: skip


def zipped(program, content=bytes(16)):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", program)
        archive.writestr("x/byteorder", sys.byteorder)
        archive.writestr("x/data/0", content)
    return file.getvalue()


def older(program):
    head = [dumped(torch_file.MAGIC), dumped(1001), dumped({"little_endian": True})]
    count = 16 if BYTES in program else 4
    return b"".join(head) + program + dumped(["0"]) + struct.pack("<q", count) + bytes(16)


DANGEROUS = ("os.system", "subprocess.Popen", "exec", "compile", "import", "pickle.find_class",
             "os.exec", "os.posix_spawn", "ctypes.dlopen", "socket.connect", "open")  # fmt: skip
seen: list[str] = []
watching: list[bool] = []


def watch(name, args):
    if watching and name in DANGEROUS:
        seen.append(f"{name}{args}"[:100])


sys.addaudithook(watch)
for codec in ("raw_unicode_escape", "cp437"):  # loaded at first use: old texts, names in archives
    "load it now".encode(codec)


def load(data, **settings):
    """Load, and fail if Python reports a call that could do harm, or an import."""
    seen.clear()
    watching.append(True)
    try:
        return edutorch.load(io.BytesIO(data), **settings)
    finally:
        watching.clear()
        assert not seen


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", [zipped, older])
@pytest.mark.parametrize("name", SIMPLE)
def test_harm_is_refused_by_name(name, form):
    with pytest.raises(CheckpointError) as refused:
        load(form(SIMPLE[name]), weights_only=True)
    if name not in NOT_BY_NAME:
        assert isinstance(refused.value, RefusedError | pickle.UnpicklingError)
        assert "refused  = " in str(refused.value)


@pytest.mark.parametrize("form", [zipped, older])
@pytest.mark.parametrize("name", [
    "os.system", "protocol 0", "protocol 5", "eval", "exec", "import", "popen", "a real partial",
    "nested", "build", "a new object", "pickle in a pickle", "a module",
])  # fmt: skip
def test_the_commonest_harm_is_refused_also_from_files_that_are_trusted(name, form):
    with pytest.raises(CheckpointError) as refused:
        load(form(SIMPLE[name]), weights_only=False)
    if form is zipped:  # in an older file the storages are missed first
        assert "runs functions that no checkpoint needs" in str(refused.value)


NOT_BY_NAME = ("instance", "object", "numpy's object arrays", "another codec")


@pytest.mark.parametrize("form", [zipped, older])
@pytest.mark.parametrize("name", ODD)
def test_odd_pickles_are_refused(name, form):
    with pytest.raises(CheckpointError):
        load(form(ODD[name]))


FLOATS = g("torch", "FloatStorage")
BYTES = g("torch.storage", "UntypedStorage")


def storage(storage_class, key="0", count=4):
    """Write the reference to a storage of `count` elements."""
    reference = b"(" + text("storage") + storage_class + text(key) + text("cpu")
    return reference + dumped(count)[2:-1] + b"tQ"


def tensor_program(offset, size, stride):
    """Write the pickle of a tensor in the storage "0" of four numbers."""
    program = g("torch._utils", "_rebuild_tensor_v2") + b"(" + storage(FLOATS)
    for part in (offset, size, stride):
        program += dumped(part)[2:-1].replace(b"q\x00", b"")
    return program + b"\x89N" + b"tR."


OUTSIDE = [
    (1, (4,), (1,)), (0, (2,), (4,)), (5, (1,), (1,)), (2**61, (1,), (1,)), (0, (1, 3), (0, 2)),
]  # fmt: skip
IMPOSSIBLE = [
    (-1, (1,), (1,)), (0, (-1,), (1,)), (3, (2,), (-1,)), (0, (2**61, 2**61), (0, 0)),
    (0, (2**62,), (2**62,)), (2**62, (1,), (1,)), (0, (2, 2), (1,)), (0, (2.0,), (1,)),
    (0, (True,), (1,)), (0, (2**50,), (0,)), (0, 3, 1), (0, (2,), (2**63,)),
    (0, (1,) * 65, (1,) * 65), (None, (1,), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("form", [zipped, older])
def test_tensors_outside_of_their_storage_are_refused(form):
    assert load(form(tensor_program(1, (3,), (1,)))).tolist() == [0, 0, 0]
    for offset, size, stride in OUTSIDE:
        with pytest.raises(CheckpointError, match="ends behind its storage of 16 bytes"):
            load(form(tensor_program(offset, size, stride)))
    for offset, size, stride in IMPOSSIBLE:
        with pytest.raises(CheckpointError):
            load(form(tensor_program(offset, size, stride)))


@pytest.mark.parametrize("byte", [0, 1, 2, 255])
def test_bytes_that_are_neither_true_nor_false_are_refused(byte):
    program = tensor_program(0, (3,), (1,)).replace(b"FloatStorage", b"BoolStorage")
    file = zipped(program, bytes([0, 0, byte, 0]))
    if byte > 1:
        with pytest.raises(CheckpointError, match="neither true nor false"):
            load(file)
    else:
        assert load(file).tolist() == [False, False, bool(byte)]


def test_storages_larger_than_an_older_file_are_refused():
    """Their memory would be taken before their contents are read."""
    fits = b"](" + storage(FLOATS) + storage(FLOATS) + b"e."  # one storage, counted once
    assert len(load(older(fits))) == 2
    for program in (
        storage(FLOATS, count=2**40) + b".",
        b"](" + b"".join(storage(FLOATS, str(key), 30) for key in range(9)) + b"e.",
    ):
        with pytest.raises(CheckpointError, match="its storages are larger than the file"):
            load(older(program))


@pytest.mark.parametrize("form", [zipped, older])
def test_tensors_of_several_types_in_one_storage_of_bytes(form):
    """PyTorch writes them for its newest types: any tensor may say how it reads the bytes."""

    def tensor_in(dtype, size):
        program = g("torch._utils", "_rebuild_tensor_v3") + b"(" + storage(BYTES, count=16)
        sizes = b"K\0" + b"K" + bytes([size]) + b"\x85" + b"K\x01\x85"
        return program + sizes + b"\x89N" + g("torch", dtype) + b"tR"

    dtypes = {"float32": 4, "int64": 2, "uint8": 16, "complex64": 2, "bfloat16": 8}
    tensors = b"".join(tensor_in(dtype, size) for dtype, size in dtypes.items())
    loaded = load(form(b"](" + tensors + b"e."))
    assert [str(x.dtype) for x in loaded] == [f"torch.{dtype}" for dtype in dtypes]
    assert [x.tolist() for x in loaded] == [[0] * size for size in dtypes.values()]
    loaded[2].fill_(1)
    assert [x[-1].item() for x in loaded[1:3]] == [0x0101010101010101, 1]


@pytest.mark.parametrize("arguments", [b"]}", b")]", b"N}", b")N", b"}}", b"))",
    b")" + g("collections", "OrderedDict") + b")R"])  # fmt: skip
def test_a_listed_class_is_made_from_a_tuple_and_a_dict_only(arguments):
    made = b"\x80\x04" + g(Calls.__module__, "Calls")
    with edutorch.serialization.safe_globals([Calls]):
        assert isinstance(load(zipped(made + b")}\x92.")), Calls)
        with pytest.raises(CheckpointError, match="is damaged"):
            load(zipped(made + arguments + b"\x92."))


def test_what_is_listed_is_not_enough_for_the_system():
    edutorch.serialization.add_safe_globals([os.system, eval, (os.system, "posix.system")])
    try:
        for name in ("os.system", "eval"):
            with pytest.raises(RefusedError):
                load(zipped(SIMPLE[name]))
    finally:
        edutorch.serialization.clear_safe_globals()


def test_the_same_pickles_do_harm_to_others(tmp_path):
    """The harm is real: Python's own machine does it."""
    pickle.loads(SIMPLE["os.system"])
    assert os.listdir(tmp_path) == ["harm-was-done"]
    os.unlink(tmp_path / "harm-was-done")
