"""PyTorch reads the archives that are written here, and computes the same."""

import copy
import io

import pytest

import edutorch as torch
from edutorch import Tensor, nn
from edutorch.nn import functional as F
from tests.export.networks import NETWORKS, network
from tests.jit.comparing import copied, same
from tests.jit.programs import cases
from tests.oracle import require_torch

CASES = cases()
LARGE = {"unet"}
"""Networks whose archives have 100 MB."""


def to_pytorch(oracle, value):
    """Return inputs as PyTorch's."""
    if isinstance(value, Tensor):
        return oracle.from_numpy(value.detach().numpy().copy())
    if isinstance(value, list | tuple):
        return type(value)(to_pytorch(oracle, item) for item in value)
    return value


def from_pytorch(oracle, value):
    """Return outputs of PyTorch as ours."""
    if isinstance(value, oracle.Tensor):
        return torch.from_numpy(value.detach().numpy().copy())
    if isinstance(value, list | tuple):
        return type(value)(from_pytorch(oracle, item) for item in value)
    if isinstance(value, dict):
        return {key: from_pytorch(oracle, item) for key, item in value.items()}
    return value


def run_in_pytorch(archive, inputs):
    """Return what PyTorch computes with the bytes of an archive."""
    oracle = require_torch()
    module = oracle.jit.load(io.BytesIO(archive))
    with oracle.no_grad():
        return from_pytorch(oracle, module(*to_pytorch(oracle, copied(inputs))))


def largest(value):
    """Return the largest number in outputs, at least 1: what an error is measured by."""
    if isinstance(value, Tensor):
        return max(1.0, float(value.double().abs().max())) if value.numel() else 1.0
    return max(map(largest, value), default=1.0) if isinstance(value, list | tuple) else 1.0


@pytest.mark.parametrize("name", CASES)
def test_pytorch_runs_a_program(name):
    program, inputs = CASES[name]
    archive = torch.jit.script(program).save_to_buffer()
    program = copy.deepcopy(program)  # some count their calls
    with torch.no_grad():
        assert same(program(*copied(inputs)), run_in_pytorch(archive, inputs), 1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in LARGE else []) for n in NETWORKS]
)
def test_pytorch_runs_a_network(name):
    made = network(name)
    archive = torch.jit.script(made.module).save_to_buffer()
    with torch.no_grad():
        expected = made.module(*made.args)
    assert same(torch.jit.load(io.BytesIO(archive))(*made.args), expected)
    result = run_in_pytorch(archive, list(made.args))
    assert same(expected, result, 1e-5 * largest(expected))


