"""A module whose `forward` is a graph."""

from __future__ import annotations

import copy
import linecache
from typing import Any

from ..core.tensor import Tensor, wrap
from ..nn import Buffer, Module, Parameter
from .graph import Graph

__all__ = ["GraphModule"]


class GraphModule(Module):
    """A module that runs a graph. After changing `graph`, call `recompile`.

    Args:
        root: the module (or a dict by path) that parameters and modules are taken from.
        graph: the graph to run.
        class_name: the name of the module's class in its repr.

    >>> traced = fx.symbolic_trace(lambda x: relu(x) + 1)
    >>> print(traced.code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    >>> traced(tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        self.__dict__["_name"] = class_name  # past `Module.__setattr__`, which looks for parameters
        if isinstance(root, Module):
            self.training = root.training
        for path in referenced_paths(graph):
            value = get_at_path(root, path) if isinstance(root, Module) else root.get(path)
            if value is not None:
                set_at_path(self, path, value)
        for name, array in graph.constants.items():
            set_at_path(self, name, Buffer(wrap(array), persistent=False))
        self.graph = graph

    def _get_name(self) -> str:
        return self.__dict__.get("_name", "GraphModule")

    @property
    def graph(self) -> Graph:
        """The graph that is run. Setting it recompiles."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated Python source."""
        return self.__dict__["_code"]

    def recompile(self) -> Any:
        """Generate Python source from the graph again, and return it."""
        written = self.graph.python_code()
        self.__dict__["_code"] = written.src
        file = f"<graph {id(self)}>"
        # Tracebacks look up source lines here.
        linecache.cache[file] = (len(written.src), None, written.src.splitlines(True), file)
        scope = dict(written.globals)
        # A module-level function: as fast as code that is written by hand.
        exec(compile(written.src, file, "exec"), scope)
        self.__dict__["_run"] = scope["forward"]
        return written

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        return self.__dict__["_run"](self, *args, **kwargs)

    def print_readable(self, print_output: bool = True) -> str:
        """Print the class as Python source, and return it."""
        body = "".join(f"    {line}\n" for line in self.code.splitlines())
        text = f"class {self._get_name()}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Set a submodule at a path; return False if the path or module is invalid."""
        if not target or not isinstance(m, Module):
            return False
        set_at_path(self, target, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path; return False if there is none."""
        *path, name = target.split(".")
        holder = get_at_path(self, ".".join(path)) if path else self
        if not isinstance(holder, Module) or name not in holder._modules:
            return False
        del holder._modules[name]
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove every submodule that the graph does not use."""
        used = set()
        for path in referenced_paths(self.graph):
            parts = path.split(".")
            used |= {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        called = [str(node.target) for node in self.graph.nodes if node.op == "call_module"]
        for name, _ in list(self.named_modules()):
            inside = any(name.startswith(f"{path}.") for path in called)
            if name and name not in used and not inside:
                self.delete_submodule(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        root = {
            path: copy.deepcopy(get_at_path(self, path), memo)
            for path in referenced_paths(self.graph)
        }
        copied = GraphModule(root, copy.deepcopy(self.graph), self._get_name())
        copied.training = self.training
        return copied

    def __reduce__(self) -> Any:
        root = {path: get_at_path(self, path) for path in referenced_paths(self.graph)}
        return GraphModule, (root, self.graph, self._get_name())

    def __str__(self) -> str:
        return f"{super().__repr__()}\n\n{self.code}\n# more with print_readable()"


def referenced_paths(graph: Graph) -> list[str]:
    """Return the paths of the modules, parameters and buffers that a graph refers to."""
    paths = [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]
    return list(dict.fromkeys(path for path in paths if path not in graph.constants))


def get_at_path(root: object, path: str) -> Any:
    """Return the attribute at a path below a module.

    Raises: AttributeError: there is none.
    """
    for part in path.split("."):
        root = getattr(root, part)
    return root


def set_at_path(root: Module, path: str, value: object) -> None:
    """Set the attribute at a path below a module, creating intermediate modules."""
    *path_parts, name = path.split(".")
    for part in path_parts:
        if part not in root._modules:
            root.add_module(part, Module())
        root = getattr(root, part)
    if isinstance(value, Module):
        root.add_module(name, value)
    elif isinstance(value, Parameter):
        root.register_parameter(name, value)
    elif isinstance(value, Tensor):
        root.register_buffer(name, value, persistent=getattr(value, "persistent", True))
    else:
        setattr(root, name, value)


# Names that derived classes of other libraries import ----------------------------------------

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
"""In `GraphModule.meta`: attributes that a copy keeps."""


class _CodeOnlyModule(Module):
    """A module with the attributes of another: the root of a copy.

    Args:
        body: the `__dict__` of the other module.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Let the second module have what the first has at a path; a plain tensor becomes a buffer."""
    set_at_path(to_module, target, get_at_path(from_module, target))
