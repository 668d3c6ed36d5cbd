"""The range of a `Dim` holds in the warm-up, for requests and for batches."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.export import Dim, export, save
from edutorch.serve.batching import Batcher
from edutorch.serve.errors import BadRequest
from edutorch.serve.loaders import TrustedHandlers, load_folder
from edutorch.serve.manifests import triton_config
from edutorch.serve.metrics import Metrics
from edutorch.serve.protocol import check_rows
from edutorch.serve.served import Served
from edutorch.serve.settings import Settings
from edutorch.serve.sizes import ANY
from edutorch.serve.warmup import warm_up


def exported(folder, module, args, shapes) -> tuple[Served, bool]:
    """Export a module, load the file as the server does, and warm it up."""
    save(export(module.eval(), args, dynamic_shapes=shapes), folder / "model.edu")
    return warm_up(load_folder(folder, TrustedHandlers([])))


class Both(nn.Module):
    """The sum of each of two inputs, whose first axes have nothing to do with each other."""

    def forward(self, x, y):
        return x.sum(1), y.sum(1)


def test_a_least_number_of_rows(tmp_path):
    shapes = ({0: Dim("batch", min=3, max=8)},)
    served, joins = exported(tmp_path, nn.Linear(4, 2), (torch.randn(4, 4),), shapes)
    assert served.row_limits() == (3, 8) and joins
    assert served.examples()["input_1"].shape == (3, 4)
    check_rows({"input_1": np.zeros((3, 4))}, served)
    for rows in (2, 9):
        with pytest.raises(BadRequest, match=f"the inputs have {rows} rows; .* takes 3 to 8"):
            check_rows({"input_1": np.zeros((rows, 4))}, served)
    batcher = Batcher(served, Settings(tmp_path), None, Metrics().of("m", "1"), joins)
    assert batcher.most_rows == 8
    assert "max_batch_size: 8" in triton_config("net", served, Settings(tmp_path))


def test_a_range_too_narrow_for_two_requests(tmp_path):
    shapes = ({0: Dim("batch", min=3, max=5)},)
    served, joins = exported(tmp_path, nn.Linear(4, 2), (torch.randn(4, 4),), shapes)
    assert served.row_limits() == (3, 5) and not joins


def test_another_axis_with_a_range(tmp_path):
    shapes = ({0: Dim("batch", max=64), 2: 4 * Dim("quarter", min=5, max=9)},)
    module = nn.Sequential(nn.Conv1d(1, 2, 17), nn.Flatten(2), nn.AdaptiveAvgPool1d(1))
    served, joins = exported(tmp_path, module, (torch.randn(2, 1, 24),), shapes)
    assert joins and served.inputs[0].shape == (-1, 1, -1)
    assert served.examples(2)["input_1"].shape == (2, 1, 20)


def test_first_axes_that_differ_are_no_rows(tmp_path):
    shapes = ({0: Dim("a", max=8)}, {0: Dim("b", max=8)})
    args = (torch.randn(3, 2), torch.randn(4, 2))
    served, joins = exported(tmp_path, Both(), args, shapes)
    assert served.row_limits() is None and not joins
    check_rows({"x": np.zeros((2, 2)), "y": np.zeros((5, 2))}, served)


def test_a_first_axis_that_is_shared(tmp_path):
    batch = Dim("batch", max=8)
    args = (torch.randn(3, 2), torch.randn(3, 2))
    served, joins = exported(tmp_path, Both(), args, ({0: batch}, {0: batch}))
    assert served.row_limits() == (1, 8) and joins


def test_a_model_without_a_program_takes_any_size():
    from edutorch.serve.served import TensorSpec, from_module

    served = from_module(nn.Linear(4, 2), [TensorSpec("x", "FP32", (-1, 4))])
    assert served.row_limits() == ANY
    with pytest.raises(BadRequest, match="no rows"):
        check_rows({"x": np.zeros((0, 4))}, served)
