"""SummaryWriter's files, read back."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import wave

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.errors import ArgumentError, ShapeError

tensorboardX = pytest.importorskip("tensorboardX", reason="needs the extra `logging`")
from edutorch.utils.tensorboard import SummaryWriter  # noqa: E402


def events(folder):
    """Yield the events of all files: each is a length, its checksum, the bytes, their checksum."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.rglob("events.out.tfevents.*")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            yield Event.FromString(data[place + 12 : place + 12 + length])
            place += 12 + length + 4


def values(folder):
    return {value.tag: (event, value) for event in events(folder) for value in event.summary.value}


def written(folder, write):
    with SummaryWriter(folder) as writer:
        write(writer)
    return values(folder)


def test_a_curve(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        assert writer.get_logdir() == writer.log_dir == str(tmp_path)
        for step in range(3):
            writer.add_scalar("loss/train", torch.tensor(1.0 / (step + 1)), step, walltime=step)
    records = [
        (event.step, event.wall_time, value.tag, value.simple_value)
        for event in events(tmp_path) for value in event.summary.value
    ]  # fmt: skip
    assert records == [(step, step, "loss/train", np.float32(1 / (step + 1))) for step in range(3)]


@pytest.mark.parametrize(("double", "dtype"), [(False, np.float32), (True, np.float64)])
def test_new_style_scalars_are_tensors(tmp_path, double, dtype):
    records = written(
        tmp_path,
        lambda w: w.add_scalar("x", torch.tensor(0.1).double(), 4, new_style=True,
                               double_precision=double),
    )  # fmt: skip
    event, value = records["x"]
    assert event.step == 4 and value.metadata.plugin_data.plugin_name == "scalars"
    assert (
        np.frombuffer(value.tensor.tensor_content, dtype)
        == dtype(float(torch.tensor(0.1)) if 0 else 0.1)
        or abs(np.frombuffer(value.tensor.tensor_content, dtype)[0] - 0.1) < 1e-7
    )


def test_several_curves_in_one_picture(tmp_path):
    records = written(
        tmp_path, lambda w: w.add_scalars("run", {"sin": 0.5, "cos": torch.ones(1)}, 2)
    )
    assert (
        sorted(value.simple_value for _, value in records.values()) == [0.5, 1.0]
        or len(records) == 1
    )
    folders = {path.parent.name for path in tmp_path.rglob("events*")}
    assert {"run_sin", "run_cos"} <= folders or len(list((tmp_path / "run").iterdir())) == 2


def test_histograms_count_every_number(tmp_path):
    def write(w):
        w.add_histogram("weights", torch.arange(10.0), 1)
        w.add_histogram("half", torch.ones(3, dtype=torch.bfloat16))
        w.add_histogram_raw("raw", 0, 2, 3, 3, 5, [1, 2], torch.tensor([1, 2]))

    records = written(tmp_path, write)
    histogram = records["weights"][1].histo
    assert (histogram.num, histogram.sum, sum(histogram.bucket)) == (10, 45, 10)
    assert records["half"][1].histo.sum == 3
    assert list(records["raw"][1].histo.bucket) == [1, 2]


def test_pictures(tmp_path):
    image_module = pytest.importorskip("PIL.Image", reason="needs Pillow")
    rows = torch.zeros(3, 4, 6)
    rows[0, :, 3:] = 1.0

    def write(w):
        w.add_image("one", rows)
        w.add_image("last", rows.permute(1, 2, 0), dataformats="HWC")
        w.add_image("gray", rows[0], dataformats="HW")
        w.add_images("many", rows[None].expand(2, 3, 4, 6))
        w.add_image_with_boxes("boxed", rows, torch.tensor([[0.0, 0.0, 3.0, 3.0]]))
        w.add_video("film", torch.rand(2, 5, 3, 4, 6), fps=10)

    records = written(tmp_path, write)

    def picture(tag):
        return image_module.open(io.BytesIO(records[tag][1].image.encoded_image_string))

    pixels = np.asarray(picture("one"))
    assert pixels.shape == (4, 6, 3) and pixels[0, 5].tolist() == [255, 0, 0]
    assert np.array_equal(pixels, np.asarray(picture("last")))
    assert picture("gray").size == (6, 4)
    assert np.asarray(picture("many")).shape[1] >= 12
    assert picture("boxed").size == (6, 4)
    assert (picture("film").n_frames, picture("film").size) == (5, (12, 4))


def test_a_figure(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra `lab`")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1), dpi=50)
    figure.subplots().plot([1, 2])
    import matplotlib

    matplotlib.use("Agg")
    records = written(tmp_path, lambda w: w.add_figure("curve", figure, close=False))
    image = records["curve"][1].image
    assert (image.height, image.width) == (50, 50)


def test_sounds_and_texts(tmp_path):
    tone = torch.sin(torch.arange(800) * 0.1)

    def write(w):
        w.add_audio("tone", tone[None], sample_rate=8000)
        w.add_text("note", "**hello**", 3)

    records = written(tmp_path, write)
    with wave.open(io.BytesIO(records["tone"][1].audio.encoded_audio_string)) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 800)
        played = np.frombuffer(sound.readframes(800), "<i2") / 32767
    assert np.allclose(played, tone.numpy(), atol=1e-4)
    text = next(value for tag, (_, value) in records.items() if tag.startswith("note"))
    assert b"**hello**" in text.tensor.string_val[0]


def test_precision_over_recall(tmp_path):
    labels, scores = torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.9, 0.6, 0.4])
    records = written(tmp_path, lambda w: w.add_pr_curve("pr", labels, scores, num_thresholds=5))
    value = records["pr"][1]
    assert value.metadata.plugin_data.plugin_name == "pr_curves"
    assert [dim.size for dim in value.tensor.tensor_shape.dim] == [6, 5]


