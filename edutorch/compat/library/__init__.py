"""`torch.library`: operators of your own, with the same rights as those of PyTorch.

    @torch.library.custom_op("my::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return torch.from_numpy(np.sin(x.numpy()))

The call is one step: one box in a picture, one node in a compiled graph, whatever is inside. A
gradient, a rule for vmap and the shape of the result are registered beside it, and `opcheck` says
whether they fit together.
"""

from __future__ import annotations

from typing import Any

from edutorch.errors import NotHereError

from . import schema as schema
from .custom_op import CustomOpDef, custom_op
from .inference import infer_schema
from .registration import (
    Library, define, impl, impl_abstract, register_autocast, register_autograd,
    register_fake, register_kernel, register_vmap,
)  # fmt: skip
from .registration import _scoped_library as _scoped_library

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op",
    "wrap_triton",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import `opcheck` when it is first asked for: it needs the compiler."""
    if name in ("opcheck", "get_ctx", "OpCheckError"):
        from . import checks

        return getattr(checks, name)
    raise AttributeError(f"module 'edutorch.library' has no attribute {name!r}", name=name)


def fallthrough_kernel(*args: Any, **kwargs: Any) -> None:
    """Mark a dispatch key that has no kernel of its own.

    Raises: NotImplementedError: it is called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, **kwargs: Any
) -> Any:
    """Raise an error: there is no `__torch_dispatch__` here.

    Raises: NotHereError: always.
    """
    raise NotHereError(
        "register_torch_dispatch", "there is no __torch_dispatch__ in edutorch",
        hint="override __torch_function__ in the class: it gets the call of a custom op",
    )  # fmt: skip


def triton_op(name: str, fn: Any = None, /, **kwargs: Any) -> Any:
    """Raise an error: Triton kernels are not supported.

    Raises: NotHereError: always.
    """
    raise NotHereError(
        "triton_op", "Triton kernels are not supported",
        hint="write a kernel with Numba or CuPy, and register it by custom_op",
    )  # fmt: skip


wrap_triton = triton_op
