"""Rarer modules against PyTorch: activations, dropout, losses, embeddings, deprecated names."""

from __future__ import annotations

import math

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, carry, compare_modules, ours_of


@pytest.mark.parametrize("settings", [{}, {"bias": False}])
def test_bilinear(settings, device, torch):
    torch.manual_seed(0)
    theirs = torch.nn.Bilinear(3, 4, 2, **settings).double()
    ours = nn.Bilinear(3, 4, 2, **settings).double()
    assert repr(ours) == repr(theirs)
    x = [torch.randn(2, 5, n, dtype=torch.float64) for n in (3, 4)]
    compare_modules(ours, theirs, x, device, differentiable=(0, 1))
    wide = nn.Bilinear(25, 40, 30)
    for weight in wide.parameters():
        assert 0.15 < weight.abs().max().item() <= 0.2
    with pytest.raises(ValueError, match="in1_features must be > 0"):
        nn.Bilinear(0, 1, 1)


def test_rrelu(device, torch):
    assert repr(nn.RReLU(0.1, 0.2)) == repr(torch.nn.RReLU(0.1, 0.2))
    x = torch.randn(4, 5, dtype=torch.float64)
    compare_modules(nn.RReLU().eval(), torch.nn.RReLU().eval(), [x], device)
    slopes = -nn.RReLU(0.1, 0.3)(edutorch.full((1000,), -1.0, device=device))
    assert 0.1 <= slopes.min().item() < 0.12 < 0.28 < slopes.max().item() <= 0.3


@pytest.mark.parametrize("name", ["Dropout3d", "AlphaDropout", "FeatureAlphaDropout"])
def test_dropouts(name, device, torch):
    ours, theirs = getattr(nn, name)(0.3), getattr(torch.nn, name)(0.3)
    assert repr(ours) == repr(theirs)
    edutorch.manual_seed(0)
    x = edutorch.randn(50, 20, 2, 2, 2, device=device)
    y = ours(x)
    kept = y != y.flatten().mode()[0]  # what is left out becomes the same number everywhere
    if name != "AlphaDropout":
        whole = kept.float().mean((2, 3, 4))
        assert ((whole < 0.01) + (whole > 0.9)).bool().all().item()
    assert abs(kept.float().mean().item() - 0.7) < 0.05
    if name != "Dropout3d":
        assert abs(y.mean().item()) < 0.1 and abs(y.std().item() - 1) < 0.1
    assert ours.eval()(x).equal(x)
    with pytest.raises(ValueError, match="between 0 and 1, but got 2"):
        getattr(nn, name)(2)


# Losses --------------------------------------------------------------------------------------

REDUCTIONS = ["mean", "sum", "none"]


