"""Averages of a model's parameters during training.

Late in training the parameters fluctuate around a minimum; their average is closer to it. Either
all steps have the same weight (stochastic weight averaging, SWA), or recent ones weigh more
(exponential moving average, EMA).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Literal

from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn.modules import Module
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.instancenorm import _InstanceNorm
from ..ops import tensor
from .lr_scheduler.base import LRScheduler, per_group, warn_outside_step
from .optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the moving average for `AveragedModel`: ā ← decay · ā + (1 - decay) · θ.

    Args:
        decay: the decay rate of the average.

    Raises: ValueError: it is not between 0 and 1.

    >>> average = optim.swa_utils.get_ema_avg_fn(0.9)
    >>> average(tensor(1.0), tensor(2.0), 7)
    tensor(1.1000)
    """
    check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return the plain average for `AveragedModel`: ā ← ā + (θ - ā) / (n + 1).

    >>> average = optim.swa_utils.get_swa_avg_fn()
    >>> average(tensor(1.0), tensor(2.0), 3)
    tensor(1.2500)
    """

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Return `get_ema_avg_fn` for whole lists of tensors, which it changes in place.

    Raises: ValueError: the decay is not between 0 and 1.

    >>> averages = [tensor(1.0), tensor(2.0)]
    >>> optim.swa_utils.get_ema_multi_avg_fn(0.5)(averages, [tensor(3.0), tensor(4.0)], 1)
    >>> averages
    [tensor(2.), tensor(3.)]
    """
    return make_multi_avg_fn(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """Return `get_swa_avg_fn` for whole lists of tensors, which it changes in place.

    >>> averages = [tensor(1.0), tensor(2.0)]
    >>> optim.swa_utils.get_swa_multi_avg_fn()(averages, [tensor(3.0), tensor(4.0)], 1)
    >>> averages
    [tensor(2.), tensor(3.)]
    """
    return make_multi_avg_fn(get_swa_avg_fn())


def check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def make_multi_avg_fn(average: Average) -> MultiAverage:
    """Return an in-place average of lists of tensors, given one of two tensors."""

    @no_grad()
    def update(averaged: Sequence[Tensor], present: Sequence[Tensor], num_averaged: Any) -> None:
        for averaged_param, current in zip(averaged, present, strict=True):
            averaged_param.copy_(average(averaged_param, current, num_averaged))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages, updated by `update_parameters`.

    Args:
        model: the model that is trained.
        device: the device of the averages.
        avg_fn: the averaging function of a parameter; the plain average by default.
        multi_avg_fn: the same for lists of parameters.
        use_buffers: whether to average the buffers as well (else they are copied).

    Paper: Izmailov et al., Averaging weights leads to wider optima and better
    generalization, 2018.

    Raises: AssertionError: both functions are given.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> averaged = optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged(tensor([1.0])).item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn = avg_fn, multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Include the current parameters in the average; the first ones are copied."""
        averaged, present = self.averaged_tensors(self.module), self.averaged_tensors(model)
        present = [
            current.detach().to(averaged_param.device)
            for averaged_param, current in zip(averaged, present, strict=False)
        ]
        count = int(self.n_averaged.item())
        if count == 0:
            for averaged_param, current in zip(averaged, present, strict=False):
                averaged_param.copy_(current)
        elif self.multi_avg_fn is not None:
            self.average_lists(averaged, present)
        else:
            average = self.avg_fn or get_swa_avg_fn()
            for averaged_param, current in zip(averaged, present, strict=False):
                averaged_param.copy_(
                    average(averaged_param, current, self.n_averaged.to(averaged_param.device))
                )
        if not self.use_buffers:
            buffers = zip(self.module.buffers(), model.buffers(), strict=True)
            for averaged_param, current in buffers:
                averaged_param.copy_(current.detach().to(averaged_param.device))
        self.n_averaged += 1

    def averaged_tensors(self, model: Module) -> list[Tensor]:
        """Return the tensors that are averaged."""
        parameters = model.parameters()
        return [
            tensor.detach()
            for tensor in (chain(parameters, model.buffers()) if self.use_buffers else parameters)
        ]

    def average_lists(self, averaged: list[Tensor], present: list[Tensor]) -> None:
        """Call `multi_avg_fn` once per device and dtype."""
        by_device_and_dtype: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
        for averaged_param, current in zip(averaged, present, strict=False):
            lists = by_device_and_dtype.setdefault(
                (str(averaged_param.device), averaged_param.dtype), ([], [])
            )
            lists[0].append(averaged_param)
            lists[1].append(current)
        assert self.multi_avg_fn is not None
        for average_list, current_list in by_device_and_dtype.values():
            self.multi_avg_fn(
                average_list, current_list, self.n_averaged.to(average_list[0].device)
            )


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of batch norm layers, which averaging has invalidated.

    Args:
        loader: batches; the first item of a tuple is the input.
        model: the model whose statistics are recomputed.
        device: the device to move the inputs to.

    >>> model = nn.BatchNorm1d(1)
    >>> optim.swa_utils.update_bn([tensor([[1.0], [3.0]]), tensor([[5.0], [7.0]])], model)
    >>> model.running_mean
    tensor([4.])
    """
    layers = [module for module in model.modules() if is_batch_norm(module)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain average of all batches
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) else batch
        model(inputs if device is None else inputs.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


def is_batch_norm(module: Any) -> bool:
    """Whether a module is a batch norm (an instance norm has the same base class)."""
    return isinstance(module, _BatchNorm) and not isinstance(module, _InstanceNorm)


class SWALR(LRScheduler):
    """Anneal the learning rate to a constant, which stays while the model is averaged.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        swa_lr: the final learning rate, or one per group.
        anneal_epochs: the number of steps until then.
        anneal_strategy: "cos" (cosine) or "linear".
        last_epoch: the number of steps made before; -1 for a new schedule.

    Paper: Izmailov et al., Averaging weights leads to wider optima and better
    generalization, 2018.

    Raises: ValueError: a setting is invalid.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2)
    >>> for epoch in range(3):
    ...     optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        rates = per_group("swa_lr", optimizer, swa_lr)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )  # fmt: skip
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the next rates; the initial rate follows from the current one."""
        warn_outside_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        fraction_before, fraction = self.annealed_fraction(step - 1), self.annealed_fraction(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, swa_lr = group["lr"], group["swa_lr"]
            initial_lr = (
                swa_lr
                if fraction_before == 1
                else (lr - fraction_before * swa_lr) / (1 - fraction_before)
            )
            rates.append(swa_lr * fraction + initial_lr * (1 - fraction))
        return rates

    def annealed_fraction(self, step: int) -> float:
        """Return the annealed fraction, from 0 to 1, at a step."""
        progress = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (
            progress
            if self._anneal_strategy == "linear"
            else (1 - math.cos(math.pi * progress)) / 2
        )
