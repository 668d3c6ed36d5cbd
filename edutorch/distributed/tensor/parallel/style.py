"""How a module is divided among the ranks of a mesh: its parameters, inputs and outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from ....core.tensor import Tensor
from ....nn.modules.linear import Linear
from ....nn.modules.module import Module
from ....nn.modules.sparse import Embedding
from ....nn.parameter import Parameter
from ...device_mesh import DeviceMesh
from ...errors import DistError
from ..api import distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard
from .inputs_outputs import Layouts, as_dtensor, as_tuple, move_all

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel",
]  # fmt: skip


class UnsupportedModuleError(DistError, NotImplementedError):
    """A style does not know how to divide a module."""


class ParallelStyle(ABC):
    """The base of the styles: `_apply` divides a module in place.

    Attributes:
        src_data_rank: the rank whose parameters count; None: all have the same.
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


class DividedLayer(ParallelStyle):
    """The base of column- and row-wise: a linear layer or an embedding.

    Attributes:
        parts: for each class of modules, where its parameters are and its input has to be.
    """

    parts: ClassVar[Mapping[type[Module], tuple[Mapping[str, Placement], Placement]]]
    usual_input: Placement
    usual_output: Placement

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.input_layouts = (input_layouts or self.usual_input,)
        self.output_layouts = (output_layouts or self.usual_output,)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        for cls, (placements, wanted) in self.parts.items():
            if isinstance(module, cls):
                divide = partial(self._divide, placements)
                prepare = partial(self._prepare, wanted)
                return distribute_module(module, device_mesh, divide, prepare, self._finish)
        raise UnsupportedModuleError(
            type(self).__name__, "currently only supports nn.Linear and nn.Embedding",
            {"module": type(module).__name__}, "name the layers inside of it in the plan",
        )  # fmt: skip

    def _divide(
        self, placements: Mapping[str, Placement], name: str, module: Module, mesh: DeviceMesh
    ) -> None:
        for key, parameter in list(module.named_parameters(recurse=False)):
            value = distribute_tensor(
                parameter.detach(), mesh, [placements[key]], src_data_rank=self.src_data_rank
            )
            module.register_parameter(key, Parameter(value, parameter.requires_grad))

    def _prepare(self, wanted: Placement, module: Module, inputs: Any, mesh: DeviceMesh) -> Any:
        first = as_dtensor(inputs[0], mesh, self.input_layouts)
        return (first.redistribute(placements=(wanted,)), *inputs[1:])

    def _finish(self, module: Module, output: Any, mesh: DeviceMesh) -> Any:
        output = output.redistribute(placements=self.output_layouts)
        return output.to_local() if self.use_local_output else output

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, "
            f"output_layouts={self.output_layouts}, use_local_output={self.use_local_output})"
        )


class ColwiseParallel(DividedLayer):
    """Each rank computes some of the outputs of a linear layer (or of the axes of an embedding).

        y_r = x W_rᵀ + b_r

    Args:
        input_layouts: where the input is if it is a plain tensor; by default replicated.
        output_layouts: where the output shall be; by default divided along the last axis.
        use_local_output: return this rank's part as a plain tensor.

    Raises: NotImplementedError: neither a linear layer nor an embedding.

    >>> distributed.tensor.parallel.ColwiseParallel().output_layouts
    (Shard(dim=-1),)
    """

    parts: ClassVar = {
        Linear: ({"weight": Shard(0), "bias": Shard(0)}, Replicate()),
        Embedding: ({"weight": Shard(1)}, Replicate()),
    }
    usual_input, usual_output = Replicate(), Shard(-1)


class RowwiseParallel(DividedLayer):
    """Each rank has some of the inputs of a linear layer (or of the rows of an embedding).

        y = Σ over ranks r of x_r W_rᵀ + b

    Args:
        input_layouts: where the input is if it is a plain tensor; by default divided along the
            last axis, as the output of `ColwiseParallel`.
        output_layouts: where the output shall be; by default replicated.
        use_local_output: return this rank's part as a plain tensor.

    Raises: NotImplementedError: neither a linear layer nor an embedding.
    """

    parts: ClassVar = {
        Linear: ({"weight": Shard(1), "bias": Replicate()}, Shard(-1)),
        Embedding: ({"weight": Shard(0)}, Replicate()),
    }
    usual_input, usual_output = Shard(-1), Replicate()


