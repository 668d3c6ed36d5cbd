"""The graph as plain data."""

from edutorch.viz.graph.model import Vertex, ancestors, arrange


def diamond(**changes):
    """a -> b -> d, a -> c -> d, and an op `lost` that nothing uses."""
    vertices = {
        "a": Vertex("leaf", "a", shape=(3,)),
        "b": Vertex("op", "exp", sources=(("input", "a"),)),
        "c": Vertex("op", "sin", sources=(("input", "a"),)),
        "lost": Vertex("op", "cos", sources=(("input", "a"),)),
        "d": Vertex("op", "mul", sources=(("input", "b"), ("other", "c"))),
    }
    for key, (name, value) in changes.items():
        setattr(vertices[key], name, value)
    return vertices


def test_ids_follow_the_order_of_computation():
    graph = arrange(diamond(), ["d"]).graph
    assert [(node.id, node.label) for node in graph.nodes] == [
        ("n0", "a"), ("n1", "exp"), ("n2", "sin"), ("n3", "mul"),
    ]  # fmt: skip
    assert [(edge.source, edge.target, edge.input) for edge in graph.edges] == [
        ("n0", "n1", "input"), ("n0", "n2", "input"), ("n1", "n3", "input"), ("n2", "n3", "other"),
    ]  # fmt: skip
    assert graph.nodes[-1].kind == "output"


def test_only_what_leads_to_the_root_is_drawn():
    assert ancestors(diamond(), ["b"]) == {"a", "b"}
    assert "cos" not in [node.label for node in arrange(diamond(), ["d"]).graph.nodes]


def test_a_tensor_used_twice_by_one_op_has_two_edges():
    vertices = {
        "a": Vertex("leaf", "a"),
        "s": Vertex("op", "mul", sources=(("input", "a"), ("other", "a"))),
    }
    edges = arrange(vertices, ["s"]).graph.edges
    assert [(edge.source, edge.input) for edge in edges] == [("n0", "input"), ("n0", "other")]


def test_a_leaf_alone():
    graph = arrange({"a": Vertex("leaf", "a")}, ["a"]).graph
    assert [node.kind for node in graph.nodes] == ["leaf"]


def test_the_same_structure_has_the_same_hash():
    assert arrange(diamond(), ["d"]).graph.structure == arrange(diamond(), ["d"]).graph.structure


def test_whatever_changes_a_layout_changes_the_hash():
    plain = arrange(diamond(), ["d"]).graph.structure
    for change in (
        {"a": ("label", "z")},
        {"a": ("shape", (4,))},
        {"a": ("dtype", "int64")},
        {"a": ("module", "m")},
        {"a": ("differentiable", False)},
        {"a": ("kind", "parameter")},
        {"d": ("sources", (("input", "b"),))},
    ):
        assert arrange(diamond(**change), ["d"]).graph.structure != plain


def test_a_graph_of_100_000_nodes_needs_no_recursion():
    vertices = {0: Vertex("leaf", "x")}
    for index in range(1, 100_000):
        vertices[index] = Vertex("op", "exp", sources=(("input", index - 1),))
    assert len(arrange(vertices, [99_999]).graph.nodes) == 100_000
