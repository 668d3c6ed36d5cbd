"""Programs as C++: compiled, run, and compared with Python."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn, optim
from edutorch.export import CppExportError, Dim, cpp, export, training_step
from edutorch.nn import functional as F
from edutorch.utils._pytree import tree_flatten
from tests.export.cpp_programs import (
    COMPILERS,
    SANITIZERS,
    Library,
    compile_program,
    largest_difference,
    run_program,
)  # fmt: skip
from tests.export.networks import NETWORKS, LeNet, arguments_at, network

needs_gcc = pytest.mark.skipif("g++" not in COMPILERS, reason="there is no g++")
ZOO = [name for name in NETWORKS if name != "gpt"]
LARGE = ("resnet18", "unet", "mobilenet_v3")


def exported(name, folder):
    made = network(name)
    cpp(export(made.module, made.args, dynamic_shapes=made.shapes), folder, name=name)
    return made


def arrays(tree):
    return [leaf.detach().numpy() for leaf in tree_flatten(tree)[0]]


# The header ---------------------------------------------------------------------------------------


def test_each_step_is_a_line_with_its_line_of_python(tmp_path):
    exported("lenet", tmp_path)
    header = (tmp_path / "lenet.hpp").read_text()
    program = header[header.index("class Program {") :]
    steps = [line for line in program.splitlines() if "const auto" in line]
    assert len(steps) >= 18
    assert all(line.rpartition("// ")[2].startswith("networks.py:") for line in steps[1:])
    assert "edu::conv(x, p_conv1_weight, p_conv1_bias" in program
    assert "x: float32 (batch, 1, 28, 28)" in program
    assert "lstm" not in header  # what is not needed is not there


def test_the_reader_of_weights_is_short(tmp_path):
    exported("mlp", tmp_path)
    header = (tmp_path / "mlp.hpp").read_text()
    start = header.index("// Weights: ")
    reader = header[start : header.index("\n};", start)]
    assert sum(bool(line.strip()) for line in reader.splitlines()) <= 65
    assert "WeightsWriter" not in header


def test_the_files_of_a_folder(tmp_path):
    exported("mlp", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "CMakeLists.txt", "README.md", "example.safetensors", "main.cpp", "mlp.h", "mlp.hpp",
        "mlp_c.cpp", "weights.safetensors",
    ]  # fmt: skip
    assert not any("@" in path.read_text() for path in tmp_path.glob("*.[chm]*"))


class Half(nn.Module):
    def forward(self, x):
        return x.to(torch.float16)


class Sorting(nn.Module):
    def forward(self, x):
        return torch.linalg.svd(x)[1]


class Naming(nn.Module):
    """Variables whose names are words of C++."""

    def forward(self, double, operator):
        return double.int() + operator


@pytest.mark.parametrize("module", [Half(), Sorting()])
def test_what_has_no_form_is_refused_with_its_line(module, tmp_path):
    program = export(module, (torch.rand(3, 3),))
    with pytest.raises(CppExportError, match=r"test_cpp\.py:\d+: "):
        cpp(program, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Small programs, compiled -------------------------------------------------------------------------


@needs_gcc
def test_mlp_runs_at_all_sizes_and_refuses_others(tmp_path):
    made = exported("mlp", tmp_path)
    library = Library(tmp_path, "mlp")
    float32 = np.dtype(np.float32)
    for number in range(3):
        args = arguments_at(made, number)
        (result,) = library(arrays(args), [float32])
        np.testing.assert_allclose(result, made.module(*args).detach().numpy(), atol=1e-5)
    for shape, message in (
        ((2, 13), r"x has the shape \(2, 13\), and the program takes \(batch, 12\)"),
        ((12,), r"x has the shape \(12\), and the program takes \(batch, 12\)"),
        ((65, 12), "x has size 65 on axis 0, and batch goes from 1 to 64"),
        ((0, 12), "x has size 0 on axis 0, and batch goes from 1 to 64"),
    ):
        name = made_input_name(tmp_path)
        with pytest.raises(ValueError, match=message.replace("x has", f"{name} has")):
            library([np.zeros(shape, np.float32)], [float32])
    library.close()


def made_input_name(folder):
    text = (folder / "mlp.hpp").read_text()
    return text[text.index('check_shape("') + 13 :].partition('"')[0]


@needs_gcc
def test_names_of_python_that_are_words_of_cpp(tmp_path):
    program = export(Naming(), (torch.ones(3), torch.arange(3)))
    cpp(program, tmp_path, name="9-words")
    library = Library(tmp_path, "net_9_words")
    (result,) = library([np.ones(3, np.float32), np.arange(3)], [np.dtype(np.int64)])
    assert result.tolist() == [1, 2, 3]


@needs_gcc
def test_damaged_weights_are_refused(tmp_path):
    exported("mlp", tmp_path)
    library = Library(tmp_path, "mlp")
    whole = (tmp_path / "weights.safetensors").read_bytes()
    damaged = {
        b"": "the file cannot be read",
        whole[:40]: "the header is longer than the file",
        whole[:-4]: "lies outside of the file",
        whole.replace(b"F32", b"F16"): "is not of the dtype F32",
        whole.replace(b"0.weight", b"0.wright"): "it has no tensor 0.weight",
        whole.replace(b"[8,12]", b"[12,8]"): r"has the shape \(12, 8\), not \(8, 12\)",
    }
    for content, message in damaged.items():
        (tmp_path / "bad.safetensors").write_bytes(content)
        with pytest.raises(AssertionError, match=message):
            assert library.function("load")(str(tmp_path / "bad.safetensors").encode()), (
                library.error()
            )


@needs_gcc
def test_mlp_trains_as_in_python(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(16, 12), torch.randint(0, 3, (16,))
    assert_trains_equally(model, x, y, tmp_path, lr=0.05, momentum=0.9)


def assert_trains_equally(model, x, y, folder, **settings):
    optimizer = optim.SGD(model.parameters(), **settings)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = Dim("batch", min=2, max=64)
    step = training_step(
        model, F.cross_entropy, optimizer, (x, y), dynamic_shapes=({0: batch}, {0: batch})
    )
    cpp(step, folder, name="step")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    program, _ = compile_program(folder)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    printed = run_program(program, folder, 100)
    computed = [float(line.split()[-1]) for line in printed.splitlines()]
    assert losses[-1] < losses[0] / 2
    np.testing.assert_allclose(computed, losses, atol=1e-5)
    from safetensors.numpy import load_file

    trained = load_file(folder / "trained.safetensors")
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(trained[f"model.{name}"], parameter.detach().numpy(), atol=5e-4)


# The zoo, both compilers, sanitizers --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_compiles_without_a_warning_and_agrees(name, compiler, tmp_path):
    exported(name, tmp_path)
    program, seconds = compile_program(tmp_path, compiler=compiler)
    print(f"{name}, {compiler}: {seconds:.1f} processor seconds")  # a busy machine counts more
    assert largest_difference(run_program(program, tmp_path)) <= 1e-5


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ZOO if name not in LARGE])
def test_one_program_serves_all_sizes(name, tmp_path):
    made = exported(name, tmp_path)
    library = Library(tmp_path, name)
    for number in range(3):
        args = arguments_at(made, number)
        with torch.no_grad():
            expected = arrays(made.module(*args))
        computed = library(arrays(args), [array.dtype for array in expected])
        for result, array in zip(computed, expected, strict=True):
            np.testing.assert_allclose(result, array, rtol=1e-5, atol=1e-5)
    library.close()


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "lenet", "lstm"])
def test_sanitizers_find_nothing(name, tmp_path):
    exported(name, tmp_path)
    program, _ = compile_program(tmp_path, flags=SANITIZERS)
    assert largest_difference(run_program(program, tmp_path, 3)) <= 1e-5


@needs_gcc
@pytest.mark.slow
def test_lenet_trains_as_in_python(tmp_path):
    torch.manual_seed(0)
    x, y = torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))
    # At lr=0.05 Python's own float32 losses are 1.6e-5 from those in float64: a relu that flips.
    assert_trains_equally(LeNet(), x, y, tmp_path, lr=0.02)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no CMake")
@pytest.mark.parametrize("option", ["-DUSE_CBLAS=OFF", "-DUSE_CBLAS=ON"])
def test_cmake_builds_the_program_and_the_library(option, tmp_path):
    made = exported("lenet", tmp_path)
    build = tmp_path / "build"
    done = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", build, option], capture_output=True, text=True, check=False
    )
    if done.returncode and option.endswith("ON") and "BLAS" in done.stderr:
        pytest.skip("there is no BLAS with cblas.h")
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["cmake", "--build", build], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout + done.stderr
    assert largest_difference(run_program(build / "lenet_main", tmp_path)) <= 1e-5
    library = Library(tmp_path, "lenet", build / "liblenet.so")
    (result,) = library(arrays(made.args), [np.dtype(np.float32)])
    np.testing.assert_allclose(result, made.module(*made.args).detach().numpy(), atol=1e-5)
