"""What scripts do besides training: ask for versions and devices, set switches, import names.

Every line here also runs under PyTorch. All of them run in one process that says `import torch`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import edutorch
from edutorch import nn
from tests.oracle import require_torch

IDIOMS = """
model = torch.nn.Linear(2, 2); model = model.cuda() if torch.cuda.is_available() else model
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
assert torch.xpu.is_available() in (True, False) and torch.backends.mkl.is_available() in (True, False)
torch.backends.cudnn.benchmark = True; torch.backends.cudnn.deterministic = False
import torch.backends.cudnn as cudnn; cudnn.benchmark = True
from torch.backends import cudnn; cudnn.enabled
torch.set_float32_matmul_precision("high"); assert torch.backends.cuda.matmul.allow_tf32
torch.backends.cuda.matmul.allow_tf32 = True; torch.backends.cudnn.allow_tf32 = True
torch.cuda.manual_seed_all(1); torch.cuda.empty_cache(); torch.cuda.memory_allocated()
assert torch.__version__ >= "2.0" and torch.__version__ > "1.9" and torch.__version__ > (1, 13)
assert int(torch.__version__.split(".")[0]) >= 2 and torch.version.cuda is None
assert tuple(int(x) for x in torch.__version__.split("+")[0].split(".")) >= (2, 0, 0)
from torch import Tensor, nn, optim; from torch.types import Device, Number, _size
from torch.torch_version import TorchVersion; assert TorchVersion("2.10") > "2.9"
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset
from torch.utils.data.sampler import SubsetRandomSampler; from torch.utils.data.dataset import Dataset
import torch.multiprocessing as mp; mp.set_sharing_strategy("file_system"); mp.Process, mp.Queue
from torch.autograd import Variable; assert Variable(torch.ones(2), requires_grad=True).requires_grad
from torch.nn.parallel import DataParallel; from torch.nn.modules.module import Module
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, _LRScheduler
from torch.func import functional_call, grad, vmap; from torch.autograd.functional import jacobian
from torch.jit import Final; assert not torch.jit.is_scripting() and not torch.compiler.is_compiling()
torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7); torch.__config__.show()
assert torch.rand(3).type(torch.LongTensor).dtype is torch.int64
assert torch.pi > 3 and torch.inf > 0 and torch.nan != torch.nan and torch.ones(2)[torch.newaxis].dim() == 2
compiled = torch.compile(torch.nn.Linear(2, 1), mode="reduce-overhead"); assert compiled(torch.ones(1, 2)).shape == (1, 1)
""".strip().splitlines()  # noqa: E501

TRY_ALL = """
import json, sys, warnings
import torch
warnings.simplefilter("ignore")
failed = {}
for line in json.loads(sys.argv[1]):
    try:
        exec(line, {"torch": torch, "__name__": "idiom"})
    except Exception as error:
        failed[line] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
