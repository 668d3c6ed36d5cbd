"""The error messages of wrong shapes and dtypes, word by word."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from edutorch.nn import functional as F

ones = edutorch.ones


def message(error, function, *args, **settings):
    def call():
        function(*args, **settings)
        edutorch.backends.get("strict").synchronize()  # where a wrong index is found

    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


def test_wrong_features_name_the_module_by_its_path(device):
    model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(784, 10), nn.ReLU()))
    assert message(RuntimeError, model, ones(2, 1, 28, 27)) == (
        "linear: axis k is 756 in `input` but 784 in `weight`\n"
        "  input   (... k) = (2, 756)\n"
        "  weight  (m k)   = (10, 784)\n"
        "  bias    (m)     = (10,)\n"
        "  module          = 1.0: Linear(in_features=784, out_features=10, bias=True)\n"
        "  hint: the layer expects 784 features in the last axis, or should be made for 756"
    )


def test_an_image_that_was_not_flattened():
    text = message(RuntimeError, nn.Linear(784, 10), ones(2, 1, 28, 28))
    assert "flatten the other axes first: x.flatten(1)" in text


def test_a_transposed_batch():
    assert "did you mean x.T?" in message(RuntimeError, nn.Linear(4, 2), ones(4, 3))


def test_types_that_do_not_fit(device):
    layer = nn.Linear(2, 1)
    integers = message(RuntimeError, layer, edutorch.tensor([[1, 2]]))
    assert "same dtype" in integers
    assert "`input` holds integers: use input.float()" in integers
    assert "x.float() or model.double()" in message(RuntimeError, layer, ones(1, 2).double())
    image = ones(1, 1, 3, 3).double()
    assert "conv2d: expected all arguments" in message(RuntimeError, nn.Conv2d(1, 1, 2), image)


def test_a_channels_last_image(device):
    text = message(RuntimeError, nn.Conv2d(3, 8, 3), ones(2, 32, 32, 3))
    assert text.startswith("conv2d: axis c is 32 in `input` but 3 in `weight`")
    assert "the filters expect 3 input channels" in text
    assert "input.permute(0, 3, 1, 2)" in text


def test_a_missing_batch(device):
    assert F.conv2d(ones(3, 8, 8), ones(2, 3, 3, 3)).shape == (2, 6, 6)  # one image may go alone
    text = message(RuntimeError, F.conv2d, ones(64, 8, 8), ones(2, 1, 3, 3))
    assert "three axes are one image, (c h w); a batch of gray ones is x.unsqueeze(1)" in text


def test_a_window_larger_than_the_image(device):
    text = message(RuntimeError, nn.Conv2d(1, 1, 5), ones(1, 1, 4, 4))
    assert "Kernel size can't be greater than actual input size" in text
    assert "too small" in message(RuntimeError, nn.MaxPool2d(5), ones(1, 1, 4, 4))
    assert "expected an image" in message(RuntimeError, nn.MaxPool2d(2), ones(4, 4))


def test_settings_that_make_no_sense():
    for settings, text in (
        ({"groups": 2}, "in_channels must be divisible by groups"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided"),
        ({"padding": "sane"}, "'valid' or 'same'"),
        ({"padding_mode": "mirror"}, "padding_mode"),
        ({"groups": 0}, "positive"),
    ):
        assert text in message(ValueError, nn.Conv2d, 3, 4, 3, **settings)
    assert "between 0 and 1" in message(ValueError, nn.Dropout, 1.5)
    assert "half" in message(RuntimeError, F.max_pool2d, ones(1, 1, 4, 4), 2, padding=2)


def test_float_targets(device):
    loss = nn.CrossEntropyLoss()
    text = message(RuntimeError, loss, ones(2, 3), edutorch.tensor([0.0, 1.0]))
    assert "expected scalar type Long" in text
    assert "class numbers must be integers: target.long()" in text
    assert "target.long()" in message(
        RuntimeError, loss, ones(2, 3), edutorch.tensor([0, 1], dtype=edutorch.int32)
    )


def test_a_class_that_does_not_exist():
    loss = nn.CrossEntropyLoss()
    for target, shown in (([0, 3], "3"), ([0, -1], "-1")):
        text = message(IndexError, loss, ones(2, 3), edutorch.tensor(target))
        assert f"Target {shown} is out of bounds." in text
        assert "the classes are 0 to 2" in text
    assert "if yours begin at 1" in message(IndexError, loss, ones(2, 3), edutorch.tensor([0, 3]))


def test_where_looking_would_mean_to_wait_a_wrong_class_is_found_later_and_gives_nan():
    scores = ones(3, 3, device="strict", requires_grad=True)
    target = edutorch.tensor([0, 3, -100], device="strict")
    losses = F.cross_entropy(scores, target, reduction="none")
    with pytest.raises(IndexError, match=r"Target 3 is out of bounds[\s\S]*found later"):
        losses.tolist()
    assert losses.isnan().tolist() == [False, True, False]
    losses[0].backward()
    assert not scores.grad[0].isnan().any()


def test_targets_of_another_shape(device):
    loss = nn.CrossEntropyLoss()
    text = message(RuntimeError, loss, ones(2, 3), edutorch.tensor([[0], [1]]))
    assert "expected a target of shape (2,), one class for each sample" in text
    assert "target.squeeze(-1)" in text
    text = message(RuntimeError, loss, ones(2, 3), edutorch.tensor([0, 1, 2, 0]))
    assert "the same number of samples" in text
    text = message(RuntimeError, loss, ones(2, 5, 3), edutorch.zeros(2, 5, dtype=edutorch.int64))
    assert "classes come along axis 1" in text
    assert "axis of classes" in message(
        RuntimeError, loss, edutorch.tensor(1.0), edutorch.tensor(1)
    )


def test_weights_of_another_number_of_classes():
    loss = nn.CrossEntropyLoss(ones(2))
    assert "one number for each class" in message(
        RuntimeError, loss, ones(2, 3), edutorch.tensor([0, 1])
    )


def test_an_unknown_reduction():
    for loss in (F.mse_loss, F.smooth_l1_loss, F.binary_cross_entropy):
        assert "is not a valid value for reduction" in message(
            ValueError, loss, ones(2) / 2, ones(2), reduction="average"
        )
    assert "is not a valid value for reduction" in message(
        ValueError, F.cross_entropy, ones(2, 3), edutorch.tensor([0, 1]), reduction="average"
    )


def test_losses_of_other_shapes(device):
    with pytest.warns(UserWarning, match="compares more pairs than meant"):
        F.mse_loss(ones(4, 1), ones(4))
    assert "same shape" in message(RuntimeError, F.binary_cross_entropy, ones(4, 1), ones(4))


def test_batch_norm_of_a_single_sample(device):
    assert "use a larger batch" in message(RuntimeError, nn.BatchNorm1d(3), ones(1, 3))
    text = message(RuntimeError, nn.BatchNorm2d(3), ones(2, 4, 4, 3))
    assert "x.permute(0, 3, 1, 2)" in text
    assert "expected 4D input (got 2D input)" in message(
        RuntimeError, nn.BatchNorm2d(3), ones(2, 3)
    )


def test_norms_of_other_shapes():
    assert "last axes" in message(RuntimeError, nn.LayerNorm(3), ones(2, 4))
    assert "groups" in message(RuntimeError, F.group_norm, ones(2, 3), 2)
    assert "divisible" in message(ValueError, nn.GroupNorm, 2, 3)


def test_rows_that_do_not_exist(device):
    text = message(IndexError, nn.Embedding(3, 2), edutorch.tensor([3]))
    assert "3" in text
    assert "target" not in text
    assert "LongTensor" in message(RuntimeError, F.one_hot, ones(2))
    assert "from 0 to 1" in message(IndexError, F.one_hot, edutorch.tensor([2]), 2)
