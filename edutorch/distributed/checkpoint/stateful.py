"""Objects that can be saved: what has `state_dict` and `load_state_dict`."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """A module, an optimizer, a scheduler, a loader, or an object of the program.

    >>> from edutorch.distributed.checkpoint.stateful import Stateful
    >>> isinstance(nn.Linear(1, 1), Stateful), isinstance([], Stateful)
    (True, False)
    """

    def state_dict(self) -> dict[str, Any]:
        """Return what is to be saved."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what was saved."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
