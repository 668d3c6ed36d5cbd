"""Whatever ends a loop: what stays is its last step, and steps are rounds of all its updates."""

from dataclasses import replace

import pytest

import edutorch as torch
from edutorch import nn, optim, viz
from edutorch.viz.graph.model import overlay
from tests.viz.viewers import PLACES

ENDS = {"end": 3000, "break": 2996, "error": 2994, "interrupt": 2993}


def train(view_of, how):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(16, 3)
    y = x.sum(1, keepdim=True)
    loss = None
    try:
        with view_of(model) as view:
            for number in range(1, 3001):
                optimizer.zero_grad()
                loss = ((model(x) - y) ** 2).mean()
                loss.backward()
                optimizer.step()
                if number == ENDS[how] and how == "break":
                    break
                if number == ENDS[how] and how == "error":
                    raise ValueError("enough")
                if number == ENDS[how] and how == "interrupt":
                    raise KeyboardInterrupt
    except (ValueError, KeyboardInterrupt):
        pass
    return view, model, loss.item()


@pytest.mark.parametrize("place", PLACES)
def test_the_result_holds_the_last_loss(place):
    view, _, loss = train(PLACES[place], "end")
    shown = view.drawing().whole
    at = next(at for at, node in enumerate(shown.graph.nodes) if node.kind == "output")
    assert shown.values[at].few == pytest.approx((loss,))


def test_a_folded_picture_has_the_newest_numbers_where_it_is_open():
    older, newer = (recorded_sum(value) for value in (1.0, 5.0))
    known = replace(newer, values=(None, *newer.values[1:]), flows=(None,) * len(newer.flows))
    both = overlay(older, known)
    assert both.values == (older.values[0], *newer.values[1:])
    assert both.flows == older.flows


def recorded_sum(value):
    w = torch.tensor([value, value], requires_grad=True)
    return viz.draw((w * w).sum()).whole


@pytest.mark.parametrize("how", list(ENDS))
def test_what_stays_is_the_last_step(how, tmp_path):
    view, model, loss = train(viz.live, how)
    step = ENDS[how]
    assert view.step == step and view.loss == pytest.approx(loss)
    drawing = view.drawing()
    assert drawing.caption.startswith(f"step {step:,}, loss {loss:.4g}; activations of step ")
    assert drawing.curves["loss"].points()[-1][0] == step
    assert view.history.steps[-1] == step
    assert view.history.moment(-1).loss == pytest.approx(loss)
    assert view.history[-1].caption == drawing.caption
    parameters = dict(model.named_parameters())
    for shown in (drawing.whole, view.history.moment(-1).snapshot):
        rows = zip(shown.graph.nodes, shown.values, shown.grads, strict=True)
        result = {f"{node.module}.{node.label}": (value, grad) for node, value, grad in rows
                 if node.kind == "parameter"}  # fmt: skip
        assert result.keys() == parameters.keys()
        for name, (value, grad) in result.items():
            tensor = parameters[name]
            assert value.mean == pytest.approx(tensor.detach().mean().item(), rel=1e-5)
            assert grad.norm == pytest.approx(tensor.grad.norm().item(), rel=1e-5)
    text = view.export(tmp_path / "run.html").read_text()
    assert f'"step": {step}' in text or f'"step":{step}' in text


def test_a_short_loop_has_no_older_activations():
    w = torch.ones(2, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    with viz.live() as view:
        for _ in range(2):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
    assert "activations" not in view.drawing().caption


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 4), nn.ReLU(), nn.Linear(4, outputs))


def gan(rounds, critics=0):
    torch.manual_seed(0)
    generator, critic = network(2, 3), network(3, 1)
    of_g, of_d = (optim.SGD(item.parameters(), lr=0.01) for item in (generator, critic))
    criterion = nn.BCEWithLogitsLoss()
    steps = []
    with viz.live(generator, critic) as view:
        for _ in range(rounds):
            fake = generator(torch.randn(8, 2))
            for _ in range(critics):
                of_d.zero_grad()
                lossD = critic(fake.detach()).mean() - critic(torch.randn(8, 3)).mean()
                lossD.backward()
                of_d.step()
            if not critics:
                of_d.zero_grad()
                errD_real = criterion(critic(torch.randn(8, 3)), torch.ones(8, 1))
                errD_real.backward()
                errD_fake = criterion(critic(fake.detach()), torch.zeros(8, 1))
                errD_fake.backward()
                of_d.step()
            of_g.zero_grad()
            errG = criterion(critic(fake), torch.ones(8, 1))
            errG.backward()
            of_g.step()
            steps.append(view.step)
    return view, steps, errG.item()


@pytest.mark.parametrize("rounds", [1, 3, 40, 1500])
def test_a_round_of_a_gan_is_a_step_with_a_curve_for_each_loss(rounds):
    view, steps, loss = gan(rounds)
    assert steps == list(range(1, rounds + 1))
    assert view.losses.keys() == {"errD_real", "errD_fake", "errG"}
    assert view.loss == view.losses["errG"] == pytest.approx(loss)
    curves = {name: curve.points() for name, curve in view.curves.items() if name in view.losses}
    assert curves.keys() == view.losses.keys() and "loss" not in view.curves
    assert all(points[-1][0] == rounds for points in curves.values())
    assert all(len(points) == rounds for points in curves.values() if rounds <= 40)
    if rounds > 1:
        graph = view.drawing().whole.graph
        assert [tab.title for tab in graph.tabs] == ["errD_real", "errD_fake", "errG"]
        modules = {node.module.split(".")[0] for node in graph.nodes}
        assert {"generator", "critic"} <= modules


