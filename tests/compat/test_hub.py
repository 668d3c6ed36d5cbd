"""`torch.hub`: local repositories, files with hashes, and what is not fetched."""

from __future__ import annotations

import hashlib
import os
import sys

import pytest

import edutorch
from edutorch import hub

HUBCONF = '''
dependencies = ["math"]
from my_models import Net

def net(width=2, *, pretrained=False):
    """A small network.

    width: of its layer.
    """
    import my_models_late
    return Net(width), pretrained, my_models_late.NAME

def _private(): pass
'''


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "hubconf.py").write_text(HUBCONF)
    (folder / "my_models.py").write_text(
        "class Net:\n    def __init__(self, width): self.width = width\n"
    )
    (folder / "my_models_late.py").write_text("NAME = 'late'\n")
    return folder


@pytest.fixture
def hub_dir(tmp_path):
    before = hub._hub_dir
    hub.set_dir(tmp_path / "hub")
    yield tmp_path / "hub"
    hub._hub_dir = before


@pytest.fixture
def weights(tmp_path):
    """A file of weights whose name has its hash."""
    path = tmp_path / "weights.pth"
    edutorch.save({"w": edutorch.arange(3.0)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    return path.rename(tmp_path / f"weights-{digest}.pth")


def test_a_model_of_a_local_repository(repository):
    net, pretrained, late = hub.load(str(repository), "net", 5, source="local", pretrained=True)
    assert (net.width, pretrained, late) == (5, True, "late")
    assert hub.list(str(repository)) == ["Net", "net"]
    assert hub.help(str(repository), "net").startswith("A small network.")


def test_the_search_path_is_left_as_it_was(repository):
    before = list(sys.path)
    hub.load(str(repository), "net", source="local")
    assert sys.path == before


def test_a_repository_of_github_is_taken_from_the_folder(repository, hub_dir):
    hub_dir.mkdir()
    repository.rename(hub_dir / "owner_name_main")
    assert hub.load("owner/name", "net")[0].width == 2
    assert hub.load("owner/name:main", "net")[0].width == 2
    with pytest.raises(RuntimeError, match="nothing is fetched from the web") as raised:
        hub.load("owner/name:other", "net")
    assert str(hub_dir / "owner_name_other") in str(raised.value)


def test_mistakes_with_repositories(repository, tmp_path):
    with pytest.raises(RuntimeError, match="Cannot find callable nett in hubconf") as raised:
        hub.load(str(repository), "nett", source="local")
    assert "did you mean net?" in str(raised.value)
    with pytest.raises(ValueError, match='Unknown source: "web"'):
        hub.load(str(repository), "net", source="web")
    with pytest.raises(ValueError, match="model should be a string"):
        hub.load(str(repository), 3, source="local")
    with pytest.raises(RuntimeError, match=r"no hubconf\.py in this folder"):
        hub.load(str(tmp_path), "net", source="local")
    with pytest.raises(ValueError, match="expected owner/name"):
        hub.load("just_a_name", "net")
    (repository / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        hub.load(str(repository), "net", source="local")


def test_weights_of_a_file_are_copied_once(weights, hub_dir):
    loaded = hub.load_state_dict_from_url(weights.as_uri(), progress=False)
    assert loaded["w"].tolist() == [0, 1, 2]
    assert (hub_dir / "checkpoints" / weights.name).is_file()
    weights.unlink()  # from now on it is in the hub's folder
    assert hub.load_state_dict_from_url(weights.as_uri(), check_hash=True)["w"].tolist() == [
        0,
        1,
        2,
    ]
    assert os.listdir(hub_dir / "checkpoints") == [weights.name]


def test_another_name_and_folder(weights, tmp_path):
    hub.load_state_dict_from_url(weights.as_uri(), str(tmp_path / "here"), file_name="w.pt")
    assert (tmp_path / "here" / "w.pt").is_file()


def test_an_address_of_fsspec(hub_dir):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    with files.open("/hub/w.pth", "wb") as file:
        edutorch.save({"w": edutorch.ones(1)}, file)
    assert hub.load_state_dict_from_url("memory://hub/w.pth")["w"].item() == 1


def test_the_web_is_not_asked(weights, hub_dir):
    url = f"https://models.example/{weights.name}"
    with pytest.raises(RuntimeError, match="nothing is fetched from the web") as raised:
        hub.load_state_dict_from_url(url)
    text = str(raised.value)
    path = hub_dir / "checkpoints" / weights.name
    assert url in text
    assert str(path) in text
    assert weights.stem.rpartition("-")[2] + "…" in text
    assert not path.parent.exists()
    path.parent.mkdir(parents=True)
    weights.rename(path)
    assert hub.load_state_dict_from_url(url)["w"].tolist() == [0, 1, 2]
    with pytest.raises(OSError, match="nothing is fetched"):
        hub.download_url_to_file("http://models.example/x.pth", "x.pth")


@pytest.mark.parametrize("where", ["source", "hub"])
def test_a_truncated_file_is_refused(weights, hub_dir, where):
    data = weights.read_bytes()
    if where == "source":
        weights.write_bytes(data[:-10])
    else:
        (hub_dir / "checkpoints").mkdir(parents=True)
        (hub_dir / "checkpoints" / weights.name).write_bytes(data[:-10])
    with pytest.raises(RuntimeError, match="invalid hash value") as raised:
        hub.load_state_dict_from_url(weights.as_uri())
    assert f"bytes  = {len(data) - 10}" in str(raised.value)
    if where == "source":
        assert os.listdir(hub_dir / "checkpoints") == []


def test_a_file_is_copied_with_its_hash(weights, tmp_path):
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    hub.download_url_to_file(weights.as_uri(), str(tmp_path / "copy"), digest[:6])
    assert (tmp_path / "copy").read_bytes() == weights.read_bytes()
    with pytest.raises(RuntimeError, match='expected "000000"'):
        hub.download_url_to_file(weights.as_uri(), str(tmp_path / "copy"), "000000")
    with pytest.raises(FileNotFoundError):
        hub.download_url_to_file((tmp_path / "none").as_uri(), str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == weights.read_bytes()


def test_the_folder_is_that_of_pytorch(monkeypatch, torch):
    import torch.hub

    for name, value in (("TORCH_HOME", "/somewhere"), ("XDG_CACHE_HOME", "/cache")):
        monkeypatch.delenv("TORCH_HOME", raising=False)
        monkeypatch.setenv(name, value)
        assert hub.get_dir() == torch.hub.get_dir()
    assert hub.HASH_REGEX.pattern == torch.hub.HASH_REGEX.pattern