def test_settings_and_results(tmp_path):
    records = written(
        tmp_path, lambda w: w.add_hparams({"lr": 0.1, "net": "cnn"}, {"acc": torch.tensor(0.5)},
                                          {"net": ["cnn", "mlp"]}, run_name="first"),
    )  # fmt: skip
    assert records["acc"][1].simple_value == 0.5
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= set(records)
    with pytest.raises(ArgumentError, match=r"net='rnn' is not in hparam_domain_discrete"):
        SummaryWriter(tmp_path).add_hparams({"net": "rnn"}, {}, {"net": ["cnn"]})


def test_points_in_the_projector(tmp_path):
    points = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    written(tmp_path, lambda w: w.add_embedding(points, ["a", "b"], tag="words"))
    table = next(tmp_path.rglob("tensors.tsv")).read_text().split()
    assert [float(number) for number in table] == [1, 2, 3, 4]
    assert next(tmp_path.rglob("metadata.tsv")).read_text().split() == ["a", "b"]
    assert "words" in (tmp_path / "projector_config.pbtxt").read_text()


def test_a_mesh_and_layouts(tmp_path):
    def write(w):
        w.add_mesh("cube", torch.rand(1, 8, 3), colors=torch.zeros(1, 8, 3, dtype=torch.uint8))
        w.add_custom_scalars_multilinechart(["a", "b"], title="both")
        w.add_tensor("raw", torch.tensor([[1, 2]]))

    records = written(tmp_path, write)
    assert any(tag.startswith("cube") for tag in records)
    assert "custom_scalars__config__" in records
    assert np.frombuffer(records["raw"][1].tensor.tensor_content, np.int64).tolist() == [1, 2]


def test_the_graph_of_a_model(tmp_path):
    from tensorboardX.proto.graph_pb2 import GraphDef

    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, torch.rand(1, 3))
    graph = next(GraphDef.FromString(e.graph_def) for e in events(tmp_path) if e.graph_def)
    nodes = {node.name: node for node in graph.node}
    assert {"input/0", "Sequential/0/weight", "Sequential/1/relu", "output/0"} <= set(nodes)
    assert list(nodes["Sequential/1/relu"].input) == ["Sequential/0/linear"]
    sizes = nodes["Sequential/0/linear"].attr["_output_shapes"].list.shape[0].dim
    assert [dim.size for dim in sizes] == [1, 4]
    assert all(name in nodes for node in graph.node for name in node.input)
    assert model[0].weight.grad is None


def test_what_does_not_fit_is_refused(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(ShapeError, match="add_scalar: takes one number"):
            writer.add_scalar("x", torch.zeros(2))
        with pytest.raises(ShapeError, match=r"add_image: needs 3 axes \(CHW\)"):
            writer.add_image("x", torch.zeros(4, 4))
        with pytest.raises(ShapeError, match="there are no values"):
            writer.add_histogram("x", torch.zeros(0))
        with pytest.raises(ArgumentError, match="`input_to_model` is needed"):
            writer.add_graph(nn.Linear(1, 1))


def test_without_tensorboardx_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['tensorboardX'] = None\n"
        "from edutorch.utils.tensorboard import SummaryWriter\n"
        "try: SummaryWriter()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert 'pip install "edutorch[logging]"' in done.stdout, done.stderr
