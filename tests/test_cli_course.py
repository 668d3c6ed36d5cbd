"""`edutorch course`: the list, the copies that are never overwritten, progress, and bad input."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edutorch.__main__ import main
from edutorch.cli import course, lab, lesson_files, lessons
from edutorch.utils.course_folder import course_folder

ROOT = Path(__file__).resolve().parent.parent


def markdown(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def check_cell(id, *outputs):
    source = [f'torch.check("{id}")']
    tags = {"tags": ["check"]}
    return {"cell_type": "code", "metadata": tags, "source": source, "outputs": list(outputs)}


def result(text):
    data = {"text/plain": text.splitlines(keepends=True), "text/html": "<b>…</b>"}
    return {"output_type": "execute_result", "data": data, "metadata": {}}


def notebook(title, *cells, **said):
    metadata = {"edutorch": said} if said else {}
    return {"cells": [markdown(f"# {title}\n\nText."), *cells], "metadata": metadata}


README = """
# notebooks

## I. From a number to a network

| lesson | question | minutes | needs |
|:--|:--|--:|:--|
| `00_tour.ipynb` | What is it? | 5 | – |
| `03_shapes.ipynb` | Who sums? | 60 | – |

## III. Seeing

- `14_a_net.ipynb`: nuclei.

## Paths
"""

LESSONS = {
    "00_tour": notebook("A tour"),
    "03_shapes": notebook("Shapes", check_cell("03.add"), check_cell("03.view")),
    "14_a_net": notebook(
        "A net", check_cell("14.skip"), part="III", packages=["no_such_package"], needs=["gpu"]
    ),
    "20_a_net_again": notebook("Another net", part="V", packages=["numpy"], needs=[]),
}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The course as a wheel carries it, and an empty folder to work in, with a space."""
    package = tmp_path / "site-packages" / "edutorch"
    folder = package / "_notebooks"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(README, encoding="utf-8")
    for stem, content in LESSONS.items():
        (folder / f"{stem}.ipynb").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(lessons, "PACKAGE", package)
    home = tmp_path / "Ada's files"
    home.mkdir()
    monkeypatch.chdir(home)
    return folder


@pytest.fixture
def started(monkeypatch):
    """What JupyterLab would have been started with."""
    calls = []

    def start(notebook, arguments):
        calls.append((notebook, arguments))
        return 0

    monkeypatch.setattr(lab, "start_jupyterlab", start)
    return calls


