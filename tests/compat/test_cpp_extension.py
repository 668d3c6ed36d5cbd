"""`load_inline`: C++ from a string, with tensors in and out."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import numpy as np
import pytest
from edutorch.utils.cpp_extension import ExtensionError, build, load_inline

import edutorch as torch
from edutorch import errors
from tests.export.cpp_programs import COMPILERS

README = Path(build.__file__).with_name("README.md")
MORE = """
#include <tuple>

std::tuple<double, Array> scaled(const ArrayOf<double>& x, float factor) {
  double total = 0;
  Array y = zeros<float>({x.shape(1), x.shape(0)});
  for (size_t i = 0; i < x.shape(0); ++i) {
    for (size_t j = 0; j < x.shape(1); ++j) {
      total += x.data()[i * x.shape(1) + j];
      y.data()[j * x.shape(0) + i] = factor * float(x.data()[i * x.shape(1) + j]);
    }
  }
  return {total, y};
}

int refuse(int number) {
  if (number < 0) throw std::out_of_range("a number below 0");
  return number;
}
"""


@pytest.fixture
def no_nanobind(monkeypatch):
    found = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "nanobind":
            raise ImportError(name)
        return found(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_without_nanobind_the_extra_is_named(no_nanobind):
    with pytest.raises(errors.MissingExtraError, match=r"edutorch\[cpp\]"):
        load_inline("none", "int f() { return 1; }", functions="f")


def test_without_a_compiler_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ExtensionError, match=r"no-such-compiler is not on the PATH(?s:.)*hint: "):
        build.find_compiler()


def test_without_headers_of_python_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(ExtensionError, match=r"there is no .*Python\.h(?s:.)*hint: "):
        build.include_flags(tmp_path)


@pytest.mark.parametrize("arguments", [
    {"name": "a b", "functions": "f"}, {"name": "a", "functions": ["f", "g(); int h"]},
    {"name": "a", "functions": []}, {"name": "a", "functions": "f", "cuda_sources": "x"},
])  # fmt: skip
def test_bad_arguments_are_refused_before_anything_is_compiled(arguments):
    with pytest.raises(ExtensionError):
        load_inline(cpp_sources="int f() { return 1; }", **arguments)


# Compiled -----------------------------------------------------------------------------------------

compiles = pytest.mark.skipif(not COMPILERS, reason="there is no compiler")


@pytest.fixture(scope="module")
def example():
    """What the example of the README leaves: its variables."""
    pytest.importorskip("nanobind")
    code = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)[1]
    scope = {"torch": torch}
    exec(code, scope)
    return scope


@compiles
@pytest.mark.slow
def test_the_op_of_the_readme_has_a_derivative(example):
    np.testing.assert_allclose(example["x"].grad.numpy(), [0, -0.5, 0.06], atol=1e-6)
    x = torch.tensor([0.5, -1.0], requires_grad=True)
    assert torch.autograd.gradcheck(example["Bump"].apply, (x,), eps=1e-2, atol=1e-2, rtol=1e-2)


@compiles
@pytest.mark.slow
def test_gradients_are_never_lost_silently(example):
    bump = example["compiled"].bump
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(errors.GradientError, match=r"bump.bump: argument 0 requires grad"):
        bump(x)
    with torch.no_grad():
        assert bump(x).tolist() == [0.5, 0.5]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        bump("text")
    assert bump(torch.ones(3, 2).t()).shape == (2, 3)


@compiles
@pytest.mark.slow
def test_the_example_runs_in_a_notebook():
    """In a kernel of Jupyter, as a lesson would: the op, its derivative, and a wrong source."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    example = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    cells = [
        "import edutorch as torch\n" + example,
        'load_inline("wrong", "int f() { return unknown; }", functions="f")',
    ]
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3", allow_errors=True).execute()
    (gradient,), (error,) = (cell.outputs for cell in notebook.cells)
    assert gradient.data["text/plain"] == "tensor([-0.0000, -0.5000,  0.0600])"
    assert error.ename == "ExtensionError"
    assert "wrong.cpp:1" in error.evalue


@compiles
@pytest.mark.slow
def test_doubles_numbers_tuples_and_exceptions(tmp_path):
    pytest.importorskip("nanobind")
    docs = {"scaled": "Scale and transpose.", "refuse": 'Refuse "negative" numbers.'}
    module = load_inline("more", MORE, functions=docs, build_directory=tmp_path)
    total, y = module.scaled(torch.arange(6.0).reshape(2, 3).double(), 2)
    assert total == 15
    assert y.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert module.scaled.__doc__ == "Scale and transpose."
    with pytest.raises(IndexError, match="a number below 0"):
        module.refuse(-1)
    built = [path.stat().st_mtime_ns for path in tmp_path.glob("more-*.so")]
    load_inline("more", MORE, functions=docs, build_directory=tmp_path)
    assert [path.stat().st_mtime_ns for path in tmp_path.glob("more-*.so")] == built != []


@compiles
@pytest.mark.slow
def test_mistakes_are_shown_with_their_line():
    pytest.importorskip("nanobind")
    with pytest.raises(ExtensionError, match=r"wrong\.cpp:2:(?s:.)*unknown"):
        load_inline("wrong", "int f() {\n  return unknown;\n}", functions="f")
