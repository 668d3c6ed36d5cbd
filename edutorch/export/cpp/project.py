"""The folder of a program in C++: the header, its weights, an example, and how they are built."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from ... import dtypes
from ...core.tensor import Tensor
from ...utils._pytree import tree_flatten
from ..formulas import evaluate, symbols_of
from ..program import ExportedProgram, require_program
from ..samples import run_at
from .values import TYPES, cpp_type
from .writer import Translation, described, translate

__all__ = ["cpp"]

TEMPLATES = Path(__file__).with_name("templates")


def cpp(
    program: ExportedProgram, folder: str | os.PathLike[str], *, name: str | None = None
) -> Path:
    """Write a program as C++17: one header, its weights, an example, and what builds them.

    Args:
        program: the program; a training step of `training_step` is one, too.
        folder: where the files are written; it is made.
        name: the namespace, and the name of the header; that of the folder if None.

    Returns: The path of the header.

    Raises:
        ArgumentError: it is no program.
        CppExportError: an op or a dtype has no form in C++; its line is named.

    >>> import tempfile
    >>> program = edutorch.export.export(nn.Linear(2, 3), (ones(4, 2),))
    >>> edutorch.export.cpp(program, tempfile.mkdtemp(), name="small").name
    'small.hpp'
    """
    require_program("export.cpp", program)
    folder = Path(folder)
    name = identifier(name or folder.resolve().name)
    translation = translate(program, name)
    header = translation.header()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.hpp"
    path.write_text(header, encoding="utf-8")
    save_file(weight_arrays(translation), folder / "weights.safetensors")
    save_file(example_arrays(translation), folder / "example.safetensors")
    parts = text_parts(translation)
    for template, target in (
        ("main.cpp", "main.cpp"), ("c_api.h", f"{name}.h"), ("c_api.cpp", f"{name}_c.cpp"),
        ("CMakeLists.txt", "CMakeLists.txt"), ("PROGRAM.md", "README.md"),
    ):  # fmt: skip
        text = fill_in((TEMPLATES / template).read_text(encoding="utf-8"), parts)
        (folder / target).write_text(text, encoding="utf-8")
    return path


def identifier(name: str) -> str:
    """Return a name that C++ takes.

    >>> from edutorch.export.cpp.project import identifier
    >>> identifier("my-net.2")
    'my_net_2'
    """
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    return (
        f"net_{name}" if not name or name[0].isdigit() or name in ("std", "edu", "main") else name
    )


def fill_in(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with its @NAMES@ replaced."""
    return re.sub(r"@([A-Z]+)@", lambda match: parts[match[1]], template)


# Files of tensors ---------------------------------------------------------------------------------


def weight_arrays(translation: Translation) -> dict[str, np.ndarray]:
    """Return the weights by their paths."""
    program = translation.program
    arrays = {}
    for weight in translation.weights:
        path = str(weight.path)
        state = program.state_dict
        tensor = state[path] if path in state else program.constants[path]
        arrays[path] = np.array(tensor.detach().numpy(), order="C")
    return arrays


def example_arrays(translation: Translation) -> dict[str, np.ndarray]:
    """Return example inputs, and what the program returns for them."""
    program = translation.original
    leaves = example_leaves(program)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    arrays = {
        f"input.{added.name}": np.array(tensor.detach().numpy(), order="C")
        for added, tensor in zip(translation.inputs, tensors, strict=True)
    }
    if not translation.writes:  # a training step returns something else each time
        outputs = tree_flatten(run_at(program.module(), leaves, program.call_spec.in_spec))[0]
        for number, output in enumerate(outputs):
            arrays[f"output.{number}"] = np.array(output.detach().numpy(), order="C")
    return arrays


def example_leaves(program: ExportedProgram) -> list[Any]:
    """Return the example arguments of a program; zeros of the least sizes where it has none."""
    if program.example_inputs is not None:
        return program.arguments().leaves
    least = {name: max(limits.lower, 1) for name, limits in program.range_constraints.items()}
    leaves = []
    for node in program.input_nodes():
        shape = []
        for size in node.meta["shape"]:
            known = {symbol: least[symbol.name] for symbol in symbols_of(size)}
            shape.append(int(evaluate(size, known)))
        leaves.append(Tensor(np.zeros(shape, node.meta["dtype"])))
    return leaves


# What the templates leave open --------------------------------------------------------------------


