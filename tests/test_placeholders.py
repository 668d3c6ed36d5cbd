"""Names that libraries import and that mean nothing here; private names that are ours."""

import subprocess
import sys

import pytest
from edutorch.placeholders import NAMES, placeholder

from edutorch.errors import NotHereError

PROGRAM = """
import edutorch.alias; edutorch.alias.install()
import torch
import torch.distributed as dist
assert not dist.is_available() and not dist.is_initialized()
from torch._C import _TensorMeta
from torch._dynamo import OptimizedModule
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.nn.parallel.distributed import DistributedDataParallel
from torch.storage import UntypedStorage
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter
from torch.utils.hooks import RemovableHandle
assert type(torch.Tensor) is _TensorMeta and UntypedStorage is torch.UntypedStorage
assert isinstance(torch.compile(torch.nn.Linear(1, 1)), OptimizedModule)
assert isinstance(iter(torch.utils.data.DataLoader([1])), _BaseDataLoaderIter)
assert isinstance(torch.nn.Linear(1, 1).register_forward_hook(print), RemovableHandle)
assert DistributedDataParallel is torch.nn.parallel.DistributedDataParallel
assert not isinstance(torch.nn.Linear(1, 1), (torch.ScriptModule, torch.jit.ScriptModule))
with TransformGetItemToIndex():
    pass
assert not torch.cuda.is_current_stream_capturing() and torch.profiler.kineto_available()
"""


def test_what_libraries_ask_for_is_there():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_a_placeholder_can_be_written_but_not_called():
    absent = placeholder("torch.some", "Thing", "there is none")

    class Derived(absent):
        pass

    assert not isinstance(1, absent) and not isinstance(1, Derived)
    assert absent | int
    for cls in (absent, Derived):
        with pytest.raises(NotHereError, match=r"Thing|Derived"):
            cls(1, two=2)
    with pytest.raises(NotHereError, match=r"torch\.some\.Thing: there is none"):
        absent()


def test_the_table_has_no_name_that_edutorch_has():
    import importlib

    for path, _, names in NAMES:
        module = importlib.import_module(f"edutorch.{path}".rstrip("."))
        assert not [name for name in names.split() if hasattr(module, name)], path
