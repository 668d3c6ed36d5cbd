"""Pictures of whole networks fit on a page, and lose nothing when everything is opened."""

import re
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import draw, live
from edutorch.viz.graph.fold import MOST_NODES, MOST_OPENED, Choice, fold_snapshot, make_plan
from edutorch.viz.graph.model import Scope, Tab, Vertex, arrange
from edutorch.viz.live.page import PageState
from edutorch.viz.render.arrangement import (
    Arrangement,
    DirectionError,
    Size,
    Sketch,
    box_sizes,
    fit_page,
    order_factor,
    picture_size,
)
from edutorch.viz.render.dot import dot_text
from edutorch.viz.render.graphviz import render
from tests.viz.networks import NETWORKS

SVG = "{http://www.w3.org/2000/svg}"
PAGE = 1200  # pixels
SMALLEST_TEXT = 9


@pytest.fixture(scope="module")
def drawings():
    """Each network is drawn once."""
    known = {}

    def drawing(name):
        if name not in known:
            edutorch.manual_seed(0)
            known[name] = draw(*NETWORKS[name]())
        return known[name]

    return drawing


def labels(snapshot):
    return [node.label for node in snapshot.graph.nodes]


def frames(snapshot):
    return [frame.title for frame in snapshot.graph.frames]


def view_box(svg):
    return [float(part) for part in re.search(r'viewBox="([^"]*)"', svg)[1].split()]


def check_size(svg, boxes):
    """Check the shape of a picture, and the size of its text on a page."""
    _, _, width, height = view_box(svg)
    if boxes > 12:
        assert 1 / 4 <= width / height <= 4
    sizes = [
        float(text.get("font-size", "10"))
        for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
    ]
    scale = min(1.0, PAGE / width)
    assert min(sizes) * scale >= SMALLEST_TEXT - 0.01


@pytest.mark.parametrize("name", NETWORKS)
def test_each_network_fits_on_a_page(drawings, name):
    drawing = drawings(name)
    boxes = len(drawing.snapshot.graph.nodes)
    assert 1 < boxes <= MOST_NODES
    assert len(drawing.svg) <= 150_000
    check_size(drawing.svg, boxes)
    png = drawing.png()
    assert len(png) <= 120_000
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert max(width, height) <= 2000


@pytest.mark.parametrize("name", NETWORKS)
def test_a_live_picture_of_each_network_fits_too(drawings, name):
    whole = drawings(name).whole
    page_state = PageState()
    visible = page_state.plan(whole.graph).graph
    assert len(visible.nodes) <= MOST_NODES
    svg = page_state.layouts.svg(visible, None)
    assert picture_size(svg).fits(len(visible.nodes))
    boxes = set(re.findall(r'<g id="(n\d+)" class="node">', svg))
    assert boxes == {node.id for node in visible.nodes}
    assert set(re.findall(r'<g id="(e\d+)" class="edge">', svg)) == {e.id for e in visible.edges}
    assert len(svg) < 150_000


@pytest.mark.parametrize("name", NETWORKS)
def test_opened_fully_it_is_the_whole_graph(drawings, name):
    whole = drawings(name).whole
    opened = fold_snapshot(whole, Choice().open_all())
    assert not any(node.group for node in opened.graph.nodes)
    plain = [(node.id, node.kind, node.label, node.shape) for node in whole.graph.nodes]
    assert [(node.id, node.kind, node.label, node.shape) for node in opened.graph.nodes] == plain
    ends = {(edge.source, edge.target, edge.input) for edge in whole.graph.edges}
    assert {(edge.source, edge.target, edge.input) for edge in opened.graph.edges} == ends
    assert opened.values == whole.values and opened.flows == whole.flows


@pytest.mark.parametrize("name", NETWORKS)
def test_each_node_is_in_one_box(drawings, name):
    graph = drawings(name).whole.graph
    plan = make_plan(graph, Choice())
    assert plan.ids.keys() == set(range(len(graph.nodes)))
    inside = {node.id: node.inside or 1 for node in plan.graph.nodes}
    for id, count in inside.items():
        assert list(plan.ids.values()).count(id) == count


