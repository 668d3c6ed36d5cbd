"""`torch._custom_ops`: an older name of parts of `torch.library`."""

from __future__ import annotations

from edutorch.library import get_ctx, impl_abstract

__all__ = ["get_ctx", "impl_abstract"]