ONE_OP_OF_OURS = {"lstm", "gru", "bilstm"}
"""Traces with an op over the whole sequence, which PyTorch has not."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in LARGE else [])
     for n in NETWORKS if n not in ONE_OP_OF_OURS],
)  # fmt: skip
def test_pytorch_runs_a_trace(name):
    made = network(name)
    archive = torch.jit.trace(made.module, made.args).save_to_buffer()
    with torch.no_grad():
        expected = made.module(*made.args)
    result = run_in_pytorch(archive, list(made.args))
    assert same(expected, result, 1e-5 * largest(expected))


@pytest.mark.parametrize("name", sorted(ONE_OP_OF_OURS))
def test_a_trace_that_pytorch_cannot_read_names_the_op(name):
    made = network(name)
    archive = torch.jit.trace(made.module, made.args).save_to_buffer()
    with pytest.raises(RuntimeError, match=r"Unknown builtin op: edutorch::(lstm|gru)_sequence"):
        run_in_pytorch(archive, list(made.args))


# Attention ----------------------------------------------------------------------------------------


class Attends(nn.Module):
    def __init__(self, attention: nn.Module, weights: bool, masked: bool) -> None:
        super().__init__()
        self.attention, self.weights, self.masked = attention, weights, masked

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor | None]:
        mask: Tensor | None = None
        if self.masked:
            mask = torch.ones(query.size(0), key.size(0), dtype=torch.bool).triu(1)
        y, weights = self.attention(
            query, key, value, need_weights=self.weights, attn_mask=mask,
            average_attn_weights=not self.masked,
        )  # fmt: skip
        return y, weights


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"kdim": 6, "vdim": 5}])
def test_attention_leaves_in_all_its_forms(settings, weights, masked):
    torch.manual_seed(0)
    module = Attends(nn.MultiheadAttention(8, 2, **settings), weights, masked).eval()
    sizes = {"kdim": 8, "vdim": 8} | settings
    for batch in ((), (3,)):
        inputs = [
            torch.randn(4, *batch, 8), torch.randn(4, *batch, sizes["kdim"]),
            torch.randn(4, *batch, sizes["vdim"]),
        ]  # fmt: skip
        archive = torch.jit.script(module).save_to_buffer()
        with torch.no_grad():
            expected = module(*inputs)
            assert same(torch.jit.load(io.BytesIO(archive))(*inputs), expected)
        assert same(expected, run_in_pytorch(archive, inputs), 1e-5)


LAYERS = {
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16),
    "encoder_first": lambda: nn.TransformerEncoderLayer(
        8, 2, 16, norm_first=True, batch_first=True, activation="gelu"
    ),
    "encoders": lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16), 2, nn.LayerNorm(8)
    ),
}


class Masked(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.layer(x, None, padding)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_a_transformer_leave_with_a_mask_for_padding(name):
    torch.manual_seed(0)
    module = Masked(LAYERS[name]()).eval()
    x = torch.randn(3, 3, 8)
    padding = torch.tensor([[False, False, True], [False, False, False], [False, True, True]])
    archive = torch.jit.script(module).save_to_buffer()
    with torch.no_grad():
        expected = module(x, padding)
        assert same(torch.jit.load(io.BytesIO(archive))(x, padding), expected)
    assert same(expected, run_in_pytorch(archive, [x, padding]), 1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder_leaves(norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(8, 2, 16, norm_first=norm_first, dropout=0.0)
    module = nn.TransformerDecoder(layer, 2).eval()
    inputs = [torch.randn(4, 2, 8), torch.randn(3, 2, 8), torch.triu(torch.full((4, 4), -9.0), 1)]
    archive = torch.jit.script(module).save_to_buffer()
    with torch.no_grad():
        expected = module(*inputs)
        assert same(torch.jit.load(io.BytesIO(archive))(*inputs), expected)
    assert same(expected, run_in_pytorch(archive, inputs), 1e-5)


# Ways to write it ---------------------------------------------------------------------------------


def resizes(x: Tensor) -> tuple[Tensor, Tensor]:
    y = F.interpolate(x, scale_factor=2)
    return F.interpolate(x, size=(3, 5), mode="bilinear", align_corners=True), F.interpolate(y, 6)


def pools(x: Tensor) -> Tensor:
    size = x.size(2) // 4
    y = (
        F.max_pool2d(x, (2, 1), stride=None, padding=0)
        + F.max_pool2d(x, size, stride=size)[:, :, :2]
    )
    return F.adaptive_avg_pool2d(y, 1) + F.adaptive_max_pool2d(y, (1, 1)) + F.unfold(x, 2).sum()


def sums(xs: list[int], x: Tensor) -> Tensor:
    total = sum([a for a in xs if a > 1])
    kept = [a * b for a, b in zip(xs, xs) if a > 1 if b < 4]  # noqa: B905
    first, second = (torch.reshape(part, (-1,)) for part in x.chunk(2))
    if total < 0:
        raise ValueError(f"{total} is negative")
    return first.double() * kept[0] + second.long() + total


@pytest.mark.parametrize(
    ("program", "inputs"),
    [(resizes, [torch.randn(1, 1, 4, 4)]), (pools, [torch.randn(1, 1, 4, 4)]),
     (sums, [[1, 2, 3], torch.randn(2, 3)])],
)  # fmt: skip
def test_python_that_the_parser_of_pytorch_does_not_know_is_rewritten(program, inputs):
    archive = torch.jit.script(program).save_to_buffer()
    expected = program(*inputs)
    assert same(torch.jit.load(io.BytesIO(archive))(*inputs), expected)
    assert same(expected, run_in_pytorch(archive, inputs), 1e-5)