def test_the_same_structure_has_the_same_picture(drawings):
    whole = drawings("resnet18").whole
    edutorch.manual_seed(1)
    again = draw(*NETWORKS["resnet18"]())
    first, second = PageState(), PageState()
    one, two = first.plan(whole.graph).graph, second.plan(again.whole.graph).graph
    assert one.structure == two.structure
    assert first.layouts.svg(one, None) == second.layouts.svg(two, None)


# The reader's words --------------------------------------------------------------------------


def test_words_of_the_library_are_one_box():
    seen = labels(draw(*NETWORKS["gpt"]()).snapshot)
    assert {"wte · Embedding", "drop · Dropout", "ln_f · LayerNorm", "cross_entropy"} <= set(seen)
    assert "Block ×12" in seen
    assert "index_select" not in seen and "native_layer_norm" not in seen


def test_a_word_opens_into_its_ops():
    drawing = draw(*NETWORKS["gpt"]())
    inner = drawing.open("wte").snapshot
    assert "wte · Embedding" in frames(inner)
    assert {"weight", "index_select"} <= set(labels(inner))


def test_blocks_are_named_by_their_path(drawings):
    assert "layer1.0 · BasicBlock" in labels(drawings("resnet18").snapshot)
    assert "layer1 · Sequential" in frames(drawings("resnet18").snapshot)


def test_a_layer_of_one_op_shows_it_with_its_parameters_in_a_small_graph(drawings):
    snapshot = drawings("mlp").snapshot
    layer = ["weight", "bias", "linear"]
    assert labels(snapshot)[1:] == [*layer, "relu", *layer]
    assert frames(snapshot) == ["0 · Linear", "1 · ReLU", "2 · Linear"]


def test_the_mask_of_a_dropout_is_no_data():
    x = edutorch.ones(2, 3, requires_grad=True)
    snapshot = draw(nn.Sequential(nn.Dropout(0.5), nn.Tanh()), x).snapshot
    assert "0 · Dropout" in labels(snapshot)
    assert sum(node.kind == "leaf" for node in snapshot.graph.nodes) == 1


def test_a_group_stands_for_what_leaves_it():
    """A BatchNorm ends with its running statistics; what it computes is another op."""
    x = edutorch.randn(2, 3, 4, 4, requires_grad=True)
    model = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU())
    box = next(n for n in draw(model, x).snapshot.graph.nodes if n.label == "0 · BatchNorm2d")
    assert box.shape == (2, 3, 4, 4)
    assert box.differentiable


def test_a_module_that_is_called_twice_is_two_groups():
    layer = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    holder = nn.ModuleDict({"layer": layer})
    x = edutorch.ones(1, 2)
    snapshot = draw(lambda x: layer(layer(x)).sum(), x, model=holder).snapshot
    assert {"layer · Sequential", "layer#2 · Sequential"} <= set(frames(snapshot))


def test_scopes_say_the_calls_and_without_them_the_modules_do():
    def graph(scopes):
        layer, function = Scope("module", "fc"), Scope("function", "cross_entropy")
        calls = [(layer,), (function,), (function,)] if scopes else [(), (), ()]
        vertices = {
            "x": Vertex("leaf", "x"),
            "w": Vertex("parameter", "weight", "fc"),
            "l": Vertex("op", "linear", "fc", scopes=calls[0],
                        sources=(("input", "x"), ("weight", "w"))),
            "s": Vertex("op", "log_softmax", scopes=calls[1], sources=(("input", "l"),)),
            "n": Vertex("op", "nll", scopes=calls[2], sources=(("input", "s"),)),
        }  # fmt: skip
        return fold_snapshot(arrange(vertices, ["n"], {"fc": "Linear"}))

    assert labels(graph(True)) == ["x", "weight", "linear", "cross_entropy"]
    assert labels(graph(False)) == ["x", "weight", "linear", "log_softmax", "nll"]
    assert frames(graph(True)) == frames(graph(False)) == ["fc · Linear"]


