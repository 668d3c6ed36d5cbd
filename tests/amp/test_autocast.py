"""`autocast`: regions, the weight cache, gradients, and other features inside."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import edutorch as t
from edutorch.amp.autocast_mode import state
from edutorch.core.tensor import Tensor
from edutorch.modes import DEFAULT, current

A = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def layer() -> t.nn.Linear:
    t.manual_seed(0)
    return t.nn.Linear(4, 2)


# Regions ---------------------------------------------------------------------------------------


def test_a_region_and_what_is_left_after_it():
    x, net = t.tensor(A), layer()
    with t.autocast("cpu") as region:
        assert isinstance(region, t.amp.autocast)
        assert t.is_autocast_enabled("cpu")
        assert not t.is_autocast_enabled("cuda")
        assert net(x).dtype is t.bfloat16
    assert not t.is_autocast_enabled("cpu")
    assert current() is DEFAULT
    assert net(x).dtype is t.float32
    assert not state().cache


def test_nested_regions():
    x, net = t.tensor(A), layer()
    with t.autocast("cpu"):
        with t.autocast("cpu", enabled=False):
            assert net(x).dtype is t.float32
            with t.autocast("cpu", dtype=t.float16):
                assert t.get_autocast_dtype("cpu") is t.float16
                assert net(x).dtype is t.float16
            assert net(x).dtype is t.float32
        assert net(x).dtype is t.bfloat16
        with t.autocast("cuda", enabled=False):
            assert net(x).dtype is t.bfloat16
    assert t.get_autocast_dtype("cpu") is t.bfloat16
    assert not state().cache  # the end of the outermost region frees the converted weights


def test_an_error_inside_ends_the_region():
    with pytest.raises(ZeroDivisionError), t.autocast("cpu"), t.no_grad():
        _ = 1 / 0
    assert current() is DEFAULT


def test_a_decorator_and_one_object_several_times():
    region = t.autocast("cpu")

    @region
    def half(x: Tensor, depth: int = 1) -> Tensor:
        return half(x, depth - 1) if depth else x @ x.T

    assert half(t.tensor(A)).dtype is t.bfloat16
    with region, region:
        assert (t.tensor(A) @ t.tensor(A).T).dtype is t.bfloat16
    assert current() is DEFAULT


def test_threads_have_states_of_their_own():
    seen = []
    with t.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(t.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
    assert seen == [False]


def test_no_grad_and_autocast_in_either_order():
    net, x = layer(), t.tensor(A)
    with t.no_grad(), t.autocast("cpu"):
        y = net(x)
    with t.autocast("cpu"):
        with t.no_grad():
            z = net(x)
        y_again = net(x)  # the weight that was converted without a gradient is not used
    assert (y.dtype, y.requires_grad, z.requires_grad) == (t.bfloat16, False, False)
    assert y_again.requires_grad
    y_again.sum().backward()
    assert net.weight.grad is not None


def test_switches():
    t.set_autocast_enabled("cpu", True)
    t.set_autocast_dtype("cpu", t.float16)
    try:
        assert layer()(t.tensor(A)).dtype is t.float16
    finally:
        t.set_autocast_enabled("cpu", False)
        t.set_autocast_dtype("cpu", t.bfloat16)
    assert current() is DEFAULT
    t.set_autocast_enabled(True)
    assert t.is_autocast_enabled()
    t.set_autocast_enabled(False)
    for enabled in (False, True):
        t.set_autocast_cache_enabled(enabled)
        assert t.is_autocast_cache_enabled() is enabled
    assert (t.autocast_increment_nesting(), t.autocast_decrement_nesting()) == (1, 0)


def test_old_forms_of_the_switches_do_the_same_and_say_so():
    before = [(t.is_autocast_enabled(name), t.get_autocast_dtype(name)) for name in ("cpu", "cuda")]
    try:
        for old, device, read, value in (
            ("autocast_cpu_enabled", "cpu", t.is_autocast_enabled, True),
            ("autocast_cpu_enabled", "cpu", t.is_autocast_enabled, False),
            ("autocast_cpu_dtype", "cpu", t.get_autocast_dtype, t.float16),
            ("autocast_gpu_dtype", "cuda", t.get_autocast_dtype, t.bfloat16),
        ):
            verb = read.__name__.partition("_")[0]
            said = rf"{old}\(.*Please use {{}}_autocast_\w+\('{device}'"
            with pytest.warns(DeprecationWarning, match=said.format("set")):
                getattr(t, f"set_{old}")(value)
            assert read(device) == value
            with pytest.warns(DeprecationWarning, match=said.format(verb)):
                assert getattr(t, f"{verb}_{old}")() == value
    finally:
        for name, (enabled, dtype) in zip(("cpu", "cuda"), before, strict=True):
            t.set_autocast_enabled(name, enabled)
            t.set_autocast_dtype(name, dtype)


def test_names_that_pytorch_has(torch):
    for name in dir(torch):
        if "autocast" in name and "ipu" not in name and "xla" not in name:
            assert hasattr(t, name)
    assert set(torch.amp.__all__) <= set(t.amp.__all__)
    assert t.amp.autocast_mode.is_autocast_available("cuda")
    for old in (t.cpu.amp, t.cuda.amp):
        with pytest.warns(FutureWarning, match="is deprecated"):
            old.autocast(enabled=False)
        with pytest.warns(FutureWarning, match="is deprecated"):
            assert not old.GradScaler(enabled=False).is_enabled()


def test_float64_integers_and_writes_in_place_keep_their_type():
    with t.autocast("cpu"):
        x = t.tensor(A).double()
        assert (x @ x.T).dtype is t.float64
        i = t.tensor([[1, 2]])
        assert (i @ i.T).dtype is t.int64
        y, ones = t.ones(3, 3), t.ones(3, 4)
        out = t.empty(3, 3)
        assert y.addmm_(ones / 3, ones.T).dtype is t.float32
        assert abs(y[0, 0].item() - 7 / 3) < 1e-6
        assert t.mm(ones, ones.T, out=out) is out


# Weights that are kept -------------------------------------------------------------------------


def test_a_weight_is_converted_once_and_again_after_a_step():
    net, x = layer(), t.tensor(A)
    optimizer = t.optim.SGD(net.parameters(), lr=0.5)
    with t.autocast("cpu"):
        first = net(x)
        (kept,) = [entry[-1] for key, entry in state().cache.items() if key[0] == id(net.weight)]
        net(x)
        assert any(entry[-1] is kept for entry in state().cache.values())
        first.float().sum().backward()
        optimizer.step()
        after = net(x)
        with t.autocast("cpu", enabled=False):
            exact = net(x)
        np.testing.assert_allclose(after.float().tolist(), exact.tolist(), rtol=0.03, atol=0.03)
        assert abs(after - first).max().item() > 0.5
        with t.no_grad():
            net.weight.data.zero_()
            net.bias.copy_(t.tensor([3.0, 4.0]))
        assert net(x)[0].tolist() == [3.0, 4.0]
        net.weight.data = t.ones(2, 4)
        np.testing.assert_allclose(net(x)[0, 0].item(), 3 + A[0].sum(), rtol=0.02)
        with t.autocast("cpu"):
            pass
        assert state().cache  # an inner region ends, and they are still there
        t.clear_autocast_cache()
        assert not state().cache
    assert not state().cache


def test_without_the_cache_nothing_is_kept():
    with t.autocast("cpu", cache_enabled=False):
        assert not t.is_autocast_cache_enabled()
        layer()(t.tensor(A))
        assert not state().cache
    assert t.is_autocast_cache_enabled()


def test_memory_that_numpy_shows_is_never_kept():
    shared = np.ones((4, 4), np.float32)
    w = t.from_numpy(shared).requires_grad_()
    with t.autocast("cpu"):
        before = (t.ones(1, 4) @ w).sum().item()
        shared[:] = 2
        assert (t.ones(1, 4) @ w).sum().item() == 2 * before


# Gradients -------------------------------------------------------------------------------------


def test_gradients_have_the_parameters_type_and_add_up():
    net, x = layer(), t.tensor(A, requires_grad=True)
    with t.autocast("cpu"):
        y = net(x) * 2 + net(x)
    y.sum().backward()
    assert (x.grad.dtype, net.weight.grad.dtype) == (t.float32, t.float32)
    np.testing.assert_allclose(net.weight.grad[0].tolist(), 3 * A.sum(0), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("inside", [False, True])
def test_second_derivatives(inside, torch):
    results = []
    for lib in (torch, t):
        x = lib.tensor(A[:, :3] / 4, requires_grad=True)
        with lib.autocast("cpu"):
            y = (x @ x).tanh().sum()
            if inside:
                (g,) = lib.autograd.grad(y, x, create_graph=True)
        if not inside:
            (g,) = lib.autograd.grad(y, x, create_graph=True)
        (h,) = lib.autograd.grad((g * g).sum(), x)
        assert (str(g.dtype), str(h.dtype)) == ("torch.float32",) * 2
        results.append((g.tolist(), h.tolist()))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=0.03, atol=0.03)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=0.05, atol=0.1)


def test_checkpoint_computes_again_under_the_same_autocast():
    net, x = layer(), t.tensor(A, requires_grad=True)
    seen = []

    def part(x: Tensor) -> Tensor:
        y = net(x)
        seen.append(y.dtype)
        return y.exp()

    with t.autocast("cpu"):
        y = t.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
    y.float().sum().backward()
    assert seen == [t.bfloat16, t.bfloat16]
    assert not state().cache
    gradient, x.grad = x.grad.tolist(), None
    with t.autocast("cpu"):
        y = part(x)
    y.float().sum().backward()
    np.testing.assert_allclose(gradient, x.grad.tolist())
    z = t.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
    with t.autocast("cpu"):
        z.sum().backward()  # it ran without autocast
    assert seen[-2:] == [t.float32, t.float32]


def test_func():
    net, x = layer(), t.tensor(A)
    params = dict(net.named_parameters())

    def loss(params, row):
        return t.func.functional_call(net, params, (row,)).float().square().sum()

    exact = t.func.vmap(t.func.grad(loss), (None, 0))(params, x)["weight"]
    with t.autocast("cpu"):
        assert t.vmap(net)(x).dtype is t.bfloat16
        result = t.func.vmap(t.func.grad(loss), (None, 0))(params, x)["weight"]
        _, moved = t.func.jvp(net, (x,), (t.ones(3, 4),))
    assert result.dtype is t.float32
    np.testing.assert_allclose(result.tolist(), exact.tolist(), rtol=0.05, atol=0.05)
    np.testing.assert_allclose(moved[0].tolist(), net.weight.sum(1).tolist(), rtol=0.03, atol=0.02)


def test_a_network_with_attention_norms_and_a_loss():
    net = t.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = t.randn(2, 5, 8)
    exact = net(x)
    with t.autocast("cpu"):
        y = net(x)
    np.testing.assert_allclose(y.float().tolist(), exact.tolist(), rtol=0.1, atol=0.05)
    y.float().square().sum().backward()
    assert all(p.grad.dtype is t.float32 for p in net.parameters())


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_modules(name, torch):
    theirs, ours = getattr(torch.nn, name)(4, 3), getattr(t.nn, name)(4, 3)
    ours.load_state_dict({k: t.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = A[:, None]
    with t.autocast("cpu"):
        result, _ = ours(t.tensor(x))
    try:
        with torch.autocast("cpu"):
            expected, _ = theirs(torch.tensor(x))
    except RuntimeError as error:
        if "primitive descriptor" not in str(error):
            raise
        pytest.skip(f"on this processor PyTorch has no {name} in bfloat16")
    np.testing.assert_allclose(
        result.float().tolist(), expected.float().tolist(), rtol=0.03, atol=0.02
    )
    if name != "LSTM":  # there it depends on the processor
        assert str(result.dtype) == str(expected.dtype)


# Functions with a derivative of their own -------------------------------------------------------


def product(lib, cast_inputs):
    class Product(lib.autograd.Function):
        @staticmethod
        @lib.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append(str((a @ b).dtype))
            return a @ b

        @staticmethod
        @lib.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append(str((g.float() @ b.float().T).dtype))
            return (g.float() @ b.float().T).to(a.dtype), (a.float().T @ g.float()).to(b.dtype)

    seen: list[str] = []
    return Product, seen


@pytest.mark.parametrize("cast", [None, "float32"])
@pytest.mark.parametrize("region", [False, True])
def test_custom_functions(cast, region, torch):
    both = []
    for lib in (torch, t):
        function, seen = product(lib, cast and getattr(lib, cast))
        a = lib.tensor(A, requires_grad=True)
        with lib.autocast("cpu", enabled=region):
            y = function.apply(a, lib.tensor(A.T))
        y.float().sum().backward()
        both.append((seen, str(y.dtype), str(a.grad.dtype)))
    assert both[1] == both[0]


# What goes wrong --------------------------------------------------------------------------------


def test_arguments_that_make_no_sense(torch):
    for arguments, text in {
        (3,): "autocast: expected `device_type` of type `str`, got int",
        ("xyz",): "there is no autocast for the device 'xyz'",
        ("cpu", "bf16"): "dtype has to be a dtype, not str",
    }.items():
        with pytest.raises(Exception, match=text) as ours:
            t.autocast(*arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises((RuntimeError, TypeError, ValueError)) as theirs:
                torch.autocast(*arguments).__enter__()
        assert isinstance(ours.value, theirs.type)
    with pytest.raises(TypeError, match="enabled has to be a bool"):
        t.set_autocast_enabled("cpu", "on")
    with pytest.raises(ValueError, match="hint: pass its name"):
        t.amp.custom_fwd(lambda x: x, device_type=t.device("cpu"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_other_types_give_a_warning_and_no_autocast(dtype, torch):
    for lib in (torch, t):
        with pytest.warns(UserWarning, match="target dtype"):
            region = lib.autocast("cpu", dtype=getattr(lib, dtype))
        with region:
            assert not lib.is_autocast_enabled("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t.autocast("cpu", dtype=t.float32, enabled=False)


@pytest.mark.skipif(t.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_gives_a_warning():
    with pytest.warns(UserWarning, match="cuda is not available. Disabling"):
        region = t.autocast("cuda")
    with region:
        assert not t.is_autocast_enabled("cuda")


def test_a_loss_that_is_not_safe_on_a_gpu():
    p = t.full((2,), 0.5, device="strict")
    with t.autocast("strict"), pytest.raises(RuntimeError) as caught:
        t.nn.functional.binary_cross_entropy(p, p)
    assert "unsafe to autocast" in str(caught.value)
    assert "hint: use binary_cross_entropy_with_logits" in str(caught.value)
    with t.autocast("cpu"):
        t.nn.functional.binary_cross_entropy(p.cpu(), p.cpu())


def test_both_16_bit_types_in_one_op():
    with t.autocast("cpu"), pytest.raises(RuntimeError, match="the other 16-bit type"):
        t.cat([t.ones(2).half(), t.ones(2)])
