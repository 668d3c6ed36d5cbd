"""The base of everything that has parameters.

What a module holds, and how it is named, is in `tree.py`. Here is what it does:
compute, with hooks around it, and move, save and switch everything that it holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...core.autograd import RemovableHandle
from ...core.tensor import Tensor
from ...device import Device
from ...errors import EdutorchError
from ...modes import current
from ...ops import zeros_like
from .hooks import Hook, call_watched, hang
from .state import IncompatibleKeys, load, load_own, save_own
from .text import located, nested_repr, not_a_tensor
from .tree import ModuleTree

__all__ = ["Module"]


class Module(ModuleTree):
    """A part of a network: holds parameters, and computes in `forward`.

    Assigning a Parameter, a Buffer or another Module to an attribute registers it.

    >>> class Double(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Double()(tensor(3.0)).item()
    6.0
    """

    training: bool
    _forward_pre_hooks: OrderedDict[int, Hook]
    _forward_hooks: OrderedDict[int, Hook]
    _backward_pre_hooks: OrderedDict[int, Hook]
    _backward_hooks: OrderedDict[int, Hook]

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(
            training=True,
            _forward_pre_hooks=OrderedDict(), _forward_hooks=OrderedDict(),
            _backward_pre_hooks=OrderedDict(), _backward_hooks=OrderedDict(),
        )  # fmt: skip

    # Computing ------------------------------------------------------------------------

    if TYPE_CHECKING:
        forward: Callable[..., Any]
    else:

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Compute the output. Every subclass writes its own."""
            raise NotImplementedError(
                f'Module [{type(self).__name__}] is missing the required "forward" function'
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, with the hooks around it."""
        try:
            if (
                self._forward_hooks
                or self._forward_pre_hooks
                or self._backward_hooks
                or self._backward_pre_hooks
                or current().listeners
            ):
                return call_watched(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except EdutorchError as error:
            located(error, self)
            raise
        except AttributeError as error:
            better = not_a_tensor(self, args)
            if better is None:
                raise
            raise better from error

    def extra_repr(self) -> str:
        """Return the settings to show in the module's text."""
        return ""

    def __repr__(self) -> str:
        return nested_repr(self)

    def _get_name(self) -> str:
        return type(self).__name__

    # Everything it holds --------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call `fn(module)` for every module below and then this one, and return this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        """Replace the numbers of every parameter, gradient and buffer by `fn` of them.

        The parameters stay the same objects, so an optimizer keeps knowing them.
        """
        for module in self.modules() if recurse else (self,):
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if tensor is not None:
                    tensor.data = fn(tensor.detach())
                    if tensor.grad is not None:
                        tensor.grad.data = fn(tensor.grad.detach())
        return self

    def to(
        self, *target: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False
    ) -> Module:
        """Move to a device, or convert the floating numbers to another type, in place.

        Raises: TypeError: not a floating type. DeviceError: the device cannot be used here.

        >>> nn.Linear(2, 1).to(float64).weight.dtype
        torch.float64
        """
        for each in target:
            if isinstance(each, Tensor):
                dtype, device = each.dtype, each.device
            elif isinstance(each, dtypes.dtype):
                dtype = each
            elif isinstance(each, str | Device):
                device = each
            elif not isinstance(each, bool):
                raise TypeError(f"to: expected a dtype, a device or a tensor, got {each!r}")
        if dtype is not None and dtype.category < 2:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, got {dtype}"
            )

        def converted(tensor: Tensor) -> Tensor:
            return tensor.to(device=device, dtype=dtype if tensor.dtype.category >= 2 else None)

        return self._apply(converted)

    def float(self) -> Module:
        """Convert floating parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self) -> Module:
        """Convert floating parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self) -> Module:
        """Convert floating parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Module:
        """Convert floating parameters and buffers to bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self) -> Module:
        """Move to the computer's own memory."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Module:
        """Move to the GPU. Raises: DeviceError: there is none."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def train(self, mode: bool = True) -> Module:
        """Switch to training: dropout drops, batch norm looks at the batch."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Switch to evaluation: the same input always gives the same output."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Say whether gradients are wanted for the parameters (False freezes them)."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set them to zeros)."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = zeros_like(parameter.grad)

    # State ------------------------------------------------------------------------------

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """Return all parameters and persistent buffers by path: what is to be saved.

        >>> list(nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        destination = OrderedDict() if destination is None else destination
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of a `state_dict` into parameters and buffers of the same path.

        Args:
            strict: every key must be there, and no other.
            assign: hold the given tensors instead of copying their numbers.

        Raises: StateDictError (a RuntimeError): something is missing, left over or misshapen.
        """
        return load(self, state_dict, strict, assign)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load what belongs to this module alone; a subclass may translate old names here."""
        assign = local_metadata.get("assign_to_params_buffers", False)
        load_own(self, state_dict, prefix, assign, missing_keys, unexpected_keys, error_msgs)

    # Hooks ------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns replaces the args."""
        return hang(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:  # fmt: skip
        """Call `hook(module, args, output)` behind `forward`; what it returns is the output.

        With `always_call` also when `forward` raised (with None as output).
        """
        return hang(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when backward has passed the module.

        A tuple that it returns takes the place of `grad_input`.
        """
        return hang(self._backward_hooks, Hook(hook), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before backward passes the module."""
        return hang(self._backward_pre_hooks, Hook(hook), prepend)