# Loops over time -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("lstm_cell", "cell + head ×20"),
        ("gru_cell", "cell + head ×20"),
        ("by_hand", "getitem … mul ×25"),
    ],
)
def test_a_loop_over_time_is_one_cell_that_opens(drawings, name, title):
    drawing = drawings(name)
    assert title in labels(drawing.snapshot)
    box = next(node for node in drawing.snapshot.graph.nodes if node.label == title)
    times = int(title.rpartition("×")[2])
    opened = drawing.open(box.group).snapshot
    each_time = re.compile(re.escape(box.group) + r"/\d+")
    assert sum(each_time.fullmatch(node.group) is not None for node in opened.graph.nodes) == times


def test_a_loop_that_joins_all_it_has_made_is_one_cell():
    x = edutorch.randn(1, 4, requires_grad=True)

    def loop(x):
        for _ in range(15):
            x = edutorch.cat([x, edutorch.tanh(x.mean(0, keepdim=True) * 1.1)])
        return x.sum()

    assert "mean … cat ×15" in labels(draw(loop, x).snapshot)


def test_many_inputs_of_one_op_are_one_box_that_opens(drawings):
    drawing = drawings("many_leaves")
    assert labels(drawing.snapshot) == ["30 inputs", "stack", "sum"]
    opened = drawing.open(drawing.snapshot.graph.nodes[0].group).snapshot
    assert len(opened.graph.nodes) == 32


def test_what_somebody_opened_stays_open_beyond_the_limit(drawings):
    drawing = drawings("gpt").open("h.0", "h.1", "h.2", "h.3")
    assert len(drawing.snapshot.graph.nodes) > MOST_NODES
    opened = {frame.key for frame in drawing.snapshot.graph.frames}
    assert {"h.0", "h.1", "h.2", "h.3"} <= opened


def test_opening_a_group_leaves_the_others_as_they_are(drawings):
    drawing = drawings("resnet18")
    before = {node.group for node in drawing.snapshot.graph.nodes if node.group}
    after = {node.group for node in drawing.open("layer3.0").snapshot.graph.nodes if node.group}
    assert before - after == {"layer3.0"}


# Direction and rows --------------------------------------------------------------------------


def test_a_first_lesson_runs_from_left_to_right():
    x = edutorch.tensor(2.0, requires_grad=True)
    width, height = picture_size(render(draw((x * 3 + 1).exp()).dot).decode())
    assert width > height


def test_a_chosen_direction_is_kept(drawings):
    whole = drawings("vgg").whole
    for rankdir in ("LR", "TB"):
        page_state = PageState(rankdir)
        visible = page_state.plan(whole.graph).graph
        width, height = picture_size(page_state.layouts.svg(visible, None))
        assert (width > 4 * height) == (rankdir == "LR")


@pytest.mark.parametrize(
    "make", [lambda: PageState("down"), lambda: draw(edutorch.ones(1), rankdir="up")]
)
def test_a_direction_that_there_is_not(make):
    with pytest.raises(DirectionError, match="use 'LR'"):
        make()


@pytest.mark.parametrize("rankdir", ["LR", "TB"])
def test_rows_follow_each_other(drawings, rankdir):
    snapshot = drawings("long_chain").snapshot
    sizes = box_sizes(dot_text(snapshot))
    rows = Sketch(snapshot.graph, sizes).rows(rankdir, 3)
    assert max(rows) == 2 and list(rows) == sorted(rows)
    svg = render(dot_text(snapshot, Arrangement(rankdir, rows))).decode()
    positions = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class") == "node":
            text = next(group.iter(f"{SVG}text"))
            positions[group.get("id")] = float(text.get("x")), float(text.get("y"))
    along, across = (0, 1) if rankdir == "LR" else (1, 0)
    order = [positions[node.id] for node in snapshot.graph.nodes]
    for row in range(3):
        own = [place for place, at in zip(order, rows, strict=True) if at == row]
        later = [place for place, at in zip(order, rows, strict=True) if at == row + 1]
        assert [place[along] for place in own] == sorted(place[along] for place in own)
        assert all(a[across] < b[across] for a in own for b in later)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "gpt2", "densenet", "vgg", "long_chain"])
