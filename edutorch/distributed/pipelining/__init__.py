"""`torch.distributed.pipelining`: the layers of one model on several ranks, in micro-batches."""

from __future__ import annotations

from .microbatch import TensorChunkSpec
from .partition import Pipe, SplitPoint, build_stage, pipeline
from .pipeline_stage import PipelineStage
from .schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "SplitPoint", "TensorChunkSpec", "build_stage", "pipeline",
]  # fmt: skip
