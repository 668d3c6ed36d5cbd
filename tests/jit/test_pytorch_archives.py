"""TorchScript archives that PyTorch has written are loaded, and compute the same."""

from pathlib import Path

import pytest

import edutorch as torch
from tests.jit.comparing import copied, same

FOLDER = Path(__file__).parent.parent / "golden" / "torchscript"
CASES = torch.load(FOLDER / "cases.pt")


def test_there_are_thirty_small_archives():
    files = list(FOLDER.glob("*.pt"))
    assert len(CASES) == 30 == len(files) - 1
    assert sum(file.stat().st_size for file in files) < 300_000


@pytest.mark.parametrize("name", CASES)
def test_an_archive_of_pytorch_computes_the_same(name):
    inputs, expected = CASES[name]
    module = torch.jit.load(FOLDER / f"{name}.pt")
    with torch.no_grad():
        assert same(expected, module(*copied(inputs)), 1e-5)


def test_a_loaded_module_is_a_module(tmp_path):
    module = torch.jit.load(FOLDER / "lenet.pt")
    assert isinstance(module, torch.nn.Module) and isinstance(module, torch.jit.ScriptModule)
    assert list(module.state_dict())[:2] == ["0.weight", "0.bias"] and not module.training
    assert module.original_name == "Sequential" and "forward" in module.code
    loss = module(torch.randn(2, 1, 8, 8)).pow(2).sum()
    loss.backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    module.save(tmp_path / "again.pt")
    again = torch.jit.load(tmp_path / "again.pt")
    x = torch.randn(2, 1, 8, 8)
    assert (
        torch.equal(module(x), again(x)) and again.state_dict().keys() == module.state_dict().keys()
    )


def test_exported_methods_and_attributes_are_there():
    module = torch.jit.load(FOLDER / "exported.pt")
    assert module.step(torch.zeros(1)).tolist() == [1] and module.count == 1
    module = torch.jit.load(FOLDER / "constants.pt")
    assert module.scale == 2.5 and module.sizes == [1, 2, 3]
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing  # noqa: B018


def test_wrong_arguments_are_named():
    module = torch.jit.load(FOLDER / "loops.pt")
    with pytest.raises(RuntimeError, match=r"'int' for argument 'n', but got one of type 'str'"):
        module(torch.ones(1), "x")
    with pytest.raises(RuntimeError, match="'n' is missing"):
        module(torch.ones(1))


def test_an_error_says_where_in_the_program():
    module = torch.jit.load(FOLDER / "messages.pt")
    with pytest.raises(RuntimeError, match="two dimensions") as caught:
        module(torch.ones(1, 2, 3))
    assert any("__torch__.py:" in note for note in caught.value.__notes__)
