"""The loss around a point: the heights are true, and nothing is moved in the end."""

import numpy as np
import pytest

import edutorch
from edutorch import nn, viz
from edutorch.nn import functional as F
from edutorch.viz.plots import NotAPictureError, NotAPictureTypeError

pytest.importorskip("matplotlib")

X = edutorch.linspace(-1, 1, 24).reshape(12, 2)
Y = X.prod(1, keepdim=True)


def network():
    edutorch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))


def bits(model):
    return {name: value.numpy().tobytes() for name, value in model.state_dict().items()}


def test_the_middle_is_the_loss_itself():
    model = network()
    before, ids = bits(model), [id(each._array) for each in model.parameters()]
    found = viz.landscape(model, F.mse_loss, (X, Y), steps=5)
    assert [id(each._array) for each in model.parameters()] == ids
    assert bits(model) == before and model.training
    assert all(each.grad is None for each in model.parameters())
    model.eval()
    assert found.losses[2, 2] == pytest.approx(F.mse_loss(model(X), Y).item(), rel=1e-6)
    assert found.losses.shape == (5, 5) and found.losses.std() > 0
    assert "loss landscape, from" in found.alt
    assert found._repr_mimebundle_()["image/png"].startswith(b"\x89PNG")


def test_weights_that_autocast_keeps_are_those_of_each_point():
    """The parameters get other arrays, without a write that their version would tell."""
    maps = []
    for cache_enabled in (True, False):
        model = network().eval()
        with edutorch.autocast("cpu", cache_enabled=cache_enabled):
            model(X)  # its weights are converted, and kept
            maps.append(viz.landscape(model, F.mse_loss, (X, Y), steps=3).losses)
            assert maps[-1][1, 1] == F.mse_loss(model(X), Y).item()
    np.testing.assert_array_equal(*maps)


def test_the_same_seed_gives_the_same_map():
    model = network()
    one, two, other = (viz.landscape(model, F.mse_loss, (X, Y), steps=3, seed=seed)
                       for seed in (1, 1, 2))  # fmt: skip
    assert np.array_equal(one.losses, two.losses) and not np.array_equal(one.losses, other.losses)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_parameters_are_put_back_after_an_interrupt(error):
    model = network()
    before, calls = bits(model), []

    def loss(output, target):
        calls.append(1)
        if len(calls) == 7:
            raise error
        return F.mse_loss(output, target)

    with pytest.raises(error):
        viz.landscape(model, loss, (X, Y), steps=5)
    assert bits(model) == before and model.training
    assert all(module.training for module in model.modules())


def test_a_trajectory_lies_in_the_map():
    model = nn.Linear(2, 1)
    states = []
    for step in range(8):
        with edutorch.no_grad():
            model.weight.copy_(edutorch.tensor([[0.5 * step, 0.0]]))
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    found = viz.landscape(model, F.mse_loss, (X, Y), trajectory=states, steps=9)
    assert found.explained == pytest.approx(1)
    assert np.allclose(np.abs(found.path[0, 0]), 3.5, atol=1e-5)
    assert np.allclose(found.path[-1], 0, atol=1e-6)
    assert found.xs[0] <= found.path[:, 0].min() and found.xs[-1] >= found.path[:, 0].max()
    assert "100% of the way" in found.alt


def test_batches_and_losses_that_are_no_numbers():
    model = nn.Linear(2, 1)
    found = viz.landscape(model, F.mse_loss, [(X[:6], Y[:6]), (X[6:], Y[6:])], steps=3)
    assert found.losses[1, 1] == pytest.approx(F.mse_loss(model(X), Y).item(), rel=1e-5)
    broken = viz.landscape(model, lambda y, t: (y - y).log().sum(), (X, Y), steps=3)
    assert broken.alt == "a loss landscape without any finite loss"


def test_wrong_arguments():
    model = network()
    with pytest.raises(NotAPictureTypeError, match="expected a module, got int"):
        viz.landscape(3, F.mse_loss, (X, Y))
    with pytest.raises(NotAPictureError, match="no parameters"):
        viz.landscape(nn.ReLU(), F.mse_loss, (X, Y))
    with pytest.raises(NotAPictureError, match="`data` must be"):
        viz.landscape(model, F.mse_loss, X)
    with pytest.raises(NotAPictureError, match=r"steps from 3 to 100, got 1\.0 and 2"):
        viz.landscape(model, F.mse_loss, (X, Y), steps=2)
    with pytest.raises(NotAPictureError, match="needs 3 moments"):
        viz.landscape(model, F.mse_loss, (X, Y), trajectory=[model.state_dict()])
    with pytest.raises(NotAPictureError, match="of another model"):
        viz.landscape(model, F.mse_loss, (X, Y), trajectory=[nn.Linear(2, 1).state_dict()] * 3)
    with pytest.raises(NotAPictureError, match="never moved"):
        viz.landscape(model, F.mse_loss, (X, Y), trajectory=[model.state_dict()] * 3)
