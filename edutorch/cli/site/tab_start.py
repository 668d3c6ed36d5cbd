"""What the kernel of a tab does once when it starts; it is the module `edutorch_tab` there.

Edutorch is imported while the student still reads the page.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from edutorch.backends.platform import IS_BROWSER


def start() -> None:
    """Import edutorch, look for modules beside the notebook last, and send None as null."""
    import edutorch.viz  # noqa: F401

    sys.path.append("")
    send_none_as_null()


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


if IS_BROWSER:
    start()