class SequenceParallel(ParallelStyle):
    """Each rank computes some positions of the sequence, in layers such as norms and dropout.

    Args:
        sequence_dim: the axis of the positions.
        use_local_output: return this rank's part as a plain tensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, None, self._prepare, self._finish)

    def _prepare(self, module: Module, inputs: Any, mesh: DeviceMesh) -> Any:
        first = inputs[0]
        if not isinstance(first, Tensor):
            raise ValueError(
                f"expecting input of {module} to be a torch.Tensor or DTensor, but got {first}"
            )
        placed = as_dtensor(first, mesh, self.sequence_sharding)
        return (placed.redistribute(placements=self.sequence_sharding), *inputs[1:])

    def _finish(self, module: Module, output: Any, mesh: DeviceMesh) -> Any:
        return output.to_local() if self.use_local_output else output

    def __repr__(self) -> str:
        (sharding,) = self.sequence_sharding
        return (
            f"SequenceParallel(sequence_dim={sharding.dim}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleInput(ParallelStyle):
    """Makes the inputs of a module distributed tensors, and brings them where they shall be.

    Args:
        input_layouts: where each positional input is; None for what is no tensor.
        desired_input_layouts: where it shall be.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same for inputs by name.
        use_local_output: hand this rank's parts to the module, as plain tensors.

    Raises: ValueError: as many layouts as inputs are needed.
    """

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.input_layouts = as_tuple(input_layouts)
        self.desired_input_layouts = as_tuple(desired_input_layouts)
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            check_lengths("input", self.input_layouts, self.desired_input_layouts)
        if set(self.input_kwarg_layouts) != set(self.desired_input_kwarg_layouts):
            raise ValueError(
                "PrepareModuleInput: input_kwarg_layouts and desired_input_kwarg_layouts should "
                "have same length!"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def prepare(module: Module, args: Any, named: dict[str, Any]) -> Any:
            return self._args(args, device_mesh), self._named(named, device_mesh)

        module.register_forward_pre_hook(prepare, with_kwargs=True)
        return module

    def _args(self, args: tuple[Any, ...], mesh: DeviceMesh) -> tuple[Any, ...]:
        if self.input_layouts is None:
            return args
        wanted = self.desired_input_layouts
        return move_all(args, self.input_layouts, wanted, mesh, self.use_local_output, "inputs")

    def _named(self, named: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
        keys = [key for key in named if key in self.input_kwarg_layouts]
        moved = move_all(
            [named[key] for key in keys], [self.input_kwarg_layouts[key] for key in keys],
            [self.desired_input_kwarg_layouts[key] for key in keys], mesh, self.use_local_output,
            "inputs",
        )  # fmt: skip
        return named | dict(zip(keys, moved, strict=True))


class PrepareModuleOutput(ParallelStyle):
    """Makes the outputs of a module distributed tensors, and brings them where they shall be.

    Args:
        output_layouts: where each output is; None for what is no tensor.
        desired_output_layouts: where it shall be.
        use_local_output: return this rank's parts, as plain tensors.

    Raises: ValueError: as many layouts as outputs are needed.
    """

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.output_layouts = as_tuple(output_layouts)
        self.desired_output_layouts = as_tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        check_lengths("output", self.output_layouts, self.desired_output_layouts)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def finish(module: Module, args: Any, output: Any) -> Any:
            outputs = output if isinstance(output, tuple) else (output,)
            moved = move_all(
                outputs, self.output_layouts, self.desired_output_layouts, device_mesh,
                self.use_local_output, "outputs",
            )  # fmt: skip
            return moved if isinstance(output, tuple) else moved[0]

        module.register_forward_hook(finish)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` for the same module.

    Args: as those; `use_local_input` is the `use_local_output` of the inputs.
    """

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_input: bool = False, output_layouts: Layouts, desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


def check_lengths(what: str, now: Any, wanted: Any) -> None:
    """Raise unless there are as many desired layouts as layouts."""
    if now is None or wanted is None:
        raise AssertionError(f"desired module {what}s should not be None!")
    if len(now) != len(wanted):
        raise AssertionError(f"{what}_layouts and desired_{what}_layouts should have same length!")
