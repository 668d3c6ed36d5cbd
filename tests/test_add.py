"""`python -m edutorch add` and `remove`, in an environment of its own, with wheels made here."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edutorch.cli.packages import command, torch_entry
from edutorch.cli.packages.tried import TRIED, dependencies, normalized
from edutorch.errors import EdutorchError
from tests.house import ROOT


def write_wheel(folder: Path, name: str, version: str, requires: str = "", code: str = "") -> None:
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in requires.split()]
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{module}/__init__.py", code or "import torch\n")
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{info}/WHEEL", torch_entry.WHEEL)
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with pip, NumPy and edutorch from here, but without PyTorch; and an index."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (site_packages,) = (folder / "venv").glob("lib/python3.*/site-packages")
    ours = Path(np.__file__).parents[1]
    for name in ("pip", "numpy", "numpy.libs", "ml_dtypes", "safetensors"):
        if (ours / name).exists():
            (site_packages / name).symlink_to(ours / name)
    (site_packages / "edutorch.pth").write_text(f"{ROOT}\n")
    wheels = folder / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "torchvision", "0.28.0", "torch==2.13.0")
    write_wheel(wheels, "torchaudio", "2.11.0", "torch==2.11.0 small-tool")
    write_wheel(wheels, "small-tool", "1.0", code="\n")
    write_wheel(wheels, "later", "1.0", "torch>=2.0")
    return folder / "venv" / "bin" / "python", wheels


def run(environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    python, wheels = environment
    variables = {
        **os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_NO_INPUT": "1",
        "PYTHONPATH": "",
    }  # fmt: skip
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, env=variables, check=False
    )


def edutorch(environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(environment, "-m", "edutorch", *arguments)


def versions(environment) -> dict[str, str]:
    done = run(environment, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
    return dict(line.split("==") for line in done.stdout.split() if "==" in line)


@pytest.mark.slow  # pip is started ten times
@pytest.mark.skipif(sys.platform == "win32", reason="the environment is put together by links")
def test_packages_come_without_pytorch_and_go_again(environment, tmp_path):
    done = edutorch(environment, "add", "torchvision", "torchaudio")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "torchvision 0.28.0\ntorchaudio 2.11.0\nPyTorch was not installed"
    )
    assert versions(environment) | {"torch": "2.13.0+edutorch", "small-tool": "1.0"} == versions(
        environment
    )
    # pip finds `torch` there, and fetches nothing.
    assert run(environment, "-m", "pip", "install", "later").returncode == 0
    # A failure leaves all as it was.
    done = edutorch(environment, "add", "not-in-the-index")
    assert done.returncode == 1 and "add: not-in-the-index could not be installed" in done.stderr
    assert "No matching distribution found" in done.stderr

    script = tmp_path / "script.py"
    script.write_text("import torchvision, torch; print(torch.__name__, torchvision.__file__)")
    done = edutorch(environment, "run", str(script))
    assert done.stdout.startswith("torch ") and "site-packages/torchvision" in done.stdout

    done = edutorch(environment, "add", "--list")
    assert re.search(r"^torchvision +0\.28\.0 +installed: 0\.28\.0$", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("torch: 2.13.0+edutorch, the entry of edutorch\n")
    done = edutorch(environment, "remove", "torch", "later")
    assert done.returncode == 0 and "torch 2.13.0+edutorch: the entry is removed" in done.stdout
    assert versions(environment).keys().isdisjoint({"torch", "later"})
    done = edutorch(environment, "remove", "torch")
    assert (
        done.returncode == 1 and "there is no entry to remove: no torch is installed" in done.stderr
    )


def test_pytorch_itself_is_left_alone(monkeypatch):
    monkeypatch.setattr(torch_entry, "installed_torch", lambda: "2.13.0+cpu")
    monkeypatch.setattr(torch_entry, "install", lambda arguments: pytest.fail("installed"))
    with pytest.raises(EdutorchError, match=r"PyTorch 2\.13\.0\+cpu is installed .* left as it is"):
        torch_entry.add_entry()
    with pytest.raises(
        EdutorchError, match=r"no entry to remove: it is PyTorch 2\.13\.0\+cpu itsel"
    ):
        torch_entry.remove_entry()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a b", "'a b' is not the name of a package"),
        ("-r", "'-r' is not the name of a package"),
        ("torch", "edutorch is what answers to `import torch`"),
        ("torchtext==0.18", "`import torchtext` means edutorch.text"),
        ("../timm", "is not the name of a package"),
        ("timm>=1", "is not the name of a package"),
    ],
)
def test_names_that_are_not_installed(name, sentence):
    with pytest.raises(EdutorchError, match=sentence):
        command.package_of(name)


def test_the_version_that_was_tried_is_installed():
    assert command.package_of("TorchVision").requirement == "torchvision==0.28.0"
    newer = command.package_of("torchvision==9.0")
    assert newer.requirement == "torchvision==9.0"
    assert command.remark(newer) == ": 0.28.0 is the version tried"
    assert command.remark(command.package_of("unheard-of")).endswith("not been tried on edutorch")
    assert all(normalized(name) == name for name in TRIED)


def test_dependencies_leave_out_pytorch_and_extras(monkeypatch):
    lines = [
        "torch>=2.0",
        "Triton",
        "numpy>1",
        "pillow[x]; python_version > '3'",
        "a; extra == 'b'",
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    assert dependencies("any") == ["numpy>1", "pillow[x]; python_version > '3'"]


ALIASED = """
import sys
from importlib import metadata
import edutorch.alias
edutorch.alias.load_ipython_extension(None)
import torch
assert torch is sys.modules["edutorch"]
assert metadata.version("torch") == "2.13.0+edutorch"
assert "edutorch answers" in metadata.metadata("torch")["Summary"]
try:
    import torch.nothing_here
except ModuleNotFoundError as error:
    assert str(error) == "edutorch has no torch.nothing_here (yet)"
"""


def test_the_alias_answers_for_the_metadata(tmp_path):
    subprocess.run([sys.executable, "-c", ALIASED], check=True, cwd=tmp_path)


def test_the_alias_is_a_plugin_of_pytest(tmp_path):
    (tmp_path / "conftest.py").write_text("import torch\nassert torch.viz\n")
    (tmp_path / "test_it.py").write_text("import torch\ndef test_it(): assert torch.relu\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "edutorch.alias", "--rootdir", ".", "."],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


DOMAINS = """
import sys, types
import edutorch.alias as alias
ours = types.ModuleType("edutorch.vision"); ours.__path__ = []
ours.__spec__ = __import__("importlib.machinery").machinery.ModuleSpec("edutorch.vision", None)
sys.modules["edutorch.vision"] = ours
alias.install()
import torchvision
assert torchvision is ours
try:
    torchvision.nothing
except AttributeError as error:
    assert str(error) == ("edutorch has no torchvision.nothing (yet); "
                          "python -m edutorch add torchvision installs the real one"), error
try:
    import torchvision.nothing
except ModuleNotFoundError as error:
    assert "edutorch has no torchvision.nothing" in str(error), error
"""


def test_our_packages_stand_in_for_those_that_are_not_installed(tmp_path):
    subprocess.run([sys.executable, "-c", DOMAINS], check=True, cwd=tmp_path)
