"""`classroom similarity`: copies are listed, honest answers are not, and it says what it is not."""

from __future__ import annotations

import csv
import sys

import pytest

from edutorch.__main__ import main
from edutorch.classroom import similarity
from edutorch.classroom.exercise import find_exercise
from tests.classroom.test_class_grader import notebook, write

NORMALISE = find_exercise("05.normalise")
NAME = "05_reading_graphs.ipynb"

ORIGINAL = """\
def normalise(x):
    count = x.shape[1]
    mean = x.sum(1, keepdim=True) / count
    squares = ((x - mean) * (x - mean)).sum(1, keepdim=True) / count
    scale = torch.rsqrt(squares + 1e-6)
    return (x - mean) * scale
"""
COPY = '''\
# all my own work
def normalise(t):
    """Takes the mean away."""
    n = t.shape[1]  # columns

    m = t.sum(1, keepdim=True) / n
    # the variance
    v = ((t - m) * (t - m)).sum(1, keepdim=True) / n
    s = torch.rsqrt(v + 1e-6)
    return (t - m) * s
'''
HONEST = {
    "carol": """\
def normalise(x):
    rows = []
    for row in x:
        row = row - row.mean()
        spread = torch.sqrt(torch.dot(row, row) / row.numel() + 1e-8)
        rows.append(row / spread)
    return torch.stack(rows)
""",
    "dan": """\
def normalise(x):
    variance, mean = torch.var_mean(x, dim=1, unbiased=False, keepdim=True)
    return (x - mean) * (variance + 1e-5) ** -0.5
""",
    "erin": """\
def normalise(x):
    deviation = x - x.mean(dim=-1).unsqueeze(-1)
    sigma = deviation.pow(2).mean(dim=-1).add(0.00001).sqrt()
    return deviation.div(sigma.unsqueeze(-1))
""",
    "frank": NORMALISE.solution.replace("centred", "difference"),  # what the notebook shows
    "gil": NORMALISE.starter,
}


@pytest.fixture
def folder(tmp_path):
    for name, code in {"ada": ORIGINAL, "bob": COPY, **HONEST}.items():
        write(tmp_path / "class" / name / NAME, notebook(("cell-32", code)))
    return tmp_path


def report(folder, *options):
    return main(
        [
            "classroom", "similarity", str(folder / "class"), "--out", str(folder / "out"),
            "--only", "05.normalise", *options,
        ]
    )  # fmt: skip


