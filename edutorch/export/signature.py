"""What the inputs and outputs of an exported program are: parameters, buffers, the user's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind",
    "OutputSpec", "TensorArgument",
]  # fmt: skip


class InputKind(Enum):
    """What an input of the graph is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()


class OutputKind(Enum):
    """What an output of the graph is for."""

    USER_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    USER_INPUT_MUTATION = auto()


@dataclass(frozen=True)
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass(frozen=True)
class ConstantArgument:
    """An argument that is no tensor: every call has to pass this value."""

    name: str
    value: Any


@dataclass(frozen=True)
class InputSpec:
    """One input: what it is, and where a parameter or buffer lies in the module."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None
    persistent: bool | None = None


@dataclass(frozen=True)
class OutputSpec:
    """One output: what it is for, and which buffer or input a new value is for."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None


@dataclass(frozen=True)
class ExportGraphSignature:
    """The inputs and outputs of a program's graph, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, wanted: InputKind) -> tuple[str, ...]:
        return tuple(str(spec.target) for spec in self.input_specs if spec.kind is wanted)

    def _by_name(self, wanted: InputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.input_specs if s.kind is wanted}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The paths of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The paths of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of tensors that are neither parameters nor buffers."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def non_persistent_buffers(self) -> set[str]:
        """The paths of the buffers that are not in the state dict."""
        return {str(spec.target) for spec in self.input_specs if spec.persistent is False}

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """The path of each parameter, by the name of its input."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """The path of each buffer, by the name of its input."""
        return self._by_name(InputKind.BUFFER)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The names of the user's inputs; of one that is no tensor, its value."""
        specs = [spec for spec in self.input_specs if spec.kind is InputKind.USER_INPUT]
        return tuple(getattr(spec.arg, "value", spec.arg.name) for spec in specs)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The names of the user's outputs; of one that is no tensor, its value."""
        specs = [spec for spec in self.output_specs if spec.kind is OutputKind.USER_OUTPUT]
        return tuple(getattr(spec.arg, "value", spec.arg.name) for spec in specs)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """The path of each buffer that the program writes, by the name of its new value."""
        return self._mutations(OutputKind.BUFFER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        """The name of each input that the program writes, by the name of its new value."""
        return self._mutations(OutputKind.USER_INPUT_MUTATION)

    def _mutations(self, wanted: OutputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.output_specs if s.kind is wanted}

    def __str__(self) -> str:
        lines = ["# inputs"]
        for spec in self.input_specs:
            target = f" target={spec.target!r}" if spec.target is not None else ""
            kept = f" persistent={spec.persistent}" if spec.persistent is not None else ""
            lines.append(f"{spec.arg.name}: {spec.kind.name}{target}{kept}")
        lines += ["", "# outputs"]
        for output in self.output_specs:
            target = f" target={output.target!r}" if output.target is not None else ""
            lines.append(f"{output.arg.name}: {output.kind.name}{target}")
        return "\n".join(lines)
