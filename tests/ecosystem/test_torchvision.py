"""The real torchvision on edutorch, in an environment that has no PyTorch."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

import pytest

torchvision = pytest.importorskip("torchvision")

import torch  # noqa: E402
from accelerate import init_empty_weights  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.models.feature_extraction import create_feature_extractor  # noqa: E402
from torchvision.transforms import v2 as transforms  # noqa: E402

from tests.ecosystem.summaries import distance, gradient_distance, read_golden  # noqa: E402
from tests.ecosystem.torchvision_cases import (  # noqa: E402
    CASES,
    LARGE,
    OUTPUTS,
    build,
    run,
    train,
)


def test_there_is_no_pytorch():
    assert PathFinder.find_spec("torch", sys.path) is None
    assert torch is sys.modules["edutorch"]
    assert torchvision.extension._has_ops()  # the ops in C++, which are ours here


GRADIENT_BOUNDS = {"raft_small": 2e-4}
"""Where gradients differ by more than 1e-4: steps of refinement amplify rounding. By definitions
alone raft_small differs by 1e-5, with the kernel of instance norm by 1.5e-4; by itself, that kernel
is as close to float64 (1.3e-7) as PyTorch."""


@pytest.mark.parametrize(
    "name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)]
)
def test_models_compute_what_they_do_on_pytorch(name):
    ours, theirs = train(name), read_golden("torchvision")[name]
    assert distance(ours["output"], theirs["output"]) < 1e-5
    difference, parameter = gradient_distance(ours["gradients"], theirs["gradients"])
    assert difference < GRADIENT_BOUNDS.get(name, 1e-4), parameter
    # As for the gradients: the step has their differences in it.
    assert distance(ours["after a step"], theirs["after a step"]) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_are_those_of_pytorch(name):
    theirs = read_golden("torchvision")[name]
    assert distance(run(name), theirs["output"]) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", torchvision.models.list_models())
def test_every_model_is_built(name):
    assert sum(parameter.numel() for parameter in build(name).parameters()) > 0


@pytest.mark.parametrize("name", torchvision.models.list_models())
def test_every_model_is_built_without_elements(name):
    place = torch.device("meta")
    if name.startswith("regnet"):
        # They read their widths from a tensor. PyTorch refuses that on meta, in these words; in
        # Accelerate's way only the parameters are there.
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"), place:
            build(name)
        place = init_empty_weights()
    with place:
        model = build(name)
    parameters = list(model.parameters())
    assert parameters
    assert all(parameter.is_meta for parameter in parameters)


def test_the_pixels_of_transforms():
    torch.manual_seed(0)
    picture = tv_tensors.Image(torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8))
    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(32, antialias=True),
            transforms.RandomHorizontalFlip(1.0),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize([0.5] * 3, [0.25] * 3),
        ]
    )
    result = chain(picture)
    assert isinstance(result, tv_tensors.Image)
    assert result.shape == (3, 32, 32)
    assert -2 <= float(result.min()) < float(result.max()) <= 2


def test_features_are_extracted_by_a_graph():
    model = torchvision.models.resnet18(weights=None).eval()
    nodes = {"layer1": "first", "layer3.1.relu_1": "third"}
    extract = create_feature_extractor(model, nodes)
    features = extract(torch.randn(1, 3, 64, 64))
    assert {name: tuple(value.shape) for name, value in features.items()} == {
        "first": (1, 64, 16, 16), "third": (1, 256, 4, 4),
    }  # fmt: skip
