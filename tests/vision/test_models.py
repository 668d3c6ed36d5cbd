"""Our models against torchvision's on PyTorch: keys, outputs, gradients; and loading weights."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
from pathlib import Path

import pytest

import edutorch
from edutorch import nn
from edutorch.backends import reference_only
from edutorch.errors import ArgumentError
from edutorch.vision import models
from edutorch.vision.models import registry, weights
from tests.vision.model_runs import GOLDEN, QUICK, WHOLE, by_name, difference, hash_of_keys, run

EXPECTED = json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.fixture
def uninitialized(monkeypatch):
    """Build models without drawing their weights, which takes longest."""
    for name in ("uniform_", "normal_", "fill_", "zero_"):
        monkeypatch.setattr(edutorch.Tensor, name, lambda tensor, *args, **kwargs: tensor)
    for name in ("trunc_normal_", "xavier_uniform_", "kaiming_normal_"):
        monkeypatch.setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor)


OF_EACH_FAMILY = [
    "alexnet", "convnext_tiny", "deeplabv3_resnet50", "densenet121", "efficientnet_b7",
    "efficientnet_v2_s", "fcn_resnet50", "mobilenet_v2", "mobilenet_v3_large", "resnet18",
    "resnext50_32x4d", "vgg16_bn", "vit_b_16",
]  # fmt: skip


def check_keys(names):
    builders = {name: by_name(name) for name in names}
    hashes = {name: hash_of_keys(build(models)) for name, build in builders.items()}
    assert hashes == {name: EXPECTED["keys"][name] for name in names}


@pytest.mark.usefixtures("uninitialized")
def test_keys_and_shapes_are_torchvisions():
    check_keys(OF_EACH_FAMILY)


@pytest.mark.slow
@pytest.mark.usefixtures("uninitialized")
def test_keys_and_shapes_of_all_models_are_torchvisions():
    assert len(EXPECTED["keys"]) == 51
    check_keys(EXPECTED["keys"])


NEAR_A_KINK = {"vgg13_bn", "wide_resnet50_2"}
"""A relu's input is so near to 0 that the rounding of our fast convolutions turns it on or off."""


