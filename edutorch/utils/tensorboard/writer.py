"""Curves, pictures and histograms in files that TensorBoard shows while training runs."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import numpy as np

from ... import backends
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError, missing_extra
from .._pytree import tree_map
from .graph import graph_of
from .media import film, sound, tensor_proto
from .messages import message

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """Writes event files into a folder: `tensorboard --logdir runs` shows them.

    Needs the extra `logging` (tensorboardX), not TensorBoard itself. Tensors, NumPy arrays and
    numbers can be given everywhere.

    Args:
        log_dir: the folder; by default runs/TIME_HOST with the `comment` behind.
        comment: what is put behind the name of the default folder.
        purge_step: what was written from this step on before is not shown: training goes on there.
        max_queue: how many events wait until they are written.
        flush_secs: after how many seconds they are written anyway.
        filename_suffix: what is put behind the names of the files.

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

    # Numbers ------------------------------------------------------------------------------

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None,
        walltime: float | None = None, new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Add a point to a curve.

        Args:
            tag: the name of the curve; "loss/train" stands in the group "loss".
            scalar_value: a number, or a tensor of one.
            global_step: where on the axis.
            walltime: the time in seconds, instead of now.
            new_style: write it as a tensor, as TensorFlow 2 does.
            double_precision: keep 64 bits (with `new_style`).

        Raises: ShapeError: a tensor of several numbers.
        """
        value = number("add_scalar", tag, scalar_value)
        if not new_style:
            self._writer.add_scalar(tag, value, global_step, walltime)
            return
        array = np.asarray(value, np.float64 if double_precision else np.float32)
        self._add(tensor_proto(tag, array, "scalars"), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a point to each of several curves in one picture."""
        values = {tag: number("add_scalars", tag, value) for tag, value in tag_scalar_dict.items()}
        self._writer.add_scalars(main_tag, values, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a whole tensor."""
        self._add(tensor_proto(tag, np.asarray(plain(tensor)), ""), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: str = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Add how the numbers of a tensor are distributed."""
        values = np.asarray(plain(values))
        if not values.size:
            raise ShapeError("add_histogram", "there are no values", {tag: values.shape})
        self._writer.add_histogram(tag, values, global_step, bins, walltime, max_bins)

    def add_histogram_raw(
        self, tag: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any,
        bucket_limits: Any, bucket_counts: Any, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a histogram that was counted before."""
        self._writer.add_histogram_raw(
            tag, float(min), float(max), float(num), float(sum), float(sum_squares),
            as_list(bucket_limits), as_list(bucket_counts), global_step, walltime,
        )  # fmt: skip

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: int | None = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add precision over recall at every threshold, of 0/1 labels and probabilities."""
        self._writer.add_pr_curve(
            tag, plain(labels), plain(predictions), global_step, num_thresholds, plain(weights),
            walltime,
        )  # fmt: skip

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
        true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
        global_step: int | None = None, num_thresholds: int = 127, weights: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add precision over recall that was counted before."""
        self._writer.add_pr_curve_raw(
            tag, plain(true_positive_counts), plain(false_positive_counts),
            plain(true_negative_counts), plain(false_negative_counts), plain(precision),
            plain(recall), global_step, num_thresholds, plain(weights), walltime,
        )  # fmt: skip

    # Pictures, sounds, texts --------------------------------------------------------------

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Add a picture: floats from 0 to 1, or bytes; its axes in the order `dataformats`."""
        image = fitting("add_image", tag, img_tensor, dataformats)
        self._writer.add_image(tag, image, global_step, walltime, dataformats)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Add several pictures, side by side."""
        images = fitting("add_images", tag, img_tensor, dataformats)
        self._writer.add_images(tag, images, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add a picture with boxes (left, top, right, bottom) drawn on it."""
        image = fitting("add_image_with_boxes", tag, img_tensor, dataformats)
        self._writer.add_image_with_boxes(
            tag, image, plain(box_tensor), global_step, walltime, dataformats, labels,
            rescale=rescale,
        )  # fmt: skip

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a figure of matplotlib, or several; `close` them afterwards."""
        self._writer.add_figure(tag, figure, global_step, close, walltime)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add films of shape (N, T, C, H, W), side by side, as an animated GIF."""
        frames = fitting("add_video", tag, vid_tensor, "NTCHW")
        self._add(film(tag, frames, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a sound: numbers from -1 to 1."""
        self._add(sound(tag, np.asarray(plain(snd_tensor)), sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a text, shown as Markdown."""
        self._writer.add_text(tag, text_string, global_step, walltime)

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None,
        config_dict: dict[str, Any] | None = None, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add points (B, N, 3) in space, with colours (B, N, 3) and triangles (B, M, 3)."""
        self._writer.add_mesh(
            tag, plain(vertices), plain(colors), plain(faces), config_dict, global_step, walltime
        )

    # Models -------------------------------------------------------------------------------

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """Add the graph of ops of a model, in boxes by module, as it is recorded on an input.

        Args:
            model: a module.
            input_to_model: what it is called with: a tensor, or a tuple of arguments.
            verbose: print the graph.
            use_strict_trace: accepted; the model is run, not translated.

        Raises: ArgumentError (a TypeError): there is no input to run it on.
        """
        if input_to_model is None:
            raise ArgumentError(
                "add_graph", "argument `input_to_model` is needed: the graph is what runs on it"
            )
        graph = graph_of(model, input_to_model)
        if verbose:
            print(graph)
        event = message("event.Event")(graph_def=graph.SerializeToString())
        self._writer._get_file_writer().add_event(event)

    def add_onnx_graph(self, prototxt: str) -> None:
        """Add the graph of a file of ONNX."""
        self._writer.add_onnx_graph(prototxt)

    def add_embedding(
        self, mat: Any, metadata: list[Any] | None = None, label_img: Any = None,
        global_step: int | None = None, tag: str = "default",
        metadata_header: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add points (N, D) for the projector, with a text and a square picture for each."""
        matrix = fitting("add_embedding", tag, mat, "ND")
        self._writer.add_embedding(
            matrix, metadata, plain(label_img), global_step, tag, metadata_header
        )

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """Add the settings of a run and what came out of them, to be compared with other runs.

        Args:
            hparam_dict: settings by name.
            metric_dict: results by name.
            hparam_domain_discrete: which values a setting may have; a value has to be one of them.
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
            name: number("add_hparams", name, value) if isinstance(value, Tensor) else value
            for name, value in hparam_dict.items()
        }
        results = {name: number("add_hparams", name, value) for name, value in metric_dict.items()}
        self._writer.add_hparams(settings, results, run_name, global_step)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Say which curves stand in one picture: {"Losses": {"both": ["Multiline", [tags]]}}."""
        self._writer.add_custom_scalars(layout)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Put several curves into one picture."""
        self._writer.add_custom_scalars_multilinechart(tags, category, title)

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Put a curve and its lower and upper bound into one picture: three tags."""
        self._writer.add_custom_scalars_marginchart(tags, category, title)

    # The file -----------------------------------------------------------------------------

    def _add(self, summary: Any, global_step: int | None, walltime: float | None) -> None:
        self._writer._get_file_writer().add_summary(summary, global_step, walltime)

    def flush(self) -> None:
        """Write everything that waits."""
        self._writer.flush()

    def close(self) -> None:
        """Write everything and close the files."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def plain(value: Any) -> Any:
    """Return a value with every tensor in it as an array on the host."""
    return tree_map(lambda part: array_of(part) if isinstance(part, Tensor) else part, value)


def array_of(tensor: Tensor) -> np.ndarray:
    array = tensor.detach()._array
    host = backends.of(array).to_numpy(array)
    return host if host.dtype.kind in "biufc" else host.astype(np.float32)  # bfloat16


def as_list(values: Any) -> list[float]:
    return np.asarray(plain(values)).tolist()


def number(who: str, tag: str, value: Any) -> float:
    """Return a value as one number.

    Raises: ShapeError: it is several.
    """
    array = np.asarray(plain(value))
    if array.size != 1:
        raise ShapeError(who, "takes one number", {tag: array.shape}, "value.mean()?")
    return float(array.reshape(()))


def fitting(who: str, tag: str, value: Any, axes: str) -> np.ndarray:
    """Return an array that has as many axes as it should.

    Raises: ShapeError: it has not.
    """
    array = np.asarray(plain(value))
    if array.ndim != len(axes):
        hint = None if who == "add_embedding" else f"say how its axes lie: dataformats={axes!r}"
        raise ShapeError(
            who, f"needs {len(axes)} axes ({axes})", {tag: array.shape}, hint
        )  # fmt: skip
    return array
