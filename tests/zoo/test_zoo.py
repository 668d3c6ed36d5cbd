"""The list of models, their sizes, and the network that reads digits."""

import subprocess
import sys

import pytest

from edutorch.__main__ import main
from edutorch.zoo import digits_cnn
from edutorch.zoo.catalogue import find_model, list_entries
from edutorch.zoo.figures import measure, read_figures


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "gpt2", "digits_cnn"])
def test_the_sizes_are_those_in_the_file(name):
    assert measure(find_model(name)) == read_figures()[name]._replace(error=None)


def test_every_model_is_listed_with_its_sizes(capsys):
    assert {entry.name for entry in list_entries()} == set(read_figures())
    assert main(["zoo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if line.startswith("resnet50 "))
    *sizes, error, oracle = line.split()
    assert sizes == ["resnet50", "25.56", "M", "102.4", "MB", "8.18", "G"]
    assert float(error) < 1e-5 and oracle == "torchvision"
    assert any(line.startswith("char_gpt ") and "bits for a character" in line for line in lines)


def test_a_model_is_shown_and_drawn(capsys, tmp_path):
    picture = tmp_path / "digits.dot"
    assert main(["zoo", "digits_cnn", "-o", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "Conv2d" in out and "320 parameters" in out and f"drawn: {picture}" in out
    assert picture.read_text().startswith("digraph")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["resnet81"], "there is no model 'resnet81'\n  hint: did you mean resnet18"),
        (["zzz"], "python -m edutorch zoo lists all"),
        (["digits_cnn", "-o", "a.bmp"], "'.bmp' is no format of a picture"),
        (["-o", "a.svg"], "which model is to be drawn?"),
    ],
)
def test_bad_input_is_named(arguments, sentence, capsys):
    assert main(["zoo", *arguments]) == 1
    assert sentence in capsys.readouterr().err


def test_the_digits_are_read():
    assert digits_cnn.measure_accuracy(digits_cnn.load_digits_cnn()) == pytest.approx(
        digits_cnn.ACCURACY, abs=0.003
    )
    assert digits_cnn.WEIGHTS.stat().st_size < 100_000
    done = subprocess.run(
        [sys.executable, "-m", "edutorch.zoo.digits_cnn"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("accuracy on the test set: 97.")


def test_training_the_digits_in_small():
    model = digits_cnn.train(epochs=2)
    assert digits_cnn.measure_accuracy(model) > 0.7
