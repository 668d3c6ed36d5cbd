"""A model divided into stages by its graph: `pipeline(model, args, split_spec=…)`."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import InvalidValueError, NotHereError
from ...fx._symbolic_trace import Tracer
from ...fx.graph import Graph
from ...fx.graph_module import GraphModule
from ...fx.node import Node, map_arg
from ...nn.modules.module import Module
from .pipeline_stage import PipelineStage

__all__ = ["Pipe", "SplitPoint", "build_stage", "pipeline"]


class SplitPoint(enum.Enum):
    """Whether a stage begins with a submodule, or ends with it."""

    BEGINNING = 1
    END = 2


class SplitTracer(Tracer):
    """Records the calls of submodules, and looks only into those that are divided themselves.

    Args:
        points: the paths of the submodules at which the model is divided.
    """

    def __init__(self, points: Sequence[str]) -> None:
        super().__init__()
        self.points = points

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a submodule is recorded as one call."""
        return not any(point.startswith(f"{module_qualified_name}.") for point in self.points)


class Pipe(Module):
    """A model in stages.

    Args:
        stages: they are called one after the other; each takes what the one before returns.
    """

    def __init__(self, stages: Sequence[Module]) -> None:
        super().__init__()
        self.num_stages = len(stages)
        for number, stage in enumerate(stages):
            self.add_module(f"submod_{number}", stage)

    def get_stage_module(self, stage_idx: int) -> Module:
        """Return the module of a stage.

        Raises: ValueError: there is no such stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise InvalidValueError("Pipe", f"Invalid stage index {stage_idx}!")
        return getattr(self, f"submod_{stage_idx}")

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """Return a stage as schedules take it."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self, device, group)

    def info(self) -> Pipe:
        """Return what `build_stage` takes as `pipe_info`."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages in this process."""
        result: Any = self.get_stage_module(0)(*args, **kwargs)
        for number in range(1, self.num_stages):
            inputs = result if isinstance(result, tuple) else (result,)
            result = self.get_stage_module(number)(*inputs)
        return result


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: Pipe, device: Any, group: Any = None
) -> PipelineStage:
    """Return a stage of a `Pipe` as schedules take it, with another module."""
    return PipelineStage(
        stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group
    )


def pipeline(
    module: Module, mb_args: tuple[Any, ...], mb_kwargs: Mapping[str, Any] | None = None,
    split_spec: Mapping[str, SplitPoint] | None = None,
    split_policy: Callable[[Any], Any] | None = None,
) -> Pipe:  # fmt: skip
    """Divide a model into stages.

    Its `forward` is traced: it may do what `fx.symbolic_trace` can follow. Submodules that are not
    divided themselves may do anything. Parameters keep their names.

    Args:
        module: the model.
        mb_args, mb_kwargs: arguments for one micro-batch: whatever is not among them keeps its
            default.
        split_spec: paths of submodules, and whether a stage begins or ends there.
        split_policy: is not offered.

    Raises: ValueError: no such submodule, or it is not called.

    >>> from edutorch.distributed.pipelining import SplitPoint, pipeline
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> pipe = pipeline(model, (ones(1, 2),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, list(pipe.get_stage_module(1).state_dict())
    (2, ['2.weight', '2.bias'])
    >>> bool((pipe(ones(1, 2)) == model(ones(1, 2))).all())
    True
    """
    if split_policy is not None:
        raise NotHereError(
            "pipeline", "split_policy is not supported",
            hint="name the submodules at which a stage begins in split_spec",
        )  # fmt: skip
    points = dict(split_spec or {})
    unknown = points.keys() - dict(module.named_modules()).keys()
    if unknown:
        raise InvalidValueError(
            "pipeline", f"there is no submodule {', '.join(sorted(unknown))}",
            {"submodules": ", ".join(name for name, _ in module.named_children())},
        )  # fmt: skip
    graph = SplitTracer(list(points)).trace(module, defaults_of(module, mb_args, mb_kwargs or {}))
    parts = divide(graph, points)
    return Pipe([GraphModule(module, part, f"Stage{i}") for i, part in enumerate(parts)])


def defaults_of(module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `forward` that are not passed, with their defaults."""
    signature = inspect.signature(module.forward)
    passed = signature.bind_partial(*args, **kwargs).arguments
    return {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if name not in passed and parameter.default is not parameter.empty
    }


def divide(graph: Graph, points: Mapping[str, SplitPoint]) -> list[Graph]:
    """Return the graphs of the stages of a graph.

    A stage returns what later stages need, in the order of the graph.

    Raises: ValueError: a submodule is not called.
    """
    number, stage_of = 0, {}
    seen: set[str] = set()
    for node in graph.nodes:
        target = str(node.target) if node.op == "call_module" else ""
        point = points.get(target)
        if point is SplitPoint.BEGINNING and stage_of:
            number += 1
        stage_of[node] = number
        if point is not None:
            seen.add(target)
            number += point is SplitPoint.END
    if points.keys() - seen:
        raise InvalidValueError(
            "pipeline", f"{', '.join(sorted(points.keys() - seen))} is not called in forward"
        )
    output = graph.output_node()
    stage_of[output] = last = max(stage for node, stage in stage_of.items() if node is not output)
    needed = [
        [node for node in graph.nodes if is_needed_after(node, stage, stage_of)]
        for stage in range(last)
    ]
    return [
        stage_graph(graph, stage, stage_of, needed[stage - 1] if stage else [],
                    needed[stage] if stage < last else None)
        for stage in range(last + 1)
    ]  # fmt: skip


def is_needed_after(node: Node, stage: int, stage_of: Mapping[Node, int]) -> bool:
    """Whether a value that is computed up to a stage is used after it."""
    is_before = stage_of[node] <= stage and node.op != "get_attr"
    return is_before and any(stage_of[user] > stage for user in node.users)


def stage_graph(
    graph: Graph, stage: int, stage_of: Mapping[Node, int], inputs: Sequence[Node],
    outputs: Sequence[Node] | None,
) -> Graph:  # fmt: skip
    """Return the graph of one stage.

    Args:
        graph: of the whole model.
        stage: its number.
        stage_of: the stage of all nodes.
        inputs: what it gets from the stage before.
        outputs: what it returns; None: what the model returns.
    """
    part = Graph()
    copies: dict[Node, Node] = {node: part.placeholder(node.name) for node in inputs}

    def copy_of(node: Node) -> Node:
        if node not in copies and node.op == "get_attr":  # a parameter that several stages use
            copies[node] = part.get_attr(str(node.target))
        return copies[node]

    for node in graph.nodes:
        if stage_of[node] == stage and node.op != "output" and node not in copies:
            copies[node] = part.node_copy(node, copy_of)
    if outputs is None:
        part.output(map_arg(graph.output_node().args[0], copy_of))
    else:
        values = tuple(copies[node] for node in outputs)
        part.output(values if len(values) > 1 else values[0])
    return part
