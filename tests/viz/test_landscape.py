"""The loss around a point: the heights are true, and nothing is moved in the end."""

import numpy as np
import pytest

import edutorch
from edutorch import nn, viz
from edutorch.nn import functional as F
from edutorch.viz.render.plots import NotAPictureError, NotAPictureTypeError
from edutorch.viz.tensors.landscape import directions, padded_range, random_like

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
    before, ids = bits(model), [id(parameter._array) for parameter in model.parameters()]
    result = viz.landscape(model, F.mse_loss, (X, Y), steps=5)
    assert [id(parameter._array) for parameter in model.parameters()] == ids
    assert bits(model) == before and model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    assert result.losses[2, 2] == pytest.approx(F.mse_loss(model(X), Y).item(), rel=1e-6)
    assert result.losses.shape == (5, 5) and result.losses.std() > 0
    assert "loss landscape, from" in result.alt
    assert result._repr_mimebundle_()["image/png"].startswith(b"\x89PNG")


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
    result = viz.landscape(model, F.mse_loss, (X, Y), trajectory=states, steps=9)
    assert result.explained == pytest.approx(1)
    assert np.allclose(np.abs(result.path[0, 0]), 3.5, atol=1e-5)
    assert np.allclose(result.path[-1], 0, atol=1e-6)
    assert result.xs[0] <= result.path[:, 0].min() and result.xs[-1] >= result.path[:, 0].max()
    assert "100% of the way" in result.alt


def test_batches_and_losses_that_are_no_numbers():
    model = nn.Linear(2, 1)
    result = viz.landscape(model, F.mse_loss, [(X[:6], Y[:6]), (X[6:], Y[6:])], steps=3)
    assert result.losses[1, 1] == pytest.approx(F.mse_loss(model(X), Y).item(), rel=1e-5)
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


def test_random_directions_are_as_long_as_each_filter():
    """Long steps along short filters would say more of the scale than of the loss."""
    edutorch.manual_seed(0)
    parameters = [*nn.Linear(5, 3).parameters(), *nn.Conv2d(2, 4, 3).parameters()]
    with edutorch.no_grad():
        for number, parameter in enumerate(parameters):
            sizes = edutorch.arange(1.0, len(parameter) + 1)
            parameter.mul_(sizes.reshape(-1, *[1] * (parameter.ndim - 1)))
            parameter[0] *= number  # the first one's filter is 0
    made = random_like(parameters, np.random.default_rng(0))
    other = random_like(parameters, np.random.default_rng(1))
    for parameter, direction, another in zip(parameters, made, other, strict=True):
        assert direction.shape == parameter.shape and direction.dtype == np.float32
        if parameter.ndim < 2:
            assert not direction.any()  # biases stay where they are
            continue
        rows, own = direction.reshape(len(direction), -1), parameter.detach().numpy()
        lengths = np.linalg.norm(own.reshape(len(own), -1), axis=1)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), lengths, rtol=1e-5)
        assert lengths.std() > 0.1 * lengths.mean() and (direction != another).any()


def test_the_path_of_a_trajectory_is_measured_along_its_main_axes():
    model = nn.Linear(2, 1)
    points = [(0.0, 0.0), (3.0, 0.5), (6.0, -0.5), (9.0, 0.0)]
    states = []
    for place in points:
        with edutorch.no_grad():
            model.weight.copy_(edutorch.tensor([place]))
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    first, second, path, explained = directions(model, list(model.parameters()), states, 0)
    assert path.shape == (len(points), 2) and explained == pytest.approx(1)
    moves = np.array(points) - points[-1]
    axes = np.stack([first[0].ravel(), second[0].ravel()])
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(path, moves @ axes.T, atol=1e-5)
    assert np.ptp(path[:, 0]) > 5 * np.ptp(path[:, 1])
    assert not first[1].any() and not second[1].any()  # the bias never moved
    three = directions(model, list(model.parameters()), states[1:], 0)
    assert three[2].shape == (3, 2)


def test_a_straight_path_has_no_second_direction():
    model = nn.Linear(2, 1)
    bias = model.bias.detach()
    states = [
        {"weight": edutorch.tensor([[1.0, 2.0]]) * step, "bias": bias} for step in (0, 1, 3, 7)
    ]
    model.load_state_dict(states[-1])
    first, second, path, explained = directions(model, list(model.parameters()), states, 0)
    assert explained == pytest.approx(1)
    np.testing.assert_allclose(abs(path[:, 0]), np.sqrt(5) * np.array([7, 6, 4, 0]), rtol=1e-5)
    assert not path[:, 1].any()
    assert [part.any() for part in first] == [True, False]
    assert not any(part.any() for part in second)  # rounding is no direction


@pytest.mark.parametrize(("values", "span", "wanted"), [
    ([2.0, 4.0], 1.0, (-1.0, 5.0)), ([-4.0, 4.0], 0.5, (-5.0, 5.0)), ([-2.0], 1.0, (-2.5, 0.5)),
    ([0.0, 0.0], 0.5, (-0.5, 0.5)),
])  # fmt: skip
def test_there_is_room_around_a_path(values, span, wanted):
    assert padded_range(np.array(values), span) == pytest.approx(wanted)


class Counting(nn.Module):
    """Writes into a buffer each time it is called, also where it is evaluated."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.register_buffer("calls", edutorch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


def test_buffers_are_put_back_also_those_that_an_evaluation_writes():
    model = Counting()
    model.layer.eval()
    buffer = model.calls._array
    viz.landscape(model, F.mse_loss, (X, Y), steps=3)
    assert model.calls._array is buffer and model.calls.item() == 0
    assert [module.training for module in model.modules()] == [True, False]
