"""What torchvision, torchaudio and timm import from PyTorch, under the alias."""

from __future__ import annotations

import subprocess
import sys

from edutorch import autocast, bfloat16, float32, ones

PROGRAM = """
import edutorch.alias
edutorch.alias.install()
import torch
from torch.jit.annotations import BroadcastingList2, List
from torch.utils.model_zoo import load_url, tqdm
from torch.onnx import operators, symbolic_opset11
from torch.onnx.symbolic_helper import parse_args
from torch._dynamo.utils import is_compile_supported
import torch._custom_ops

assert list(tqdm(range(3))) == [0, 1, 2]
assert load_url is torch.hub.load_state_dict_from_url
assert is_compile_supported("cpu") and not is_compile_supported("mps")
assert BroadcastingList2[int] and List[int]
assert torch.jit._script_if_tracing(len) is len is torch.jit._overload_method(len)
assert torch.backends.cpu.get_cpu_capability() == "DEFAULT"
assert parse_args("v", "v")(len) is len
torch.onnx.register_custom_op_symbolic("torchvision::nms", len, 11)
try:
    symbolic_opset11.unsqueeze
except NotImplementedError as error:
    assert "no exporter" in str(error)
print("done")
"""


def test_imports_under_the_alias():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip().endswith("done"), done.stderr


def test_dispatch_keys():
    from edutorch import _C

    keys = _C.DispatchKeySet(_C.DispatchKey.AutocastCPU) | _C.DispatchKeySet("CPU")
    assert sorted(keys) == ["AutocastCPU", "CPU"]
    assert _C._get_tracing_state() is _C._log_api_usage_once("used") is None


def test_excluding_autocast():
    from edutorch import _C

    x = ones(2, 2)
    with autocast("cpu", dtype=bfloat16):
        assert (x @ x).dtype is bfloat16
        with _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(_C.DispatchKey.AutocastCPU)):
            assert (x @ x).dtype is float32
        with _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(_C.DispatchKey.CUDA)):
            assert (x @ x).dtype is bfloat16


def test_what_libraries_ask_of_onnx_is_there():
    from edutorch import onnx

    assert not onnx.is_in_onnx_export()
    assert onnx.TensorProtoDataType.INT64 == 7
    assert callable(onnx.export)
