"""PyTorch's own files: all data in them is loaded, and nothing else."""

from __future__ import annotations

import collections
import io
import struct
import sys
import zipfile

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.errors import DeviceError
from edutorch.serialization import CheckpointError, RefusedError

pytestmark = pytest.mark.oracle

FORMATS = {
    "zip": {},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
    "older": {"_use_new_zipfile_serialization": False},
    "older, protocol 4": {"_use_new_zipfile_serialization": False, "pickle_protocol": 4},
}


def saved(torch, obj, **settings):
    file = io.BytesIO()
    torch.save(obj, file, **settings)
    return file.getvalue()


def loaded(data, **settings):
    return edutorch.load(io.BytesIO(data), **settings)


def checkpoint(torch):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
        "scheduler": scheduler.state_dict(), "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(), "best": np.float32(2.5), "steps": np.int64(3),
    }  # fmt: skip


def values(torch):
    x = torch.randn(4, 6)
    c, d = torch.randn(2, 3, dtype=torch.complex64).clone().unbind()
    d = d.clone()
    names = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    return {
        "x": x, "some": x[1:, ::2], "columns": x.T, "stretched": torch.zeros(1).expand(7),
        "parameter": torch.nn.Parameter(torch.ones(2)), "buffer": torch.nn.Buffer(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "leaf": torch.ones(2, requires_grad=True), "conj": c.conj(), "minus": d.conj().imag,
        "bool": torch.tensor([True, False]), "empty": torch.zeros(0, 3), "single": torch.tensor(2),
        "types": [torch.arange(4).to(getattr(torch, name)) for name in names.split()],
        "last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "size": torch.Size([1, 2]), "dtype": torch.float16, "device": torch.device("cpu"),
        "sets": [{1, 2}, frozenset([1])], "complex": 1 + 2j, "bytes": [b"\xff\x00", b""],
        "bytearray": bytearray(b"ab"), "ordered": collections.OrderedDict(a=1, b=[2]),
        "default": collections.defaultdict(list, {1: [2]}),
        "no default": collections.defaultdict(None, a=1), "counter": collections.Counter("aab"),
        "deque": collections.deque([1, 2], 3), "slice": slice(1, None), "range": range(3),
        "none": None, "numbers": [True, -1, 2**100, 0.1, float("inf"), 300, 70000], "text": "é✓",
        "arrays": [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.arange(0)],
        "numpy": [np.float64(1), np.bool_(True), np.uint16(7)], "tuples": (1, (2, (3, (4, 5)))),
        (1, "a"): "a tuple as a key", 7: "a number",
    }  # fmt: skip


def same(torch, a, b, path="it"):
    """Compare a value of PyTorch's with ours, all the way down."""
    if isinstance(a, torch.Tensor):
        assert (tuple(a.shape), str(a.dtype)) == (tuple(b.shape), str(b.dtype)), path
        assert a.requires_grad == b.requires_grad, path
        for mine, other in ((nn.Parameter, torch.nn.Parameter), (nn.Buffer, torch.nn.Buffer)):
            assert isinstance(b, mine) == isinstance(a, other), path
        assert a.detach().resolve_conj().resolve_neg().tolist() == b.detach().tolist(), path
        if not (a.is_conj() or a.is_neg() or a.numel() < 2):
            assert a.stride() == b.stride(), path
    elif isinstance(a, dict):
        assert (type(a), list(a)) == (type(b), list(b)), path
        assert getattr(a, "_metadata", None) == getattr(b, "_metadata", None), path
        for key in a:
            same(torch, a[key], b[key], f"{path}.{key}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.tolist() == b.tolist(), path
    elif type(a) in (list, tuple):
        assert type(a) is type(b) and len(a) == len(b), path
        for number, (left, right) in enumerate(zip(a, b, strict=True)):
            same(torch, left, right, f"{path}.{number}")
    elif isinstance(a, torch.dtype | torch.device):
        assert str(a) == str(b), path
    else:
        assert a == b and type(a).__name__ == type(b).__name__, path


@pytest.mark.parametrize("settings", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("make", [checkpoint, values])
def test_what_pytorch_saves_arrives(torch, make, settings):
    obj = make(torch)
    same(torch, obj, loaded(saved(torch, obj, **settings)))


@pytest.mark.parametrize("settings", FORMATS.values(), ids=FORMATS)
def test_shared_memory_stays_shared(torch, settings):
    x = torch.randn(4, 6)
    tensors = loaded(saved(torch, {"x": x, "row": x[1], "columns": x.T, "again": x}, **settings))
    assert tensors["x"] is tensors["again"]
    tensors["x"].zero_()
    assert not tensors["row"].any() and not tensors["columns"].any()


def test_a_training_run_goes_on(torch):
    def parts(library):
        model = library.nn.Linear(3, 1)
        return model, library.optim.Adam(model.parameters(), lr=0.1)

    def train(library, model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            model(library.ones(2, 3)).square().sum().backward()
            optimizer.step()

    theirs, mine = parts(torch), parts(edutorch)
    train(torch, *theirs)
    states = loaded(saved(torch, [their.state_dict() for their in theirs]))
    for part, state in zip(mine, states, strict=True):
        part.load_state_dict(state)
    train(torch, *theirs)
    train(edutorch, *mine)
    assert mine[0].weight.tolist()[0] == pytest.approx(theirs[0].weight.tolist()[0], rel=1e-5)


def test_pytorch_reads_our_tensors(torch, tmp_path):
    path = tmp_path / "model.pt"
    model = nn.Linear(3, 2)
    edutorch.save(model.state_dict(), path)
    import safetensors.torch as theirs_safetensors

    tensors = theirs_safetensors.load_file(path)
    twin = torch.nn.Linear(3, 2)
    twin.load_state_dict(tensors)
    assert twin.weight.tolist() == model.weight.tolist()


def test_numbers_in_the_other_order_of_bytes(torch):
    x = {"f": torch.tensor([1.0, 2.5]), "c": torch.tensor([1 + 2j]), "i": torch.tensor([7, 8])}
    data = saved(torch, x)
    other, swapped = io.BytesIO(), "big" if sys.byteorder == "little" else "little"
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(other, "w") as new:
        for number, entry in enumerate(old.infolist()):
            content = old.read(entry)
            if entry.filename.endswith("byteorder"):
                content = swapped.encode()
            if "/data/" in entry.filename:
                dtype = np.dtype({0: "f4", 1: "c8", 2: "i8"}[int(entry.filename[-1])])
                content = np.frombuffer(content, dtype).byteswap().tobytes()
            new.writestr(entry.filename, content)
            assert number < 50
    same(torch, x, loaded(other.getvalue()))


def test_where_tensors_go(torch, device):
    x = torch.arange(6.0).reshape(2, 3).T
    data = saved(torch, {"x": x, "p": torch.nn.Parameter(torch.ones(1))})
    for where in (device, edutorch.device(device), {"cpu": device}, lambda x, name: x.to(device)):
        tensors = loaded(data, map_location=where)
        assert (str(tensors["x"].device), str(tensors["p"].device)) == (device, device)
        assert tensors["x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    seen = []
    assert str(loaded(data, map_location=lambda x, name: seen.append(name))["x"].device) == "cpu"
    assert set(seen) == {"cpu"}
    with pytest.raises(TypeError, match="`map_location` cannot be a int"):
        loaded(data, map_location=3)


def test_a_device_that_is_not_here(torch):
    data = saved(torch, torch.ones(2)).replace(b"X\x03\x00\x00\x00cpu", b"X\x03\x00\x00\x00mps")
    data = rezipped(data)
    with pytest.raises(DeviceError, match="'mps', which cannot be used here") as refused:
        loaded(data)
    assert 'load(path, map_location="cpu")' in str(refused.value)
    assert loaded(data, map_location="cpu").tolist() == [1, 1]
    assert loaded(data, map_location={"mps": "cpu"}).tolist() == [1, 1]
    assert loaded(data, map_location=lambda x, name: x).tolist() == [1, 1]


def rezipped(data):
    """Write an archive again whose contents were changed: with the right checksums."""
    other = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.infolist():
            entry.CRC = old.NameToInfo[entry.filename].CRC
            start = entry.header_offset
            lengths = struct.unpack("<HH", data[start + 26 : start + 30])
            start += 30 + sum(lengths)
            new.writestr(entry.filename, data[start : start + entry.file_size])
    return other.getvalue()


def test_what_is_refused_is_said(torch):
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    for obj, said in (
        (model, ["a whole module was saved", "refused  = torch.nn.modules.container.Sequential",
                 "torch.nn.modules.linear.Linear", "or load(path, weights_only=False)"]),
        ([print], ["refused  = __builtin__.print", "add_safe_globals([TheClass])"]),
    ):  # fmt: skip
        for settings in FORMATS.values():
            with pytest.raises(RefusedError) as refused:
                loaded(saved(torch, {"x": obj, "y": torch.ones(1)}, **settings))
            text = str(refused.value).replace("builtins.", "__builtin__.")
            assert all(phrase in text for phrase in said)
    names = edutorch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(saved(torch, model)))
    assert names == ["torch.nn.modules.container.Sequential", "torch.nn.modules.linear.Linear"]


@pytest.mark.filterwarnings("ignore")
def test_what_edutorch_has_not_is_said(torch):
    for obj, said in (
        (torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8), "a quantized tensor"),
        (torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8).storage(), "a quantized"),
        (torch.ones(2, 2).to_sparse_bsr((1, 1)), "of the layout sparse_bsr"),
        (torch.ones(2).to(torch.float8_e8m0fnu), "of the type torch.float8_e8m0fnu"),
        (np.array(["a"]), "NumPy data of type U1"), (np.array([print]), "NumPy data of type O8"),
    ):  # fmt: skip
        with pytest.raises(CheckpointError, match=said) as refused:
            loaded(saved(torch, {"x": obj}))
        assert "hint: " in str(refused.value)


def test_a_torchscript_program_is_named(torch):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("x/data.pkl", "x/constants.pkl", "x/code/x.py"):
            archive.writestr(name, b"N.")
    with pytest.raises(CheckpointError, match="a TorchScript program"):
        loaded(file.getvalue())


class Settings:
    """A user's class."""

    def __init__(self, width):
        self.width = width


class WithState:
    """One that says itself how it is restored."""

    def __getstate__(self):
        return {"x": 1}

    def __setstate__(self, state):
        self.restored = state["x"]


class WithNames:
    """One that is made with arguments by name."""

    def __new__(cls, *values, name):
        self = super().__new__(cls)
        self.made_of = (values, name)
        return self

    def __getnewargs_ex__(self):
        values, name = self.made_of
        return values, {"name": name}


def test_a_listed_class_is_made_with_arguments_by_name(torch):
    data = saved(torch, {"w": WithNames(1, 2, name="x")}, pickle_protocol=4)
    with pytest.raises(RefusedError, match="WithNames"):
        loaded(data)
    with edutorch.serialization.safe_globals([WithNames]):
        assert loaded(data)["w"].made_of == ((1, 2), "x")


def test_classes_that_the_user_lists(torch):
    settings = Settings(3)
    for how in FORMATS.values():
        data = saved(torch, {"s": settings, "again": settings, "w": WithState()}, **how)
        with pytest.raises(RefusedError, match=r"Settings"):
            loaded(data)
        with edutorch.serialization.safe_globals([Settings, WithState]):
            values = loaded(data)
        assert (
            values["s"].width == 3 and values["again"] is values["s"] and values["w"].restored == 1
        )
        with pytest.raises(RefusedError):
            loaded(data)
    other = (Settings, f"{Settings.__module__}.Settings")
    edutorch.serialization.add_safe_globals([other, WithState])
    assert type(loaded(data)["s"]) is Settings
    edutorch.serialization.clear_safe_globals()


def test_what_cannot_be_listed():
    with pytest.raises(TypeError, match="cannot list 3") as refused:
        edutorch.serialization.add_safe_globals([3])
    assert 'MyClass, "its_old_module.MyClass"' in str(refused.value)


def test_arrays_that_python_2_has_pickled():
    """Its texts are bytes: the data of an array comes as a str, one character for each byte."""
    from edutorch.serialization.torch_file import find_allowed_global, run_as_data
    from tests.vision.files import python2_pickle

    array = np.arange(250, 260).astype(np.uint8).reshape(2, 5)
    program = io.BytesIO(python2_pickle({"data": array}))
    assert (run_as_data(program, find_allowed_global, None, "a.pkl")["data"] == array).all()
