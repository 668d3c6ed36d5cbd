"""`torch.jit.script`: the subset is saved and runs where its source is absent."""

import copy
import inspect
import io
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import edutorch as torch
from edutorch import Tensor, nn
from tests.jit import outside, programs
from tests.jit.comparing import copied, same

CASES = programs.cases()
RUNNER = """
import sys
sys.modules["tests"] = None  # the source is absent
import edutorch as torch
inputs = torch.load("inputs.pt")
results = {}
for name, values in inputs.items():
    try:
        results[name] = torch.jit.load(f"{name}.pt")(*values)
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
torch.save(results, "results.pt")
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return what the saved programs compute in a process that cannot import them."""
    folder = tmp_path_factory.mktemp("programs")
    for name, (program, _) in CASES.items():
        torch.jit.save(torch.jit.script(program), folder / f"{name}.pt")
    torch.save({name: list(inputs) for name, (_, inputs) in CASES.items()}, folder / "inputs.pt")
    packages = folder / "packages"
    packages.mkdir()
    os.symlink(Path(torch.__file__).parent, packages / "edutorch")
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [sys.executable, "-c", RUNNER]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return torch.load(folder / "results.pt")


def program_name(program):
    return getattr(program, "__name__", type(program).__name__)


def test_there_are_sixty_programs():
    assert len(CASES) >= 60 and len(outside.PROGRAMS) >= 20


@pytest.mark.parametrize("name", CASES)
def test_a_saved_program_is_equal_bit_by_bit(name, results):
    program, inputs = CASES[name]
    program = copy.deepcopy(program)  # some count their calls
    expected = program(*copied(inputs))
    if name == "named":
        expected = expected.detach()
    assert same(expected, results[name]), results[name]


@pytest.mark.parametrize("program", outside.PROGRAMS, ids=program_name)
def test_a_program_outside_of_the_subset_is_refused_where_it_stands(program):
    owner = program if inspect.isfunction(program) else type(program)
    lines, first = inspect.getsourcelines(owner)
    ((line, words),) = [
        (first + index, text.split("# refused: ")[1].strip())
        for index, text in enumerate(lines)
        if "# refused: " in text
    ]
    with pytest.raises(torch.jit.NotSupportedError) as caught:
        torch.jit.script(program)
    assert f"outside.py:{line}: " in str(caught.value) and words in str(caught.value)
    assert caught.value.hint


def scale(x: Tensor, factor: float = 2.0) -> Tensor:
    """Multiply."""
    return x * factor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return scale(self.layer(x))


def test_a_scripted_function_is_python_and_a_program():
    scripted = torch.jit.script(scale)
    assert scripted(torch.ones(2), 3.0).tolist() == [3, 3] and scripted.__doc__ == "Multiply."
    assert scripted.code == (
        "def scale(x: Tensor, factor: float=2.0) -> Tensor:\n  return x * factor\n"
    )
    assert "aten::mul(%x, %factor)" in str(scripted.graph)
    assert torch.jit.script(scripted) is scripted and copy.deepcopy(scripted) is scripted


def test_a_scripted_module_shares_everything_with_the_module():
    net = Net()
    scripted = torch.jit.script(net)
    assert isinstance(scripted, Net) and isinstance(scripted, torch.jit.ScriptModule)
    assert scripted.layer is net.layer and scripted.original_name == "Net"
    scripted.eval()
    assert not net.training and not net.layer.training
    assert "__torch__.tests.jit.test_script.scale(self.layer.forward(x))" in scripted.code
    assert "aten::linear" in str(scripted.inlined_graph) and "aten::mul" in str(
        scripted.inlined_graph
    )
    x = torch.randn(4, 3)
    scripted(x).sum().backward()
    assert net.layer.weight.grad is not None and torch.equal(net(x), scripted(x))
    assert torch.equal(pickle.loads(pickle.dumps(net))(x), net(x))


def test_equal_layers_share_a_class_and_others_do_not():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    file = io.BytesIO(torch.jit.script(net).save_to_buffer())
    code = torch.jit.load(file).program.files["__torch__/torch/nn/modules/linear.py"]
    assert code.count("class Linear(Module)") == 1
    mangled = torch.jit.load(io.BytesIO(torch.jit.script(net).save_to_buffer())).program.files
    assert "__torch__/torch/nn/modules/linear/___torch_mangle_0.py" in mangled


def test_extra_files_are_kept(tmp_path):
    torch.jit.save(torch.jit.script(Net()), tmp_path / "a.pt", _extra_files={"labels.txt": "a b"})
    files = {"labels.txt": ""}
    torch.jit.load(tmp_path / "a.pt", _extra_files=files)
    assert files["labels.txt"] == b"a b"


def test_what_is_no_script_cannot_be_saved(tmp_path):
    with pytest.raises(NotImplementedError, match=r"torch\.jit\.script\(model\)"):
        torch.jit.save(nn.Linear(1, 1), tmp_path / "a.pt")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_is_no_archive(tmp_path):
    torch.save({"a": 1}, tmp_path / "a.pt")
    with pytest.raises(torch.jit.ArchiveError):
        torch.jit.load(tmp_path / "a.pt")


def test_functions_of_installed_libraries_are_compiled_when_their_code_is_asked_for(tmp_path):
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "some_library.py").write_text(
        "import edutorch as torch\n@torch.jit.script\ndef f(x, *others):\n    return x\n"
    )
    sys.path.insert(0, str(package))
    try:
        import some_library  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(package))
    assert some_library.f(3) == 3
    with pytest.raises(torch.jit.NotSupportedError, match=r"some_library\.py:3"):
        some_library.f.code  # noqa: B018


def test_nothing_is_said_while_scripting():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.script(Net())
        torch.jit.script(scale)


def test_the_saved_archive_loads_on_the_meta_of_its_device(tmp_path):
    torch.jit.script(Net()).save(tmp_path / "a.pt")
    module = torch.jit.load(tmp_path / "a.pt", map_location="cpu")
    assert str(next(module.parameters()).device) == "cpu"
