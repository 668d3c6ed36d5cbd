"""`draw`: the picture of one tensor's graph, and the files it is saved to."""

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import draw
from edutorch.viz.draw import NotDrawableError
from edutorch.viz.render import static
from edutorch.viz.render.static import FormatError


def test_what_the_graph_still_knows(device):
    x = edutorch.tensor(3.0, requires_grad=True)
    y = x**2 + 2 * x + 1
    type_cells = "scalar float32".split() + ([] if device == "cpu" else [str(x.device)])
    table = draw(y).table().splitlines()
    assert table[1].split() == ["n0", "x", *type_cells, "3", "—"]
    assert table[-1].split()[: 5 + len(type_cells)] == ["n7", "y", "=", "add", *type_cells, "16"]
    y.backward()
    assert draw(y).table().splitlines()[1].split() == ["n0", "x", *type_cells, "3", "8"]


def test_saved_values_are_shown_while_the_graph_holds_them():
    x = edutorch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).exp().sum()
    snapshot = draw(y).snapshot
    values = {
        node.label: value.text if value else None
        for node, value in zip(snapshot.graph.nodes, snapshot.values, strict=True)
    }
    assert values["exp"] == "[2.72, 54.6]"


def test_a_leaf_and_a_tensor_without_graph_are_one_box():
    x = edutorch.ones(3, requires_grad=True)
    constant = edutorch.zeros(2, 2)
    assert [node.label for node in draw(x).snapshot.graph.nodes] == ["x"]
    assert [node.label for node in draw(constant).snapshot.graph.nodes] == ["constant"]
    assert not draw(constant).snapshot.graph.nodes[0].differentiable


def test_given_names_come_first():
    x = edutorch.ones(3, requires_grad=True)
    labels = [node.label for node in draw(x.exp(), names={"<b>mass</b>": x}).snapshot.graph.nodes]
    assert labels == ["<b>mass</b>", "exp"]


def test_leaves_without_any_name():
    def inner():
        return edutorch.ones(3, requires_grad=True).exp()

    assert draw(inner()).snapshot.graph.nodes[0].label == "leaf"


@pytest.mark.parametrize("thing", [3, None, "x"])
def test_what_has_no_graph(thing):
    with pytest.raises(
        NotDrawableError, match=r"expected a tensor, a module or a function, got \w+\n"
    ):
        draw(thing)


def test_not_drawable_is_a_type_error():
    assert issubclass(NotDrawableError, TypeError)


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("dot", b"digraph"), ("SVG", b"<")]
)
def test_saving(tmp_path, ending, start):
    x = edutorch.ones(3, requires_grad=True)
    path = draw(x.exp().sum()).save(tmp_path / f"graph.{ending}")
    assert path.read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [f"graph.{ending}"]


@pytest.mark.parametrize("name", ["graph.gif", "graph", "graph.svg.gz"])
def test_a_format_that_nobody_knows(tmp_path, name):
    endings = r"use a name that ends in \.svg, \.png, \.pdf, \.dot or \.html"
    with pytest.raises(FormatError, match=endings):
        draw(edutorch.ones(1)).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "graph.dot"
    path.write_text("old")
    picture = draw(edutorch.ones(1))

    def full_disk(self, target):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", full_disk)
    with pytest.raises(OSError, match="disk full"):
        picture.save(path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_notebook_is_given_every_form():
    x = edutorch.ones(3, requires_grad=True)
    bundle = draw(x.exp())._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/svg+xml", "image/png"}
    assert bundle["image/png"].startswith(b"\x89PNG")


def test_without_graphviz_there_is_still_the_table(monkeypatch):
    monkeypatch.setattr("edutorch.viz.render.graphviz.engines", lambda: [])
    bundle = draw(edutorch.ones(1))._repr_mimebundle_()
    assert set(bundle) == {"text/plain"}
    assert 'pip install "edutorch[lab]"' in bundle["text/plain"]


def test_a_chain_of_3000_ops_is_read_without_recursion():
    x = edutorch.ones(1, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + 1.0
    picture = draw(y)
    assert len(picture.whole.graph.nodes) == 6001  # each with its 1.0
    assert [node.label for node in picture.snapshot.graph.nodes] == ["x", "add ×3000"]
    assert picture.table(limit=1).endswith("… and 1 more")


def test_a_picture_that_is_too_large_for_a_notebook_is_folded_further(monkeypatch):
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))
    y = model(edutorch.ones(1, 4)).sum()
    whole = draw(y)
    monkeypatch.setattr(static, "MOST_BYTES", len(whole.svg) // 2)
    folded = draw(y)
    assert len(folded.svg) < len(whole.svg)
    assert len(folded.snapshot.graph.nodes) < len(whole.snapshot.graph.nodes)
