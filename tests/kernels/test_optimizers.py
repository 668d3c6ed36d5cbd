"""A kernel's step is that of its definition, to the last bit."""

import os
import queue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edutorch
from edutorch import kernels, optim
from edutorch.backends import reference_only
from edutorch.backends.kernel_registry import slots

pytest.importorskip("numba", reason="needs numba: the extra `fast`")
from edutorch.kernels.cpu import optimizers, parallel
from edutorch.optim import fused

SHAPES = [[(300, 250)], [(70,), (), (3, 0), (100, 90), (7, 11, 13)]]
"""One parameter that is shared by the threads; several, whose gradients are copied together."""

CASES = {
    "Adam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True},
             {"betas": (0.5, 0.9), "eps": 1e-3, "lr": 0.1}, {"maximize": True},
             {"amsgrad": True, "weight_decay": 0.1}],
    "AdamW": [{}, {"amsgrad": True}],
    "SGD": [{}, {"weight_decay": 0.1, "maximize": True}, {"momentum": 0.9},
            {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
            {"momentum": 0.5, "dampening": 0.3, "maximize": True}],
    "RMSprop": [{}, {"momentum": 0.9}, {"centered": True, "weight_decay": 0.1},
                {"centered": True, "momentum": 0.5, "maximize": True}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}],
    "NAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"betas": (0.9, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}],
    "Adadelta": [{}, {"weight_decay": 0.1, "rho": 0.5}],
    "Adamax": [{}, {"weight_decay": 0.1}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (0.005, 0.02), "maximize": True}],
    "ASGD": [{}, {"t0": 1, "lambd": 0.1, "weight_decay": 0.1}],
}  # fmt: skip
EACH = [(name, settings) for name, some in CASES.items() for settings in some]


@pytest.fixture(autouse=True, scope="module")
def _kernels_at_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDUTORCH_KERNELS", "wait")
        patch.setattr(edutorch.settings.State, "threads", 3)
        patch.setattr(parallel, "MIN_WORK_PER_THREAD", 20_000)
        yield


def made(name, settings, shapes, dtype):
    generator = np.random.default_rng(0)
    params = [
        edutorch.tensor(generator.normal(size=shape), dtype=dtype, requires_grad=True)
        for shape in shapes
    ]
    return params, getattr(optim, name)(params, **{"lr": 0.01, **settings})


def give_gradients(params, step):
    generator = np.random.default_rng(step)
    for param in params:
        param.grad = edutorch.tensor(generator.normal(size=param.shape), dtype=param.dtype)


def everything(params, optimizer):
    """All parameters and what is remembered about them, as bytes."""
    held = [value for param in params for value in optimizer.state.get(param, {}).values()]
    return [param.detach().numpy().tobytes() for param in [*params, *held] if param is not None]


def trained(name, settings, shapes, dtype, steps=4):
    params, optimizer = made(name, settings, shapes, dtype)
    for step in range(steps):
        give_gradients(params, step)
        optimizer.step()
    return everything(params, optimizer)


@pytest.fixture
def calls(monkeypatch):
    """The number of parameters of each call of a kernel."""
    seen = []
    parallel_for = optimizers.parallel_for

    def watched(kernel, count, *arguments, **more):
        seen.append(len(arguments[0]))
        parallel_for(kernel, count, *arguments, **more)

    monkeypatch.setattr(optimizers, "parallel_for", watched)
    return seen


@pytest.mark.parametrize("dtype", [edutorch.float32, edutorch.float64], ids=["32", "64"])
@pytest.mark.parametrize("shapes", SHAPES, ids=["one", "several"])
@pytest.mark.parametrize(("name", "settings"), EACH)
def test_the_same_bits(name, settings, shapes, dtype, calls):
    fast = trained(name, settings, shapes, dtype)
    assert len(calls) >= 3, "the kernel was not used"
    with reference_only():
        assert all(slot.run is None for slot in slots())
        slow = trained(name, settings, shapes, dtype)
    assert fast == slow


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_parameters(data):
    name, given_settings = data.draw(st.sampled_from(EACH))
    dtype = data.draw(st.sampled_from([edutorch.float32, edutorch.float64]))
    shapes = data.draw(st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), min_size=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "MIN_FUSED_SIZE", 0)
        patch.setattr(fused, "SMALL_GRADIENT_SIZE", data.draw(st.sampled_from([0, 1000])))
        patch.setattr(parallel, "MIN_WORK_PER_THREAD", data.draw(st.sampled_from([1, 10, 1000])))
        patch.setattr(parallel, "MIN_PARALLEL", 2 * parallel.MIN_WORK_PER_THREAD)
        fast = trained(name, given_settings, shapes, dtype, steps=3)
    with reference_only():
        assert trained(name, given_settings, shapes, dtype, steps=3) == fast


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_a_number(name):
    def with_gaps():
        params, optimizer = made(name, {}, [(100, 100)], edutorch.float32)
        for step in range(3):
            give_gradients(params, step)
            params[0].grad[0, :3] = edutorch.tensor([np.nan, np.inf, -np.inf])
            optimizer.step()
        return params[0].detach().numpy()

    fast = with_gaps()
    with reference_only():
        slow = with_gaps()
    assert np.array_equal(fast, slow, equal_nan=True)