def run(capsys, *arguments):
    """Return the exit code, what was printed, and the error."""
    code = main(["course", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def row_of(number, text):
    (row,) = [line for line in text.splitlines() if line.startswith(f"  {number}  ")]
    return row


# The list ------------------------------------------------------------------------------------


def test_the_lessons_are_listed_by_part(installed, capsys):
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert row_of("00", out).split() == ["00", "A", "tour", "5", "min"]
    assert row_of("03", out).split("  ")[1:3] == ["03", "Shapes"]
    assert "60 min" in row_of("03", out) and "2 exercises" in row_of("03", out)
    needs = row_of("14", out).partition("needs ")[2]
    assert needs == 'a GPU for some cells; pip install "edutorch[course]"'
    assert "needs" not in row_of("20", out), "numpy is installed"
    heads = [line for line in out.splitlines() if line[:1] in "IV" and line]
    assert heads == ["I. From a number to a network", "III. Seeing", "V"]
    assert "0 of 3 exercises are right" in out
    assert not Path("notebooks").exists(), "listing writes nothing"


def test_lessons_are_listed_without_a_readme_and_without_metadata(installed, capsys):
    (installed / "README.md").unlink()
    (installed / "03_shapes.ipynb").write_text('{"cells": [], "metadata": {"edutorch": null}}')
    code, out, _ = run(capsys)
    assert code == 0
    assert row_of("03", out).split() == ["03", "shapes"]


def test_progress_is_read_from_the_outputs_of_checks(installed, capsys):
    folder = Path("notebooks")
    folder.mkdir()
    answered = notebook(
        "Shapes",
        check_cell("03.add", result("✓ 03.add: right, 3 of 3 cases")),
        check_cell("03.view", result("✗ 03.view, attempt 2: ✓ 03.view: right is not what it is")),
        {**check_cell("03.more", result("✓ 03.more: right, 3 of 3 cases")), "metadata": {}},
        check_cell("03.sum", {"output_type": "stream", "text": "✓ 03.sum: right, 1 of 1 cases\n"}),
    )
    (folder / "03_shapes.ipynb").write_text(json.dumps(answered), encoding="utf-8")
    _, out, _ = run(capsys)
    assert "2 of 3 right" in row_of("03", out)
    assert "2 of 4 exercises are right" in out
    _, out, _ = run(capsys, "--folder", str(Path("elsewhere")))
    assert "2 exercises" in row_of("03", out)


def test_progress_is_what_check_says(installed):
    """The sentence is that of `edutorch.check`, as Jupyter saves it."""
    import edutorch

    names = {"gradient_of_logits": lambda z, right: z.softmax(0)}
    feedback = edutorch.check("02.softmax", names, seed=0)
    wrong = result(feedback._repr_mimebundle_()[0]["text/plain"])
    assert lessons.progress(notebook("2", check_cell("02.softmax", wrong))) == (0, 1)
    exercise = feedback.outcome.exercise
    scope = {"torch": edutorch, "F": edutorch.nn.functional}
    exec(exercise.solution, scope)
    right = result(str(edutorch.check("02.softmax", scope, seed=0)))
    assert lessons.progress(notebook("2", check_cell("02.softmax", right))) == (1, 1)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"cells": 3}', b"\xff\xfe", b"[" * 100_000,
        b'{"cells"', "✓".encode("utf-16"),
    ],
)  # fmt: skip
def test_a_damaged_notebook_is_named_and_the_others_are_listed(installed, content, capsys, started):
    file = Path("notebooks/03_shapes.ipynb")
    file.parent.mkdir()
    file.write_bytes(content)
    code, out, err = run(capsys)
    assert code == 2
    assert "damaged" in row_of("03", out) and "1 exercise" in row_of("14", out)
    assert err.startswith(f"edutorch course: {file.resolve()}: is damaged, or no notebook\n")
    assert "edutorch course --reset 03" in err and len(err.splitlines()) == 2
    code, out, err = run(capsys, "03")
    assert code == 2 and "is damaged" in err and started == []
    code, out, err = run(capsys, "--reset", "03")
    assert (code, err) == (0, "")
    assert file.with_name("03_shapes.old-1.ipynb").read_bytes() == content
    assert run(capsys)[0] == 0


@pytest.mark.parametrize(
    "cells",
    [
        [3, None, "x"],
        [{"cell_type": "code", "metadata": None, "outputs": 7, "source": None}],
        [{"cell_type": "code", "metadata": {"tags": "check"}}],
        [check_cell("03.add", 5, {"data": []}, {"data": {"text/plain": 3}}, {"text": [1, "✓"]})],
    ],
)
def test_strange_cells_are_no_progress(installed, cells, capsys):
    Path("notebooks").mkdir()
    text = json.dumps({"cells": cells, "metadata": 3})
    Path("notebooks/03_shapes.ipynb").write_text(text)
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert "0 of" in row_of("03", out) or "opened" in row_of("03", out)


def test_a_course_that_is_not_installed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lessons, "PACKAGE", tmp_path / "a" / "edutorch")
    code, _, err = run(capsys)
    assert code == 2
    assert err.startswith("edutorch course: the notebooks of the course are not installed\n")


def test_a_damaged_installation(installed, capsys):
    (installed / "03_shapes.ipynb").write_text("{")
    code, _, err = run(capsys)
    assert code == 2
    assert "is damaged" in err and "pip install --force-reinstall" in err


# Opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["03"], ["open", "03"], ["3"], ["shapes"], ["03_shapes.ipynb"]])
def test_a_lesson_is_copied_once_and_opened(installed, words, started, capsys):
    target = Path("notebooks/03_shapes.ipynb").resolve()
    assert run(capsys, *words)[0] == 0
    assert target.read_bytes() == (installed / "03_shapes.ipynb").read_bytes()
    target.write_text('{"cells": [], "mine": 1}')
    assert run(capsys, *words)[0] == 0
    assert json.loads(target.read_text())["mine"] == 1
    assert started == [(target, [])] * 2
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_other_options_are_jupyterlabs(installed, started, capsys, tmp_path):
    other = tmp_path / "my course"
    code, _, _ = run(capsys, "open", "--folder", str(other), "03", "--no-browser", "--port", "8899")
    assert code == 0
    assert started == [(other / "03_shapes.ipynb", ["--no-browser", "--port", "8899"])]


def test_what_a_lesson_needs_is_said_when_it_is_opened(installed, started, capsys):
    _, out, _ = run(capsys, "14")
    assert out == '14_a_net needs a GPU for some cells; pip install "edutorch[course]"\n'


