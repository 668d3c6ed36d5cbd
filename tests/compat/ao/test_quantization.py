"""`torch.ao.quantization`: quantized tensors, observers, and quantized models beside PyTorch's."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from edutorch.ao import quantization as Q

import edutorch
from edutorch import nn, tensor

X = tensor([[-1.0, 0.0, 0.26, 2.0]])


# Tensors ------------------------------------------------------------------------------------------


def test_a_quantized_tensor():
    q = edutorch.quantize_per_tensor(X, 0.1, 10, edutorch.quint8)
    assert q.int_repr().tolist() == [[0, 10, 13, 30]]
    assert q.int_repr().dtype is edutorch.uint8
    assert np.allclose(q.dequantize().numpy(), [[-1, 0, 0.3, 2]])
    assert (q.q_scale(), q.q_zero_point(), q.dtype) == (0.1, 10, edutorch.quint8)
    assert q.qscheme() is edutorch.per_tensor_affine
    assert (q.is_quantized, X.is_quantized, q.element_size(), q.shape) == (True, False, 1, (1, 4))
    assert str(q) == (
        "tensor([[-1.0000,  0.0000,  0.3000,  2.0000]], size=(1, 4), dtype=torch.quint8,\n"
        "       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)"
    )
    assert edutorch.dequantize([q])[0].tolist() == q.dequantize().tolist()


def test_each_channel_may_have_a_scale():
    scales, zero_points = tensor([0.1, 0.2]), tensor([0, 1])
    q = edutorch.quantize_per_channel(X.reshape(2, 2), scales, zero_points, 0, edutorch.qint8)
    assert q.int_repr().tolist() == [[-10, 0], [2, 11]]
    assert q.q_per_channel_axis() == 0
    assert q.q_per_channel_zero_points().tolist() == [0, 1]
    assert q.qscheme() is edutorch.per_channel_affine
    assert "axis=0)" in repr(q)
    with pytest.raises(
        RuntimeError, match=r"q_scale: the tensor is quantized as torch\.per_channel"
    ):
        q.q_scale()


def test_what_keeps_the_scale():
    x = edutorch.arange(32.0).reshape(1, 2, 4, 4) - 16
    q = edutorch.quantize_per_tensor(x, 0.5, 100, edutorch.quint8)
    for function in (
        lambda x: x.relu(), lambda x: nn.functional.max_pool2d(x, 2), lambda x: x.flatten(1),
        lambda x: x.permute(0, 2, 3, 1), lambda x: x[0, 1:], lambda x: x.view(2, 16), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), lambda x: nn.functional.adaptive_avg_pool2d(x, 1),
    ):  # fmt: skip
        result = function(q)
        assert result.is_quantized
        assert (result.q_scale(), result.q_zero_point()) == (0.5, 100)
        assert np.abs(result.dequantize().numpy() - function(x).numpy()).max() <= 0.25


def test_other_ops_are_refused():
    q = edutorch.quantize_per_tensor(X, 0.1, 10, edutorch.quint8)
    for function in (lambda: q + q, lambda: q @ q.t(), lambda: q.exp(), lambda: X + q):
        with pytest.raises(NotImplementedError, match="is not defined for quantized tensors"):
            function()


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint32"])
def test_quantized_tensors_as_in_pytorch(torch, dtype):
    values = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32) * 20
    ours = edutorch.quantize_per_tensor(tensor(values), 0.137, 7, getattr(edutorch, dtype))
    theirs = torch.quantize_per_tensor(torch.tensor(values), 0.137, 7, getattr(torch, dtype))
    assert ours.int_repr().tolist() == theirs.int_repr().tolist()
    assert np.allclose(ours.dequantize().numpy(), theirs.dequantize().numpy(), rtol=1e-6)
    assert ours.int_repr().numpy().dtype == theirs.int_repr().numpy().dtype
    for reduce_range in (False, True):
        ours = edutorch.quantize_per_tensor_dynamic(tensor(values), edutorch.quint8, reduce_range)
        theirs = torch.quantize_per_tensor_dynamic(torch.tensor(values), torch.quint8, reduce_range)
        assert ours.q_scale() == pytest.approx(theirs.q_scale())
        assert ours.q_zero_point() == theirs.q_zero_point()


def test_bad_arguments():
    per_tensor, quint8, qint8 = edutorch.quantize_per_tensor, edutorch.quint8, edutorch.qint8
    per_channel, dynamic = edutorch.quantize_per_channel, edutorch.quantize_per_tensor_dynamic
    fake = edutorch.fake_quantize_per_tensor_affine
    for function, message in (
        (lambda: per_tensor(X, 0.1, 300, quint8), "zero_point 300 is above upper bound"),
        (lambda: per_tensor(X, 0.1, -1, quint8), "zero_point -1 is below lower bound"),
        (lambda: per_tensor(X, 0.1, 3, edutorch.int8), r"cannot quantize to torch\.int8"),
        (lambda: per_tensor(X.double(), 0.1, 3, qint8), r"got torch\.float64"),
        (lambda: dynamic(X / 0, quint8, False), "infinite or NaN"),
        (lambda: per_channel(X, tensor([0.1, 0.2]), tensor([0, 1]), 0, qint8), "length of scales"),
        (lambda: per_channel(X, tensor([0.1]), tensor([0]), 5, qint8), "Channel axis out of range"),
        (lambda: fake(X, 0.1, 300, 0, 255), "must be between"),
        (lambda: fake(X, 0.1, 3, 10, 0), "less than or equal"),
    ):
        with pytest.raises(RuntimeError, match=message):
            function()


# Fake quantization and observers ------------------------------------------------------------------


def test_fake_quantization_as_in_pytorch(torch):
    values = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32) * 10
    for name, *args in (
        ("per_tensor", 0.1, 10, 0, 255),
        ("per_channel", [0.1, 0.02], [0, 3], 0, -128, 127),
    ):
        results = []
        for library in (edutorch, torch):
            x = library.tensor(values, requires_grad=True)
            make = [library.tensor(a) if isinstance(a, list) else a for a in args]
            if name == "per_channel":
                make[1] = make[1].int()
            y = getattr(library, f"fake_quantize_{name}_affine")(x, *make)
            (y * y).sum().backward()
            results.append((y.detach().numpy(), x.grad.numpy(), type(y.grad_fn).__name__))
        assert np.allclose(results[0][0], results[1][0], rtol=1e-6)
        assert np.allclose(results[0][1], results[1][1])


def test_observers_as_in_pytorch(torch):
    batches = np.random.default_rng(2).normal(size=(3, 4, 5)).astype(np.float32) + 0.5
    import torch.ao.quantization as T

    for name in (
        "MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver",
        "MovingAveragePerChannelMinMaxObserver",
    ):  # fmt: skip
        per = "per_channel" if "Channel" in name else "per_tensor"
        for dtype in ("quint8", "qint8"):
            for scheme in ("affine", "symmetric"):
                for reduce_range in (False, True):
                    if (dtype, scheme, reduce_range) == ("quint8", "symmetric", True):
                        with pytest.raises(NotImplementedError, match="Cannot reduce range"):
                            getattr(Q, name)(
                                qscheme=getattr(edutorch, f"{per}_symmetric"), reduce_range=True
                            )
                        continue
                    results = []
                    for library, module in ((edutorch, Q), (torch, T)):
                        observer = getattr(module, name)(
                            dtype=getattr(library, dtype), reduce_range=reduce_range,
                            qscheme=getattr(library, f"{per}_{scheme}"),
                        )  # fmt: skip
                        for batch in batches:
                            observer(library.tensor(batch))
                        scale, zero_point = observer.calculate_qparams()
                        results.append((scale.numpy(), zero_point.tolist(), str(observer)[:20]))
                    assert np.allclose(results[0][0], results[1][0], rtol=1e-6)
                    assert results[0][1:] == results[1][1:], (name, dtype, scheme, reduce_range)


def test_an_observer_without_values_warns():
    with pytest.warns(UserWarning, match="must run observer before"):
        assert Q.MinMaxObserver().calculate_qparams()[0].item() == 1


def test_fake_quantize_modules_can_be_switched_off():
    rounding = Q.FakeQuantize()
    rounding(tensor([0.0, 1.0]))
    rounding.apply(Q.disable_observer)
    assert rounding(tensor([0.0, 5.0])).tolist() == [0, 1]
    rounding.apply(Q.disable_fake_quant)
    assert rounding(tensor([0.0, 5.0])).tolist() == [0, 5]
    rounding.apply(Q.enable_fake_quant)
    rounding.apply(Q.enable_observer)
    assert rounding(tensor([0.0, 0.3]))[1].item() != 0.3


# Models -------------------------------------------------------------------------------------------


def test_dynamic_quantization_stores_bytes():
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    quantized = Q.quantize_dynamic(model, {nn.Linear}, dtype=edutorch.qint8)
    assert quantized[0].weight().int_repr().dtype is edutorch.int8
    assert quantized[2].bias() is None
    assert isinstance(model[0], nn.Linear)
    assert repr(quantized[0]) == (
        "DynamicQuantizedLinear(in_features=8, out_features=4, dtype=torch.qint8, "
        "qscheme=torch.per_tensor_affine)"
    )
    x = edutorch.randn(5, 8)
    assert edutorch.dist(quantized(x), model(x)) < 0.05 * model(x).norm()
    fresh = Q.quantize_dynamic(
        nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    )
    fresh.load_state_dict(quantized.state_dict())
    assert edutorch.equal(fresh(x), quantized(x))
    assert edutorch.equal(copy.deepcopy(quantized)(x), quantized(x))


def test_float16_weights():
    model = nn.Sequential(nn.Linear(8, 4), nn.LSTM(4, 3))
    quantized = Q.quantize_dynamic(model, dtype=edutorch.float16)
    assert quantized[0].weight().dtype is edutorch.float16
    x = edutorch.randn(6, 8)
    assert edutorch.allclose(quantized(x)[0], model(x)[0], atol=1e-2)


def test_layers_are_chosen_by_path_or_type():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    quantized = Q.quantize_dynamic(model, {"1.0"})
    assert type(quantized[0]) is nn.Linear
    assert type(quantized[1][0]) is not nn.Linear
    by_config = Q.quantize_dynamic(model, {nn.Linear: Q.per_channel_dynamic_qconfig})
    assert by_config[0].weight().qscheme() is edutorch.per_channel_affine
    with pytest.raises(ValueError, match=r"with dtype torch\.int8 is not supported"):
        Q.quantize_dynamic(model, {nn.Linear}, dtype=edutorch.int8)
    with pytest.raises(NotImplementedError, match="proj_size is not supported"):
        Q.quantize_dynamic(nn.Sequential(nn.LSTM(2, 3, proj_size=2)), {nn.LSTM})


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_a_dynamic_recurrent_layer_is_that_of_pytorch(torch, name):
    settings = {"input_size": 10, "hidden_size": 16, "num_layers": 2, "bidirectional": True}
    edutorch.manual_seed(0)
    layer = getattr(nn, name)(**settings)
    theirs = torch.nn.Sequential(getattr(torch.nn, name)(**settings))
    theirs.load_state_dict(
        {f"0.{key}": torch.tensor(x.detach().numpy()) for key, x in layer.state_dict().items()}
    )
    x = np.random.default_rng(3).normal(size=(7, 4, 10)).astype(np.float32)
    quantized = Q.quantize_dynamic(nn.Sequential(layer), {getattr(nn, name)})
    expected = torch.ao.quantization.quantize_dynamic(theirs, {getattr(torch.nn, name)})
    y, state = quantized(tensor(x))
    other, other_state = expected(torch.tensor(x))
    states = state if isinstance(state, tuple) else (state,)
    other_states = other_state if isinstance(other_state, tuple) else (other_state,)
    for mine, reference in zip((y, *states), (other, *other_states), strict=True):
        reference = reference.detach().numpy()
        assert np.abs(mine.numpy() - reference).max() <= 1e-5 * np.abs(reference).max()
    for key, weight in quantized[0].get_weight().items():
        assert weight.int_repr().tolist() == expected[0].get_weight()[key].int_repr().tolist()


def test_a_dynamic_recurrent_layer_takes_what_the_float_one_takes():
    model = nn.Sequential(nn.LSTM(3, 4, batch_first=True))
    quantized = Q.quantize_dynamic(model, {nn.LSTM})
    x = edutorch.randn(2, 5, 3)
    assert edutorch.allclose(quantized(x)[0], model(x)[0], atol=0.05)
    packed = nn.utils.rnn.pack_padded_sequence(x, [5, 3], batch_first=True)
    assert edutorch.allclose(quantized(packed)[0].data, model(packed)[0].data, atol=0.05)
    assert quantized(x[0])[0].shape == (5, 4)
    with pytest.raises(RuntimeError, match="with 3 features"):
        quantized(edutorch.zeros(2, 5, 7))


def test_a_dynamic_linear_layer_is_that_of_pytorch(torch):
    edutorch.manual_seed(0)
    layer = nn.Linear(20, 7)
    theirs = torch.nn.Sequential(torch.nn.Linear(20, 7))
    theirs.load_state_dict(
        {f"0.{key}": torch.tensor(x.detach().numpy()) for key, x in layer.state_dict().items()}
    )
    x = np.random.default_rng(4).normal(size=(6, 20)).astype(np.float32)
    mine = Q.quantize_dynamic(nn.Sequential(layer), {nn.Linear})(tensor(x)).numpy()
    reference = torch.ao.quantization.quantize_dynamic(theirs, {torch.nn.Linear})(torch.tensor(x))
    assert np.abs(mine - reference.numpy()).max() <= 1e-5 * np.abs(reference.numpy()).max()


def make_net(library, Q):
    """Return a small network between stubs."""

    class Net(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = Q.QuantStub(), Q.DeQuantStub()
            self.conv = library.nn.Conv2d(1, 4, 3, padding=1)
            self.bn, self.relu = library.nn.BatchNorm2d(4), library.nn.ReLU()
            self.pool, self.fc = library.nn.MaxPool2d(2), library.nn.Linear(16, 3)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            return self.dequant(self.fc(self.pool(x).flatten(1)))

    return Net().eval()


def test_a_converted_network_is_that_of_pytorch(torch):
    import torch.ao.quantization as T

    ours, theirs = make_net(edutorch, Q), make_net(torch, T)
    theirs.load_state_dict(
        {name: torch.tensor(x.detach().numpy()) for name, x in ours.state_dict().items()}
    )
    x = np.random.default_rng(5).normal(size=(20, 1, 4, 4)).astype(np.float32)
    outputs = []
    for library, module, net in ((edutorch, Q, ours), (torch, T, theirs)):
        fused = module.fuse_modules(net, [["conv", "bn", "relu"]])
        fused.qconfig = module.default_qconfig
        prepared = module.prepare(fused)
        prepared(library.tensor(x))
        converted = module.convert(prepared)
        outputs.append(converted(library.tensor(x)).detach().numpy())
        assert "QuantizedConvReLU2d" in str(converted)
    floats = ours(tensor(x)).detach().numpy()
    assert np.abs(outputs[0] - outputs[1]).max() <= 0.02 * np.abs(floats).max()
    assert np.abs(outputs[0] - floats).max() <= 0.1 * np.abs(floats).max()


def test_training_with_rounded_weights_is_that_of_pytorch(torch):
    import torch.ao.quantization as T

    ours, theirs = make_net(edutorch, Q).train(), make_net(torch, T).train()
    ours.bn, theirs.bn = nn.Identity(), torch.nn.Identity()
    theirs.load_state_dict(
        {name: torch.tensor(x.detach().numpy()) for name, x in ours.state_dict().items()}
    )
    x = np.random.default_rng(6).normal(size=(3, 8, 1, 4, 4)).astype(np.float32)
    outcomes = []
    for library, module, net in ((edutorch, Q, ours), (torch, T, theirs)):
        net.qconfig = module.default_qat_qconfig
        prepared = module.prepare_qat(net)
        optimizer = library.optim.SGD(prepared.parameters(), lr=0.1)
        losses = []
        for batch in x:
            optimizer.zero_grad()
            loss = (prepared(library.tensor(batch)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        converted = module.convert(prepared.eval())
        outcomes.append((losses, converted(library.tensor(x[0])).detach().numpy()))
    assert outcomes[0][0] == pytest.approx(outcomes[1][0], rel=1e-3)
    assert np.abs(outcomes[0][1] - outcomes[1][1]).max() <= 0.05


def test_a_model_is_fused_trained_and_converted():
    model = Q.QuantWrapper(nn.Sequential(nn.Linear(4, 3), nn.ReLU())).train()
    fused = Q.fuse_modules_qat(model, ["module.0", "module.1"])
    fused.qconfig = Q.get_default_qat_qconfig("x86")
    quantized = Q.quantize_qat(fused, lambda model, x: model(x), (edutorch.randn(20, 4),))
    assert str(quantized.module[0]).startswith("QuantizedLinearReLU(")
    with pytest.raises(NotImplementedError, match="batch norm cannot be fused in training"):
        Q.fuse_modules_qat(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)), ["0", "1"])
    with pytest.raises(RuntimeError, match="only works on models in training mode"):
        Q.prepare_qat(model.eval())
    with pytest.raises(RuntimeError, match="must have a valid qconfig"):
        edutorch.ao.nn.qat.Linear.from_float(nn.Linear(1, 1))


def test_quantize_calls_a_function_with_data():
    model = Q.QuantWrapper(nn.Sequential(nn.Linear(4, 2)))
    model.qconfig = Q.get_default_qconfig("fbgemm")
    x = edutorch.randn(50, 4)
    quantized = Q.quantize(model, lambda model, x: model(x), (x,))
    assert type(quantized.module[0]).__name__ == "Linear"
    assert edutorch.allclose(quantized(x), model(x), atol=0.1)
    assert not hasattr(quantized.module[0], "activation_post_process")


def test_functions_of_several_tensors_have_a_scale():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.function = nn.Linear(4, 4), edutorch.nn.quantized.FloatFunctional()

        def forward(self, x):
            return self.function.cat([self.function.add_relu(x, self.fc(x)), x], 1)

    model = Q.QuantWrapper(Residual()).eval()
    model.qconfig = Q.default_qconfig
    x = edutorch.randn(30, 4)
    quantized = Q.quantize(model, lambda model, x: model(x), (x,))
    assert "QFunctional(" in str(quantized)
    assert edutorch.allclose(quantized(x), model(x), atol=0.1)
    plain = edutorch.ao.nn.quantized.FloatFunctional()
    assert plain.mul_scalar(plain.mul(x, x), 2.0).tolist() == (x * x * 2).tolist()
    assert edutorch.equal(plain.matmul(x, x.T), x @ x.T)
    assert edutorch.equal(plain.add_scalar(x, 1.0), x + 1)
    with pytest.raises(RuntimeError, match="is not intended to be called"):
        plain(x)


def test_mistakes_with_models():
    model = nn.Sequential(nn.Linear(4, 2))
    with pytest.raises(RuntimeError, match="None of the submodule got qconfig applied"):
        Q.prepare(model)
    model.qconfig = Q.default_qconfig
    prepared = Q.prepare(model)
    prepared(edutorch.randn(3, 4))
    with pytest.raises(RuntimeError, match="expects a quantized input") as raised:
        Q.convert(prepared)(edutorch.randn(3, 4))
    assert "QuantWrapper" in str(raised.value)
    with pytest.raises(NotImplementedError, match="Cannot fuse modules: ReLU, Linear"):
        Q.fuse_modules(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), ["0", "1"])
    with pytest.raises(ValueError, match="backend: tpu is not supported"):
        Q.get_default_qconfig("tpu")


def test_the_older_names_are_the_same():
    import edutorch.nn.quantized.dynamic as old

    assert edutorch.quantization.quantize_dynamic is Q.quantize_dynamic
    assert old.Linear is edutorch.ao.nn.quantized.dynamic.Linear
