"""`PostLocalSGDOptimizer`: each rank steps alone, and parameters are averaged now and then."""

from __future__ import annotations

from typing import Any

from ...errors import warn
from ...optim.optimizer import Optimizer
from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps, and then lets an averager average the parameters over all ranks, if it is time.

    Args:
        optim: the optimizer of this rank.
        averager: for example a `PeriodicModelAverager`.

    Paper: Lin et al. 2020, Don't Use Large Mini-Batches, Use Local SGD.

    >>> from edutorch.distributed.optim import PostLocalSGDOptimizer
    >>> from edutorch.distributed.algorithms.model_averaging import averagers
    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = tensor([2.0], requires_grad=True)
    >>> averager = averagers.PeriodicModelAverager(period=4)
    >>> optimizer = PostLocalSGDOptimizer(optim.SGD([x], lr=0.5), averager)
    >>> (x ** 2).sum().backward()
    >>> optimizer.step()
    >>> x, averager.step
    (tensor([0.], requires_grad=True), 1)
    >>> distributed.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        super().__init__(optim.param_groups, optim.defaults)
        self.optim, self.averager = optim, averager
        self.param_groups, self.state = optim.param_groups, optim.state

    def step(self, closure: Any = None) -> Any:
        """Step, and average the parameters if it is time."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return settings, state, and the averager's number of steps."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore settings, state, and the averager's number of steps."""
        self.optim.load_state_dict(state_dict)
        self.param_groups, self.state = self.optim.param_groups, self.optim.state
        if "step" not in state_dict:
            warn(
                "Loaded state dict does not contain a step counter for an averager. "
                "Setting step counter to 0."
            )
        self.averager.step = state_dict.get("step", 0)

    def __repr__(self) -> str:
        return repr(self.optim)