def test_few_numbers_are_left_to_the_definition(calls):
    trained("Adam", {}, [(8191,)], edutorch.float32)
    assert calls == []
    trained("Adam", {}, [(8190,), (2,)], edutorch.float32)
    assert calls == [2] * 3


@pytest.mark.parametrize("name", ["Adam", "SGD", "NAdam"])
def test_gradients_that_are_not_always_there(name, calls):
    def some():
        params, optimizer = made(name, {}, [(9000,), (9500,), (100,)], edutorch.float32)
        for step in range(9):
            give_gradients(params, step)
            if step in (0, 4, 5):
                params[1].grad = None
            if step == 6:
                params[0].grad = params[2].grad = None
            optimizer.step()
        return everything(params, optimizer)

    fast = some()
    assert len(calls) > 5
    with reference_only():
        assert some() == fast


def test_arrays_that_are_exchanged_are_found(calls):
    def exchanging():
        params, optimizer = made("Adam", {}, [(9000,), (100,)], edutorch.float32)
        for step in range(6):
            give_gradients(params, step)
            if step == 3:
                params[0].data = edutorch.ones(9000)
            if step == 4:
                optimizer.load_state_dict(optimizer.state_dict())
            if step == 5:
                optimizer.param_groups[0]["lr"] = 0.5
                optimizer.state[params[1]]["exp_avg"] = edutorch.ones(100)
            optimizer.step()
        return everything(params, optimizer)

    fast = exchanging()
    assert len(calls) == 5
    with reference_only():
        assert exchanging() == fast


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_state_that_is_dropped_begins_anew(name):
    def drop(optimizer, param):
        if name == "SGD":
            optimizer.state[param]["momentum_buffer"] = None
        yield
        optimizer.state.clear()
        yield
        del optimizer.state[param]
        yield

    def dropping():
        settings = {"momentum": 0.9} if name == "SGD" else {}
        params, optimizer = made(name, settings, [(9000,)], edutorch.float32)
        drops = drop(optimizer, params[0])
        for step in range(9):
            if step % 3 == 2:
                next(drops)
            give_gradients(params, step)
            optimizer.step()
        return everything(params, optimizer)

    fast = dropping()
    with reference_only():
        assert dropping() == fast


def test_settings_that_change_what_is_remembered():
    def changing():
        params, optimizer = made("SGD", {}, [(9000,)], edutorch.float32)
        for step in range(6):
            give_gradients(params, step)
            optimizer.param_groups[0]["momentum"] = 0.9 if 2 <= step < 5 else 0
            if step == 2:
                optimizer.state[params[0]] = {"momentum_buffer": None}
            optimizer.step()
        return everything(params, optimizer)

    fast = changing()
    with reference_only():
        assert changing() == fast


def test_groups_have_tables_of_their_own(calls):
    def grouped():
        params, _ = made("Adam", {}, [(9000,), (9500,)], edutorch.float32)
        optimizer = optim.Adam([{"params": [params[0]], "lr": 0.1}, {"params": [params[1]]}])
        for step in range(3):
            give_gradients(params, step)
            optimizer.step()
        return everything(params, optimizer)

    fast = grouped()
    assert calls == [1] * 4
    with reference_only():
        assert grouped() == fast


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_other_layouts_and_types_are_left_to_the_definition(calls):
    turned = edutorch.zeros(256, 128).T.requires_grad_()
    half = edutorch.zeros(32768, dtype=edutorch.bfloat16, requires_grad=True)
    twice = edutorch.zeros(9000, requires_grad=True)
    optimizer = optim.Adam([{"params": [parameter]} for parameter in (turned, half)])
    other = optim.Adam([twice, twice])
    for _ in range(2):
        turned.grad, half.grad = edutorch.ones(128, 256), edutorch.ones_like(half)
        twice.grad = edutorch.ones(9000)
        optimizer.step()
        other.step()
    assert calls == []
    assert turned.detach().numpy().flatten() == pytest.approx(np.full(32768, -2e-3))
    assert half.float()[0].item() == pytest.approx(-2e-3, rel=0.01)
    assert twice[0].item() == pytest.approx(-4e-3)


def test_a_rule_of_ones_own_is_not_replaced(calls):
    class Halving(optim.Adam):
        def update(self, xp, group, param, grad, state):
            param *= 0.5

    w = edutorch.ones(10_000, requires_grad=True)
    optimizer = Halving([w])
    w.grad = edutorch.ones(10_000)
    optimizer.step()
    assert w[0].item() == 0.5 and calls == []


