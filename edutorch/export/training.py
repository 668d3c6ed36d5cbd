"""A training step as a program: forward, backward and the optimizer's update in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import enable_grad
from ..core.tensor import Tensor
from ..nn import Module
from ..optim import Optimizer
from ..utils._pytree import tree_flatten
from .dims import parse_dynamic_shapes
from .exporting import export_with
from .program import ExportedProgram
from .samples import Arguments, argument_names

__all__ = ["training_step"]


class TrainingStep(Module):
    """A module whose forward is a step of training, and which returns the loss.

    Args:
        model: the model.
        loss: a function of what the model returns, and of the target.
        optimizer: the optimizer of its parameters.
    """

    def __init__(self, model: Module, loss: Callable[..., Tensor], optimizer: Optimizer) -> None:
        super().__init__()
        self.model = model
        self.__dict__["loss"], self.__dict__["optimizer"] = loss, optimizer

    @enable_grad()
    def forward(self, input: Any, target: Any) -> Tensor:
        """Train on one batch."""
        self.optimizer.zero_grad()
        loss = self.loss(self.model(input), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def training_step(
    model: Module, loss: Callable[..., Tensor], optimizer: Optimizer, args: tuple[Any, Any], *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:  # fmt: skip
    """Return a step of training as a program that updates the model's weights.

    It calls functions of arrays too, as derivative rules do, so it is for other languages:
    `edutorch.export.cpp` takes it. The learning rate is a number in it. The model is left as it was.

    Args:
        model: the model, in training mode if that matters.
        loss: a function of the model's result and the target, such as `cross_entropy`.
        optimizer: an optimizer without state, such as `SGD` without momentum.
        args: an example: (input, target).
        dynamic_shapes: as for `export`, of (input, target).

    Raises: ExportError: the step reads what no program can have, such as the state of Adam.

    >>> model = nn.Linear(2, 3)
    >>> sgd = optim.SGD(model.parameters(), 0.1)
    >>> batch = ones(4, 2), tensor([0, 1, 2, 0])
    >>> loss = nn.functional.cross_entropy
    >>> program = edutorch.export.training_step(model, loss, sgd, batch)
    >>> program.graph_signature.buffers_to_mutate.values()
    dict_values(['model.weight', 'model.bias'])
    """
    step = TrainingStep(model, loss, optimizer).train(model.training)
    leaves, spec = tree_flatten((args, {}))
    arguments = Arguments(leaves, spec, argument_names(step, args, {}))
    axes = parse_dynamic_shapes(dynamic_shapes, arguments.names, list(args))
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    try:
        return export_with(step, arguments, axes, (args, {}), lambda op: False)
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