@pytest.mark.parametrize("rounds", [2, 400])
def test_the_updates_of_a_critic_belong_to_the_round(rounds):
    view, steps, loss = gan(rounds, critics=5)
    assert steps == list(range(1, rounds + 1))
    assert view.losses.keys() == {"lossD", "errG"} and view.loss == pytest.approx(loss)
    assert view.curves["errG"].points()[-1][0] == view.curves["lossD"].points()[-1][0] == rounds


def descend(loop, rounds=60):
    torch.manual_seed(0)
    model = network(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    with viz.live(model) as view:
        loop(model, optimizer, rounds)
    return view


def loss_of(model):
    return (model(torch.randn(8, 3)) ** 2).mean()


def accumulation(model, optimizer, rounds):
    for number in range(4 * rounds):
        loss_of(model).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def closures(model, optimizer, rounds):
    optimizer = optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(rounds):
        optimizer.step(closure)


def scaled(model, optimizer, rounds):
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(rounds):
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        scaler.update()


def evaluated(model, optimizer, rounds):
    for _ in range(rounds):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        with torch.no_grad():
            loss_of(model)


def from_a_generator(model, optimizer, rounds):
    def losses():
        for _ in range(rounds):
            optimizer.zero_grad()
            yield loss_of(model)

    for loss in losses():
        loss.backward()
        optimizer.step()


def by_hand(model, optimizer, rounds):
    for _ in range(rounds):
        model.zero_grad()
        loss_of(model).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad


LOOPS = [accumulation, closures, scaled, evaluated, from_a_generator, by_hand]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_other_loops_count_as_ever(loop):
    view = descend(loop)
    assert view.step == 60
    losses = [name for name in view.curves if "loss" in name]
    assert losses == ["loss"] and view.curves["loss"].points()[-1][0] == 60


def test_nested_views_show_a_model_each():
    torch.manual_seed(0)
    first, second = network(3, 1), network(3, 1)
    of_first, of_second = (optim.SGD(item.parameters(), lr=0.01) for item in (first, second))
    with viz.live(first) as outer, viz.live(second) as inner:
        for _ in range(20):
            for model, optimizer in ((first, of_first), (second, of_second)):
                optimizer.zero_grad()
                loss_of(model).backward()
                optimizer.step()
    for view, model in ((outer, first), (inner, second)):
        snapshot = view.drawing().whole
        rows = zip(snapshot.graph.nodes, snapshot.grads, strict=True)
        norms = sorted(grad.norm for node, grad in rows if node.kind == "parameter")
        assert norms == pytest.approx(
            sorted(parameter.grad.norm().item() for parameter in model.parameters())
        )


def nested_by_turns(first, second, rounds):
    """Two models by turns, at the same lines."""
    told = {first: [], second: []}
    optimizers = {model: optim.SGD(model.parameters(), lr=0.01) for model in told}
    for _ in range(rounds):
        for model, optimizer in optimizers.items():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            told[model].append(loss.item())
    return told


def nested_unequal(first, second, rounds):
    """The second model trains three times as often, with a loss that has a name of its own."""
    told = {first: [], second: []}
    of_first, of_second = (optim.SGD(model.parameters(), lr=0.01) for model in told)
    for _ in range(rounds):
        of_first.zero_grad()
        loss = loss_of(first)
        loss.backward()
        of_first.step()
        told[first].append(loss.item())
        for _ in range(3):
            of_second.zero_grad()
            other = loss_of(second) * 2
            other.backward()
            of_second.step()
            told[second].append(other.item())
    return told


def nested_gan(first, second, rounds):
    """The second judges the first, whose loss flows through both."""
    told = {first: [], second: []}
    of_first, of_second = (optim.SGD(model.parameters(), lr=0.01) for model in told)
    x = torch.randn(4, 3)
    for _ in range(rounds):
        fake = first(x)
        of_second.zero_grad()
        judged = second(fake.detach().expand(4, 3)).square().mean()
        judged.backward()
        of_second.step()
        of_first.zero_grad()
        fooled = (second(fake.expand(4, 3)) - 1).square().mean()
        fooled.backward()
        of_first.step()
        told[second].append(judged.item())
        told[first].append(fooled.item())
    return told


NESTED = {nested_by_turns: (1, 1), nested_unequal: (1, 3), nested_gan: (1, 1)}


@pytest.mark.parametrize("loop", NESTED, ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("rounds", [3, 40])
def test_nested_views_count_their_own_steps_and_losses(loop, rounds):
    torch.manual_seed(0)
    first, second = network(3, 1), network(3, 1)
    with viz.live(first) as outer, viz.live(second) as inner:
        told = loop(first, second, rounds)
    for view, model, times in zip((outer, inner), (first, second), NESTED[loop], strict=True):
        assert view.step == rounds * times
        assert view.loss == pytest.approx(told[model][-1])
        curves = {name: curve for name, curve in view.curves.items() if curve.points()}
        assert list(curves) == ["loss"]
        points = curves["loss"].points()
        assert points[-1] == (view.step, pytest.approx(told[model][-1]))
        for step, value in points:
            assert value == pytest.approx(told[model][step - 1])
        assert list(view.losses.values()) == [pytest.approx(told[model][-1])]
