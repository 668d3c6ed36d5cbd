"""`classroom pack`: a folder for a class without a network. A stand-in for pip makes the wheels."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest

from edutorch.__main__ import main
from edutorch.classroom import pack
from edutorch.classroom.pack_targets import (
    PLATFORMS,
    Target,
    missing_requirements,
    platform_tags,
    this_machine,
)
from tests.classroom.test_class_grader import write

# As pip does, it asks the machine that it runs on for the markers: what only others need is left.
PIP = """
import pathlib, sys, zipfile

NEEDS = {
    "edutorch": ["numpy>=2", "jupyterlab>=4; extra == 'lab'"],
    "jupyterlab": ["tornado", "pywinpty; os_name == 'nt'", "appnope; sys_platform == 'darwin'"],
    "pywinpty": ["conpty"], "numpy": [], "tornado": [], "appnope": [], "conpty": [],
}

def make(folder, name, tags):
    needs = "".join(f"Requires-Dist: {need}\\n" for need in NEEDS[name])
    with zipfile.ZipFile(folder / f"{name}-4.5-{tags}.whl", "w") as archive:
        archive.writestr(
            f"{name}-4.5.dist-info/METADATA",
            f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 4.5\\n{needs}\\nText.",
        )

def values(option):
    return [after for before, after in zip(arguments, arguments[1:]) if before == option]

arguments = [argument for argument in sys.argv[1:] if argument != "--disable-pip-version-check"]
home = pathlib.Path(__file__).parent.parent
with (home / "log").open("a") as log:
    log.write(" ".join(arguments) + "\\n")
if (home / "fails").exists():
    sys.exit("WARNING: no cache\\nERROR: No version of numpy\\nERROR: No numpy for you")
if arguments[0] == "wheel":
    make(pathlib.Path(values("--wheel-dir")[0]), "edutorch", "py3-none-any")
    sys.exit()
folder, python = pathlib.Path(values("--dest")[0]), values("--python-version")[0].replace(".", "")
needed = [argument for argument in arguments if "edutorch-" in argument] and ["edutorch"]
needed += [name for name in NEEDS if any(argument.startswith(name) for argument in arguments)]
if "edutorch" in needed:
    needed += ["numpy", "jupyterlab", "tornado"]
absent = (home / "absent").read_text() if (home / "absent").exists() else ""
for name in needed:
    if name == "numpy":
        make(folder, name, f"cp{python}-cp{python}-{values('--platform')[0]}")
    elif name not in ("edutorch", absent):
        make(folder, name, "py3-none-any")
