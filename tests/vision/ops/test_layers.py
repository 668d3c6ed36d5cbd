"""The building blocks of torchvision's models, the pyramid and the focal loss."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import nn, tensor
from edutorch.vision import ops


def test_frozen_batch_norm_is_batch_norm_in_eval_mode():
    norm = nn.BatchNorm2d(3).eval()
    norm.running_mean += edutorch.randn(3)
    norm.running_var += edutorch.rand(3)
    frozen = ops.FrozenBatchNorm2d(3)
    frozen.load_state_dict(norm.state_dict())  # its `num_batches_tracked` is left out
    assert not list(frozen.parameters())
    images = edutorch.randn(2, 3, 4, 4)
    assert frozen(images).allclose(norm(images), atol=1e-6)
    assert frozen.train()(images).allclose(norm(images), atol=1e-6)


def test_conv_norm_activation():
    block = ops.Conv2dNormActivation(3, 4, (3, 5), dilation=2)
    assert [type(layer) for layer in block] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]
    assert block[0].bias is None
    assert block[0].padding == (2, 4)
    assert block.out_channels == 4
    plain = ops.Conv2dNormActivation(3, 4, norm_layer=None, activation_layer=None)
    assert [type(layer) for layer in plain] == [nn.Conv2d]
    assert plain[0].bias is not None


def test_mlp():
    layers = [type(layer) for layer in ops.MLP(4, [8, 2], nn.LayerNorm)]
    assert layers == [nn.Linear, nn.LayerNorm, nn.ReLU, nn.Dropout, nn.Linear, nn.Dropout]


def test_squeeze_excitation_scales_channels():
    block, images = ops.SqueezeExcitation(4, 2), edutorch.randn(2, 4, 3, 3)
    ratio = block(images) / images
    assert ratio.allclose(ratio[:, :, :1, :1].expand_as(ratio), atol=1e-6)
    assert ((ratio > 0) & (ratio < 1)).all()


@pytest.mark.parametrize("mode", ["row", "batch"])
def test_stochastic_depth(mode):
    edutorch.manual_seed(0)
    rows = ops.stochastic_depth(edutorch.ones(2000, 3), 0.25, mode)
    values = {round(value, 4) for value in rows.flatten().tolist()}
    if mode == "batch":
        assert len(values) == 1
        return
    assert values == {0.0, round(1 / 0.75, 4)}
    assert rows.eq(rows[:, :1]).all()
    assert abs(float(rows.mean()) - 1) < 0.05
    assert ops.StochasticDepth(1.0, "row").eval()(rows) is rows


def test_stochastic_depth_errors():
    with pytest.raises(ValueError, match="p has to be between 0 and 1, but got 2"):
        ops.stochastic_depth(edutorch.ones(2), 2, "row")
    with pytest.raises(ValueError, match="either 'batch' or 'row', but got 'column'"):
        ops.stochastic_depth(edutorch.ones(2), 0.5, "column")


def test_pyramid():
    pyramid = ops.FeaturePyramidNetwork([2, 4, 8], 3, ops.LastLevelMaxPool())
    maps = {f"c{i}": edutorch.randn(1, 2**i, 32 // 2**i, 24 // 2**i) for i in (1, 2, 3)}
    outputs = pyramid(maps)
    assert {name: tuple(output.shape[2:]) for name, output in outputs.items()} == {
        "c1": (16, 12), "c2": (8, 6), "c3": (4, 3), "pool": (2, 2),
    }  # fmt: skip
    assert [name for name, _ in pyramid.named_parameters()][:2] == [
        "inner_blocks.0.0.weight", "inner_blocks.0.0.bias",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="in_channels=0"):
        ops.FeaturePyramidNetwork([0, 2], 3)


def test_focal_loss():
    generator = np.random.default_rng(0)
    logits, targets = generator.normal(size=20), generator.integers(0, 2, 20).astype(float)
    p = 1 / (1 + np.exp(-logits))
    p_true, weight = np.where(targets == 1, p, 1 - p), np.where(targets == 1, 0.25, 0.75)
    expected = -weight * (1 - p_true) ** 2 * np.log(p_true)
    inputs = tensor(logits, requires_grad=True)
    assert np.allclose(ops.sigmoid_focal_loss(inputs, tensor(targets)).detach(), expected)
    mean = ops.sigmoid_focal_loss(inputs, tensor(targets), -1, 0, "mean")
    assert np.allclose(mean.item(), -np.log(p_true).mean())
    assert edutorch.autograd.gradcheck(ops.sigmoid_focal_loss, (inputs, tensor(targets)))
    with pytest.raises(ValueError, match="alpha should be from 0 to 1"):
        ops.sigmoid_focal_loss(inputs, tensor(targets), 2)
    with pytest.raises(ValueError, match="reduction must be"):
        ops.sigmoid_focal_loss(inputs, tensor(targets), reduction="all")