def test_a_gradient_without_order_is_read_as_it_is(calls):
    def turned():
        params, optimizer = made("Adam", {}, [(200, 200)], edutorch.float32)
        for step in range(3):
            generator = np.random.default_rng(step)
            grad = edutorch.tensor(generator.normal(size=(200, 200)), dtype=edutorch.float32)
            params[0].grad = grad.T
            optimizer.step()
        return everything(params, optimizer)

    fast = turned()
    assert len(calls) == 2
    with reference_only():
        assert turned() == fast


def test_a_forked_process_has_kernels_too():
    large = ("Adam", {}, [(250_000,)], edutorch.float32)
    here = trained(*large)  # makes the pool
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"same" if trained(*large) == here else b"other")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"same"


def test_a_compiler_that_fails_is_said_and_the_definition_goes_on(monkeypatch):
    told = queue.SimpleQueue()

    def broken(slot):
        raise ImportError("Numba needs another NumPy")

    monkeypatch.setattr(kernels, "make", broken)
    monkeypatch.setattr(kernels, "warn", told.put)
    kernels.compiler.submit(lambda: kernels.make_or_warn(optim.Adam.fused_kernel.slot))
    text = told.get(timeout=60)
    assert "Numba needs another NumPy" in text
    assert "try `doctor`" in text
    monkeypatch.setattr(optim.Adam.fused_kernel.slot, "run", None)
    params, optimizer = made("Adam", {}, [(9000,)], edutorch.float32)
    give_gradients(params, 0)
    optimizer.step()
    assert params[0].isfinite().all()


@pytest.mark.parametrize("name", CASES)
def test_steps_that_are_recorded_are_left_to_the_definition(name, calls):
    (leaf,), _ = made(name, {}, [(9000,)], edutorch.float64)
    x = leaf * 1.0
    optimizer = getattr(optim, name)([x], lr=0.01, differentiable=True)
    for _ in range(3):
        x.grad = (leaf * leaf).detach() * 2.0
        optimizer.step()
    assert calls == []
    x.sum().backward()
    assert leaf.grad.abs().min() > 0


STEP_DTYPES = [
    (edutorch.float64, edutorch.float64), (edutorch.int64, edutorch.int64),
    (edutorch.float16, edutorch.float16), (edutorch.float32, edutorch.float64),
    (edutorch.float32, edutorch.int64),
]  # fmt: skip


@pytest.mark.parametrize("dtypes", STEP_DTYPES, ids=str)
@pytest.mark.parametrize("name", ["Adam", "NAdam"])
def test_a_step_count_of_any_dtype_is_read_as_it_is(name, dtypes):
    """A state from elsewhere may count its steps in integers, or in several dtypes."""

    def counted():
        params, optimizer = made(name, {}, [(9000,), (100,)], edutorch.float32)
        for step in range(5):
            give_gradients(params, step)
            if step == 2:
                for param, dtype in zip(params, dtypes, strict=True):
                    optimizer.state[param]["step"] = optimizer.state[param]["step"].to(dtype)
            optimizer.step()
        return everything(params, optimizer)

    fast = counted()
    with reference_only():
        assert counted() == fast


def test_each_fused_optimizer_has_cases():
    fused_names = {name for name in optim.__all__
                   if getattr(getattr(optim, name), "fused_kernel", None) is not None}  # fmt: skip
    assert fused_names == set(CASES)


class SignDescent(optim.Optimizer):
    """The example of CONTRIBUTING.md, with a momentum."""

    fused_kernel = fused.FusedKernel()

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    def init_state(self, group, param):
        return {"average": edutorch.zeros_like(param)}

    def update(self, xp, group, param, grad, state):
        average = state["average"]
        average *= 0.9
        average += grad
        param -= group["lr"] * xp.sign(average)


def test_an_optimizer_of_ones_own_is_fused_as_it_is(calls):
    def stepped():
        (param,), _ = made("SGD", {}, [(100, 90)], edutorch.float32)
        optimizer = SignDescent([param], 0.1)
        for step in range(4):
            give_gradients([param], step)
            optimizer.step()
        return everything([param], optimizer)

    fast = stepped()
    assert len(calls) == 3
    with reference_only():
        assert stepped() == fast


def test_a_rule_that_looks_at_values_cannot_be_traced():
    class Deciding(optim.Optimizer):
        fused_kernel = fused.FusedKernel()

        def update(self, xp, group, param, grad, state):
            if grad > 0:
                param -= grad

    w = edutorch.ones(10_000, requires_grad=True)
    w.grad = edutorch.ones(10_000)
    with pytest.raises(TypeError, match=r"use where\(\)"):
        Deciding([w], {}).step()