def normal(torch, *shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc(reduction, device, torch):
    torch.manual_seed(0)
    settings = {"zero_infinity": True, "reduction": reduction}
    x, texts = normal(torch, 8, 3, 5).requires_grad_(), torch.randint(1, 5, (3, 3))
    lengths = (torch.tensor([8, 7, 2]), torch.tensor([3, 2, 3]))
    expected = torch.nn.CTCLoss(**settings)(x.log_softmax(2), texts, *lengths)
    mine = ours_of(x, device, True)
    others = [ours_of(array, device) for array in (texts, *lengths)]
    result = nn.CTCLoss(**settings)(mine.log_softmax(2), *others)
    assert_close(result, expected)
    expected.sum().backward()
    result.sum().backward()
    assert_close(mine.grad, x.grad)


def test_mistakes_of_losses():
    with pytest.raises(ValueError, match="only p == 1 and p == 2"):
        nn.MultiMarginLoss(3)
    with pytest.raises(ValueError, match="None or 1D tensor, got 2D"):
        nn.MultiMarginLoss(weight=edutorch.ones(2, 2))
    with pytest.raises(ValueError, match="greater than 0, got 0 instead"):
        nn.TripletMarginWithDistanceLoss(margin=0)
    with pytest.raises(ValueError, match="3D or 4D, got 2D instead"):
        nn.Softmax2d()(edutorch.ones(2, 2))
    with pytest.raises(ValueError, match="to be 4D, got 2D instead"):
        nn.CrossMapLRN2d(3)(edutorch.ones(2, 2))
    with pytest.raises(ValueError, match="at least 2D input"):
        nn.SyncBatchNorm(3)(edutorch.ones(2))
    with pytest.raises(RuntimeError, match="expected 3 channels"):
        nn.SyncBatchNorm(3)(edutorch.ones(2, 2))


# Very many classes ---------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"head_bias": True, "div_value": 2.0}])
def test_adaptive_softmax(settings, device, torch):
    torch.manual_seed(0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10, 15], **settings).double()
    ours = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10, 15], **settings).double()
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(carry(theirs.state_dict(), device))
    for shape, targets in (((5,), [0, 3, 5, 19, 12]), ((3,), [1, 2, 3]), ((), 17)):
        x = normal(torch, *shape, 16).requires_grad_()
        mine, target = ours_of(x, device, True), torch.tensor(targets)
        expected, result = theirs(x, target), ours(mine, ours_of(target, device))
        assert_close(result.output, expected.output)
        assert_close(result.loss, expected.loss)
        (expected.loss + (expected.output**2).sum()).backward()
        (result.loss + (result.output**2).sum()).backward()
        assert_close(mine.grad, x.grad)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(a.grad, b.grad)
    x = normal(torch, 30, 16) * 3
    assert_close(ours.log_prob(ours_of(x, device)), theirs.log_prob(x))
    assert_close(ours.predict(ours_of(x, device)), theirs.predict(x))
    before = ours.head.weight.detach().clone()
    ours.reset_parameters()
    assert not ours.head.weight.equal(before)


def test_mistakes_of_adaptive_softmax():
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6])
    for cuts in ([], [3, 3], [0, 2], [5, 4], [10], [1.5]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence"):
            nn.AdaptiveLogSoftmaxWithLoss(4, 10, cuts)
    for shape, target, text in (
        ((2, 4), [0, 10], r"in \[0, 9\], but values in range \[0, 10\]"),
        ((3, 4), [0, 1], "same size in the batch"), ((4,), [[0]], "multi-target not supported"),
        ((2, 4), 1, "0D target tensor expects 1D"), ((2, 4, 1), [0, 1], "1D target tensor expects"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            layer(edutorch.zeros(shape), edutorch.tensor(target))


@pytest.mark.parametrize("settings", [{}, {"bias": True, "label_smoothing": 0.1},
    {"out_features": (2,), "ignore_index": 1, "reduction": "sum"}], ids=str)  # fmt: skip
def test_linear_cross_entropy(settings, device, torch):
    torch.manual_seed(0)
    theirs = torch.nn.LinearCrossEntropyLoss(3, 5, **settings).double()
    ours = nn.LinearCrossEntropyLoss(3, 5, **settings).double()
    assert repr(ours) == repr(theirs)
    target = torch.randint(0, 5, (4, *settings.get("out_features", ())))
    compare_modules(ours, theirs, [normal(torch, 4, 3), target], device)


def test_options_of_linear_cross_entropy(torch):
    ours, theirs = nn.LinearCrossEntropyOptions(), torch.nn.LinearCrossEntropyOptions()
    assert repr(ours) == repr(theirs)
    for wrong in ({"acc_policy": "x"}, {"chunking_method": "x"}, {"batch_chunk_size": 0},
                  {"acc_dtype": "x"}, {"chunking_method": "aspect_ratio:0"}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong))):
            nn.LinearCrossEntropyOptions(**wrong)
    with pytest.raises(RuntimeError, match=r"weight shape to be \(5,\)"):
        nn.LinearCrossEntropyLoss(3, 5, weight=edutorch.ones(4))
    with pytest.raises(RuntimeError, match="range"):
        nn.LinearCrossEntropyLoss(3, 5, label_smoothing=2)


# Tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [
    {}, {"padding_idx": -1}, {"scale_grad_by_freq": True}, {"max_norm": 1.0, "norm_type": 1.0},
    {"sparse": True}], ids=str)  # fmt: skip