def test_of_several_arrangements_one_is_taken_that_reads_like_a_text(drawings, name):
    snapshot = drawings(name).snapshot
    fitted = fit_page(
        snapshot.graph, None, partial(dot_text, snapshot), lambda text: render(text).decode()
    )
    assert fitted.fits
    assert order_factor(fitted.svg, snapshot.graph, fitted.arrangement) == 1


def test_a_frame_that_goes_on_in_the_next_row_is_drawn_in_both(drawings):
    snapshot = drawings("vgg").snapshot
    rows = Sketch(snapshot.graph, box_sizes(dot_text(snapshot))).rows("LR", 5)
    svg = render(dot_text(snapshot, Arrangement("LR", rows, turned=True))).decode()
    clusters = re.findall(r'<g id="(c0\w*)" class="cluster">', svg)
    assert len(clusters) > 1 and clusters[0] == "c0"


def test_what_fits_is_said_by_size_and_shape():
    assert Size(1000, 300).fits(40)
    assert not Size(1000, 200).fits(40)
    assert Size(1000, 200).fits(12)
    assert not Size(1300, 900).fits(5)
    assert not Size(900, 2100).fits(5)


def test_a_picture_is_laid_out_a_few_times_at_most(drawings):
    snapshot = drawings("unet").snapshot
    asked = []
    fitted = fit_page(
        snapshot.graph,
        None,
        partial(dot_text, snapshot),
        lambda text: asked.append(text) or render(text).decode(),
    )
    assert fitted.fits
    assert 1 <= len(asked) <= 20


# Tabs, everything at once --------------------------------------------------------------------


def tabbed():
    vertices = {"x": Vertex("leaf", "x"), "w": Vertex("parameter", "weight", "net")}
    vertices["a"] = Vertex("op", "mul", sources=(("input", "x"), ("other", "w")))
    vertices["b"] = Vertex("op", "exp", sources=(("input", "a"),))
    vertices["c"] = Vertex("op", "sin", sources=(("input", "w"),))
    snapshot = arrange(vertices, ["b", "c"])
    names = [node.label for node in snapshot.graph.nodes]
    behind = tuple(names.index(label) for label in ("x", "weight", "mul", "exp"))
    others = tuple(names.index(label) for label in ("weight", "sin"))
    tabs = (Tab("first", behind), Tab("second", others))
    return replace(snapshot, graph=replace(snapshot.graph, tabs=tabs))


def test_a_tab_shows_its_part_of_the_graph():
    whole = tabbed()
    assert len(fold_snapshot(whole).graph.nodes) == 5
    first, second = (fold_snapshot(whole, Choice().show_tab(tab)) for tab in (0, 1))
    assert labels(first) == ["x", "weight", "mul", "exp"]
    assert labels(second) == ["weight", "sin"]
    assert first.graph.tabs == whole.graph.tabs
    plan = make_plan(whole.graph, Choice().show_tab(1))
    assert [whole.graph.nodes[number].label for number in plan.nodes] == ["weight", "sin"]
    assert [whole.graph.edges[number].target for number in plan.edges] == [whole.graph.nodes[4].id]


def test_a_tab_that_is_gone_shows_the_whole_graph():
    assert len(fold_snapshot(tabbed(), Choice().show_tab(7)).graph.nodes) == 5