def check(name, case):
    expected = dict(EXPECTED["runs"][name])
    seed = expected.pop("seed")
    with reference_only() if name in NEAR_A_KINK else contextlib.nullcontext():
        largest = difference(run(case, case.build(models), seed), expected)
    assert largest["outputs"] <= 1e-5, largest
    assert largest["gradients"] <= 1e-4, largest


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.usefixtures("uninitialized")
def test_outputs_and_gradients_are_torchvisions(name):
    check(name, QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.usefixtures("uninitialized")
def test_whole_models_are_torchvisions(name):
    check(name, WHOLE[name])


# The registry ---------------------------------------------------------------------------------


def test_models_are_listed():
    names = models.list_models()
    assert set(EXPECTED["keys"]) == set(names) - {"unet"}
    assert models.list_models(include="*net", exclude=["re*"]) == ["alexnet", "unet"]
    assert models.list_models(models.segmentation, include="fcn*") == [
        "fcn_resnet101", "fcn_resnet50",
    ]  # fmt: skip
    assert "fcn_resnet50" not in models.list_models(models)
    assert models.get_model_builder("ResNet18") is models.resnet18


def test_an_unknown_model_names_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown model resnet19\n.*did you mean resnet1"):
        models.get_model("resnet19")
    with pytest.raises(ValueError, match=r"Unknown model zzz\n.*list_models"):
        models.get_model("zzz")


def test_builders_have_torchvisions_signature():
    parameters = inspect.signature(models.mobilenet_v3_small).parameters
    assert list(parameters)[:2] == ["weights", "progress"]
    ways = {parameter.kind for parameter in parameters.values()}
    assert ways == {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
    with pytest.raises(ArgumentError, match="only keyword arguments, got 2 positional ones"):
        models.resnet18(None, True)
    with pytest.warns(UserWarning, match="`pretrained` is old"):
        assert isinstance(models.mobilenet_v3_small(pretrained=False), models.MobileNetV3)


# Weights --------------------------------------------------------------------------------------


def tiny(**config):
    return models.DenseNet(4, (1, 1), 8, **{"num_classes": 2, **config})


@pytest.fixture
def densenet_tiny(monkeypatch, tmp_path):
    """A small model whose published weights are in the folder of weights."""
    saved = tmp_path / "saved.pth"
    edutorch.save(tiny().state_dict(), saved)
    digest = hashlib.sha256(saved.read_bytes()).hexdigest()[:8]
    file = tmp_path / "hub" / "checkpoints" / f"densenet_tiny-{digest}.pth"
    file.parent.mkdir(parents=True)
    saved.rename(file)
    line = f"densenet_tiny DenseNet_Tiny_Weights V1 V1={file.name} V2=densenet_tiny-00000000.pth"
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(registry, "BUILTIN_MODELS", dict(registry.BUILTIN_MODELS))
    for name, enum in weights.parse_checkpoints(line).items():
        monkeypatch.setitem(weights.WEIGHTS, name, enum)

    def densenet_tiny(**kwargs):
        return tiny(**kwargs)

    return registry.register_model(densenet_tiny), file


def test_weights_are_read_from_this_machine(densenet_tiny):
    build, file = densenet_tiny
    expected = edutorch.load(file)["features.conv0.weight"]
    enum = models.get_model_weights("densenet_tiny")
    for source in (
        "DEFAULT", "V1", "DenseNet_Tiny_Weights.V1", enum.DEFAULT, enum.V1, str(file), file,
        file.as_uri(), True,
    ):  # fmt: skip
        assert edutorch.equal(build(weights=source).features.conv0.weight, expected), source
    with pytest.warns(UserWarning, match="pretrained"):
        assert edutorch.equal(build(pretrained=True).features.conv0.weight, expected)
    assert edutorch.equal(enum.V1.get_state_dict()["features.conv0.weight"], expected)
    assert not edutorch.equal(build(weights=None).features.conv0.weight, expected)


def test_missing_weights_say_which_file_goes_where(densenet_tiny):
    build, file = densenet_tiny
    with pytest.raises(FileNotFoundError) as caught:
        build(weights="V2")
    text = str(caught.value)
    assert "DenseNet_Tiny_Weights.V2 are not on this machine, and nothing is downloaded" in text
    assert "file    = densenet_tiny-00000000.pth" in text
    assert f"folder  = {file.parent}" in text
    with pytest.raises(FileNotFoundError, match=r"no such file of weights\n  file    = no\.pth"):
        build(weights="some/no.pth")


def test_damaged_weights_are_refused(densenet_tiny):
    build, file = densenet_tiny
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(RuntimeError, match=r"damaged or another one\n(.*\n)*.*found .*SHA-256"):
        build(weights="DEFAULT")
    with pytest.raises((RuntimeError, ValueError, OSError)):
        build(weights=file)


def test_weights_of_others_are_refused(densenet_tiny):
    build, _ = densenet_tiny
    for source, message in {
        "V3": "there are no weights 'V3'\n  hint: V1, V2, DEFAULT; or pass the path",
        "ResNet18_Weights.DEFAULT": "there are no weights 'ResNet18_Weights.DEFAULT'",
        models.ResNet18_Weights.DEFAULT: "weights of another model\n  hint: get_model_weights",
        "https://example.org/x.pth": "read from this machine only",
    }.items():
        with pytest.raises(ValueError, match=message):
            build(weights=source)
    with pytest.raises(ValueError, match="no weights of unet are published"):
        models.get_model_weights("unet")
    with pytest.raises(ValueError, match=r"there are no weights 'ResNet18_Weights\.V7'"):
        models.get_weight("ResNet18_Weights.V7")


def test_a_checkpoint_of_another_architecture_names_the_nearest_key(densenet_tiny):
    _, file = densenet_tiny
    with pytest.raises(RuntimeError) as caught:
        models.mobilenet_v3_small(weights=file)
    assert 'nearest to the missing "features.0.0.weight" is "' in str(caught.value)
    with pytest.raises(RuntimeError, match=r"size mismatch for classifier\.weight"):
        tiny(num_classes=3).load_state_dict(edutorch.load(file))


def test_old_keys_of_published_weights_are_renamed():
    model = tiny()
    new = model.state_dict()
    old = {key.replace("norm1", "norm.1").replace("conv2", "conv.2"): new[key] for key in new}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    model.load_state_dict(old)
    vit = models.VisionTransformer(8, 4, 1, 1, hidden_dim=4, mlp_dim=4, num_classes=2)
    new = vit.state_dict()
    old = {
        key.replace("mlp.0", "mlp.linear_1").replace("mlp.3", "mlp.linear_2"): value
        for key, value in new.items()
    }
    assert "encoder.layers.encoder_layer_0.mlp.linear_1.weight" in old
    vit.load_state_dict(old)


# Bad input ------------------------------------------------------------------------------------


def test_bad_settings_are_refused():
    bottleneck = models.resnet.Bottleneck
    for build, message in {
        lambda: models.resnet18(groups=2): "BasicBlock: takes no groups=2",
        lambda: models.ResNet(
            bottleneck, [1] * 4, replace_stride_with_dilation=[True]
        ): "one value for each of stages 2 to 4",
        lambda: models.VisionTransformer(30, 16, 1, 1, 8, 8): "the patches do not fill the picture",
        lambda: models.MobileNetV2(inverted_residual_setting=[[1, 2]]): "a stage is",
        lambda: models.mobilenetv2.InvertedResidual(8, 8, 3, 1): "stride is 1 or 2, got 3",
        lambda: models.UNet(features=()): "at least one level",
        lambda: models.segmentation.base.IntermediateLayerGetter(
            nn.Sequential(nn.ReLU()), {"layer4": "out"}
        ): "the model has no layer 'layer4'",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=message):
            build()


def test_bad_pictures_are_refused():
    unet = models.UNet(1, 2, features=(2, 4, 8))
    with pytest.raises(RuntimeError, match=r"multiples of 4\n.*\(1, 1, 30, 32\)"):
        unet(edutorch.zeros(1, 1, 30, 32))
    vit = models.VisionTransformer(8, 4, 1, 1, hidden_dim=4, mlp_dim=4)
    with pytest.raises(RuntimeError, match=r"another size than the model\n.*\(1, 3, 16, 16\)"):
        vit(edutorch.zeros(1, 3, 16, 16))
    with pytest.raises(RuntimeError, match="conv2d"):
        tiny()(edutorch.zeros(2, 1, 32, 32))


# What is not in torchvision -------------------------------------------------------------------


def test_unet_has_the_size_of_its_input_and_a_gradient_everywhere():
    model = models.unet(in_channels=1, num_classes=3, features=(4, 8, 16))
    scores = model(edutorch.randn(2, 1, 16, 24))
    assert scores.shape == (2, 3, 16, 24)
    scores.square().mean().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_no_file_of_models_is_long():
    from tests.house import lines_of_code

    files = sorted(Path(models.__file__).parent.rglob("*.py"))
    assert [file.name for file in files if len(lines_of_code(file)) > 150] == []
