"""The command line: scripts written for PyTorch, the doctor, and JupyterLab's start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from edutorch import kernels
from edutorch.backends.blas import blas
from edutorch.cli import doctor, lab


def edutorch(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m edutorch` with `arguments`."""
    return subprocess.run(
        [sys.executable, "-m", "edutorch", *arguments], capture_output=True, text=True, cwd=folder
    )


@pytest.fixture
def script(tmp_path: Path):
    """Write a script; running it is up to the test."""

    def write(text: str, name: str = "script.py") -> str:
        file = tmp_path / name
        file.write_text(textwrap.dedent(text))
        return str(file)

    return write


# run ---------------------------------------------------------------------------------


def test_the_four_lines(script):
    path = script("""
        import torch
        x = torch.tensor(3.0, requires_grad=True); y = x**2 + 2*x + 1; y.backward()
        print(x.grad)
    """)
    done = edutorch("run", path)
    assert (done.stdout, done.stderr, done.returncode) == ("tensor(8.)\n", "", 0)


def test_every_form_of_import_gives_the_same_modules(script):
    path = script("""
        import torch, edutorch
        import torch.nn as nn
        import torch.nn.functional as F
        import torch.optim as optim
        import torch.utils.data
        import torch.autograd
        from torch import nn as nn2, Tensor
        from torch.utils.data import DataLoader, TensorDataset
        from torch.optim import Adam

        assert torch is edutorch and Tensor is edutorch.Tensor
        assert nn is nn2 is torch.nn is edutorch.nn
        assert F is nn.functional is edutorch.nn.functional
        assert optim.Adam is Adam is edutorch.optim.Adam
        assert DataLoader is edutorch.utils.data.DataLoader
        assert torch.autograd.grad is edutorch.autograd.grad
        assert edutorch.__spec__.name == "edutorch" and edutorch.__name__ == "torch"
        assert nn.__spec__.name == "edutorch.nn"
    """)
    done = edutorch("run", path)
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_script_sees_what_python_would_show_it(script, tmp_path):
    path = script("""
        import sys
        from neighbour import WORD
        if __name__ == "__main__":
            import __main__
            print(sys.argv[1:], sys.path[0], __file__, WORD, __main__.WORD)
            sys.exit(7)
    """)
    script("WORD = 'hello'", "neighbour.py")
    arguments = ["--lr", "0.1", "-h", "--", "name"]
    ours = edutorch("run", path, *arguments)
    plain = subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True)
    assert ours.stdout == plain.stdout
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr) == (7, "")


@pytest.mark.parametrize("text", ["def f():\n    return 1 / 0\nf()\n", "x = (\n"])
def test_a_traceback_shows_the_script_only(script, text):
    path = script(text)
    ours = edutorch("run", path)
    plain = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert ours.stderr == plain.stderr
    assert ours.returncode == plain.returncode == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch.no_such_part", "edutorch has no torch.no_such_part (yet)"),
        ("import torch; torch.no_such_op", "edutorch has no torch.no_such_op (yet)"),
        ("from torch import no_such_op", "edutorch has no torch.no_such_op (yet)"),
        ("from torch.nn import NoSuchLayer", "edutorch has no torch.nn.NoSuchLayer (yet)"),
    ],
)
def test_a_missing_name_is_named_as_the_script_calls_it(script, text, said):
    done = edutorch("run", script(text))
    assert said in done.stderr
    assert done.returncode == 1


def test_a_name_can_be_tried_for(script):
    done = edutorch("run", script("import torch; print(hasattr(torch, 'no_such_op'))"))
    assert done.stdout == "False\n"


