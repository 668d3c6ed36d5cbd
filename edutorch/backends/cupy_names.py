"""The functions of CuPy and their signatures, available without CuPy.

`cupy_names.json` lists what NumPy and CuPy have in common:
names, signatures, the dtypes of each ufunc, the methods of arrays. The
strict device (`strict.py`) offers exactly this list; a test compares the calls
in the library's source with it, and another the list with an installed CuPy
(which can be imported, though not used, without a GPU).

To write the list again for a newer CuPy, where that is installed:

    python -m edutorch.backends.cupy_names
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

_FILE = Path(__file__).with_suffix(".json")
_MODULES = ("", "linalg.", "fft.")
_UFUNC_SETTINGS = {"out", "dtype", "casting"}

REDUCING = {"add", "multiply"}
"""The ufuncs of which CuPy has `.reduce` and `.accumulate`."""
_NOT_LISTED = {"data", "device", "flat", "base", "flags"}


@functools.cache
def known() -> dict[str, Any]:
    """Return the list: functions, ufuncs, constants, methods and attributes."""
    return json.loads(_FILE.read_text(encoding="utf-8"))


@functools.cache
def signature(name: str) -> inspect.Signature | None:
    """Return how CuPy's function `name` ("sum", "linalg.norm") is called, None if missing."""
    text = known()["functions"].get(name)
    return None if text is None else _parsed(text)


@functools.cache
def method_signature(name: str) -> inspect.Signature | None:
    """Return how the method `name` of CuPy's arrays is called, None if missing."""
    text = known()["methods"].get(name)
    return None if text is None else _parsed(text)


def check_call(name: str, positional: int, keywords: frozenset[str]) -> None:
    """Compare a call with CuPy's signature.

    Args:
        positional: the number of positional arguments.
        keywords: the names of the keyword arguments.

    Raises: AttributeError: CuPy has no such function. TypeError: the call does not fit.
    """
    ufunc = known()["ufuncs"].get(name)
    expected = signature(name)
    if ufunc is not None:
        wrong = keywords - _UFUNC_SETTINGS
        if wrong or not ufunc["nin"] <= positional <= ufunc["nin"] + ufunc["nout"]:
            raise TypeError(
                f"CuPy's ufunc {name} takes {ufunc['nin']} arrays and {sorted(_UFUNC_SETTINGS)}; "
                f"it got {positional} arguments" + (f" and {sorted(wrong)}" if wrong else "")
            )
    elif expected is None:
        raise AttributeError(f"CuPy has no function {name}")
    else:
        bind(expected, f"function {name}", positional, keywords)


def bind(how: inspect.Signature, what: str, positional: int, keywords: frozenset[str]) -> None:
    """Raise TypeError unless a call with these arguments fits the signature `how`."""
    try:
        how.bind(*(None,) * positional, **dict.fromkeys(keywords))
    except TypeError as error:
        raise TypeError(f"CuPy's {what}{how}: {error}") from None


def _parsed(text: str) -> inspect.Signature:
    return inspect.signature(eval(f"lambda {text}: None"))


# Writing the list -----------------------------------------------------------------------


def collect(cupy: Any) -> dict[str, Any]:
    """Make the list from an installed CuPy, keeping what NumPy has as well."""
    functions: dict[str, str] = {}
    ufuncs: dict[str, dict[str, Any]] = {}
    constants = []
    for prefix in _MODULES:
        ours, numpys = cupy, np
        if prefix:
            ours, numpys = getattr(cupy, prefix[:-1]), getattr(np, prefix[:-1])
        for name in sorted(set(dir(ours)) & set(dir(numpys))):
            value = getattr(ours, name)
            if name.startswith("_") or inspect.ismodule(value):
                continue
            if isinstance(value, cupy.ufunc):
                ufuncs[prefix + name] = {
                    "nin": value.nin, "nout": value.nout, "types": " ".join(value.types)
                }  # fmt: skip
            elif value is getattr(numpys, name):
                constants.append(prefix + name)
            elif callable(value) and not isinstance(value, type):
                text = _signature_text(value)
                if text is not None:
                    functions[prefix + name] = text
    methods, attributes = _members(cupy.ndarray)
    return {
        "cupy": cupy.__version__, "functions": functions, "ufuncs": ufuncs,
        "constants": constants, "methods": methods, "attributes": attributes,
    }  # fmt: skip


def _members(array_type: Any) -> tuple[dict[str, str], list[str]]:
    """Split the public members that CuPy's arrays share with NumPy's."""
    methods, attributes = {}, []
    for name in sorted(set(dir(array_type)) & set(dir(np.ndarray))):
        member = getattr(array_type, name)
        if name.startswith("_") or name in _NOT_LISTED:
            continue
        text = _signature_text(member, method=True) if callable(member) else None
        if text is not None:
            methods[name] = text
        elif not callable(member):
            attributes.append(name)
    return methods, attributes


def _signature_text(function: Any, method: bool = False) -> str | None:
    """Write a signature without annotations, with a default only where it is plain."""
    try:
        signature_ = inspect.signature(function)
    except ValueError:
        return _from_first_line(function)
    parameters = list(signature_.parameters.values())[1 if method else 0 :]
    plain = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=parameter.default if _is_plain(parameter.default) else None,
        )
        for parameter in parameters
    ]
    text = str(inspect.Signature(plain))[1:-1]
    return None if text == "*args, **kwargs" else text


def _is_plain(default: Any) -> bool:
    return default is inspect.Parameter.empty or isinstance(default, (bool, int, float, str))


def _from_first_line(function: Any) -> str | None:
    """Read the signature that Cython writes into the first line of a docstring."""
    first = (function.__doc__ or "").split("\n")[0]
    match = re.search(r"\((.*)\)", first)
    if match is None or match.group(1).startswith("*args"):
        return None  # no known signature
    names = [part.strip() for part in match.group(1).split(",")]
    # Cython shows C types too: "int axis=-1", "_ndarray_base b".
    return ", ".join(part.split(" ")[-1] for part in names if part not in ("self", ""))


if __name__ == "__main__":
    import cupy

    _FILE.write_text(json.dumps(collect(cupy), indent=1) + "\n", encoding="utf-8")
