"""A stage: the part of a model that one rank computes, with its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ... import autograd
from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...modes import no_grad
from ...nn.modules.module import Module
from ...ops import zeros_like
from ..process_group import group_of
from .messages import BACKWARD, FORWARD, Mailbox

__all__ = ["PipelineStage"]


class PipelineStage:
    """One of the parts that a model is divided into, one after the other.

    Stage i is on rank i of the group; if there are more stages than ranks, on rank i % ranks.

    Args:
        submodule: this part. What it returns, one tensor or several, is what the next one takes.
        stage_index: its number; stage 0 gets the arguments of the step.
        num_stages: how many there are.
        device: where its tensors are.
        input_args, output_args, output_grads, input_grads: accepted: shapes travel with the data.
        group: the ranks of the pipeline; by default all.
        dw_builder, get_mesh: accepted.

    Raises: ValueError: the stage belongs to another rank.

    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from edutorch.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> stage = PipelineStage(nn.Linear(2, 1), 0, 1, "cpu")
    >>> ScheduleGPipe(stage, n_microbatches=2).step(ones(4, 2)).shape
    torch.Size([4, 1])
    >>> distributed.destroy_process_group()
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any,
        input_args: Any = None, output_args: Any = None, output_grads: Any = None,
        input_grads: Any = None, **named: Any,
    ) -> None:  # fmt: skip
        unknown = named.keys() - {"group", "dw_builder", "get_mesh"}
        if unknown:
            raise TypeError(f"PipelineStage: unexpected arguments {', '.join(sorted(unknown))}")
        group = group_of(named.get("group"), "PipelineStage")
        assert group is not None
        self.group, self.submod, self.device = group, submodule, device
        self.stage_index, self.num_stages = stage_index, num_stages
        self.group_rank, self.group_size = group.rank(), group.size()
        if not 0 <= stage_index < num_stages:
            raise InvalidValueError(
                "PipelineStage", f"Stage index {stage_index} is out of range of {num_stages}"
            )
        if self.group_size > num_stages:
            raise InvalidValueError(
                "PipelineStage",
                f"Pipeline group size {self.group_size} cannot be larger than the {num_stages} "
                "stages",
            )
        if self.rank_of(stage_index) != self.group_rank:
            raise InvalidValueError(
                "PipelineStage",
                f"stage {stage_index} belongs to rank {self.rank_of(stage_index)}, and this is "
                f"rank {self.group_rank}",
            )
        self.mail = Mailbox(group)
        self.neighbours: dict[int, PipelineStage] = {}  # the stages on this rank, by number
        self.clear_runtime_states()

    @property
    def is_first(self) -> bool:
        """Whether it gets the arguments of the step."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it computes the loss."""
        return self.stage_index == self.num_stages - 1

    def rank_of(self, stage: int) -> int:
        """Return the rank in the group where a stage is."""
        return stage % self.group_size

    def clear_runtime_states(self) -> None:
        """Forget the micro-batches of the last step."""
        self.inputs: dict[int, list[Tensor]] = {}
        self.outputs: dict[int, list[Tensor]] = {}
        self.results: dict[int, Any] = {}
        self.arrived: dict[tuple[int, int], list[tuple[Tensor, bool]]] = {}

    # Forward ------------------------------------------------------------------------------------

    def forward_one_chunk(
        self, fwd_chunk_id: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
        save_forward_output: bool = True,
    ) -> Any:  # fmt: skip
        """Compute one micro-batch, and send the result to the next stage.

        Args:
            fwd_chunk_id: the number of the micro-batch.
            args: of the first stage; others get what the stage before them has sent.
            kwargs: of this stage.
            save_forward_output: accepted.
        """
        if not self.is_first:
            args = tuple(self.take_inputs(fwd_chunk_id))
            self.inputs[fwd_chunk_id] = list(args)
        result = self.submod(*args, **(kwargs or {}))
        outputs = [result] if isinstance(result, Tensor) else list(result)
        self.outputs[fwd_chunk_id] = outputs
        if self.is_last:
            self.results[fwd_chunk_id] = result
        else:
            self.put(outputs, self.stage_index + 1, FORWARD, fwd_chunk_id)
        return result

    def take_inputs(self, chunk: int) -> list[Tensor]:
        """Return what the stage before has computed, as leaves of this stage's own graph."""
        values = []
        for value, needs_grad in self.take(self.stage_index - 1, FORWARD, chunk):
            values.append(value.requires_grad_() if needs_grad else value)
        return values

    # Backward -----------------------------------------------------------------------------------

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Tensor | None = None, full_backward: bool = True,
        last_backward: bool = False,
    ) -> None:  # fmt: skip
        """Compute the gradients of one micro-batch, and send those of the inputs back.

        Args:
            bwd_chunk_id: the number of the micro-batch.
            loss: on the last stage.
            full_backward: accepted.
            last_backward: whether it is the last one of the step: DDP averages then.
        """
        outputs = self.outputs.pop(bwd_chunk_id)
        sync = getattr(self.submod, "no_sync", None)
        with nullcontext() if last_backward or sync is None else sync():
            if self.is_last:
                assert loss is not None
                loss.backward()
            else:
                arrived = self.take(self.stage_index + 1, BACKWARD, bwd_chunk_id)
                needed = [value for value in outputs if value.requires_grad]
                if needed:
                    autograd.backward(needed, [gradient for gradient, _ in arrived])
        if not self.is_first:
            inputs = [value for value in self.inputs.pop(bwd_chunk_id) if value.requires_grad]
            gradients = [zeros_like(x) if x.grad is None else x.grad for x in inputs]
            self.put(gradients, self.stage_index - 1, BACKWARD, bwd_chunk_id)

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide all gradients: the loss of the batch is the mean of those of its micro-batches."""
        with no_grad():
            for parameter in self.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(grad_scale_factor)

    # Neighbours ---------------------------------------------------------------------------------

    def put(self, tensors: Sequence[Tensor], stage: int, direction: int, chunk: int) -> None:
        """Send tensors to another stage, which may be on this rank."""
        rank = self.rank_of(stage)
        if rank != self.group_rank:
            self.mail.send(tensors, rank, stage, direction)
            return
        self.neighbours[stage].arrived[direction, chunk] = [
            (value.detach(), value.requires_grad) for value in tensors
        ]

    def take(self, stage: int, direction: int, chunk: int) -> list[tuple[Tensor, bool]]:
        """Return what another stage has sent for a micro-batch; wait for it if it is not there."""
        rank = self.rank_of(stage)
        if rank != self.group_rank:
            return self.mail.receive(rank, self.stage_index, direction)
        return self.arrived.pop((direction, chunk))

    def __repr__(self) -> str:
        return f"PipelineStage {self.stage_index} of {self.num_stages} on rank {self.group_rank}"
