"""`torch.return_types`: the named tuples of ops with several results."""

from __future__ import annotations

from edutorch.core import return_types as _return_types

globals().update(
    {name: value for name, value in vars(_return_types).items() if isinstance(value, type)}
)
