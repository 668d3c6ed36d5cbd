"""`torch._ops`: the classes of operators, under the name by which libraries import them."""

from __future__ import annotations

from .library.operators import OpNamespace as _OpNamespace
from .library.operators import OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "_OpNamespace"]
