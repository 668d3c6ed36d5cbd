"""Which walls are taken: Linux's own, else those that `bwrap` makes, else WebAssembly, else none.

`JailFactory` turns to `bwrap` by itself, where this process may not make namespaces.
"""

from __future__ import annotations

import sys

from .factory import JailFactory
from .jail import MissingWalls
from .sandbox import SandboxFactory
from .settings import Settings
from .wasm import WasmFactory, is_installed


def open_factory(settings: Settings) -> SandboxFactory:
    """Start what makes jails, with the best walls that there are.

    Raises: MissingWalls: there are not enough; MissingExtraError: a library for them is missing.
    """
    if settings.wasm:
        return WasmFactory(settings)
    try:
        return JailFactory(settings)
    except MissingWalls as error:
        if not is_installed():
            raise
        print(f"{error.message}: the code runs in WebAssembly", file=sys.stderr)
    return WasmFactory(settings)
