"""Says which of PyTorch's public names work here, and writes `docs/coverage.md`.

    python docs/coverage.py            (or --print)

PyTorch has to be installed: its own modules are the list. A name *works* if it is here
with every argument that PyTorch documents for it; it works *partly* if arguments are
missing, or for a reason written in `PARTLY`. Whether the answers are right is for the
tests to say: each op is compared with PyTorch by `tests/test_every_op.py`, composed
functions by the test of their family.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("coverage.md")

NAMESPACES = (
    "torch", "torch.Tensor", "torch.linalg", "torch.fft", "torch.special", "torch.nn.functional",
    "torch.nn", "torch.optim", "torch.utils.data", "torch.utils.checkpoint", "torch.autograd",
    "torch.autograd.functional", "torch.autograd.graph", "torch.autograd.forward_ad",
    "torch.func", "torch.distributions", "torch.signal.windows", "torch.amp",
)  # fmt: skip

# Names that are not about dense tensors in eager Python, by what they are about. A name
# belongs to the first line whose pattern is found in it.
ELSEWHERE = {
    "sparse tensors": r"sparse|coalesce|^_indices|col_indices|row_indices|crow_|ccol|^hspmm|"
    r"^hsmm|^dsmm|^smm$|^spmm$|^saddmm|^sspaddmm|^values_copy|^values$|^indices|^to_padded_tensor|^is_nested",
    "quantized tensors": r"quant|qparams|^q_|^qscheme|^int_repr|^fbgemm|^fused_moving_avg",
    "one maker's hardware": r"mkldnn|cudnn|miopen|vulkan|ipu$|^xpu|^mtia|mps|^hpu|nested_tensor|"
    r"autocast_(ipu|xla)|"
    r"^is_(xpu|mtia|maia|mps|xla|vulkan|ipu)$",
    "compilers and their parts": r"^jit|^import_ir|^parse_|^merge_type|^unify_type|^sym_|^compile$|"
    r"^cond$|^fork$|^wait$|^export|^while_loop|^scan$|^AliasDb|_script|^profiler_|^classproperty|"
    r"^thread_safe_generator|^init_num_threads|^set_vital|^read_vitals|^vitals|^dynamo|"
    r"^handle_torch|^has_torch_function|^boolean_dispatch|^assert_int_or_pair|"
    r"^get_file_path|^prepare_multiprocessing",
    "8-bit and grouped products of GPUs": r"grouped_mm|^scaled_mm|^ScalingType|^SwizzleType",
    "halves of a GPU's batch norm": r"^batch_norm_(back|elem|gath|stat|upd)",
    "type hints": r"^(Callable|DType|Optional|Tensor|Any|Union|List|Dict)$",
    "removed from PyTorch": r"^(eig|lstsq|matrix_rank|solve|symeig|reinforce|volatile)$",
    "data pipes, deprecated in PyTorch": r"DataPipe|^DataChunk$|datapipe|^argument_validation$|"
    r"^runtime_validation|^non_deterministic$",
    "files and processes of storages": r"Storage|_shared_memory|share_memory|^is_shared",
}  # fmt: skip
REMOVED_ONLY_IN = ("torch", "torch.Tensor")  # linalg has its own eig, lstsq, solve

PARTLY: dict[str, str] = {
    "torch.Tensor.cuda": "no stream of its own is waited for",
}
"""What works only in part, for reasons that arguments do not show."""


def find(library: str, namespace: str) -> Any:
    """Return a namespace of PyTorch in `library`, None if it is not there."""
    path = namespace.replace("torch", library, 1)
    if path.endswith(".Tensor"):
        return importlib.import_module(library).Tensor
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return None


def subject(namespace: str, name: str) -> str | None:
    """Return what a name is about if it is not about dense tensors."""
    for reason, pattern in ELSEWHERE.items():
        if reason.startswith("removed") and namespace not in REMOVED_ONLY_IN:
            continue
        if re.search(pattern, name):
            return reason
    return None


def public_names(namespace: str) -> list[str]:
    """Return PyTorch's public functions, classes, methods and properties of a namespace."""
    theirs = find("torch", namespace)
    names = getattr(theirs, "__all__", None) or dir(theirs)
    return sorted(
        name
        for name in names
        if not name.startswith("_")
        and not (namespace == "torch" and name[0].isupper())  # classes and their machinery
        and not inspect.ismodule(getattr(theirs, name, None))
        and (namespace == "torch.Tensor" or callable(getattr(theirs, name, None)))
        and hasattr(theirs, name)
    )


# Arguments -------------------------------------------------------------------------------

SELF = {"self", "input", "/", "*", ""}