def rows(folder):
    with (folder / "out" / "similar.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def copydetect():
    pytest.importorskip("copydetect", reason="needs the extra `classroom-report`")


@pytest.mark.usefixtures("copydetect")
def test_a_renamed_copy_is_listed_and_nobody_else(folder, capsys):
    assert report(folder) == 0
    (row,) = rows(folder)
    assert (row["exercise"], row["student"], row["other student"]) == ("05.normalise", "ada", "bob")
    assert min(float(row["share"]), float(row["share of the other"])) > 0.85
    assert "1 pair of similar answers: " in capsys.readouterr().out


@pytest.mark.usefixtures("copydetect")
def test_a_copy_comes_first_whatever_the_threshold(folder):
    assert report(folder, "--threshold", "0.01") == 0
    first, *others = rows(folder)
    assert {first["student"], first["other student"]} == {"ada", "bob"}
    assert all(max(float(row["share"]), float(row["share of the other"])) < 0.5 for row in others)


@pytest.mark.usefixtures("copydetect")
def test_a_copy_with_more_around_it_is_listed(folder):
    more = (
        ORIGINAL + "\n\ndef unrelated(y):\n    return [y.cos(), y.sin().exp() - y.log1p()][::2]\n"
    )
    write(folder / "class" / "bob" / NAME, notebook(("cell-32", more)))
    assert report(folder, "--threshold", "1") == 0
    (row,) = rows(folder)
    assert float(row["share"]) == 1 and 0.5 < float(row["share of the other"]) < 1


@pytest.mark.usefixtures("copydetect")
def test_helpers_in_other_cells_belong_to_an_answer(folder):
    helper = ORIGINAL.replace("normalise", "helper")
    for name in ("ada", "bob"):
        code = "def normalise(x):\n    return helper(x)"
        write(folder / "class" / name / NAME, notebook(("mine", helper), ("cell-32", code)))
    assert report(folder) == 0
    assert len(rows(folder)) == 1


@pytest.mark.usefixtures("copydetect")
def test_cells_of_the_notebook_are_no_own_code(folder):
    write(folder / "course" / NAME, notebook(("a", ORIGINAL)))
    assert report(folder, "--notebooks", str(folder / "course")) == 0
    assert rows(folder) == []
    page = (folder / "out" / "similar.html").read_text(encoding="utf-8")
    assert "No pair is." in page


@pytest.mark.usefixtures("copydetect")
def test_what_a_tenth_of_a_large_class_writes_is_common(folder, monkeypatch):
    monkeypatch.setattr(similarity, "COMMON_STUDENTS", 2)
    write(folder / "class" / "hal" / NAME, notebook(("cell-32", COPY)))
    assert report(folder) == 0
    assert rows(folder) == []


@pytest.mark.usefixtures("copydetect")
def test_the_page_says_that_it_is_no_proof_and_needs_nothing_else(folder):
    assert report(folder) == 0
    page = (folder / "out" / "similar.html").read_text(encoding="utf-8")
    assert "This is no proof." in page and "talk with both students" in page
    assert page.count("<mark>") >= 2
    assert "keepdim=True) / n\n" in page
    for part in ("http:", "https:", "src=", "<script", "@import", "url("):
        assert part not in page


@pytest.mark.usefixtures("copydetect")
def test_names_and_codes_are_escaped(folder):
    evil = "</pre><script>alert(1)</script>"
    for name in ("=cmd()", "<img src=x onerror=alert(1)>"):
        code = ORIGINAL.replace("1e-6", "1e-6  # " + evil)
        write(folder / "class" / name / NAME, notebook(("cell-32", code)))
    assert report(folder) == 0
    page = (folder / "out" / "similar.html").read_text(encoding="utf-8")
    assert "<script" not in page and "<img" not in page
    assert "&lt;script&gt;alert(1)" in page and "&lt;img src=x" in page
    assert {row["student"] for row in rows(folder)} >= {"'=cmd()"}


@pytest.mark.usefixtures("copydetect")
def test_two_runs_give_equal_files(folder, tmp_path):
    assert report(folder) == 0
    first = [(folder / "out" / name).read_bytes() for name in ("similar.csv", "similar.html")]
    for path in (folder / "out").iterdir():
        path.unlink()
    assert report(folder) == 0
    assert first == [
        (folder / "out" / name).read_bytes() for name in ("similar.csv", "similar.html")
    ]


@pytest.mark.usefixtures("copydetect")
def test_what_cannot_be_read_is_said_and_the_rest_compared(folder, capsys):
    write(folder / "class" / "ivy" / NAME, "{")
    write(folder / "class" / "jo" / NAME, notebook(("cell-32", "def normalise(x:")))
    assert report(folder) == 1
    assert "ivy/05_reading_graphs.ipynb: is no JSON" in capsys.readouterr().err
    assert len(rows(folder)) == 1


@pytest.mark.usefixtures("copydetect")
def test_a_folder_that_is_not_empty_is_left_alone(folder, capsys):
    write(folder / "out" / "mine.txt", "mine")
    assert report(folder) == 1
    assert "out' is not empty" in capsys.readouterr().err
    assert [path.name for path in (folder / "out").iterdir()] == ["mine.txt"]


@pytest.mark.usefixtures("copydetect")
def test_no_folder_and_unknown_exercises(folder, capsys):
    assert report(folder, "--only", "05.zoo") == 1
    assert "there is no exercise '05.zoo'" in capsys.readouterr().err
    assert main(["classroom", "similarity", str(folder / "none"), "--out", str(folder / "o")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert not (folder / "out").exists() and not (folder / "o").exists()


@pytest.mark.parametrize("threshold", ["0", "1.5", "nan"])
def test_a_threshold_is_a_share(threshold, folder, capsys):
    with pytest.raises(SystemExit):
        report(folder, "--threshold", threshold)
    assert "must be above 0 and at most 1" in capsys.readouterr().err


def test_without_the_library_the_extra_is_named(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "copydetect", None)
    assert report(folder) == 1
    error = capsys.readouterr().err
    assert "copydetect is not installed" in error
    assert 'pip install "edutorch[classroom-report]"' in error
    assert not (folder / "out").exists()