def test_jupyterlab_shows_a_folder_with_spaces(tmp_path, monkeypatch):
    labapp = pytest.importorskip("jupyterlab.labapp", reason="needs the extra `lab`")
    calls = []
    monkeypatch.setattr(labapp, "main", calls.append)
    monkeypatch.setattr(lab, "faster_blas", dict)
    monkeypatch.setattr(lab.kernels, "is_available", lambda: False)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    path = tmp_path / "Ada's files" / "my 100% course" / "03_shapes.ipynb"
    lab.start_jupyterlab(path, ["--port", "1"])
    ((root, url, *rest),) = calls
    assert root == f"--ServerApp.root_dir={tmp_path / chr(65)}da's files"
    assert url == "--LabApp.default_url=/lab/tree/my%20100%25%20course/03_shapes.ipynb"
    assert rest[-2:] == ["--port", "1"]


def test_without_jupyterlab_the_extra_is_named_and_nothing_is_written(
    installed, monkeypatch, capsys
):
    real = lab.importlib.util.find_spec
    monkeypatch.setattr(
        lab.importlib.util, "find_spec", lambda name: None if name == "jupyterlab" else real(name)
    )
    code, _, err = run(capsys, "03")
    assert code == 1 and 'pip install "edutorch[lab]"' in err
    assert not Path("notebooks").exists()


# --reset -------------------------------------------------------------------------------------


def test_reset_moves_the_old_file_aside(installed, started, capsys):
    folder = Path("notebooks")
    fresh = (installed / "03_shapes.ipynb").read_text()
    code, out, _ = run(capsys, "--reset", "03")
    assert code == 0 and out.endswith("03_shapes.ipynb: new\n")
    for number in (1, 2):
        (folder / "03_shapes.ipynb").write_text(f"mine {number}")
        code, out, _ = run(capsys, "03", "--reset")
        assert code == 0 and f"the old one is 03_shapes.old-{number}.ipynb" in out
        assert (folder / f"03_shapes.old-{number}.ipynb").read_text() == f"mine {number}"
        assert (folder / "03_shapes.ipynb").read_text() == fresh
    assert started == []
    assert run(capsys, "open", "--reset", "03")[0] == 0
    assert len(started) == 1
    assert len(list(folder.iterdir())) == 4


def test_the_courses_own_file_is_not_reset(installed, capsys):
    before = (installed / "03_shapes.ipynb").read_bytes()
    code, _, err = run(capsys, "--folder", str(installed), "--reset", "03")
    assert code == 2
    assert "is the course's own file" in err
    assert (installed / "03_shapes.ipynb").read_bytes() == before
    assert not list(installed.glob("*.old-*"))


def test_old_files_are_not_handed_in(tmp_path):
    from edutorch.classroom.hand_in import read_notebooks

    for name in ("03_shapes.ipynb", "03_shapes.old-1.ipynb"):
        (tmp_path / name).write_text('{"cells": []}')
    assert list(read_notebooks(tmp_path)) == ["03_shapes.ipynb"]


# Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (["99"], "there is no lesson '99'", "there are 00, 03, 14, 20"),
        (["--reset", "22"], "there is no lesson '22'", "there are 00, 03, 14, 20"),
        ([""], "there is no lesson ''", "there are"),
        (["../../etc/passwd"], "there is no lesson", "there are"),
        (["a_net"], "'a_net' could be 14_a_net, 20_a_net_again", "give the whole name"),
        (["03", "14"], "one lesson at a time, got 03 14", ""),
        (["--reset"], "--reset which lesson?", "edutorch course --reset 03"),
        (["open"], "open which lesson?", "edutorch course open 03"),
        (["--port", "8899"], "one lesson at a time|there is no lesson|unknown arguments", ""),
        (["--reset", "03", "--port=1"], "unknown arguments: --port=1", ""),
    ],
)
def test_a_wrong_call_is_one_sentence(installed, arguments, sentence, hint, capsys, started):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert any(err.startswith(f"edutorch course: {part}") for part in sentence.split("|")), err
    assert hint in err and "Traceback" not in err
    assert started == [] and not Path("notebooks").exists()


def test_two_lessons_of_one_number(installed, capsys):
    (installed / "03_other.ipynb").write_text(json.dumps(notebook("Other")))
    code, _, err = run(capsys, "03")
    assert code == 2 and "'03' could be 03_shapes, 03_other" in err
    assert run(capsys, "--reset", "03_other")[0] == 0