def test_commands_of_the_page():
    page_state = PageState()
    graph = draw(*NETWORKS["gpt2"]()).whole.graph
    sizes = []
    for command in (
        {"type": "open_all"},
        {"type": "close_all"},
        {"type": "open", "group": "h.0"},
        {"type": "tab", "tab": 0},
        {"type": "tab", "tab": None},
        {"type": "tab", "tab": "nonsense"},
    ):
        page_state.needs_update = False
        assert page_state.command(command)
        assert page_state.needs_update
        sizes.append(len(page_state.plan(graph).graph.nodes))
    assert sizes[0] == len(graph.nodes)
    assert sizes[1] < MOST_NODES < sizes[0]
    assert sizes[2] > sizes[1]
    assert page_state.choice.tab is None
    assert not page_state.command({"type": "unknown"})


def test_a_live_view_of_a_large_network_shows_it_folded():
    edutorch.manual_seed(0)
    compute, x = NETWORKS["resnet18"]()
    view = live()
    pictures = []

    class Page:
        def show(self, picture, patch, numbers, curves):
            pictures.extend([picture] if picture else [])

    view._page_state.page = Page()
    with view:
        for _ in range(2):
            compute(x).backward()
    assert pictures
    assert 1 < len(pictures[-1]["nodes"]) <= MOST_NODES
    assert "layer1.0 · BasicBlock" in [node["label"] for node in pictures[-1]["nodes"]]


# Names of groups -----------------------------------------------------------------------------


def test_a_group_is_opened_by_its_path_also_beside_a_second_model():
    edutorch.manual_seed(0)
    gpt, other = NETWORKS["gpt2"]()[0], nn.Linear(2, 2)
    tokens = edutorch.arange(12).view(2, 6) % 11
    both = nn.ModuleDict({"gpt": gpt, "other": other})
    drawing = draw(gpt, tokens, tokens, model=both)
    assert "gpt.h.0" in {frame.key for frame in drawing.open("h.0.attn").snapshot.graph.frames}
    assert "gpt.h.0.attn" in {frame.key for frame in drawing.open("h.0.attn").snapshot.graph.frames}


def test_all_calls_of_a_module_are_meant_by_its_path():
    layer = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    holder = nn.ModuleDict({"layer": layer})
    x = edutorch.ones(1, 2)
    drawing = draw(lambda x: layer(layer(x)).sum(), x, model=holder).close("layer")
    assert {node.group for node in drawing.snapshot.graph.nodes if node.group} == {
        "layer",
        "layer#2",
    }
    assert frames(drawing.open("layer#2").snapshot)[0] == "layer#2 · Sequential"


def test_a_group_that_there_is_not_is_an_error_that_names_others(drawings):
    text = r"no group called 'layer9'\n  hint: use one of .*'layer1'"
    with pytest.raises(ValueError, match=text):
        drawings("resnet18").open("layer9")
    x = edutorch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="this picture has no groups"):
        draw(x * 2).close("layers")


def test_a_comparison_of_two_steps_is_no_strip():
    model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(3, 3), nn.Tanh())])
    optimizer = edutorch.optim.SGD(model.parameters(), lr=0.1)
    with live(model) as view:
        for _ in range(3):
            optimizer.zero_grad()
            model(edutorch.ones(2, 3)).sum().backward()
            optimizer.step()
    _, _, width, height = view_box(view.compare(1, 3).svg)
    assert 1 / 5 <= width / height <= 5


def test_parameters_that_several_calls_share_are_one_box_in_a_large_graph():
    body = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(4, 4), nn.Tanh())])
    holder = nn.ModuleDict({"body": body})

    def both(x):
        return (body(x) - body(x * 2)).square().mean()

    seen = labels(draw(both, edutorch.ones(2, 4), model=holder).snapshot)
    assert "16 parameters" in seen
    assert "weight" not in seen


def test_not_more_is_opened_than_can_be_laid_out():
    vertices = {0: Vertex("leaf", "x")}
    for number in range(1, 6000):
        label = ["exp", "sin"][number % 2]
        vertices[number] = Vertex("op", label, sources=(("input", number - 1),))
    opened = fold_snapshot(arrange(vertices, [5999]), Choice().open_all())
    assert MOST_OPENED * 0.5 < len(opened.graph.nodes) <= MOST_OPENED