"""


def failures(command: list[str], lines: list[str]) -> dict[str, str]:
    command = [sys.executable, *command, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture
def script(tmp_path: Path):
    """Write a script and return a command that runs it on edutorch."""

    def write(text: str) -> list[str]:
        file = tmp_path / "script.py"
        file.write_text(textwrap.dedent(text))
        return ["-m", "edutorch", "run", str(file)]

    return write


def test_every_idiom_runs(script):
    assert failures(script(TRY_ALL), IDIOMS) == {}


@pytest.mark.oracle
def test_they_are_pytorchs(script):
    require_torch()
    # The GPU's and the compiler's answers are the machine's own there.
    asked = [line for line in IDIOMS if "torch.compile(" not in line and "version.cuda" not in line]
    assert failures(script(TRY_ALL)[-1:], asked) == {}


def test_the_two_switches_of_matrix_products_are_one():
    matmul = edutorch.backends.cuda.matmul
    assert (matmul.allow_tf32, edutorch.get_float32_matmul_precision()) == (False, "highest")
    matmul.allow_tf32 = True
    assert edutorch.get_float32_matmul_precision() == "high"
    edutorch.set_float32_matmul_precision("highest")
    assert not matmul.allow_tf32


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300)


def test_compiled_and_scripted_functions_run(script):
    done = run(script("""
        import torch
        @torch.compile
        def double(x): return x * 2
        @torch.compile(fullgraph=True)
        def triple(x): return x * 3
        @torch.jit.script
        def half(x): return x / 2
        class Net(torch.nn.Module):
            @torch.jit.export
            def names(self): return ["a"]
            @torch.jit.ignore
            def other(self): return 2
        print(double(torch.ones(1)), triple(torch.ones(1)), half(torch.ones(1)), Net().names())
    """))  # fmt: skip
    assert done.stdout == "tensor([2.]) tensor([3.]) tensor([0.5000]) ['a']\n"
    assert not done.stderr


NOT_HERE = {
    "torch.jit.save(torch.nn.Linear(1, 1), 'm.pt')": "torch.save(model.state_dict(), path)",
    "torch.compile(3)": "compile: `model` is a int; give a function or a module",
    "torch.testing.assert_close(1.0, 1.1)": "Expected 1.1 but got 1.0.",
    "torch.testing.assert_close(1, 1, rtol=1)": "give both `rtol` and `atol` or none",
    "torch.jit.freeze(torch.nn.Linear(1, 1))": "call module.eval() first",
    "torch.__version__ > 'new'": "'new' is no version: expected numbers",
    "torch.multiprocessing.set_sharing_strategy('x')": "there is no strategy 'x'",
}


def test_what_is_not_here_says_what_to_do(script):
    said = failures(script("import torch.jit, torch.multiprocessing" + TRY_ALL), list(NOT_HERE))
    assert said.keys() == NOT_HERE.keys()
    for line, words in NOT_HERE.items():
        assert words in said[line]


def test_a_script_that_asks_for_it_ends_with_these_words(script):
    line = "torch.jit.save(torch.nn.Linear(1, 1), 'm.pt')"
    done = run(script(f"import torch\n{line}"))
    assert NOT_HERE[line] in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_new_processes_know_the_alias(script, method):
    """The child imports the script again; its `import torch` has to mean edutorch as well."""
    done = run(script(f"""
        import torch
        import torch.multiprocessing as mp

        def work(number, queue):
            queue.put((torch.full((2,), float(number)), torch.__version__))

        def fail(number):
            raise ValueError(f"process {{number}} cannot")

        if __name__ == "__main__":
            queue = mp.get_context("{method}").SimpleQueue()
            mp.spawn(work, args=(queue,), nprocs=1, start_method="{method}")
            x, version = queue.get()
            print(x, version == torch.__version__)
            try:
                mp.spawn(fail, nprocs=1, start_method="{method}")
            except mp.ProcessRaisedException as error:
                print("ValueError: process 0 cannot" in str(error), "script.py" in str(error))
    """))  # fmt: skip
    assert (done.stdout, done.stderr) == ("tensor([0., 0.]) True\nTrue True\n", "")


def test_a_module_is_run_as_python_m_would(tmp_path):
    package = tmp_path / "project"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("def f(x):\n    return x.sum() + missing\n")
    (package / "__main__.py").write_text("import sys; print(sys.argv[1:]); sys.exit(3)\n")
    (package / "train.py").write_text(
        "import sys, torch\nfrom .parts import f\n"
        "print(__name__, __package__, __spec__.name, sys.argv[1:], flush=True)\n"
        "f(torch.ones(2))\n"
    )

    def ours(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "edutorch", "run", "-m", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = ours("project.train", "--lr", "3", "-m")
    assert done.stdout == "__main__ project project.train ['--lr', '3', '-m']\n"
    assert done.returncode == 1
    files = [line.split('"')[1] for line in done.stderr.splitlines() if "File" in line]
    assert [Path(file).name for file in files] == ["train.py", "parts.py"]
    assert (ours("project", "a").stdout, ours("project").returncode) == ("['a']\n", 3)
    for name in ("no_project.train", "project.nothing"):
        done = ours(name)
        assert (done.returncode, done.stderr) == (2, f"edutorch run: there is no module '{name}'\n")


def test_names_of_layers_that_much_code_imports():
    layer = nn.Linear(3, 5)
    assert nn.init._calculate_fan_in_and_fan_out(layer.weight) == (3, 5)
    filters = nn.Conv2d(3, 5, (7, 2)).weight
    assert nn.init._calculate_fan_in_and_fan_out(filters) == (3 * 7 * 2, 5 * 7 * 2)
    assert nn.init._calculate_correct_fan(layer.weight, "fan_out") == 5
    copies = nn.modules.transformer._get_clones(layer, 2)
    assert len(copies) == 2
    assert copies[0].weight is not copies[1].weight


def test_attention_may_be_told_which_kernels_to_use():
    from edutorch.nn.attention import SDPBackend, sdpa_kernel

    query = edutorch.ones(1, 2, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert edutorch.backends.cuda.flash_sdp_enabled()
        assert not edutorch.backends.cuda.cudnn_sdp_enabled()
        nn.functional.scaled_dot_product_attention(query, query, query)
    assert edutorch.backends.cuda.cudnn_sdp_enabled()
    wrong = sdpa_kernel(["flash"])
    with pytest.raises(TypeError, match=r"must hold SDPBackend values, got 'flash'"):
        wrong.__enter__()
