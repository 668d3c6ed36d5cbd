"""Groups that open and close: what is to be seen of a large graph."""

import json
import time

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.events import listening
from edutorch.viz import draw, live
from edutorch.viz.graph.fold import (
    MOST_NODES,
    SEVERAL,
    Choice,
    fold_snapshot,
    gradient_node,
    group_graph,
    make_plan,
    whole_gradient_edge,
)
from edutorch.viz.graph.model import Vertex, arrange
from edutorch.viz.graph.names import Names
from edutorch.viz.graph.repetition import find_runs
from edutorch.viz.live import page as page_module
from edutorch.viz.live.recorder import Recorder
from edutorch.viz.render.graphviz import LayoutTimeout
from tests.viz.golden import floats_in


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + edutorch.relu(self.inner(self.norm(x)))


class Tower(nn.Module):
    def __init__(self, height=12, width=4):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(height)])
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def recorded(model, compute):
    recorder = Recorder(Names([model] if model else []))
    recorder._optimizer_seen = True
    with listening(recorder):
        compute().backward()
    recorder.finish()
    return recorder.snapshot


def tower(**options):
    model = Tower(**options)
    return recorded(model, lambda: model(edutorch.ones(2, 3)).sum())


def labels(snapshot):
    return [node.label for node in snapshot.graph.nodes]


def all_groups(group):
    for inner in group.groups():
        yield inner
        yield from all_groups(inner)


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([1, 2, 1, 2, 1, 2], [(0, 2, 3)]),
        ([7, 1, 1, 1, 1, 8], [(1, 1, 4)]),
        ([1, 2, 1, 2], []),
        ([], []),
        ([3], []),
        ([1, 1, 1, 5, 2, 2, 2], [(0, 1, 3), (4, 1, 3)]),
        ([1, 1, 2] * 4, [(0, 3, 4)]),
    ],
)
def test_what_repeats_in_a_row(marks, expected):
    assert find_runs(marks) == expected


def test_equal_blocks_fold_by_themselves():
    visible = fold_snapshot(tower())
    assert "Block ×12" in labels(visible)
    assert len(visible.graph.nodes) < 12


def test_a_first_lesson_is_shown_step_by_step():
    x = edutorch.tensor(2.0, requires_grad=True)
    y = x
    for _ in range(10):
        y = y * x
    assert labels(draw(y).snapshot).count("mul") == 10


def test_what_somebody_opened_is_open_with_all_around_it():
    whole = tower()
    visible = fold_snapshot(whole, Choice().open("blocks.3"))
    assert [frame.key for frame in visible.graph.frames if "blocks.3" in frame.key] != []
    assert "blocks.4 · Block" in labels(visible)
    assert "blocks.3 · Block" not in labels(visible)


def test_closing_is_the_opposite_of_opening():
    whole = tower()
    choice = Choice().open("blocks.3")
    assert labels(fold_snapshot(whole, choice.close("blocks.0×12"))) == labels(fold_snapshot(whole))
    again = choice.close("blocks.0×12").open("blocks.5")
    assert "blocks.6 · Block" in labels(fold_snapshot(whole, again))


def test_a_closed_module_hides_its_parameters_and_says_how_much_is_inside():
    visible = fold_snapshot(tower(), Choice().close("first"))
    box = next(node for node in visible.graph.nodes if node.group == "first")
    assert (box.kind, box.label, box.inside) == ("group", "first · Linear", 3)
    assert not any(
        node.label == "weight" and node.module == "first" for node in visible.graph.nodes
    )


def test_the_numbers_of_a_group_are_those_of_what_it_computes():
    model, kept = Tower(), []
    model.blocks[-1].register_forward_hook(lambda module, args, output: kept.append(output))

    def compute():
        out = model(edutorch.ones(2, 3))
        kept[-1].retain_grad()
        return out.sum()

    visible = fold_snapshot(recorded(model, compute))
    at = labels(visible).index("Block ×12")
    assert visible.values[at].mean == pytest.approx(kept[-1].mean().item(), rel=1e-5)
    assert visible.grads[at].norm == pytest.approx(kept[-1].grad.norm().item(), rel=1e-5)


