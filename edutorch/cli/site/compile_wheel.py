"""Compiles the modules of wheels to bytecode: a tab need not do so at each start.

    python3.12 compile_wheel.py KEEP|DROP FROM TO [FROM TO …]

Bytecode fits one version of Python, so this file is run by an interpreter of Pyodide's version, and
imports nothing but the standard library. KEEP keeps the sources beside the bytecode, for tracebacks
and for `??`; DROP leaves them out.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
import zipfile
from pathlib import PurePosixPath

LEFT_OUT = ("jedi/third_party/django-stubs/", "jedi/third_party/typeshed/third_party/")
"""Types of libraries that no tab has: 1,100 files, and each costs a millisecond to unpack."""

WHERE = "/lib/python{}.{}/site-packages/".format(*sys.version_info)
UNCHECKED = (1).to_bytes(4, "little")  # of a hash: the file is never compared with its source


def bytecode(source: bytes, name: str) -> bytes | None:
    """Return the content of a `.pyc`; None for a source of another Python."""
    try:
        code = compile(source, WHERE + name, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):
        return None
    digest = importlib.util.source_hash(source)
    return importlib.util.MAGIC_NUMBER + UNCHECKED + digest + marshal.dumps(code)


def compile_wheel(source: str, target: str, keep: bool) -> None:
    """Write a wheel with bytecode."""
    tag = sys.implementation.cache_tag
    with zipfile.ZipFile(source) as wheel, zipfile.ZipFile(target, "w") as out:
        for name in wheel.namelist():
            if name.startswith(LEFT_OUT):
                continue
            data = wheel.read(name)
            path = PurePosixPath(name)
            code = bytecode(data, name) if path.suffix == ".py" else None
            if code is None or keep:
                write(out, name, data)
            if code is not None:
                cached = path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc"
                write(out, str(cached) if keep else name + "c", code)


def write(out: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name)  # its date is always 1980: the same wheel has the same hash
    out.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=6)


if __name__ == "__main__":
    for start in range(2, len(sys.argv), 2):
        compile_wheel(sys.argv[start], sys.argv[start + 1], keep=sys.argv[1] == "KEEP")
