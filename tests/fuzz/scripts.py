"""Formats a call as a script of a few lines, which runs with either library."""

from __future__ import annotations

from typing import Any

import numpy as np

from .calls import Call, Dtype
from .tensors import TensorSpec, storage_shape, values_of, view_text

MOST_VALUES = 64
"""So many numbers are written out; more are drawn by NumPy, as the fuzzer drew them."""


class Script:
    """Writes a call, its tensors first."""

    def __init__(self, call: Call, library: str) -> None:
        self.call, self.library = call, library
        self.lines = [f"import {library}" + (" as torch" if library != "torch" else "")]
        self.tensors: list[str] = []
        self.leaves: list[str] = []

    def text(self) -> str:
        call = self.call
        args = [self.format_argument(value) for value in call.args]
        settings = [f"{key}={self.format_argument(value)}" for key, value in call.settings.items()]
        inputs = [self.format_argument(value) for value in call.inputs]
        self.make_output(args, settings, inputs)
        if call.mode in ("backward", "second", "strict", "autocast", "compile") and self.leaves:
            self.write_gradients()
        return "\n".join(self.lines)

    def make_output(self, args: list[str], settings: list[str], inputs: list[str]) -> None:
        """Write the line with the call."""
        call = self.call
        owner, _, name = call.path.rpartition(".")
        arguments = ", ".join(args + settings)
        line = f"torch.{call.path}({arguments})"
        if owner == "Tensor":
            line = f"{args[0]}.{name}({', '.join(args[1:] + settings)})"
        elif owner == "nn":
            line += f"({', '.join(inputs)})"
        elif call.path.startswith("distributions."):
            asked = f"({', '.join(inputs)})" if inputs or name == "entropy" else ""
            line = f"torch.{owner}({arguments}).{name}{asked}"
        elif owner == "optim":
            self.write_steps(args, settings, inputs)
            return
        if call.mode == "autocast":
            self.lines.append('with torch.autocast("cpu", dtype=torch.bfloat16):')
            line = f"    output = {line}"
        else:
            line = f"output = {line}"
        note = {"compile": "compiled", "strict": 'on the device "strict"', "jvp": "in forward mode",
                "out": "with out="}.get(call.mode)  # fmt: skip
        self.lines += [line + (f"  # {note}" if note else ""), "print(output)"]

    def write_steps(self, args: list[str], settings: list[str], inputs: list[str]) -> None:
        arguments = ", ".join(["[p]", *settings])
        self.lines += [
            f"p = torch.nn.Parameter({args[0]})",
            f"optimizer = torch.{self.call.path}({arguments})",
            f"for p.grad in ({', '.join(inputs)},):",
            "    optimizer.step()",
            "print(p)",
        ]

    def write_gradients(self) -> None:
        leaves = ", ".join(self.leaves)
        graph = ", create_graph=True" if self.call.mode == "second" else ""
        self.lines += [
            "outputs = [t for t in (output if isinstance(output, tuple) else (output,))"
            " if t.requires_grad]",
            f"grads = torch.autograd.grad(sum(t.sum() for t in outputs), [{leaves}]{graph}, "
            "allow_unused=True)",
            "print(grads)",
        ]
        if graph:
            self.lines += [
                "seconds = [g.sum() for g in grads if g is not None and g.requires_grad]",
                f"print(torch.autograd.grad(sum(seconds), [{leaves}], allow_unused=True))",
            ]

    def format_argument(self, value: Any) -> str:
        """Return an argument as Python; a tensor gets a line and a name of its own."""
        if isinstance(value, TensorSpec):
            return self.tensor(value)
        if isinstance(value, Dtype):
            return f"torch.{value.name}"
        if isinstance(value, (list, tuple)):
            items = ", ".join(self.format_argument(item) for item in value)
            comma = "," if len(value) == 1 and isinstance(value, tuple) else ""
            return f"[{items}]" if isinstance(value, list) else f"({items}{comma})"
        if isinstance(value, float) and not np.isfinite(value):
            return f'float("{value}")'
        return repr(value)

    def tensor(self, spec: TensorSpec) -> str:
        name = "xyzwuvabcd"[len(self.tensors)] if len(self.tensors) < 10 else "t"
        self.tensors.append(name)
        grad = ", requires_grad=True" if spec.grad else ""
        shape = storage_shape(spec.shape, spec.layout)
        if int(np.prod(shape)) <= MOST_VALUES:
            values = values_of(spec)
            listed = values.tolist() if spec.dtype != "bfloat16" else values.astype(float).tolist()
            text = repr(listed).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
            made = f"torch.tensor({text}, dtype=torch.{spec.dtype}{grad})"
            if 0 in shape:
                made = f"torch.zeros({shape}, dtype=torch.{spec.dtype}{grad})"
        else:
            made = (f"tensors.make({spec!r}, torch)")  # fmt: skip
            if "tests.fuzz" not in self.lines[1 if len(self.lines) > 1 else 0]:
                self.lines.insert(1, "from tests.fuzz import tensors")
                self.lines.insert(2, "from tests.fuzz.tensors import TensorSpec")
        self.lines.append(f"{name} = {made}")
        if spec.grad:
            self.leaves.append(name)
        written = " * 1" if self.call.path.endswith("_") and spec.grad else ""
        base = f"({name}{written})" if written else name
        return base + view_text(spec)


def script(call: Call, library: str = "edutorch") -> str:
    """Return a call as a script."""
    return Script(call, library).text()
