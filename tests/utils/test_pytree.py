"""Trees of registered classes, and the paths of leaves, as `torch.utils._pytree` has them."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest

import edutorch
from edutorch.utils import _pytree as pytree

Point = namedtuple("Point", ["x", "y"])


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


@dataclass
class Settings:
    first: object
    second: object = 2


class Output(OrderedDict):
    """A dict with attributes, as in transformers."""


@pytest.fixture(autouse=True)
def registry():
    before = dict(pytree.SUPPORTED_NODES)
    yield
    pytree.SUPPORTED_NODES.clear()
    pytree.SUPPORTED_NODES.update(before)


def register(library):
    library.register_pytree_node(
        Pair, lambda pair: ([pair.a, pair.b], "context"), lambda c, context: Pair(*c)
    )


def test_a_registered_class_is_a_container():
    assert pytree.tree_leaves([Pair(1, 2)])[0].a == 1
    register(pytree)
    leaves, spec = pytree.tree_flatten({"p": Pair(1, [2])})
    assert leaves == [1, 2]
    assert repr(spec) == "{'p': Pair('context', *, [*])}"
    assert pytree.tree_unflatten([3, 4], spec)["p"].b == [4]
    assert pytree.tree_map(lambda x: -x, Pair(1, 2)).b == -2
    pytree._deregister_pytree_node(Pair)
    assert pytree.tree_is_leaf(Pair(1, 2))


def test_a_subclass_of_a_dict_may_be_registered():
    pytree._register_pytree_node(
        Output,
        lambda output: (list(output.values()), list(output)),
        lambda values, keys: Output(zip(keys, values, strict=True)),
        serialized_type_name="tests.Output",
    )
    doubled = pytree.tree_map(lambda x: 2 * x, Output(loss=1, logits=2))
    assert type(doubled) is Output
    assert dict(doubled) == {"loss": 2, "logits": 4}


def test_dataclasses_and_constants():
    pytree.register_dataclass(Settings)
    assert pytree.tree_map(lambda x: x + 1, Settings(1)) == Settings(2, 3)
    pairs, _ = pytree.tree_flatten_with_path(Settings(1))
    assert [pytree.keystr(path) for path, _ in pairs] == [".first", ".second"]
    pytree.register_constant(Pair)
    pair = Pair(1, 2)
    leaves, spec = pytree.tree_flatten([pair, 3])
    assert leaves == [3]
    assert pytree.tree_unflatten(leaves, spec) == [pair, 3]


@pytest.mark.parametrize("cls", [Pair, dict, list, tuple])
def test_a_class_is_registered_once(cls):
    register(pytree)
    with pytest.raises(ValueError, match="is already registered as pytree node"):
        pytree.register_pytree_node(cls, None, None)


def test_paths_as_in_pytorch(torch):
    from torch.utils import _pytree as theirs

    tree = {"b": (1, [2]), "p": Point(4, {"x": 5})}
    named = []
    for library in (pytree, theirs):
        pairs, _ = library.tree_flatten_with_path(tree)
        named.append([(library.keystr(path), leaf) for path, leaf in pairs])
    assert named[0] == named[1]
    register(pytree)
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn"):
        pytree.tree_flatten_with_path(Pair(1, 2))


def test_maps_with_paths():
    assert pytree.tree_map_with_path(
        lambda path, leaf, other: (pytree.keystr(path), leaf, other), [1], [2]
    ) == [("[0]", 1, 2)]
    point = pytree.tree_flatten_with_path(Point(1, 2))[0]
    assert [str(path[0]) for path, _ in point] == [".x", ".y"]
    assert point[0][0][0].get(Point(7, 8)) == 7


def test_leaves_of_a_type():
    tree = [1, "a", (2, "b")]
    assert pytree.tree_map_only((int,), lambda x: -x, tree) == [-1, "a", (-2, "b")]
    assert pytree.tree_map_only(lambda x: x == "a", str.upper, tree) == [1, "A", (2, "b")]
    assert pytree.tree_all_only(int, lambda x: x > 0, tree)
    assert pytree.tree_any_only(str, lambda x: x == "b", tree)
    assert list(pytree.tree_iter(tree)) == [1, "a", 2, "b"]
    assert pytree.treespec_pprint(pytree.tree_structure(tree)) == "[*, *, (*, *)]"


def test_a_capture_returns_registered_objects():
    register(pytree)
    captured = edutorch.fx.capture(lambda x: Pair(x + 1, x * 2), edutorch.ones(2))
    assert captured.reasons == []
    compiled = edutorch.compile(lambda x: Pair(x + 1, x * 2))
    for value in (1.0, 2.0):
        result = compiled(edutorch.full((2,), value))
        assert (result.a.tolist(), result.b.tolist()) == ([value + 1] * 2, [value * 2] * 2)
