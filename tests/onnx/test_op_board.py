"""Every op with sample inputs leaves as ONNX and agrees there, or is on a list with a reason.

A family that ONNX lacks may be refused as a whole; of the other ops at most 8 % may. The list is
printed by `python -m tests.onnx.op_board`.
"""

from __future__ import annotations

import warnings

import pytest

import edutorch as torch

pytest.importorskip("onnx_ir")
pytest.importorskip("onnxruntime")

from tests.onnx.op_board import FAMILIES, REFUSED, board, table

AT_MOST = 0.08
"""The share of the ops outside the families that may be refused."""


@pytest.mark.slow
def test_every_op_leaves_or_has_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = board([])
    text = table(results)
    failed = [f"{n}: {r}" for n, r in results.items() if not r.startswith(("ok", "refused: "))]
    assert not failed, "\n".join(failed)
    refused = {name for name, result in results.items() if result != "ok"}
    families = {name for names in FAMILIES.values() for name in names}
    assert refused == families | set(REFUSED), text  # what leaves by now is taken off the list
    assert len(REFUSED) <= AT_MOST * (len(results) - len(families)), text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.median(x), lambda x: torch.nanmedian(x), lambda x: torch.mode(x, 1),
        lambda x: torch.cummax(x, 1), lambda x: torch.cummin(x, 0), lambda x: torch.frexp(x),
        lambda x: torch.atan(x),
    ],
    ids=["median", "nanmedian", "mode", "cummax", "cummin", "frexp", "atan"],
)  # fmt: skip
def test_values_at_the_edges(function, dtype):
    """Infinities, NaN, zeros, repeated values, very small and very large numbers."""

    class Call(torch.nn.Module):
        def forward(self, x):
            return function(x)

    inf, nan = float("inf"), float("nan")
    rows = [[3.0, -inf, 3.0, 0.5], [-0.0, inf, inf, 1e-30], [2.0, 2.0, -1.0, 3e20]]
    for values in (rows, [[nan, 1.0], [2.0, 2.0]]):
        x = torch.tensor(values, dtype=dtype)
        expected, computed = function(x), torch.onnx.export(Call(), (x,))(x)
        for right, value in zip(*map(as_tuple, (expected, computed)), strict=True):
            torch.testing.assert_close(value, right, equal_nan=True, rtol=1e-6, atol=0)


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_where_the_largest_elements_are():
    class Pool(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)

    x = torch.randint(0, 4, (2, 3, 7, 9)).float()
    shapes = ({0: torch.export.Dim("batch", max=8)},)
    model = torch.onnx.export(Pool(), (x,), dynamic_shapes=shapes)
    x = torch.randint(0, 4, (5, 3, 7, 9)).float()
    for right, value in zip(Pool()(x), model(x), strict=True):
        assert torch.equal(right, value)


def test_all_states_of_an_lstm():
    """ONNX's own op returns one cell state; a Scan over the steps returns them all."""
    from edutorch.nn.functional.rnn import lstm_sequence

    class States(torch.nn.Module):
        def forward(self, x, h, weight):
            return lstm_sequence(x, h, h, weight)

    args = torch.randn(5, 2, 12), torch.randn(2, 3), torch.randn(12, 3)
    model = torch.onnx.export(States(), args)
    assert [node.op_type for node in model.model_proto.graph.node].count("Scan") == 1
    for right, value in zip(States()(*args), model(*args), strict=True):
        torch.testing.assert_close(value, right, rtol=1e-5, atol=1e-6)
