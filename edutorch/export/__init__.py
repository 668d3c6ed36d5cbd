"""`torch.export`: a module as a program that can be read, saved, and translated.

program = export(model, (x,), dynamic_shapes={"x": {0: Dim("batch", max=64)}})
print(program)               # each step, with its shape in symbols and its line of Python
save(program, "model.edu")   # weights, graph, checksums; nothing in it is code
load("model.edu").module()(x)
"""

from __future__ import annotations

from .container import load, save
from .control_flow import cond, scan, while_loop
from .cpp import CppExportError, cpp
from .dims import Dim, dims
from .errors import ExportError, ProgramFileError, ProgramInputError
from .exporting import export
from .program import ExportedProgram
from .signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
    TensorArgument,
)  # fmt: skip
from .training import training_step

__all__ = [
    "ConstantArgument", "CppExportError", "Dim", "ExportError", "ExportGraphSignature",
    "ExportedProgram", "InputKind", "InputSpec", "OutputKind", "OutputSpec", "ProgramFileError",
    "ProgramInputError", "TensorArgument", "cond", "cpp", "dims", "export", "load", "save", "scan",
    "training_step", "while_loop",
]  # fmt: skip