def test_embedding(settings, device, torch):
    torch.manual_seed(0)
    theirs = torch.nn.Embedding(5, 3, **settings).double()
    ours = nn.Embedding(5, 3, **settings).double()
    assert repr(ours) == repr(theirs)
    if "sparse" not in settings:
        inputs = [torch.tensor([[0, 4, 1], [1, 1, 2]])]
        compare_modules(ours, theirs, inputs, device, differentiable=())
    assert_close(ours_of(theirs.weight, device), theirs.weight)


@pytest.mark.parametrize("settings", [
    {}, {"mode": "sum"}, {"mode": "max"}, {"padding_idx": 1}, {"include_last_offset": True},
    {"max_norm": 1.0, "mode": "sum"}], ids=str)  # fmt: skip
def test_embedding_bag(settings, device, torch):
    torch.manual_seed(0)
    theirs = torch.nn.EmbeddingBag(5, 3, **settings).double()
    ours = nn.EmbeddingBag(5, 3, **settings).double()
    assert repr(ours) == repr(theirs)
    input = torch.tensor([0, 4, 1, 1, 1, 2])
    starts = [0, 2, 2, 6] if settings.get("include_last_offset") else [0, 2, 2]
    compare_modules(ours, theirs, [input, torch.tensor(starts)], device, differentiable=())
    square = input.reshape(2, 3)
    assert_close(ours(ours_of(square, device)), theirs(square))


@pytest.mark.parametrize("name", ["Embedding", "EmbeddingBag"])
def test_tables_that_are_given(name, device, torch):
    cls = getattr(nn, name)
    table = edutorch.ones(3, 2, device=device)
    frozen, trained = cls.from_pretrained(table), cls.from_pretrained(table, freeze=False)
    assert not frozen.weight.requires_grad and trained.weight.requires_grad
    assert frozen(edutorch.tensor([[0, 2]], device=device)).device == table.device
    assert repr(frozen) == repr(getattr(torch.nn, name).from_pretrained(torch.ones(3, 2)))
    with pytest.raises(AssertionError, match="expected to be 2-dimensional"):
        cls.from_pretrained(edutorch.ones(3))
    with pytest.raises(AssertionError, match="Shape of weight does not match"):
        cls(3, 4, _weight=edutorch.ones(3, 2))
    with pytest.raises(AssertionError, match="Padding_idx must be within"):
        cls(3, 4, padding_idx=3)
    edutorch.manual_seed(0)
    weight = cls(200, 50, padding_idx=1).weight
    assert abs(weight.std().item() - 1) < 0.02 and weight[1].abs().sum().item() == 0


# Others --------------------------------------------------------------------------------------


def test_convert_sync_batchnorm(torch):
    def model(nn):
        return nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(2, affine=False)),
                             nn.InstanceNorm1d(2), nn.Linear(2, 2))  # fmt: skip

    before = model(nn).eval()
    weight, mean = before[0].weight, before[0].running_mean
    ours = nn.SyncBatchNorm.convert_sync_batchnorm(before)
    theirs = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model(torch.nn))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours[0].weight is weight and ours[0].running_mean is mean and not ours[0].training


def test_old_names():
    with pytest.warns(FutureWarning, match=r"nn\.Container` is deprecated"):
        assert list(nn.Container(a=nn.Identity()).state_dict()) == []
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        nn.NLLLoss2d()
    assert math.isclose(nn.CrossMapLRN2d(5).alpha, 1e-4)


@pytest.mark.parametrize("name", ["CELU", "Tanhshrink", "Softmin"])
def test_differentiable_twice(name, device):
    edutorch.manual_seed(1)
    layer = nn.Softmin(0) if name == "Softmin" else getattr(nn, name)()
    x = edutorch.randn(4, dtype=edutorch.float64, device=device, requires_grad=True)
    assert edutorch.autograd.gradgradcheck(lambda x: layer(x), (x,))
