"""What the kernel of a tab does once when it starts; it is the module `edutorch_tab` there.

Edutorch is imported while the student still reads the page.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable
from typing import Any

from edutorch.backends.platform import IS_BROWSER

INSTEAD = {
    "torch": "edutorch is in its place: import edutorch as torch",
    "pytorch": "edutorch is in its place: import edutorch as torch",
    "torchvision": "it needs PyTorch; pictures: edutorch.datasets, layers: edutorch.nn",
    "torchaudio": "it needs PyTorch",
    "numba": "edutorch computes by NumPy alone here",
    "cupy": "a browser tab has no GPU for Python",
    "graphviz": "edutorch.viz draws by the Graphviz of this page",
    "pygraphviz": "edutorch.viz draws by the Graphviz of this page",
    "edutorch": "it is here already: import edutorch as torch",
}
"""What to say of packages that have no wheel for a browser, or are not needed there."""


def start() -> None:
    """Import edutorch, look for modules beside the notebook last, and mend the kernel."""
    import edutorch.viz  # noqa: F401

    sys.path.append("")
    send_none_as_null()
    say_what_to_use_instead()


def send_none_as_null() -> None:
    """Let the widgets' messages go through JSON: the kernel would make None undefined."""
    from js import JSON
    from pyodide_kernel.comm import Comm

    publish = Comm.publish_msg

    def publish_msg(self: Any, msg_type: str, data: Any = None, *rest: Any, **keys: Any) -> None:
        try:
            data = JSON.parse(json.dumps(data, allow_nan=False))
        except (TypeError, ValueError):  # not JSON: the kernel's own way
            pass
        publish(self, msg_type, data, *rest, **keys)

    Comm.publish_msg = publish_msg


def say_what_to_use_instead() -> None:
    """Let `%pip install torch` say a sentence, and install the others."""
    import piplite

    install = piplite.install

    async def install_others(requirements: str | list[str], *rest: Any, **keys: Any) -> Any:
        names = [requirements] if isinstance(requirements, str) else list(requirements)
        others = [name for name in names if not is_said_of(name)]
        outcome: Awaitable[Any] | None = install(others, *rest, **keys) if others else None
        return None if outcome is None else await outcome

    piplite.install = install_others


def is_said_of(requirement: str) -> bool:
    """Say what to use instead of a package; return False if there is nothing to say."""
    name = re.split(r"[^\w.-]", requirement.strip().lower())[0].replace("_", "-")
    if name in INSTEAD:
        print(f"{name} is not installed: {INSTEAD[name]}")
    return name in INSTEAD


if IS_BROWSER:
    start()
