"""The real safetensors.torch: tensors and models are written and read, ours beside it."""

import numpy as np
import pytest
import torch
from torch import nn

safetensors = pytest.importorskip("safetensors")

from safetensors import torch as face  # noqa: E402

import edutorch  # noqa: E402

DTYPES = [
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "bool",
]  # fmt: skip


class Tied(nn.Module):
    """A language model's ends: the embedding and the last layer have one weight."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight


@pytest.mark.parametrize("name", DTYPES)
def test_each_dtype_is_read_as_it_was_written(name, tmp_path):
    x = (torch.arange(6).reshape(2, 3) % 3).to(getattr(torch, name))
    tensors = {"x": x, "empty": x[:0].contiguous(), "0-d": x[0, 1].clone()}
    face.save_file(tensors, tmp_path / "x.safetensors")
    read = face.load_file(tmp_path / "x.safetensors")
    assert sorted(read) == sorted(face.load(face.save(tensors))) == sorted(tensors)
    for key, tensor in tensors.items():
        assert (read[key].dtype, read[key].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(read[key], tensor)


def test_files_are_the_same_as_ours(tmp_path):
    tensors = {"w": torch.randn(3, 4), "b": torch.randn(4).bfloat16()}
    face.save_file(tensors, tmp_path / "theirs.safetensors")
    edutorch.save(tensors, tmp_path / "ours.safetensors")
    for read in (
        edutorch.load(tmp_path / "theirs.safetensors"),
        face.load_file(tmp_path / "ours.safetensors"),
    ):
        assert sorted(read) == ["b", "w"]
        assert all(torch.equal(read[key], tensor) for key, tensor in tensors.items())


def test_metadata_and_slices_are_read_alone(tmp_path):
    x = torch.arange(12.0).reshape(3, 4)
    face.save_file({"x": x}, tmp_path / "x.safetensors", metadata={"format": "pt", "step": "7"})
    with safetensors.safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert list(file.keys()) == ["x"]
        assert file.metadata() == {"format": "pt", "step": "7"}
        assert torch.equal(file.get_tensor("x"), x)
        assert torch.equal(file.get_slice("x")[1:, :2], x[1:, :2])
        assert file.get_slice("x").get_shape() == [3, 4]


def test_tensors_that_share_memory_are_refused_and_models_keep_them_tied(tmp_path):
    path = str(tmp_path / "model.safetensors")
    model = Tied()
    with pytest.raises(RuntimeError, match="share memory"):
        face.save_file(model.state_dict(), path)
    face.save_model(model, path)
    assert sorted(face.load_file(path)) == [
        "embedding.weight", "norm.bias", "norm.num_batches_tracked", "norm.running_mean",
        "norm.running_var", "norm.weight",
    ]  # fmt: skip
    other = Tied()
    assert face.load_model(other, path) == (set(), [])
    assert torch.equal(other.head.weight, model.embedding.weight)
    assert other.head.weight is other.embedding.weight


def test_bad_input_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(ValueError, match="non contiguous"):
        face.save_file({"x": torch.ones(2, 3).t()}, path)
    with pytest.raises(ValueError, match=r"received an entry|torch\.Tensor"):
        face.save_file({"x": np.ones(2)}, path)
    face.save_file({"x": torch.ones(64)}, path)
    path.write_bytes(path.read_bytes()[:-8])
    for read in (face.load_file, edutorch.load):
        with pytest.raises(Exception, match=r"(?i)incomplete|ends|bytes|truncated"):
            read(path)
    wrong = str(tmp_path / "wrong.safetensors")
    face.save_model(nn.Linear(2, 2), wrong)
    with pytest.raises(RuntimeError, match="Missing key"):
        face.load_model(Tied(), wrong)
