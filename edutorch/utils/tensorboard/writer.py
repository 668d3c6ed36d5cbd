"""SummaryWriter: curves, images and histograms in event files for TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ... import backends
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError, missing_extra
from ...nn import Module
from .._pytree import tree_map
from .summary import audio_summary, build_graph, message, tensor_summary, video_summary

__all__ = ["SummaryWriter"]

Values = Tensor | np.ndarray | Sequence[Any] | float
"""What is converted to an array, or to a number."""


class SummaryWriter:
    """Writes event files into a folder: `tensorboard --logdir runs` shows them.

    Needs the extra `logging` (tensorboardX), not TensorBoard itself. Tensors, NumPy arrays and
    numbers are accepted everywhere.

    Args:
        log_dir: the folder; by default runs/TIME_HOST followed by `comment`.
        comment: a suffix for the name of the default folder.
        purge_step: hide what an earlier run wrote from this step on, after a restart.
        max_queue: how many events to buffer before writing.
        flush_secs: after how many seconds buffered events are written.
        filename_suffix: a suffix for the names of the files.

    Raises: MissingExtraError: tensorboardX is not installed.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "",
        purge_step: int | None = None, max_queue: int = 10, flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:  # fmt: skip
        try:
            import tensorboardX
        except ModuleNotFoundError as error:
            raise missing_extra(
                "logging", "SummaryWriter", f"{error.name} is not installed"
            ) from error
        self.purge_step, self.max_queue = purge_step, max_queue
        self.flush_secs, self.filename_suffix = flush_secs, filename_suffix
        self._writer: Any = tensorboardX.SummaryWriter(
            logdir=None if log_dir is None else os.fspath(log_dir), comment=comment,
            purge_step=purge_step, max_queue=max_queue, flush_secs=flush_secs,
            filename_suffix=filename_suffix,
        )  # fmt: skip
        self.log_dir: str = self._writer.logdir

    def get_logdir(self) -> str:
        """Return the folder of the event files."""
        return self.log_dir

    # Values -------------------------------------------------------------------------------

    def add_scalar(
        self, tag: str, scalar_value: Values, global_step: int | None = None,
        walltime: float | None = None, new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Add a point to a curve.

        Args:
            tag: the name of the curve; "loss/train" is in the group "loss".
            scalar_value: a number, or a tensor with one element.
            global_step: the position on the horizontal axis.
            walltime: the time in seconds, instead of now.
            new_style: write it as a tensor, as TensorFlow 2 does.
            double_precision: write float64 (with `new_style`).

        Raises: ShapeError: a tensor with several elements.
        """
        value = as_number("add_scalar", tag, scalar_value)
        if not new_style:
            self._writer.add_scalar(tag, value, global_step, walltime)
            return
        array = np.asarray(value, np.float64 if double_precision else np.float32)
        self._add(tensor_summary(tag, array, "scalars"), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a point to each of several curves in one chart."""
        values = {
            tag: as_number("add_scalars", tag, value) for tag, value in tag_scalar_dict.items()
        }
        self._writer.add_scalars(main_tag, values, global_step, walltime)

    def add_tensor(
        self,
        tag: str,
        tensor: Values,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a whole tensor."""
        self._add(tensor_summary(tag, np.asarray(to_host(tensor)), ""), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Values, global_step: int | None = None, bins: str = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Add a histogram of the elements of a tensor."""
        values = np.asarray(to_host(values))
        if not values.size:
            raise ShapeError("add_histogram", "there are no values", {tag: values.shape})
        self._writer.add_histogram(tag, values, global_step, bins, walltime, max_bins)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float,
        bucket_limits: Values, bucket_counts: Values, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a histogram that has been computed before."""
        self._writer.add_histogram_raw(
            tag, float(min), float(max), float(num), float(sum), float(sum_squares),
            as_list(bucket_limits), as_list(bucket_counts), global_step, walltime,
        )  # fmt: skip

    def add_pr_curve(
        self, tag: str, labels: Values, predictions: Values, global_step: int | None = None,
        num_thresholds: int = 127, weights: Values | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a precision-recall curve of 0/1 labels and probabilities."""
        self._writer.add_pr_curve(
            tag,
            to_host(labels),
            to_host(predictions),
            global_step,
            num_thresholds,
            to_host(weights),
            walltime,
        )

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Values, false_positive_counts: Values,
        true_negative_counts: Values, false_negative_counts: Values, precision: Values,
        recall: Values, global_step: int | None = None, num_thresholds: int = 127,
        weights: Values | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a precision-recall curve that has been computed before."""
        self._writer.add_pr_curve_raw(
            tag, to_host(true_positive_counts), to_host(false_positive_counts),
            to_host(true_negative_counts), to_host(false_negative_counts), to_host(precision),
            to_host(recall), global_step, num_thresholds, to_host(weights), walltime,
        )  # fmt: skip

    # Images, audio, text ------------------------------------------------------------------

    def add_image(
        self, tag: str, img_tensor: Values, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Add an image: floats from 0 to 1, or uint8; its axes in the order `dataformats`."""
        image = check_axes("add_image", tag, img_tensor, dataformats)
        self._writer.add_image(tag, image, global_step, walltime, dataformats)

    def add_images(
        self, tag: str, img_tensor: Values, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Add several images, side by side."""
        images = check_axes("add_images", tag, img_tensor, dataformats)
        self._writer.add_images(tag, images, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Values, box_tensor: Values, global_step: int | None = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add an image with boxes (left, top, right, bottom) drawn on it."""
        image = check_axes("add_image_with_boxes", tag, img_tensor, dataformats)
        self._writer.add_image_with_boxes(
            tag, image, to_host(box_tensor), global_step, walltime, dataformats, labels,
            rescale=rescale,
        )  # fmt: skip

    def add_figure(
        self, tag: str, figure: object, global_step: int | None = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a matplotlib figure, or several; `close` them afterwards."""
        self._writer.add_figure(tag, figure, global_step, close, walltime)

    def add_video(
        self, tag: str, vid_tensor: Values, global_step: int | None = None, fps: float = 4,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add videos of shape (N, T, C, H, W), side by side, as an animated GIF."""
        frames = check_axes("add_video", tag, vid_tensor, "NTCHW")
        self._add(video_summary(tag, frames, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Values, global_step: int | None = None,
        sample_rate: int = 44100, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add audio samples from -1 to 1."""
        self._add(
            audio_summary(tag, np.asarray(to_host(snd_tensor)), sample_rate), global_step, walltime
        )

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add text, shown as Markdown."""
        self._writer.add_text(tag, text_string, global_step, walltime)

    def add_mesh(
        self, tag: str, vertices: Values, colors: Values | None = None, faces: Values | None = None,
        config_dict: dict[str, Any] | None = None, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a point cloud (B, N, 3), with colours (B, N, 3) and triangles (B, M, 3)."""
        self._writer.add_mesh(
            tag,
            to_host(vertices),
            to_host(colors),
            to_host(faces),
            config_dict,
            global_step,
            walltime,
        )

    # Models -------------------------------------------------------------------------------

    def add_graph(
        self, model: Module, input_to_model: Tensor | Sequence[Any] | None = None,
        verbose: bool = False, use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """Add the graph of the ops that a model runs on an input, grouped by module.

        Args:
            model: a module.
            input_to_model: a tensor, or a tuple of arguments.
            verbose: print the graph.
            use_strict_trace: accepted for compatibility; the model is run.

        Raises: ArgumentError (a TypeError): there is no input to run it on.
        """
        if input_to_model is None:
            raise ArgumentError(
                "add_graph", "argument `input_to_model` is needed: the graph is what runs on it"
            )
        graph = build_graph(model, input_to_model)
        if verbose:
            print(graph)
        # tensorboardX can write a graph only through its own tracer: past it, into its file.
        event = message("event.Event")(graph_def=graph.SerializeToString())
        self._writer._get_file_writer().add_event(event)

    def add_onnx_graph(self, prototxt: str) -> None:
        """Add the graph of an ONNX file."""
        self._writer.add_onnx_graph(prototxt)

    def add_embedding(
        self, mat: Values, metadata: list[Any] | None = None, label_img: Values | None = None,
        global_step: int | None = None, tag: str = "default",
        metadata_header: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add points (N, D) for the projector, with labels and square images."""
        matrix = check_axes("add_embedding", tag, mat, "ND")
        self._writer.add_embedding(
            matrix, metadata, to_host(label_img), global_step, tag, metadata_header
        )

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """Add the hyperparameters of a run and its metrics, to compare runs.

        Args:
            hparam_dict: hyperparameters by name.
            metric_dict: metrics by name.
            hparam_domain_discrete: the values that a hyperparameter may have.
            run_name: the folder of this run; by default the time.
        """
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise ArgumentError("add_hparams", "hparam_dict and metric_dict should be dictionaries")
        for name, values in (hparam_domain_discrete or {}).items():
            if name in hparam_dict and hparam_dict[name] not in values:
                raise ArgumentError(
                    "add_hparams", f"{name}={hparam_dict[name]!r} is not in hparam_domain_discrete",
                    {name: values},
                )  # fmt: skip
        settings = {
            name: as_number("add_hparams", name, value) if isinstance(value, Tensor) else value
            for name, value in hparam_dict.items()
        }
        results = {
            name: as_number("add_hparams", name, value) for name, value in metric_dict.items()
        }
        self._writer.add_hparams(settings, results, run_name, global_step)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Group curves into charts: {"Losses": {"both": ["Multiline", [tags]]}}."""
        self._writer.add_custom_scalars(layout)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Group several curves into one chart."""
        self._writer.add_custom_scalars_multilinechart(tags, category, title)

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Group a curve and its lower and upper bound into one chart: three tags."""
        self._writer.add_custom_scalars_marginchart(tags, category, title)

    # The file -----------------------------------------------------------------------------

    def _add(self, summary: Any, global_step: int | None, walltime: float | None) -> None:
        self._writer._get_file_writer().add_summary(summary, global_step, walltime)

    def flush(self) -> None:
        """Write all buffered events."""
        self._writer.flush()

    def close(self) -> None:
        """Write all buffered events and close the files."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def to_host(value: object) -> Any:
    """Replace every tensor in a value by a NumPy array."""
    return tree_map(lambda part: to_array(part) if isinstance(part, Tensor) else part, value)


def to_array(tensor: Tensor) -> np.ndarray:
    array = tensor.detach()._array
    host = backends.of(array).to_numpy(array)
    return host if host.dtype.kind in "biufc" else host.astype(np.float32)  # bfloat16


def as_list(values: Values) -> list[float]:
    return np.asarray(to_host(values)).tolist()


def as_number(who: str, tag: str, value: Values) -> float:
    """Convert a value with one element to a float.

    Raises: ShapeError: it has several.
    """
    array = np.asarray(to_host(value))
    if array.size != 1:
        raise ShapeError(who, "takes one number", {tag: array.shape}, "value.mean()?")
    return float(array.reshape(()))


def check_axes(who: str, tag: str, value: Values, axes: str) -> np.ndarray:
    """Return a value as an array with the given axes.

    Raises: ShapeError: it has another number of axes.
    """
    array = np.asarray(to_host(value))
    if array.ndim != len(axes):
        hint = None if who == "add_embedding" else f"say how its axes lie: dataformats={axes!r}"
        raise ShapeError(
            who, f"needs {len(axes)} axes ({axes})", {tag: array.shape}, hint
        )  # fmt: skip
    return array