class Aside(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        self.penalty = y.square().sum()  # computed later, and used by nobody
        return y


class ExpSum(nn.Module):
    def forward(self, x):
        return x.exp().sum()


@pytest.mark.parametrize("path", ["0", "1"])
def test_the_numbers_of_a_group_are_those_of_what_leaves_it(path):
    model, kept = nn.Sequential(Aside(), ExpSum()), []
    model[int(path)].register_forward_hook(lambda module, args, output: kept.append(output))
    snapshot = recorded(model, lambda: model(edutorch.ones(2, 3)))
    visible = fold_snapshot(snapshot, Choice().close(path))
    at = next(at for at, node in enumerate(visible.graph.nodes) if node.group == path)
    assert visible.values[at].mean == pytest.approx(kept[0].mean().item(), rel=1e-5)


def test_every_node_is_in_exactly_one_group_or_outside():
    whole = tower()
    root = group_graph(whole.graph)[0]
    members = [member for group in [root, *all_groups(root)] for member in group.members
               if isinstance(member, int)]  # fmt: skip
    assert sorted(members) == list(range(len(whole.graph.nodes)))
    assert root.size == len(members)


def test_keys_are_unique():
    root = group_graph(tower().graph)[0]
    keys = [group.key for group in all_groups(root)]
    assert len(keys) == len(set(keys))


def test_each_call_of_a_module_is_a_group_of_its_own():
    layer = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    holder = nn.ModuleDict({"layer": layer})
    x = edutorch.ones(1, 2)
    whole = recorded(holder, lambda: (layer(layer(x) * 2) * 3).sum())
    keys = {group.key for group in all_groups(group_graph(whole.graph)[0])}
    assert {"layer", "layer#2"} <= keys


def test_arrows_between_two_closed_groups_are_one():
    visible = fold_snapshot(tower(), Choice().open("blocks.0×12"))
    pairs = [(edge.source, edge.target) for edge in visible.graph.edges]
    assert len(pairs) == len(set(pairs))
    flow = dict(zip([edge.id for edge in visible.graph.edges], visible.flows, strict=True))
    inner = [edge.id for edge in visible.graph.edges
             if visible.graph.nodes[int(edge.source[1:])].group.startswith("blocks.")
             and visible.graph.nodes[int(edge.target[1:])].group.startswith("blocks.")]  # fmt: skip
    assert len(inner) == 11
    source = {edge.id: int(edge.source[1:]) for edge in visible.graph.edges}
    # Two gradients, of the layers and of the skip around them: together, that of the result.
    assert all(flow[edge] == visible.grads[source[edge]] for edge in inner)
    assert all(flow[edge] is not None for edge in inner)


@pytest.mark.parametrize("length", [700, 5_000])
def test_no_more_is_shown_than_can_be_read(length):
    generator = np.random.default_rng(0)
    names = ["exp", "sin", "tanh", "relu"]
    vertices = {0: Vertex("leaf", "x")}
    for index in range(1, length):  # nothing repeats here
        label = names[generator.integers(4)] + str(generator.integers(50))
        vertices[index] = Vertex("op", label, sources=(("input", index - 1),))
    whole = arrange(vertices, [length - 1])
    visible = fold_snapshot(whole)
    assert len(visible.graph.nodes) <= MOST_NODES
    part = next(node.group for node in visible.graph.nodes if node.group)
    opened = fold_snapshot(whole, Choice().open(part))
    assert len(opened.graph.nodes) > len(visible.graph.nodes)


@pytest.mark.parametrize("nodes", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_chain_of_many_nodes_folds_opens_and_closes(nodes):
    vertices = {0: Vertex("leaf", "x")}
    for index in range(1, nodes):
        vertices[index] = Vertex("op", ["exp", "sin"][index % 2], sources=(("input", index - 1),))
    whole = arrange(vertices, [nodes - 1])
    visible = fold_snapshot(whole)
    assert len(visible.graph.nodes) < 10
    box = next(node for node in visible.graph.nodes if node.group)
    assert len(fold_snapshot(whole, Choice().open(box.group)).graph.nodes) <= 200


def test_data_stays_outside_unless_each_time_has_its_own():
    cell = nn.RNNCell(2, 3)
    batches = [edutorch.ones(1, 2) * step for step in range(30)]

    def unrolled():
        hidden = edutorch.zeros(1, 3)
        for batch in batches:
            hidden = cell(batch, hidden)
        return hidden.sum()

    visible = fold_snapshot(recorded(cell, unrolled))
    assert "data" not in labels(visible)
    x = edutorch.tensor(1.0, requires_grad=True)

    def chain():
        y = x
        for _ in range(50):
            y = (y * 1.01).sin()
        return y

    assert labels(fold_snapshot(recorded(None, chain)))[0] == "leaf"


def test_a_plan_serves_every_step_of_the_same_graph():
    first, second = tower(), tower()
    plan = make_plan(first.graph, Choice())
    assert plan.pick(second).values == fold_snapshot(second).values


# In the page ---------------------------------------------------------------------------------


class FakePage:
    def __init__(self):
        self.pictures, self.patches = [], []

    def show(self, picture, patch, numbers, curves):
        json.dumps([picture, patch], allow_nan=False)
        self.pictures += [picture] if picture else []
        self.patches.append(patch)
        self.numbers = floats_in(numbers, self.pictures)


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.01)


def test_a_click_opens_a_group_while_it_trains_and_afterwards():
    model = Tower()
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    view = live(model)
    page = view._page_state.page = FakePage()

    def step():
        optimizer.zero_grad()
        model(edutorch.ones(2, 3)).sum().backward()
        optimizer.step()

    def opened():
        return {node["frame"] for node in page.pictures[-1]["nodes"]} if page.pictures else set()

    def loop_until(condition):
        until(lambda: step() or condition())

    with view:
        loop_until(lambda: page.pictures)
        view._command({"type": "open", "group": "blocks.2"})
        loop_until(lambda: any(key.startswith("blocks.2") for key in opened()))
        view._command({"type": "close", "group": "blocks.0×12"})
        loop_until(lambda: not any(key.startswith("blocks.2") for key in opened()))
    view._command({"type": "open", "group": "blocks.5"})
    assert any(key.startswith("blocks.5") for key in opened())
    assert page.patches[-1]["state"] == "finished"


def test_a_layout_that_takes_too_long_folds_the_graph_further(monkeypatch):
    real, sizes = page_module.render, []

    def slow(dot, **options):
        sizes.append(dot.count("fixedsize"))
        if sizes[-1] > 15:
            raise LayoutTimeout("viz", "the layout took more than 10 s", hint="fold")
        return real(dot, **options)

    monkeypatch.setattr(page_module, "render", slow)
    names = np.random.default_rng(0).choice(["sin", "sigmoid", "tanh", "cos"], 90)
    x = edutorch.tensor(1.0, requires_grad=True)
    view = live()
    page = view._page_state.page = FakePage()

    def step():
        y = x
        for name in names:
            y = getattr(y, name)()
        x.grad = None
        y.backward()

    def train():
        with view:
            until(lambda: step() or page.pictures)

    with pytest.warns(UserWarning, match="took more than 10 s"):
        train()
    assert sizes[0] > 15
    assert len(page.pictures[-1]["nodes"]) <= 15


def test_a_picture_that_fits_on_no_page_is_folded_further(monkeypatch):
    """But not what somebody has opened."""

    real = page_module.fit_page

    def fit_page(graph, *arguments):
        return real(graph, *arguments)._replace(fits=len(graph.nodes) <= 15)

    monkeypatch.setattr(page_module, "fit_page", fit_page)
    view = live()
    page = view._page_state.page = FakePage()

    def step():
        y = edutorch.tensor(1.0, requires_grad=True)
        for name in ["sin", "tanh", "cos", "exp", "sigmoid"] * 6:
            y = getattr(y, name)()
        y.backward()

    with view:
        until(lambda: step() or page.pictures)
        assert len(page.pictures[-1]["nodes"]) <= 15
        view._command({"type": "open_all"})
        until(lambda: step() or len(page.pictures[-1]["nodes"]) > 15)


def test_numbers_are_taken_only_where_somebody_can_see_them():
    model = Tower()
    optimizer = optim.SGD(model.parameters(), lr=1e-5)
    view = live(model)
    page = view._page_state.page = FakePage()
    counts = []

    def step():
        optimizer.zero_grad()
        model(edutorch.ones(2, 3)).square().mean().backward()
        optimizer.step()
        counts.append(sum(value is not None for value in view._recorder.snapshot.values))
        view._sampler._full_due = 0.0  # else seconds pass between looks at everything

    with view:
        until(lambda: step() or not view._recorder.full)
    snapshot = view._recorder.snapshot
    visible = fold_snapshot(snapshot)
    assert counts[0] == len(snapshot.graph.nodes)
    assert counts[-1] <= len(visible.graph.nodes)
    assert all(value is not None for value in visible.values)
    plan = make_plan(snapshot.graph, Choice())
    shown = [flow for flow, edge in zip(visible.flows, plan.edges, strict=True) if edge >= 0]
    assert sum(flow is None for flow in shown) == 1  # the data has no gradient
    assert page.patches[-1]["state"] == "finished"
    view._command({"type": "open", "group": "blocks.5"})
    assert page.patches[-1]["step"] <= len(counts)  # the last one with all numbers
    opened = page.pictures[-1]["nodes"]
    values = page.numbers[: 2 * len(opened)].reshape(-1, 2)
    inner = [at for at, node in enumerate(opened) if node["frame"].startswith("blocks.5")]
    assert len(inner) > 3
    assert np.isfinite(values[inner, 0]).all()


class Split(nn.Module):
    def forward(self, x):
        return x.sin(), x.cos()


class Join(nn.Module):
    def forward(self, one, other):
        return one.exp() * other.tanh()


def test_an_arrow_for_several_gradients_has_none_and_one_for_a_whole_gradient_has_that():
    """Its norm is not the sum of theirs, so there is nothing true to write at it."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.split, self.join = Split(), Join()

        def forward(self, x):
            h = x * 2
            return self.join(*self.split(h)).sum() + h.sum()

    model = Net()
    x = edutorch.ones(3, requires_grad=True)
    whole = recorded(model, lambda: model(x))
    choice = Choice().close("split").close("join")
    plan = make_plan(whole.graph, choice)
    visible = plan.pick(whole)
    assert plan.edges.count(SEVERAL) == 2
    for number, edge, flow in zip(plan.edges, visible.graph.edges, visible.flows, strict=True):
        ends = [next(node.label for node in visible.graph.nodes if node.id == end)
                for end in (edge.source, edge.target)]  # fmt: skip
        if number == SEVERAL:
            assert "split · Split" in ends and flow is None
        elif number >= 0:
            assert flow == whole.flows[number]
        else:
            assert flow == whole.grads[gradient_node(number)] is not None
    alone = recorded(model, lambda: sum(model.split(x * 2)).sum())
    plan = make_plan(alone.graph, Choice().close("split"))
    result = next(number for number in plan.edges if number < SEVERAL)
    assert plan.pick(alone).flows[plan.edges.index(result)] == alone.grads[gradient_node(result)]
    assert alone.graph.nodes[gradient_node(result)].label == "mul"
    assert [gradient_node(whole_gradient_edge(node)) for node in range(3)] == [0, 1, 2]
    assert SEVERAL not in [whole_gradient_edge(node) for node in range(3)]


def test_a_closed_group_has_no_formula_of_its_own():
    """Its box stands for many ops: the formula of the first one would be wrong."""
    graph = draw(Tower()(edutorch.ones(2, 3)).sum()).whole.graph
    groups = [node for node in make_plan(graph, Choice(everything=False)).graph.nodes if node.group]
    assert groups and all(dict(node.formulas) == {} for node in groups)
    assert any(node.formulas for node in graph.nodes)
