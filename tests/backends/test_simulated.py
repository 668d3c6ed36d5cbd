"""`--cuda-as-cpu`: programs for a GPU run on the CPU, unedited, and it is said that they do."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import edutorch
from edutorch import backends, nn, viz
from edutorch.backends.simulated import SimulatedArray, card_count
from edutorch.compilation.simulated_program import SimulatedLowered
from edutorch.errors import DeviceError, InvalidValueError
from edutorch.ops.random import _GENERATORS
from tests.simulation import simulated

SAID = 'edutorch: "cuda" is {} simulated card{}, computed on the CPU'

SEEDS = {
    "first": """
        import torch
        x = torch.tensor([1.0, 2.0])
        y = torch.randn(3, 4, device='cuda') # directly on GPU
        z = torch.matmul(y.T, y)
        import torch.nn as nn
        class SimpleNet(nn.Module):
            def __init__(self, input_dim, hidden_dim, output_dim):
                super().__init__()
                self.fc1 = nn.Linear(input_dim, hidden_dim)
                self.relu = nn.ReLU()
                self.fc2 = nn.Linear(hidden_dim, output_dim)
            def forward(self, x):
                return self.fc2(self.relu(self.fc1(x)))
        model = SimpleNet(784, 256, 10).cuda()
        num_epochs, dataloader = 2, [(torch.randn(8, 784), torch.randint(0, 10, (8,)))]
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(num_epochs):
            for inputs, labels in dataloader:
                inputs, labels = inputs.cuda(), labels.cuda()
                optimizer.zero_grad()
                outputs = model(inputs)
                loss = criterion(outputs, labels)
                loss.backward()
                optimizer.step()
        print(z.device, outputs.device)
        """,
    "third": """
        import torch
        x = torch.tensor([[1, 2], [3, 4]], dtype=torch.float32)
        if torch.cuda.is_available():
            x = x.to('cuda')
        model = torch.nn.Linear(2, 2)
        model.to('cuda')
        print(x.device, model(x).device)
        """,
    "fifth": """
        import torch
        a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device='cuda')
        b = torch.ones(2, 2, device='cuda')
        c = a + b
        rank = 0
        model = torch.nn.Linear(2, 2).to(rank)
        print(c.device, model(c).device)
        """,
}
"""The snippets of the five descriptions of the library that name 'cuda', with their data."""


def run(arguments, cwd, **environment):
    clean = {key: value for key, value in os.environ.items() if "CUDA_AS_CPU" not in key}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd,
        env={**clean, "PYTHONPATH": str(Path(edutorch.__file__).parents[1]), **environment},
    )  # fmt: skip


@pytest.mark.parametrize("name", SEEDS)
def test_the_descriptions_snippets_run_unedited(name, tmp_path):
    (tmp_path / "snippet.py").write_text(textwrap.dedent(SEEDS[name]))
    ran = run(["-m", "edutorch", "run", "--cuda-as-cpu", "snippet.py"], tmp_path)
    assert ran.stdout == "cuda:0 cuda:0\n", ran.stderr
    assert ran.stderr.splitlines() == [SAID.format(1, "")]


@pytest.mark.skipif(edutorch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("name", SEEDS)
def test_without_the_switch_the_error_names_it(name, tmp_path):
    (tmp_path / "snippet.py").write_text(textwrap.dedent(SEEDS[name]))
    ran = run(["-m", "edutorch", "run", "snippet.py"], tmp_path)
    assert ran.returncode == 1
    assert "DeviceError" in ran.stderr
    assert "--cuda-as-cpu" in ran.stderr, ran.stderr


def test_the_number_and_the_script_are_told_apart(tmp_path):
    (tmp_path / "s.py").write_text(
        "import sys, torch; print(torch.cuda.device_count(), sys.argv[1:])"
    )
    for words, expected in (
        (["--cuda-as-cpu", "3", "s.py", "--cuda-as-cpu", "x"], "3 ['--cuda-as-cpu', 'x']"),
        (["--cuda-as-cpu=2", "s.py"], "2 []"),
        (["--cuda-as-cpu", "s.py", "5"], "1 ['5']"),
    ):
        ran = run(["-m", "edutorch", "run", *words], tmp_path)
        assert ran.stdout.strip() == expected, ran.stderr
    for words, wrong in (
        (["--cuda-as-cpu", "0", "s.py"], "'0'"), (["--cuda-as-cpu=two", "s.py"], "'two'"),
        (["--cuda-as-cpu", "-1", "s.py"], "'-1'"), (["--cuda-as-cpu=99999", "s.py"], "'99999'"),
    ):  # fmt: skip
        ran = run(["-m", "edutorch", "run", *words], tmp_path)
        assert ran.returncode == 2
        assert f"expected a number of simulated cards from 1 to 64, got {wrong}" in ran.stderr


def test_the_environment_asks_and_processes_hand_it_on(tmp_path):
    code = (
        "import edutorch, subprocess, sys; print(edutorch.cuda.device_count(), flush=True)\n"
        "if len(sys.argv) < 2: subprocess.run([sys.executable, 'p.py', 'child'], check=True)"
    )
    (tmp_path / "p.py").write_text(code)
    ran = run(["p.py"], tmp_path, EDUTORCH_CUDA_AS_CPU="2")
    assert ran.stdout.split() == ["2", "2"]
    assert ran.stderr.splitlines() == [SAID.format(2, "s")], "it is said once in all"
    for wrong in ("0", "two", "-3", "1.5"):
        ran = run(["-c", "import edutorch"], tmp_path, EDUTORCH_CUDA_AS_CPU=wrong)
        assert ran.returncode == 1
        assert f"got {wrong!r}" in ran.stderr.splitlines()[-2]
        assert "EDUTORCH_CUDA_AS_CPU" in ran.stderr.splitlines()[-2]
    ran = run(["-c", "import edutorch; print(edutorch.cuda.device_count())"], tmp_path,
              EDUTORCH_CUDA_AS_CPU="")  # fmt: skip
    assert ran.stderr == ""


def test_it_is_never_on_by_itself(tmp_path):
    code = "import edutorch, sys; print([m for m in sys.modules if m.endswith('simulated')])"
    assert run(["-c", code], tmp_path).stdout == "[]\n"


def test_bad_numbers():
    for text in ("", "0", "x", "-1", "1.5", "65", "٣"):
        with pytest.raises(InvalidValueError, match="from 1 to 64"):
            card_count(text)
    assert card_count(" 64 ") == 64


def test_doctor_and_pictures_say_it():
    from edutorch.cli.doctor import _devices

    with simulated(2):
        (finding,) = (finding for finding in _devices() if finding.name == "cuda")
        assert finding.detail == "2 simulated, computed on the CPU"
        x = edutorch.ones(2, device="cuda", requires_grad=True)
        drawing = viz.draw((x * 2).sum())
        assert drawing.caption == "cuda is simulated, on the CPU"
        assert "cuda is simulated, on the CPU" in drawing.svg
        assert drawing.open().caption == drawing.caption, "once, however often it is redrawn"
    assert viz.draw(edutorch.ones(2, requires_grad=True).sum()).caption == ""


MAGIC = """
import pytest
from edutorch import backends
from edutorch.compat import alias
from edutorch.errors import InvalidValueError