def test_the_alias_comes_too_late_after_pytorch():
    code = (
        "import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n"
        "from edutorch import alias; alias.install()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "alias.install: PyTorch has already been imported in this process" in done.stderr
    assert "hint: install the alias before" in done.stderr


def test_a_script_that_is_not_there():
    done = edutorch("run", "nowhere.py")
    assert (done.returncode, done.stderr) == (2, "edutorch run: there is no file 'nowhere.py'\n")


# doctor ------------------------------------------------------------------------------


def test_the_doctor_is_content_and_says_what_it_sees():
    done = edutorch("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("Python", "numpy", "extra `lab`", "pygraphviz", "dot", "cuda"):
        assert word in done.stdout


def test_the_doctor_speaks_json(monkeypatch, capsys):
    from edutorch.__main__ import main

    monkeypatch.setattr(doctor, "_kernels", lambda section: doctor.Finding(section, "k", None, ""))
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {"core", "devices"} <= {finding["section"] for finding in findings}
    assert all(finding["ok"] in (True, None) for finding in findings)


def test_what_is_missing_comes_with_what_to_do(monkeypatch):
    real = doctor.importlib.util.find_spec

    def without_some(name: str):
        return None if name in ("anywidget", "safetensors") else real(name)

    monkeypatch.setattr(doctor.importlib.util, "find_spec", without_some)
    monkeypatch.setattr(doctor, "_kernels", lambda section: doctor.Finding(section, "k", None, ""))
    findings = doctor.examine()
    text = doctor.report(findings)
    assert 'pip install "edutorch[lab]"  for notebooks and live pictures' in text
    assert "pip install safetensors" in text
    (core,) = [finding for finding in findings if finding.ok is False]
    assert core.name == "safetensors"
    assert doctor.doctor(as_json=True) == 1


def test_a_new_cpu_gets_the_kernels_that_it_can_run(monkeypatch, tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(doctor, "CPUINFO", cpuinfo)
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setattr(doctor, "_blas_core", lambda: "Haswell")

    assert doctor.faster_blas() == {}  # not Linux
    cpuinfo.write_text("flags : fpu avx2 avx512f\n")
    assert doctor.faster_blas() == {}  # only some of the registers
    cpuinfo.write_text("flags : fpu avx2 avx512f avx512dq avx512bw avx512vl avx512cd\n")
    assert doctor.faster_blas() == {"OPENBLAS_CORETYPE": "SkylakeX"}
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert doctor.faster_blas() == {}  # somebody has decided
    monkeypatch.delenv("OPENBLAS_CORETYPE")
    monkeypatch.setattr(doctor, "_blas_core", lambda: "SkylakeX")
    assert doctor.faster_blas() == {}  # OpenBLAS knows this CPU


def test_a_script_is_started_anew_with_the_kernels_for_this_cpu(monkeypatch):
    from edutorch import __main__ as command_line

    started = []
    monkeypatch.setattr(os, "execve", lambda *args: started.append(args))
    monkeypatch.setattr(command_line, "faster_blas", lambda: {"OPENBLAS_CORETYPE": "SkylakeX"})
    monkeypatch.setattr(sys, "orig_argv", ["python", "-X", "dev", "-m", "edutorch", "run", "a.py"])
    command_line.restart_with_faster_blas()
    ((program, arguments, environment),) = started
    assert program == sys.executable
    assert arguments == [sys.executable, "-X", "dev", "-m", "edutorch", "run", "a.py"]
    assert environment["OPENBLAS_CORETYPE"] == "SkylakeX"

    monkeypatch.setattr(command_line, "faster_blas", dict)
    command_line.restart_with_faster_blas()
    assert len(started) == 1, "there is nothing to gain"


def test_the_users_own_choice_of_kernels_is_kept(tmp_path):
    if blas() is None or blas().core() is None:
        pytest.skip("NumPy's BLAS has no kernels to choose from")
    script = tmp_path / "script.py"
    script.write_text("import os; print(os.environ['OPENBLAS_CORETYPE'], os.getpid())")
    done = subprocess.run(
        [sys.executable, "-m", "edutorch", "run", str(script)], capture_output=True, text=True,
        check=True, env={**os.environ, "OPENBLAS_CORETYPE": "Haswell"},
    )  # fmt: skip
    assert done.stdout.startswith("Haswell ")


# lab ---------------------------------------------------------------------------------


def test_the_tour_of_a_checkout_is_opened_in_place(tmp_path):
    notebook = lab.tour_notebook(tmp_path)
    assert notebook == Path(__file__).parent.parent / "notebooks" / lab.TOUR
    assert notebook.is_file()


def test_an_installed_tour_is_copied_once(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "edutorch"
    (package / "_notebooks").mkdir(parents=True)
    (package / "_notebooks" / lab.TOUR).write_text("the tour")
    monkeypatch.setattr(lab, "_PACKAGE", package)

    notebook = lab.tour_notebook(tmp_path)
    assert notebook == tmp_path / "notebooks" / lab.TOUR
    assert notebook.read_text() == "the tour"
    notebook.write_text("my notes")
    assert lab.tour_notebook(tmp_path).read_text() == "my notes"


def test_jupyterlab_gets_its_own_options_and_asks_the_internet_nothing():
    """JupyterLab itself says what it has understood."""
    labapp = pytest.importorskip("jupyterlab.labapp", reason="needs the extra `lab`")
    done = edutorch("lab", "--no-browser", "--port", "8899", "--show-config-json")
    understood = json.loads(done.stdout)
    assert understood["ServerApp"]["port"] == 8899
    assert understood["ServerApp"]["open_browser"] is False
    assert understood["LabApp"]["default_url"] == f"/lab/tree/notebooks/{lab.TOUR}"

    traits = labapp.LabApp.class_traits()
    option = understood["LabApp"]
    assert traits["news_url"].from_string(option["news_url"]) is None
    assert traits["extension_manager"].from_string(option["extension_manager"]) == "readonly"
    check = traits["check_for_updates_class"].from_string(option["check_for_updates_class"])
    assert check == "jupyterlab.NeverCheckForUpdate"


def test_jupyterlab_does_not_ask_whether_it_may_fetch_news(monkeypatch):
    labapp = pytest.importorskip("jupyterlab.labapp", reason="needs the extra `lab`")
    manager = pytest.importorskip("jupyter_server.services.config.manager")
    monkeypatch.setattr(labapp, "main", lambda arguments: None)
    monkeypatch.setattr(lab, "faster_blas", dict)
    monkeypatch.setattr(lab.kernels, "is_available", lambda: False)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "mine")
    assert lab.lab([]) == 0
    assert os.environ["JUPYTER_CONFIG_PATH"].startswith("mine" + os.pathsep)
    overrides = manager.ConfigManager(config_dir_name="labconfig").get("default_setting_overrides")
    notification = overrides["@jupyterlab/apputils-extension:notification"]
    assert notification == {"fetchNews": "false", "checkForUpdates": False}


@pytest.mark.skipif(not kernels.is_available(), reason="needs the extra `fast`")
def test_kernels_are_compiled_while_jupyterlab_runs(monkeypatch, tmp_path):
    begun = f"open({str(tmp_path / 'begun')!r}, 'w').close(); import time; time.sleep(999)"
    monkeypatch.setattr(lab, "_WARM_UP", begun)
    with lab.warm_up_in_background():
        for _ in range(600):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.1)
        assert (tmp_path / "begun").exists()
    # It has been ended with the block: nobody waits for 999 seconds.


def test_without_jupyterlab_the_extra_is_named(monkeypatch, capsys):
    from edutorch.__main__ import main

    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: None)
    assert main(["lab"]) == 1
    assert 'pip install "edutorch[lab]"' in capsys.readouterr().err


def test_warmup_makes_every_kernel(monkeypatch, capsys):
    from edutorch.cli.doctor import warmup

    if not kernels.is_available():
        assert warmup() == 1
        assert 'pip install "edutorch[fast]"' in capsys.readouterr().err
        return
    made = [
        kernels.KernelStatus("conv.one", "compiled", 1.25),
        kernels.KernelStatus("conv.two", "loaded", 0.01),
    ]
    monkeypatch.setattr(kernels, "warm_up", lambda: iter(made))
    assert warmup() == 0
    out = capsys.readouterr().out
    assert re.search(r"^  conv\.one +compiled +1\.25 s$", out, re.MULTILINE)
    assert re.search(r"2 kernels ready in [\d.]+ s: 1 compiled, 1 from the disk", out)

    made.append(kernels.KernelStatus("conv.three", "failed", 0.5, "no such register"))
    assert warmup() == 1
    out = capsys.readouterr().out
    assert re.search(r"failed +0\.50 s  no such register", out)
    assert "1 kernels failed: there, the definitions run" in out


@pytest.mark.skipif(not kernels.is_available(), reason="needs the extra `fast`")
def test_warmup_can_say_what_is_ready_without_compiling():
    done = edutorch("warmup", "--check")
    states = json.loads(done.stdout)
    assert {"Adam.fused_kernel", "linear"} <= {state["name"] for state in states}
    assert {state["state"] for state in states} <= {"loaded", "not compiled"}


def test_the_doctor_says_what_makes_it_fast(monkeypatch):
    states = [{"name": "a.b", "state": "loaded", "detail": ""},
              {"name": "a.c", "state": "failed", "detail": "no memory"},
              {"name": "a.d", "state": "not compiled", "detail": ""}]  # fmt: skip

    def checked(command, **options):
        return subprocess.CompletedProcess(command, 0, json.dumps(states), "")

    monkeypatch.setattr(doctor.subprocess, "run", checked)
    findings = {finding.name: finding for finding in doctor._speed()}
    assert (
        re.search(r"\d GFLOP/s with one thread", findings["BLAS"].detail) or not findings["BLAS"].ok
    )
    assert re.fullmatch(r"\d+ in an op", findings["threads"].detail)
    if kernels.is_available():
        assert findings["kernels"].detail.startswith("1 of 3 are ready; failed: a.c (no memory)")
        assert findings["kernels"].todo == "python -m edutorch warmup  compiles the rest"


def test_the_doctor_outlives_a_broken_numba(monkeypatch):
    def broken(command, **options):
        raise subprocess.CalledProcessError(1, command, "", "ImportError: needs another NumPy\n")

    monkeypatch.setattr(doctor.subprocess, "run", broken)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)
    finding = doctor._kernels("speed")
    assert finding.ok is None
    assert finding.detail == "cannot be looked at: ImportError: needs another NumPy"
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert doctor._kernels("speed").todo == 'pip install "edutorch[fast]"'
