"""Schedules: one step of training through all stages, in micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...modes import no_grad
from . import orders
from .microbatch import (
    check_microbatches,
    merge_chunks,
    split_args_kwargs_into_chunks,
    split_value,
)
from .orders import Action
from .pipeline_stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B"]


class Schedule:
    """What all schedules share: `step` and `eval`.

    Args:
        stages: those of this rank.
        n_microbatches: how many parts a batch has.
        loss_fn: of (output, target) of a micro-batch, on the last stage; None: forward only.
        args_chunk_spec, kwargs_chunk_spec: along which axes arguments are divided.
        output_merge_spec: accepted.
        scale_grads: divide the gradients by the number of micro-batches, as the loss of a whole
            batch is a mean.
    """

    order: Callable[[int, Sequence[int], int, int], list[Action]]

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        check_microbatches(n_microbatches)
        self.stages = {stage.stage_index: stage for stage in stages}
        for stage in stages:
            stage.neighbours = self.stages
        self.first = stages[0]
        self.n_microbatches, self.loss_fn = n_microbatches, loss_fn
        self.specs = args_chunk_spec, kwargs_chunk_spec
        self.scale_grads = scale_grads
        rank, ranks = self.first.group_rank, self.first.group_size
        self.actions = type(self).order(rank, sorted(self.stages), n_microbatches, ranks)

    @property
    def last_stage(self) -> PipelineStage | None:
        """The last stage, if it is on this rank."""
        return next((stage for stage in self.stages.values() if stage.is_last), None)

    def step(
        self, *args: Any, target: Any = None, losses: list[Tensor] | None = None,
        return_outputs: bool = True, loss_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Run a whole batch forward and backward; gradients are added to `.grad`.

        All ranks call it, each in its own way:

            first stage                         schedule.step(x)
            last stage                          schedule.step(target=y, losses=losses)
            others                              schedule.step()

        Args:
            args, kwargs: of the first stage; `kwargs` of a stage on this rank.
            target: what `loss_fn` compares with.
            losses: gets the losses of the micro-batches.
            return_outputs: whether the last stage returns its outputs.
            loss_kwargs: of `loss_fn`.

        Returns: the outputs of the last stage, there; None elsewhere.

        Raises: ValueError: arguments of the first or of the last stage are missing.
        """
        self._check(args, kwargs, target)
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {})

    def eval(
        self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, **kwargs: Any
    ) -> Any:
        """Run a whole batch forward only, without recording gradients."""
        with no_grad():
            return self._run(args, kwargs, target, losses, True, {}, is_training=False)

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> None:
        if 0 in self.stages and not args and not kwargs:
            raise InvalidValueError(
                type(self).__name__, "the first stage is on this rank: pass the inputs to step()"
            )
        if self.last_stage is not None and self.loss_fn is not None and target is None:
            raise InvalidValueError(
                type(self).__name__, "the last stage is on this rank: pass target= to step()"
            )

    def _run(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any,
        losses: list[Tensor] | None, return_outputs: bool, loss_kwargs: dict[str, Any],
        is_training: bool = True,
    ) -> Any:  # fmt: skip
        parts = self.n_microbatches
        positional, named = split_args_kwargs_into_chunks(args, kwargs, parts, *self.specs)
        targets = split_value(target, parts)
        computed: dict[int, Tensor] = {}
        with_backward = is_training and self.loss_fn is not None
        for position, action in enumerate(self.actions):
            stage, number = self.stages[action.stage], action.microbatch
            if action.direction == "F":
                result = stage.forward_one_chunk(number, positional[number], named[number])
                if stage.is_last and self.loss_fn is not None and target is not None:
                    computed[number] = self.loss_fn(result, targets[number], **loss_kwargs)
            elif with_backward:
                is_last = all(
                    later.stage != action.stage or later.direction == "F"
                    for later in self.actions[position + 1 :]
                )
                loss = computed.get(number) if stage.is_last else None
                stage.backward_one_chunk(number, loss, last_backward=is_last)
        for stage in self.stages.values():
            stage.mail.finish()
            if with_backward and self.scale_grads:
                stage.scale_grads(parts)
        if losses is not None:
            losses[:] = [computed[number].detach() for number in sorted(computed)]
        return self._results(return_outputs)

    def _results(self, return_outputs: bool) -> Any:
        last = self.last_stage
        results = None
        if last is not None and return_outputs:
            results = merge_chunks([last.results[number] for number in range(self.n_microbatches)])
        for stage in self.stages.values():
            stage.clear_runtime_states()
        return results

    def __str__(self) -> str:
        ranks, total = self.first.group_size, self.first.num_stages
        return orders.draw(type(self).order, ranks, self.n_microbatches, total // ranks)


class ScheduleGPipe(Schedule):
    """All micro-batches forward, then all of them backward.

    Simple, and each stage keeps the activations of all micro-batches.

    Args:
        stage: the stage of this rank.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
            scale_grads: see `Schedule`.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from edutorch.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> stage = PipelineStage(nn.Linear(2, 1, bias=False), 0, 1, "cpu")
    >>> schedule = ScheduleGPipe(stage, 2, loss_fn=nn.functional.mse_loss)
    >>> losses = []
    >>> _ = schedule.step(ones(4, 2), target=zeros(4, 1), losses=losses); len(losses)
    2
    >>> distributed.destroy_process_group()
    """

    order = staticmethod(orders.gpipe)

    def __init__(self, stage: PipelineStage, n_microbatches: int, *args: Any, **named: Any) -> None:
        super().__init__([stage], n_microbatches, *args, **named)


class Schedule1F1B(ScheduleGPipe):
    """One forward, one backward: no stage keeps more micro-batches than stages follow it.

    As fast as GPipe, with less memory.

    Args:
        stage, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
            scale_grads: see `ScheduleGPipe`.
    """

    order = staticmethod(orders.one_forward_one_backward)


class ScheduleInterleaved1F1B(Schedule):
    """Several stages per rank, not next to each other: ranks wait for less long.

    Args:
        stages: those of this rank: i, i + ranks, i + 2 · ranks, …
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
            scale_grads: see `Schedule`. The micro-batches are a multiple of the ranks.
        backward_requires_autograd, defer_pp_recv: accepted.
    """

    order = staticmethod(orders.interleaved_1f1b)

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, *args: Any,
        backward_requires_autograd: bool = True, defer_pp_recv: bool = False, **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(stages, n_microbatches, *args, **named)
