"""The scripts of a pack, for each system, and what it says to students."""

from __future__ import annotations

from collections.abc import Sequence

START_SH = """\
#!/bin/sh
# Makes the course's environment, without a network, and opens its notebooks in JupyterLab.
set -e
cd "$(dirname "$0")"
if [ ! -f .venv/complete ]; then
    python=""
    for candidate in @COMMANDS@; do
        if "$candidate" -c "@CHECK@" 2>/dev/null
        then
            python="$candidate"
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "Python @NAMES@ is needed, and was not found: see README.txt." >&2
        exit 1
    fi
    echo "The environment is made; it takes a minute, and only the first time."
    "$python" -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \\
        --no-index --find-links wheels "@REQUIREMENT@"
    touch .venv/complete
fi
exec .venv/bin/python -m edutorch lab "$@"
"""

START_BAT = """\
@echo off
rem Makes the course's environment, without a network, and opens its notebooks in JupyterLab.
setlocal
cd /d "%~dp0"
if exist .venv\\complete goto open
set "python="
for %%v in (@SPACED@) do (
    if not defined python py -%%v -c "" >nul 2>nul && set "python=py -%%v"
)
if not defined python (
    python -c "@CHECK@" >nul 2>nul && set "python=python"
)
if not defined python (
    echo Python @NAMES@ is needed, and was not found: see README.txt.
    goto failed
)
echo The environment is made; it takes some minutes, and only the first time.
%python% -m venv --clear .venv
if errorlevel 1 goto failed
.venv\\Scripts\\python -m pip install --quiet --disable-pip-version-check ^
    --no-index --find-links wheels "@REQUIREMENT@"
if errorlevel 1 goto failed
echo complete> .venv\\complete
:open
.venv\\Scripts\\python -m edutorch lab %*
exit /b
:failed
pause
exit /b 1
"""

HAND_IN_SH = """\
#!/bin/sh
# Puts your notebooks into one file in the folder hand_in.
cd "$(dirname "$0")"
if [ ! -f .venv/complete ]; then
    echo "Start the course once with start.sh, then hand in." >&2
    exit 1
fi
exec .venv/bin/python -m edutorch classroom hand-in notebooks --to hand_in "$@"
"""

HAND_IN_BAT = """\
@echo off
rem Puts your notebooks into one file in the folder hand_in.
cd /d "%~dp0"
if not exist .venv\\complete (
    echo Start the course once with start.bat, then hand in.
    pause
    exit /b 1
)
.venv\\Scripts\\python -m edutorch classroom hand-in notebooks --to hand_in %*
pause
"""

README = """\
EDUTORCH, WITHOUT A NETWORK

You need: Python @NAMES@, on @PLATFORMS@.
Everything else is in this folder. Copy the whole folder to your computer first.

START
  Windows:       double-click start.bat
  Linux, macOS:  open a terminal in this folder, and type:  sh start.sh
The first start takes some minutes: it makes the folder .venv here. Then JupyterLab
opens in your browser, with the notebooks of this folder. Nothing asks the network.
To end it, close the terminal or press Ctrl-C in it.

HAND IN
  1. Save your notebooks (Ctrl-S).
  2. Windows:       double-click hand_in.bat
     Linux, macOS:  sh hand_in.sh
     It asks for your name: write it each time as your teacher writes it.
  3. It makes one file, hand_in/<your name>.zip. Copy it to the folder that your
     teacher names: on a USB stick, or a shared folder.
You may hand in again: the new file replaces the old one.

IF IT DOES NOT START
  "Python @NAMES@ is needed": ask your teacher for its installer, or
     install it from the packages of your system.
  "No module named venv" (Debian, Ubuntu): install the package python3-venv.
  Anything else: delete the folder .venv, and start again.
"""

NAMES = {
    "linux": "Linux (x86-64)",
    "linux-arm": "Linux (ARM)",
    "macos-arm": "macOS 13 or newer (Apple chips)",
    "macos-intel": "macOS 13 or newer (Intel)",
    "windows": "Windows 10 or 11 (64 bits)",
}
"""How a platform is called in the README."""


def listed(items: Sequence[str]) -> str:
    """Return items as in a sentence.

    >>> from edutorch.classroom.pack_scripts import listed
    >>> listed(["3.11", "3.12", "3.13"])
    '3.11, 3.12 or 3.13'
    """
    return " or ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


def filled(text: str, requirement: str, versions: Sequence[str]) -> str:
    """Return a text with the names of what it needs."""
    pairs = [tuple(map(int, version.split("."))) for version in versions]
    commands = [f"python{version}" for version in versions] + ["python3", "python"]
    check = f"import sys; sys.exit(sys.version_info[:2] not in {pairs})"
    for name, value in {
        "@COMMANDS@": " ".join(commands), "@CHECK@": check, "@NAMES@": listed(versions),
        "@SPACED@": " ".join(versions), "@REQUIREMENT@": requirement,
    }.items():  # fmt: skip
        text = text.replace(name, value)
    return text


def scripts(requirement: str, versions: Sequence[str]) -> dict[str, str]:
    """Return the scripts by the names of their files.

    Args:
        requirement: what is installed, as "edutorch[lab]".
        versions: of Python, as "3.12", the one to use first.
    """
    texts = {
        "start.sh": START_SH, "start.bat": START_BAT, "hand_in.sh": HAND_IN_SH,
        "hand_in.bat": HAND_IN_BAT,
    }  # fmt: skip
    return {name: filled(text, requirement, versions) for name, text in texts.items()}


def readme(platforms: Sequence[str], versions: Sequence[str]) -> str:
    """Return what the students read first."""
    text = filled(README, "", versions)
    return text.replace("@PLATFORMS@", listed([NAMES[platform] for platform in platforms]))
