"""A real JupyterLab and a real Chromium, both cut off from the network.

Without Chromium or the Python packages the tests are skipped with a reason;
with EDUTORCH_REQUIRE_BROWSER=1 they fail instead, so that CI cannot forget them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

from tests.browser.lab import ARTIFACTS, ROOT, Lab

PATIENCE = 60.0
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
LOCAL = {"127.0.0.1", "localhost"}
# Chromium must not call home: the test counts what leaves the machine.
QUIET = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("EDUTORCH_REQUIRE_BROWSER") == "1":
        pytest.fail(f"EDUTORCH_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


def chromium_path() -> str:
    configured = os.environ.get("EDUTORCH_CHROMIUM")
    candidates = [configured] if configured else CHROMIUM_NAMES
    program = next(filter(None, map(shutil.which, candidates)), None)
    if program is None:
        unavailable(f"no Chromium on the PATH (looked for {', '.join(candidates)})")
    return program


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if importlib.util.find_spec("playwright") is None:
        unavailable("playwright is not installed")
    path = chromium_path()
    from playwright.sync_api import sync_playwright

    # Chromium's sandbox refuses to run as root, as which containers often run.
    arguments = [*QUIET, "--no-sandbox"] if is_root() else QUIET
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab of its own: nobody's settings, kernels or workspaces."""
    for package in ("jupyterlab", "anywidget"):
        if importlib.util.find_spec(package) is None:
            unavailable(f"{package} is not installed")
    home = tmp_path_factory.mktemp("lab")
    server = Lab(root=home / "notebooks", port=free_port(), token=secrets.token_hex(8))
    server.root.mkdir()
    log = home / "lab.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            lab_command(server), env=lab_environment(home), stdout=output, stderr=output
        )
        try:
            wait_until_up(server, process, log)
            yield server
        finally:
            stop(process)


def lab_command(server: Lab) -> list[str]:
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser"),
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={server.port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={server.root}",
        f"--IdentityProvider.token={server.token}",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--expose-app-in-browser",
    ]
    return [*command, "--allow-root"] if is_root() else command


def lab_environment(home: Path) -> dict[str, str]:
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    return os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_up(server: Lab, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{server.address}/api?token={server.token}", timeout=5)
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-3000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask politely first: the server then ends its kernels too."""
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A browser tab. A request that would leave the machine, or a dialog, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    foreign: list[str] = []

    def note(asked: Any) -> None:
        host = urlsplit(asked.url).hostname  # none in what is read from a disk, or made in the page
        if host and host not in LOCAL:
            foreign.append(asked.url)

    # Heard of, and not routed: else each file of JupyterLab takes a turn through this process.
    # Chromium itself (`QUIET`) finds no other machine, whatever its name or number.
    context.on("request", note)
    tab = context.new_page()
    tab.on("websocket", note)
    dialogs: list[str] = []
    tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    tab.set_default_timeout(PATIENCE * 1000)
    yield tab
    ARTIFACTS.mkdir(exist_ok=True)
    tab.screenshot(path=ARTIFACTS / f"{request.node.name}-end.png")
    context.close()
    assert foreign == [], "requests that would leave the machine"
    assert dialogs == [], "dialogs"