class Shell:
    def register_magic_function(self, function, kind, name):
        self.magic = (kind, name)

shell = Shell()
alias.load_ipython_extension(shell)
assert shell.magic == ("line", "cuda_as_cpu")
with pytest.raises(InvalidValueError, match="%cuda_as_cpu"):
    alias.cuda_as_cpu("none")
alias.cuda_as_cpu("2")
import torch
print(torch.cuda.device_count(), backends.simulated_cards())
"""


def test_the_notebooks_magic(tmp_path):
    # In a process of its own: from then on, `import torch` there means edutorch.
    ran = run(["-c", MAGIC], tmp_path)
    assert ran.stdout == "2 2\n", ran.stderr


# Like a GPU -----------------------------------------------------------------------------------


@pytest.fixture
def cuda():
    with simulated(2):
        yield backends.get("cuda")


def test_numbers_are_those_of_the_cpu(cuda):
    def train(device):
        edutorch.manual_seed(3)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(36, 3),
        )  # fmt: skip
        x, target = edutorch.randn(5, 1, 8, 8), edutorch.randint(0, 3, (5,))
        model, x, target = model.to(device), x.to(device), target.to(device)
        optimizer = edutorch.optim.AdamW(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
        return loss.item(), [p.cpu().detach().numpy().copy() for p in model.parameters()]

    (loss, weights), (expected, others) = train("cuda:1"), train("cpu")
    assert loss == pytest.approx(expected, rel=1e-6)
    for weight, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)


def test_the_cpu_is_refused_as_on_a_gpu(cuda):
    x = edutorch.ones(2, device="cuda")
    for call in (
        x.numpy, lambda: np.asarray(x), lambda: nn.Linear(2, 2)(x), lambda: x + edutorch.ones(2),
        lambda: x._array + np.ones(2), lambda: np.asarray(x._array),
    ):  # fmt: skip
        with pytest.raises((TypeError, DeviceError)):
            call()
    with pytest.raises(DeviceError, match="same device"):
        x._array + edutorch.ones(2, device=1)._array


def test_mixed_precision_has_the_rules_of_a_gpu(cuda):
    model, x = nn.Linear(4, 2).cuda(), edutorch.randn(3, 4, device="cuda")
    optimizer, scaler = (
        edutorch.optim.SGD(model.parameters(), lr=0.1),
        edutorch.amp.GradScaler("cuda", 2.0),
    )
    with edutorch.autocast("cuda"):
        y = model(x)
        assert (y.dtype, y.softmax(-1).dtype) == (edutorch.float16, edutorch.float32)
        loss = y.float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    before = model.weight.tolist()
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.tolist() != before


def test_what_else_a_program_uses(cuda):
    from edutorch.profiler import ProfilerActivity, profile
    from edutorch.utils.checkpoint import checkpoint
    from edutorch.utils.data import DataLoader, TensorDataset

    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).cuda()
    x = edutorch.randn(3, 4, device="cuda", requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    assert x.grad.device.type == "cuda"
    data = TensorDataset(edutorch.randn(4, 4), edutorch.arange(4))
    (batch, labels), *_ = DataLoader(data, batch_size=2, pin_memory=True)
    assert batch.to("cuda", non_blocking=True).device == x.device == labels.cuda().device
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        model(x)
    assert any(row.device_time_total > 0 for row in recorded.key_averages())
    assert edutorch.vmap(lambda row: (row * row).sum())(x.detach()).device == x.device
    shared = edutorch.from_dlpack(x.detach())
    shared[0] = 1
    assert (shared.device, x[0].tolist()) == (x.device, [1] * 4)
    with viz.live(model):
        model(x).sum().backward()


def test_arrays_are_like_those_of_a_gpu(cuda):
    x = cuda.from_numpy(np.arange(6.0).reshape(2, 3))
    assert isinstance(x[0, 0], SimulatedArray), "no scalars of NumPy"
    assert isinstance(x.sum(), SimulatedArray)
    assert x[0].base is x
    assert x.T.reshape(6).base is None, "a copy"
    y = x[1]
    y += 1
    assert x.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert cuda.xp.add(x, 1, out=x) is x
    assert [part.tolist() for part in cuda.xp.split(x[0], 3)] == [[1], [2], [3]]
    assert cuda.storage(x[1]) == cuda.storage(x)
    assert cuda.as_strided(x, (2,), (8,), 8).tolist() == [2, 3]
    assert backends.get("cuda").is_simulated
    assert not backends.CPU.is_simulated


def test_nccl_means_the_cpus_engine_there():
    assert not backends.computes_on_cpu("nccl")
    with simulated(2):
        assert backends.computes_on_cpu("nccl")
        assert not backends.computes_on_cpu("gloo")


def test_random_numbers_are_those_of_the_cpu(cuda):
    from edutorch.utils.data import DataLoader

    weights, functional = [1.0, 2.0, 3.0], nn.functional

    def draw(device):
        edutorch.manual_seed(5)
        generator = edutorch.Generator(device).manual_seed(4)
        loader = DataLoader(range(9), shuffle=True, generator=generator)
        generator.set_state(generator.get_state())
        x = edutorch.ones(2, 3, 4, device=device)
        return [
            edutorch.rand(5, device=device, generator=generator), edutorch.randn_like(x),
            edutorch.randperm(9, device=device), edutorch.randint(9, (5,), device=device),
            edutorch.tensor(weights, device=device).multinomial(2, generator=generator),
            edutorch.poisson(x, generator), functional.dropout(x), functional.dropout1d(x),
            functional.alpha_dropout(x, training=True), edutorch.bernoulli(x / 2),
            edutorch.cat(list(loader)).to(device),
        ]  # fmt: skip

    expected = draw("cpu")
    for device in ("cuda:0", "cuda:1", "strict:1"):
        for mine, cpus in zip(draw(device), expected, strict=True):
            assert str(mine.device) == device
            np.testing.assert_allclose(mine.cpu().numpy(), cpus.numpy(), rtol=1e-6)


def test_compile_runs_the_cpus_program(cuda):
    def losses(device):
        edutorch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 3))
        x, target = edutorch.randn(5, 6).to(device), edutorch.randint(0, 3, (5,)).to(device)
        model.to(device)
        optimizer = edutorch.optim.AdamW(model.parameters())
        edutorch.manual_seed(2)

        @edutorch.compile
        def step(x, target):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        values = [step(x, target).item() for _ in range(4)]
        edutorch.manual_seed(3)
        values.append(step(x, target).item())
        assert {p.grad.device for p in model.parameters()} == {x.device}
        return values, step

    expected, _ = losses("cpu")
    values, step = losses("cuda:1")
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert isinstance(step.entries[0].forward, SimulatedLowered)


def test_new_cards_have_new_generators():
    for _ in range(2):
        with simulated(1):
            edutorch.manual_seed(7)
            x = edutorch.rand(3, device="cuda")
            assert x.device == (x + edutorch.rand(3, device="cuda")).device
            backends.simulate_cards(1)
            assert edutorch.rand(3, device="cuda").device == x.device
            assert (edutorch.rand(3, device="cuda") + 1).tolist() != x.tolist()
            backends.simulate_cards(0)
            assert not [name for name in _GENERATORS if name.startswith("cuda")]


def test_integers_among_index_arrays_select_as_on_the_cpu():
    """A 0-d tensor is an integer there, not one more array, which would move axes."""
    shapes = set()
    with simulated(1):
        for device in ("cpu", "cuda"):
            x = edutorch.arange(24.0).reshape(3, 4, 2).to(device).requires_grad_()
            last = edutorch.tensor([[1, 0]], device=device)
            y = x[None, 0, edutorch.tensor(3, device=device), None, last]
            y.sum().backward()
            shapes.add((y.shape, x.grad.sum().item()))
            with edutorch.no_grad():
                x[0, :, 0] = np.arange(4.0)  # copied to the card
            assert x[0, :, 0].tolist() == [0, 1, 2, 3]
    assert shapes == {((1, 1, 1, 2), 2.0)}
