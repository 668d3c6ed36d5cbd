"""Every loss against PyTorch, over its settings."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, compare_modules, ours_of

REDUCTIONS = ["mean", "sum", "none"]


@pytest.fixture
def data(torch):
    torch.manual_seed(3)
    return {
        "x": torch.randn(6, 4, dtype=torch.float64),
        "y": torch.randn(6, 4, dtype=torch.float64),
        "p": torch.rand(6, 4, dtype=torch.float64),
        "q": torch.softmax(torch.randn(6, 4, dtype=torch.float64), 1),
        "image": torch.randn(2, 4, 3, 5, dtype=torch.float64),
        "classes": torch.tensor([0, 3, 2, 2, 1, 0]),
        "pixels": torch.randint(0, 4, (2, 3, 5)),
        "weight": torch.tensor([0.5, 1.0, 2.0, 0.1], dtype=torch.float64),
    }


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "settings", "inputs"),
    [
        ("MSELoss", {}, "x y"),
        ("L1Loss", {}, "x y"),
        ("SmoothL1Loss", {"beta": 0.7}, "x y"),
        ("SmoothL1Loss", {"beta": 0.0}, "x y"),
        ("HuberLoss", {"delta": 0.7}, "x y"),
        ("KLDivLoss", {}, "x q"),
        ("KLDivLoss", {"log_target": True}, "x y"),
        ("BCELoss", {}, "p q"),
        ("BCEWithLogitsLoss", {}, "x q"),
    ],
)
def test_losses_of_two_tensors(name, settings, inputs, reduction, device, torch, data):
    settings = {**settings, "reduction": reduction}
    theirs, ours = getattr(torch.nn, name)(**settings), getattr(nn, name)(**settings)
    compare_modules(
        ours, theirs, [data[each] for each in inputs.split()], device, differentiable=(0, 1)
    )
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_losses_with_weights(reduction, device, torch, data):
    weight = data["weight"]
    for name, more in (("BCELoss", {}), ("BCEWithLogitsLoss", {"pos_weight": weight * 3})):
        theirs = getattr(torch.nn, name)(weight=weight, reduction=reduction, **more)
        mine = {key: ours_of(value, device) for key, value in more.items()}
        ours = getattr(nn, name)(weight=ours_of(weight, device), reduction=reduction, **mine)
        compare_modules(ours, theirs, [data["p"], data["q"]], device)


CLASS_SETTINGS = [
    {}, {"weight": True}, {"ignore_index": 2}, {"ignore_index": 2, "weight": True},
    {"label_smoothing": 0.1}, {"label_smoothing": 0.3, "weight": True, "ignore_index": 0},
]  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("settings", CLASS_SETTINGS, ids=str)
@pytest.mark.parametrize(("x", "target"), [("x", "classes"), ("image", "pixels")])
def test_cross_entropy_of_classes(x, target, settings, reduction, device, torch, data):
    def with_weight(weight):
        chosen = {"weight": weight} if settings.get("weight") else {}
        return {**settings, **chosen, "reduction": reduction}

    theirs = torch.nn.CrossEntropyLoss(**with_weight(data["weight"]))
    ours = nn.CrossEntropyLoss(**with_weight(ours_of(data["weight"], device)))
    compare_modules(ours, theirs, [data[x], data[target]], device)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_probabilities(smoothing, reduction, device, torch, data):
    settings = {"reduction": reduction, "label_smoothing": smoothing}
    theirs = torch.nn.CrossEntropyLoss(data["weight"], **settings)
    ours = nn.CrossEntropyLoss(ours_of(data["weight"], device), **settings)
    compare_modules(ours, theirs, [data["x"], data["q"]], device, differentiable=(0, 1))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("settings", CLASS_SETTINGS[:4], ids=str)
def test_nll_loss(settings, reduction, device, torch, data):
    ours_settings = {**settings, "reduction": reduction}
    theirs_settings = dict(ours_settings)
    if settings.get("weight"):
        theirs_settings["weight"] = data["weight"]
        ours_settings["weight"] = ours_of(data["weight"], device)
    theirs, ours = torch.nn.NLLLoss(**theirs_settings), nn.NLLLoss(**ours_settings)
    compare_modules(ours, theirs, [data["x"], data["classes"]], device)


def test_one_sample_without_a_batch(device, torch, data):
    theirs, ours = torch.nn.CrossEntropyLoss(), nn.CrossEntropyLoss()
    compare_modules(ours, theirs, [data["x"][0], torch.tensor(2)], device)


def test_targets_that_are_all_ignored_give_nan(device):
    loss = nn.CrossEntropyLoss(ignore_index=1)(edutorch.zeros(2, 3), edutorch.tensor([1, 1]))
    assert bool(loss.isnan())


def test_an_empty_batch_gives_nan(device):
    target = edutorch.zeros(0, dtype=edutorch.int64)
    assert bool(nn.functional.cross_entropy(edutorch.zeros(0, 3), target).isnan())


def test_losses_of_losses(device, torch, data):
    """Second derivatives: the gradient's own loss can be differentiated."""
    x = ours_of(data["x"], device, requires_grad=True)
    other = data["x"].clone().requires_grad_()
    loss = nn.functional.cross_entropy(x, ours_of(data["classes"], device))
    expected = torch.nn.functional.cross_entropy(other, data["classes"])
    (g,) = edutorch.autograd.grad(loss, x, create_graph=True)
    (h,) = torch.autograd.grad(expected, other, create_graph=True)
    (g * g).sum().backward()
    (h * h).sum().backward()
    assert_close(x.grad, other.grad)


@pytest.mark.parametrize(("old", "reduction"), [
    ({"size_average": False}, "sum"), ({"reduce": False}, "none"), ({"reduce": True}, "mean"),
])  # fmt: skip
def test_the_old_arguments_still_work(old, reduction):
    assert nn.MSELoss(**old).reduction == reduction


def test_weights_are_part_of_the_state(device):
    assert list(nn.CrossEntropyLoss(edutorch.ones(3)).state_dict()) == ["weight"]


@pytest.mark.parametrize("score", [-0.5, 1.5])
def test_scores_are_no_probabilities(score):
    with pytest.raises(RuntimeError, match="between 0 and 1") as caught:
        nn.functional.binary_cross_entropy(edutorch.tensor([score]), edutorch.tensor([1.0]))
    assert "with_logits" in caught.value.hint


def test_the_warning_of_stretched_shapes_names_the_users_line():
    with pytest.warns(UserWarning, match="target size") as caught:
        nn.MSELoss()(edutorch.ones(2, 3), edutorch.ones(3))
    assert caught[0].filename == __file__