def text_parts(translation: Translation) -> dict[str, str]:
    """Return the texts for the templates' @NAMES@."""
    inputs, results = translation.inputs, translation.results
    count = len(results)
    names = ", ".join(added.name for added in inputs)
    shows = [
        f"  show({'program->results' if count == 1 else f'std::get<{n}>(program->results)'}, "
        f"outputs[{n}]);" for n in range(count)
    ]  # fmt: skip
    rows = [(f"input {n}: `{i.name}`", described(i.node.meta)) for n, i in enumerate(inputs)]
    rows += [
        (f"output {n}", described({"dtype": value.dtype, "shape": value.shape}))
        for n, value in enumerate(results)
    ]
    ranges = ", ".join(
        f"{size} from {limits.lower} to {limits.upper}"
        for size, limits in translation.original.range_constraints.items()
    )
    listed = [f"   {title.replace('`', '')}: {text}" for title, text in rows]
    return {
        "NAME": translation.name, "UPPER": translation.name.upper(),
        "RESULT": result_type(translation), "SHOWS": "\n".join(shows),
        "ARGUMENTS": ", ".join(
            f"tensor_of<{qualified(i.node.meta['dtype'])}>(inputs[{n}])"
            for n, i in enumerate(inputs)
        ),
        "INPUTS": "\n".join(listed[: len(inputs)]),
        "OUTPUTS": "\n".join(listed[len(inputs) :]),
        "TABLE": "\n".join(f"| {title} | {text} |" for title, text in rows),
        "BATCH": f"Sizes may change: {ranges}." if ranges else "The sizes are fixed.",
        "USE": f"auto result = program({names});  // a tensor" if count == 1 else
        f"auto results = program({names});  // std::get<0>(results), …",
    } | main_parts(translation)  # fmt: skip


def result_type(translation: Translation) -> str:
    """Return the type of the result, seen from outside of the namespace."""
    return translation.result_type().replace("Tensor<", f"{translation.name}::Tensor<").replace(
        "<Index>", f"<{translation.name}::Index>"
    )  # fmt: skip


def qualified(dtype: Any) -> str:
    """Return the type of C++ for a dtype, outside of the namespace."""
    return cpp_type(dtype).replace("Index", "std::int64_t")


COMPARE = """\
// Prints how far a result is from what Python computed, as a share of the largest number.
template <class T>
void compare(const char* name, const Tensor<T>& result, const Tensor<T>& expected) {
  double largest = 0, scale = 1;
  for (std::int64_t i = 0; i < result.count(); ++i) {
    const double wanted = static_cast<double>(expected.data()[i]);
    largest = std::max(largest, std::abs(static_cast<double>(result.data()[i]) - wanted));
    scale = std::max(scale, std::abs(wanted));
  }
  std::cout << name << ' ' << text(result.shape) << " differs from Python by " << largest / scale
            << '\\n';
}
"""

PRINT = """\
// Prints the first element of a result: a loss has no other.
template <class T>
void print(const char* name, const Tensor<T>& result) {
  std::cout << ' ' << name << ' ' << std::setprecision(9) << result.data()[0];
}
"""

TIMING = """\
  const auto start = std::chrono::steady_clock::now();
  for (long run = 0; run < count; ++run) program({names});
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  std::cout << time.count() / static_cast<double>(count) << " ms for each of " << count
            << " runs\\n";\
"""

TRAINING = """\
  for (long step = 0; step < count; ++step) {
    const auto result = program({names});
    std::cout << "step " << step;
{prints}
    std::cout << '\\n';
  }
  program.save(folder + "/trained.safetensors");\
"""


def main_parts(translation: Translation) -> dict[str, str]:
    """Return the parts of main.cpp: a comparison and a timing, or a loop of training steps."""
    arrays = example_arrays(translation)
    example = [f"  const auto {i.name} = {taken(arrays, f'input.{i.name}')};"
               for i in translation.inputs]  # fmt: skip
    names = ", ".join(added.name for added in translation.inputs)
    count = len(translation.results)
    parts = ["result"] if count == 1 else [f"std::get<{n}>(result)" for n in range(count)]
    if translation.writes:
        prints = "\n".join(f'    print("output {n}", {part});' for n, part in enumerate(parts))
        body = TRAINING.replace("{names}", names).replace("{prints}", prints)
    else:
        lines = [f"  const auto result = program({names});"]
        lines += [f'  compare("output {n}", {part}, {taken(arrays, f"output.{n}")});'
                  for n, part in enumerate(parts)]  # fmt: skip
        body = "\n".join(lines) + "\n" + TIMING.replace("{names}", names)
    report = PRINT if translation.writes else COMPARE
    return {"EXAMPLE": "\n".join(example), "BODY": body, "REPORT": report}


def taken(arrays: Mapping[str, np.ndarray], name: str) -> str:
    """Return the expression that reads a tensor of the example."""
    array = arrays[name]
    code = TYPES[dtypes.of(array.dtype).name][1]
    shape = ", ".join(map(str, array.shape))
    return f'example.take<{qualified(array.dtype)}>("{name}", "{code}", {{{shape}}})'
