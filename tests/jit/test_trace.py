"""`torch.jit.trace` and `freeze`."""

import inspect
import io
import warnings

import pytest

import edutorch as torch
from edutorch import Tensor, nn
from tests.jit.comparing import copied, same
from tests.jit.programs import GPTBlock, lenet, module_cases

TRACED = {
    "lenet": (lambda: lenet(), (2, 1, 8, 8)),
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), (2, 3)),
    "lstm": (lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), (2, 5, 3)),
    "gru": (lambda: nn.GRU(3, 4, batch_first=True), (2, 5, 3)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (2, 5, 4)),
    "gpt": (lambda: GPTBlock(4, 2), (2, 5, 4)),
    "norms": (lambda: nn.Sequential(nn.GroupNorm(1, 3), nn.InstanceNorm1d(3)), (2, 3, 6)),
    "upsample": (lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(1, 2, 3)),
                 (2, 1, 4, 4)),
}  # fmt: skip


def saved(traced):
    return torch.jit.load(io.BytesIO(traced.save_to_buffer()))


@pytest.mark.parametrize("name", TRACED)
def test_a_trace_of_one_batch_computes_others(name):
    make, shape = TRACED[name]
    module = make().eval()
    traced = torch.jit.trace(module, torch.randn(shape))
    assert list(traced.state_dict()) == list(module.state_dict())
    again = saved(traced)
    for batch in (1, 2, 7):
        x = torch.randn(batch, *shape[1:])
        with torch.no_grad():
            expected = module(x)
            assert same(expected, traced(x), 1e-6) and same(expected, again(x), 1e-6)


def half_or_double(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x / 2


def test_a_frozen_branch_is_warned_of_where_it_stands():
    line = inspect.getsourcelines(half_or_double)[1] + 1
    with pytest.warns(torch.jit.TracerWarning, match=rf"test_trace\.py:{line}: the way depends"):
        traced = torch.jit.trace(half_or_double, torch.ones(3))
    assert traced(-torch.ones(3)).tolist() == [-2, -2, -2]


def test_check_inputs_find_a_frozen_branch():
    inputs = [(torch.ones(3),), (-torch.ones(3),)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(torch.jit.TracingCheckError, match="output 0") as caught:
            torch.jit.trace(half_or_double, torch.ones(3), check_inputs=inputs)
    assert "check_inputs[1]" in str(caught.value) and "1.5" in str(caught.value)


def test_another_size_than_the_batch_is_said():
    flat = torch.jit.trace(lambda x: x.reshape(x.shape[0], -1) + x.shape[1], torch.ones(2, 3, 4))
    assert flat(torch.ones(5, 3, 4)).shape == (5, 12)
    with pytest.raises(torch.jit.TracingCheckError, match="sizes other than the batch"):
        torch.jit.trace(
            lambda x: x.reshape(x.shape[0], x.shape[1] * 4), torch.ones(2, 3, 4),
            check_inputs=[(torch.ones(2, 5, 4),)],
        )  # fmt: skip


def test_writes_and_structures_are_traced():
    def step(x, y):
        z = x.clone()
        z[0] = 1
        z.add_(y)
        top, where = torch.max(z, 1)
        return {"top": top, "rest": [where, z[:, None, 1:]]}, torch.arange(3)

    traced = torch.jit.trace(step, (torch.randn(2, 3), torch.randn(2, 3)))
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    assert same(step(x, y), traced(x, y)) and same(step(x, y), saved(traced)(x, y))


def test_running_statistics_are_written():
    net, x = nn.BatchNorm1d(3), torch.randn(8, 3)
    traced = torch.jit.trace(net, x, check_trace=False)
    before = net.running_mean.clone()
    traced(x)
    assert not torch.equal(net.running_mean, before)
    assert traced.num_batches_tracked.item() == net.num_batches_tracked.item()


def test_a_trace_can_be_trained():
    net = nn.Linear(3, 2)
    traced = torch.jit.trace(net, torch.ones(1, 3))
    traced(torch.ones(4, 3)).sum().backward()
    assert net.weight.grad is not None and traced.weight is net.weight


def test_random_numbers_are_refused_or_warned_of():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((torch.jit.NotSupportedError, torch.jit.TracingCheckError)):
            torch.jit.trace(net, torch.ones(8, 3))


def test_inputs_have_to_be_tensors():
    with pytest.raises(TypeError, match=r"example_inputs\[1\] is a int, not a tensor"):
        torch.jit.trace(lambda x, n: x * n, (torch.ones(1), 3))


# Freezing -----------------------------------------------------------------------------------------

torch.manual_seed(0)
MODULES = module_cases(torch.randn(2, 3))


@pytest.mark.parametrize("name", MODULES)
def test_a_frozen_module_computes_the_same(name):
    module, inputs = MODULES[name]
    module.eval()
    if name == "counts":
        module.count = 0
    frozen = torch.jit.freeze(torch.jit.script(module))
    again = saved(frozen)(*copied(inputs))  # before it counts a call
    result = frozen(*copied(inputs))
    if name == "counts":
        module.count = 0
    expected = module(*copied(inputs))
    assert same(expected, result) and same(expected, again)
    assert not list(frozen.parameters()) and not frozen.training


def test_freezing_leaves_out_what_is_never_taken():
    frozen = torch.jit.freeze(torch.jit.script(nn.ReLU().eval()))
    assert "relu_" not in frozen.code and "return torch.relu(input)" in frozen.code


def test_preserved_attributes_stay():
    net = torch.jit.script(nn.Linear(2, 2).eval())
    frozen = torch.jit.freeze(net, preserved_attrs=["weight"])
    assert list(frozen.state_dict()) == ["weight"] and "CONSTANTS.c0" in frozen.code
    frozen.weight.data.fill_(0)
    assert torch.equal(frozen(torch.ones(2)), net.bias)


def test_only_a_script_in_eval_mode_is_frozen():
    with pytest.raises(RuntimeError, match=r"module\.eval\(\) first"):
        torch.jit.freeze(torch.jit.script(nn.Linear(1, 1)))
    with pytest.raises(RuntimeError, match="script it first"):
        torch.jit.freeze(nn.Linear(1, 1).eval())
    loaded = saved(torch.jit.script(nn.Linear(1, 1)))
    assert torch.jit.optimize_for_inference(loaded) is loaded
    assert not list(torch.jit.optimize_for_inference(loaded.eval()).parameters())