def names_in(text: str) -> set[str]:
    """Return the parameter names in the text of a signature."""
    flat = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", text)
    flat = re.sub(r"\([^()]*$", "", flat)  # out=(Tensor, LongTensor)
    words = (part.split("=")[0].split(":")[0].strip().split(" ")[-1] for part in flat.split(","))
    return {word for word in words if word.isidentifier()}


def schema_arguments(name: str) -> set[str]:
    """Return the argument names of all forms of a function that PyTorch's dispatcher knows."""
    import torch

    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return {argument.name for schema in schemas for argument in schema.arguments}


def arguments_of_theirs(function: Any, name: str) -> set[str]:
    """Return the arguments that PyTorch documents, over all forms of a function.

    The documentation now and then uses a name that the function does not take. So where
    the dispatcher knows the function, only names count that it knows too.
    """
    lines = (getattr(function, "__doc__", None) or "").splitlines()[:40]
    pattern = re.compile(rf"(?:torch\.)?(?:\w+\.)*{re.escape(name)}\((.*)\)")
    matches = (pattern.match(line.strip()) for line in lines)
    texts = [match.group(1) for match in matches if match and "..." not in match.group(1)]
    if texts:
        documented = set[str]().union(*map(names_in, texts))
        known = schema_arguments(name) | {
            "out",
            "dtype",
            "memory_format",
            "generator",
            "requires_grad",
        }
        return documented & known if schema_arguments(name) else documented
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {parameter.name for parameter in parameters if parameter.kind in named}


def arguments_of_ours(function: Any) -> set[str] | None:
    """Return the arguments of ours, None if it takes any."""
    op = getattr(function, "op", None)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    extra = {"out"} if getattr(op, "has_out", False) or hasattr(function, "takes_out") else set()
    return set(parameters) | extra | {"axis", "keepdims"}


# Arguments that mean nothing where every tensor is dense, eager and unnamed.
MEANINGLESS = {"names", "generator_", "async", "track_dynamic_shape"}


def missing_arguments(theirs: Any, ours: Any, name: str, method: bool) -> list[str]:
    """Return the arguments that PyTorch documents and ours has not."""
    if inspect.isclass(theirs) or not callable(theirs) or not callable(ours):
        return []
    have = arguments_of_ours(ours)
    if have is None:
        return []
    want = arguments_of_theirs(theirs, name) - SELF - MEANINGLESS
    if method:
        want -= {"out"}
    return sorted(want - have)


# The page ---------------------------------------------------------------------------------


def state(namespace: str, name: str) -> str | None:
    """Return '' if a name works, the reason if it works partly, None if it is absent."""
    theirs, ours = find("torch", namespace), find("edutorch", namespace)
    if not hasattr(ours, name):
        return None
    if f"{namespace}.{name}" in PARTLY:
        return PARTLY[f"{namespace}.{name}"]
    method = namespace == "torch.Tensor"
    lacking = missing_arguments(getattr(theirs, name), getattr(ours, name), name, method)
    return f"no {', '.join(lacking)}" if lacking else ""


def listed_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def table() -> str:
    """Return the page as Markdown."""
    rows, lists = [], []
    outside: dict[str, set[str]] = {}
    for namespace in NAMESPACES:
        names = []
        for name in public_names(namespace):
            about = subject(namespace, name)
            if about:
                outside.setdefault(about, set()).add(name)
            else:
                names.append(name)
        states = {name: state(namespace, name) for name in names}
        partly = {name: reason for name, reason in states.items() if reason}
        absent = [name for name, state in states.items() if state is None]
        works = len(names) - len(partly) - len(absent)
        share = (works + len(partly)) / len(names)
        counts = f"{len(names)} | {works} | {len(partly)} | {len(absent)}"
        rows.append(f"| `{namespace}` | {counts} | {share:.0%} |")
        reasons = "\n".join(f"- `{name}`: {reason}" for name, reason in partly.items())
        lists.append(
            f"## `{namespace}`\n\nPartly:\n\n{reasons or 'none'}\n\n"
            f"Absent: {listed_names(absent)}\n"
        )
    elsewhere = "\n".join(
        f"- {about}: {listed_names(sorted(names))}" for about, names in outside.items()
    )
    return (
        "# PyTorch's names in edutorch\n\n"
        "Written by `python docs/coverage.py`, which says what the words mean. The share is of\n"
        "the names that are here, in full or in part.\n\n"
        "| namespace | public names | works | partly | absent | here |\n|:--|--:|--:|--:|--:|--:|\n"
        + "\n".join(rows)
        + "\n\n"
        + "\n".join(lists)
        + f"\n## Not counted, by what they are about\n\n{elsewhere}\n"
    )


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(table())
    else:
        PAGE.write_text(table(), encoding="utf-8")