"""


@pytest.fixture
def course(tmp_path, monkeypatch):
    write(tmp_path / "pip" / "__init__.py", "")
    write(tmp_path / "pip" / "__main__.py", PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    write(tmp_path / "course" / "02_backprop_by_hand.ipynb", '{"cells": []}')
    return tmp_path


def make_pack(course, *options):
    notebooks = [] if "--notebooks" in options else ["--notebooks", str(course / "course")]
    return main(["classroom", "pack", str(course / "pack"), *notebooks, *options])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# The folder --------------------------------------------------------------------------------------


def test_a_pack_has_wheels_for_each_platform_and_python(course, capsys):
    options = ["--platform", "windows", "--platform", "linux", "--python", "3.12"]
    assert make_pack(course, *options, "--python", "3.13") == 0
    assert names(course / "pack") == [
        "README.txt", "hand_in.bat", "hand_in.sh", "notebooks", "start.bat", "start.sh", "wheels",
    ]  # fmt: skip
    assert names(course / "pack" / "notebooks") == ["02_backprop_by_hand.ipynb"]
    wheels = names(course / "pack" / "wheels")
    for python in ("cp312", "cp313"):
        for platform in ("win_amd64", "manylinux_2_28_x86_64"):
            assert f"numpy-4.5-{python}-{python}-{platform}.whl" in wheels
    # What only Windows needs, and what that needs; nothing that only macOS needs.
    assert {"pywinpty-4.5-py3-none-any.whl", "conpty-4.5-py3-none-any.whl"} <= set(wheels)
    assert "appnope-4.5-py3-none-any.whl" not in wheels
    assert "edutorch-4.5-py3-none-any.whl" in wheels
    assert "for windows, Python 3.12, windows, Python 3.13, linux" in capsys.readouterr().out


def test_the_readme_says_what_is_needed_and_how_to_hand_in(course):
    assert make_pack(course, "--platform", "windows", "--platform", "macos-arm",
                     "--python", "3.12") == 0  # fmt: skip
    text = (course / "pack" / "README.txt").read_text(encoding="utf-8")
    assert "Python 3.12, on Windows 10 or 11 (64 bits) or macOS 13 or newer" in text
    for part in ("start.bat", "sh start.sh", "hand_in.bat", "hand_in/<your name>.zip"):
        assert part in text
    assert "@" not in text


def test_extras_and_a_wheel_of_ones_own(course):
    assert make_pack(course) == 0
    wheel = course / "edutorch-4.5-py3-none-any.whl"
    wheel.write_bytes((course / "pack" / "wheels" / wheel.name).read_bytes())
    (course / "pack").rename(course / "first")
    assert make_pack(course, "--wheel", str(wheel), "--extra", "lab", "--extra", "fast") == 0
    assert '"edutorch[lab,fast]"' in (course / "pack" / "start.sh").read_text()
    log = (course / "log").read_text().splitlines()
    assert [line.split()[0] for line in log] == ["wheel", "download", "download"]
    assert log[-1].endswith("edutorch-4.5-py3-none-any.whl[lab,fast]")
    assert "--only-binary=:all:" in log[-1]


def test_this_machine_is_the_default(course, capsys):
    assert make_pack(course) == 0
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"for {this_machine()}, Python {version}" in capsys.readouterr().out


def test_the_notebooks_of_the_course_are_the_default(course):
    assert main(["classroom", "pack", str(course / "pack")]) == 0
    assert "01_scalar_autograd.ipynb" in names(course / "pack" / "notebooks")


# The scripts -------------------------------------------------------------------------------------

PYTHON = """\
#!/bin/sh
echo "$0 $*" >> "{log}"
if [ "$2" = venv ]; then mkdir -p .venv/bin; cp "$0" .venv/bin/python; fi
"""


@pytest.mark.skipif(os.name != "posix", reason="a script for sh")
def test_the_start_script_installs_once_without_a_network(course):
    assert make_pack(course, "--python", "3.12") == 0
    folder, log = course / "pack", course / "calls"
    write(course / "bin" / "python3.12", PYTHON.format(log=log))
    (course / "bin" / "python3.12").chmod(0o755)
    path = {"PATH": f"{course / 'bin'}:/usr/bin:/bin"}
    assert subprocess.run(["sh", folder / "hand_in.sh"], env=path, check=False).returncode == 1
    for _ in range(2):
        subprocess.run(["sh", folder / "start.sh", "--no-browser"], env=path, check=True, cwd="/")
    version, venv, install, *opened = log.read_text().splitlines()
    assert "sys.version_info[:2] not in [(3, 12)]" in version
    assert venv.endswith("-m venv --clear .venv")
    assert install.endswith("--no-index --find-links wheels edutorch[lab]")
    assert [line.partition(" ")[2] for line in opened] == ["-m edutorch lab --no-browser"] * 2
    subprocess.run(["sh", folder / "hand_in.sh", "--student", "ada"], env=path, check=True)
    last = log.read_text().splitlines()[-1]
    assert last.endswith("-m edutorch classroom hand-in notebooks --to hand_in --student ada")
    assert (folder / "start.sh").stat().st_mode & 0o111


@pytest.mark.skipif(os.name != "posix", reason="a script for sh")
def test_without_the_python_the_start_script_says_which(course):
    assert make_pack(course, "--python", "3.12", "--python", "3.13") == 0
    write(course / "bin" / "python3", "#!/bin/sh\nexit 1\n")
    (course / "bin" / "python3").chmod(0o755)
    write(course / "bin" / "dirname", "#!/bin/sh\necho " + str(course / "pack") + "\n")
    (course / "bin" / "dirname").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", course / "pack" / "start.sh"], env={"PATH": str(course / "bin")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Python 3.12 or 3.13 is needed, and was not found: see README.txt." in done.stderr
    assert not (course / "pack" / ".venv").exists()


def test_the_scripts_for_windows(course):
    assert make_pack(course, "--platform", "windows", "--python", "3.12") == 0
    for name in ("start.bat", "hand_in.bat"):
        content = (course / "pack" / name).read_bytes()
        assert content.count(b"\n") == content.count(b"\r\n") > 5
        assert b"@CHECK" not in content and b"@NAMES" not in content
    start = (course / "pack" / "start.bat").read_text()
    assert "for %%v in (3.12) do (" in start
    assert '--no-index --find-links wheels "edutorch[lab]"' in start
    assert ".venv\\Scripts\\python -m edutorch lab %*" in start


# Targets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_platform_has_tags_and_markers(name):
    target = Target(name, "3.12")
    tags = platform_tags(name)
    assert target.pip_options()[:4] == ["--implementation", "cp", "--python-version", "3.12"]
    assert target.pip_options().count("--platform") == len(tags) == len(set(tags)) > 0
    assert {"sys_platform", "os_name", "platform_machine"} <= target.environment.keys()
    written = {str(tag) for tag in target.tags()}
    assert {f"cp312-cp312-{tags[0]}", f"cp39-abi3-{tags[0]}", "py3-none-any"} <= written
    assert not any(tag.startswith("cp313") for tag in written)


def wheel(folder, name, tags="py3-none-any", *needs):
    project = name.split("-")[0]
    lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(folder / f"{name}-{tags}.whl", "w") as archive:
        archive.writestr(f"{name}.dist-info/METADATA", f"Name: {project}\n{lines}\n")


def test_what_is_missing_depends_on_the_platform(tmp_path):
    wheel(tmp_path, "a-1.0", "py3-none-any", "b>=2", "c[x]; os_name == 'nt'", "d; extra == 'y'")
    wheel(tmp_path, "b-1.0")
    wheel(tmp_path, "b-2.1", "cp312-cp312-manylinux_2_17_x86_64")
    wheel(tmp_path, "c-1.0", "py3-none-any", "e<3; extra == 'x'")
    linux, windows = Target("linux", "3.12"), Target("windows", "3.12")
    assert missing_requirements(tmp_path, "a", linux) == set()
    assert missing_requirements(tmp_path, "a", Target("linux", "3.13")) == {"b>=2"}
    assert missing_requirements(tmp_path, "a", windows) == {"b>=2", "e<3"}
    assert missing_requirements(tmp_path, "a[y]", linux) == {"d"}


# What goes wrong ---------------------------------------------------------------------------------


def test_what_pip_says_is_shown_and_nothing_is_left(course, capsys):
    write(course / "fails", "")
    assert make_pack(course) == 1
    error = capsys.readouterr().err
    assert "edutorch's own wheel could not be built. pip says: No numpy for you" in error
    assert "pack" not in names(course) and not any(".pack" in name for name in names(course))
    wheel(course, "edutorch-4.5", "py3-none-any")
    own = str(course / "edutorch-4.5-py3-none-any.whl")
    assert make_pack(course, "--wheel", own, "--platform", "windows", "--python", "3.12") == 1
    error = capsys.readouterr().err
    assert "the wheels for windows, Python 3.12 could not be downloaded. pip says:" in error
    assert "pack" not in names(course)


def test_what_pip_does_not_bring_is_named(course, capsys):
    write(course / "absent", "tornado")
    assert make_pack(course, "--platform", "linux", "--python", "3.12") == 1
    assert "the wheels for linux, Python 3.12 are incomplete: tornado" in capsys.readouterr().err
    assert "pack" not in names(course)


def test_a_folder_that_is_not_empty_is_left_alone(course, capsys):
    write(course / "pack" / "mine.txt", "mine")
    assert make_pack(course) == 1
    assert "pack' is not empty" in capsys.readouterr().err
    assert names(course / "pack") == ["mine.txt"] and not (course / "log").exists()


BAD = {
    "no notebooks": (["--notebooks", "none"], "there is no notebook in 'none'"),
    "no wheel": (["--wheel", "none.whl"], "'none.whl' is no wheel of edutorch"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said_before_anything_is_downloaded(name, course, capsys):
    options, sentence = BAD[name]
    assert make_pack(course, *options) == 1
    assert sentence in capsys.readouterr().err
    assert not (course / "pack").exists() and not (course / "log").exists()


@pytest.mark.parametrize("option", ["--python=3.10", "--python=2", "--platform=amiga"])
def test_unknown_targets_are_refused(option, course, capsys):
    with pytest.raises(SystemExit):
        make_pack(course, option)
    assert option.partition("=")[0] in capsys.readouterr().err


def test_without_a_checkout_the_wheel_is_asked_for(course, monkeypatch, capsys):
    monkeypatch.setattr(pack, "checkout", lambda: None)
    assert make_pack(course) == 1
    assert "name the wheel that it was installed from with --wheel FILE" in capsys.readouterr().err
    monkeypatch.setattr(pack, "course_folder", lambda: None)
    assert main(["classroom", "pack", str(course / "pack")]) == 1
    assert "name their folder with --notebooks FOLDER" in capsys.readouterr().err


def test_without_the_library_the_extra_is_named(course, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "packaging", None)
    assert make_pack(course) == 1
    assert 'pip install "edutorch[classroom-pack]"' in capsys.readouterr().err