@pytest.mark.parametrize("arguments", [["03"], ["--reset", "03"]])
def test_a_folder_that_cannot_be_written(installed, arguments, capsys, started, monkeypatch):
    Path("notebooks").write_text("a file")
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "03_shapes.ipynb cannot be written (" in err and "--folder FOLDER" in err
    assert Path("notebooks").read_text() == "a file" and started == []

    def denied(self, *args, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "mkdir", denied)
    code, _, err = run(capsys, *arguments, "--folder", "other")
    assert code == 2
    assert "cannot be written (Permission denied)" in err


def test_an_own_notebook_opens_in_a_folder_that_cannot_be_written(installed, started, monkeypatch):
    Path("notebooks").mkdir()
    Path("notebooks/03_shapes.ipynb").write_text('{"cells": []}')

    def denied(*args, **options):
        raise AssertionError("nothing is to be written")

    monkeypatch.setattr("builtins.open", denied)
    assert main(["course", "03"]) == 0
    assert len(started) == 1


@pytest.mark.parametrize("arguments", [["03"], ["--reset", "03"]])
def test_a_full_disk_leaves_everything_as_it_was(installed, arguments, capsys, monkeypatch):
    folder = Path("notebooks")
    folder.mkdir()
    if "--reset" in arguments:
        (folder / "03_shapes.ipynb").write_text("mine")

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(lesson_files.os, "fsync", full)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "cannot be written (No space left on device)" in err
    left = {path.name: path.read_text() for path in folder.iterdir()}
    assert left == ({"03_shapes.ipynb": "mine"} if "--reset" in arguments else {})


def test_a_file_that_appears_meanwhile_is_kept(installed, monkeypatch):
    """Somebody saves a notebook while its copy is being made."""
    source, target = installed / "03_shapes.ipynb", Path("notebooks/03_shapes.ipynb")
    real = os.fsync

    def save_meanwhile(file):
        target.write_text("mine")
        return real(file)

    monkeypatch.setattr(lesson_files.os, "fsync", save_meanwhile)
    with pytest.raises(FileExistsError):
        lesson_files.copy_new(source, target)
    assert [path.read_text() for path in target.parent.iterdir()] == ["mine"]


def test_a_file_system_without_links(installed, monkeypatch):
    def no_links(*args, **options):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(lesson_files.os, "link", no_links)
    source, target = installed / "03_shapes.ipynb", Path("notebooks/03_shapes.ipynb")
    lesson_files.copy_new(source, target)
    target.write_text("mine")
    with pytest.raises(FileExistsError):
        lesson_files.move_new(source, target)
    assert lesson_files.copy_fresh(source, target).read_text() == "mine"
    assert source.exists() and target.read_bytes() == source.read_bytes()


def test_many_at_once_make_one_copy(installed):
    source, target = installed / "03_shapes.ipynb", Path("notebooks/03_shapes.ipynb").resolve()
    code = (
        "import sys; from pathlib import Path; from edutorch.cli.lesson_files import copy_new\n"
        "try: copy_new(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except FileExistsError: pass\nelse: print('made')"
    )
    command = [sys.executable, "-c", code, str(source), str(target)]
    made = []

    def start():
        made.append(subprocess.run(command, capture_output=True, text=True, cwd=ROOT))

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [done.stderr for done in made] == [""] * 3
    assert sum(done.stdout == "made\n" for done in made) == 1
    assert [path.name for path in target.parent.iterdir()] == [target.name]


# The real course -----------------------------------------------------------------------------


def test_the_notebooks_of_this_checkout_are_listed():
    done = subprocess.run(
        [sys.executable, "-m", "edutorch", "course"], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    stems = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    listed = [line[2:4] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert sorted(listed) == [stem[:2] for stem in stems]


def test_every_lesson_has_a_part_a_title_and_minutes():
    for lesson in lessons.read_lessons():
        assert lesson.part and lesson.minutes, f"{lesson.path.stem}: see notebooks/README.md"
        assert lesson.title != lesson.path.stem[3:].replace("_", " ")


def test_the_wheel_carries_the_course():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "notebooks" in wheel["only-include"]
    assert wheel["sources"]["notebooks"] == "edutorch/_notebooks"
    assert course_folder() == ROOT / "notebooks"


def test_other_commands_do_not_read_the_course():
    code = (
        "import sys\nfrom edutorch.__main__ import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.endswith('datasets')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr
    assert course.add_options.__module__ == "edutorch.cli.course"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no `head`")
def test_a_reader_that_ends_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m edutorch course | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""
