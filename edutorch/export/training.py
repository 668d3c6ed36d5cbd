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
from .samples import Arguments, argument_names, unchanged

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
    `edutorch.export.cpp` takes it. The learning rate is a number in it. The model stays as it was.

    Args:
        model: the model, in training mode if that matters.
        loss: a function of the model's result and the target, such as `cross_entropy`.
        optimizer: its optimizer, such as `SGD`, also with momentum: what it keeps are weights, too.
        args: an example: (input, target).
        dynamic_shapes: as for `export`, of (input, target).

    Raises: ExportError: the step changes what no program can have.

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
    is_new = not optimizer.state
    try:
        if is_new:
            make_state(step, args)
        return export_with(step, arguments, axes, (args, {}), lambda op: False)
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        if is_new:
            optimizer.state.clear()


def make_state(step: TrainingStep, args: tuple[Any, Any]) -> None:
    """Let an optimizer make its state, of zeros: a graph can only update what there is."""
    with unchanged(step):
        step(*args)
    for number, state in enumerate(step.optimizer.state.values()):
        for name, value in state.items():
            if isinstance(value, Tensor):
                value.zero_()
                step.register_buffer(f"{name}_{number}", value)
