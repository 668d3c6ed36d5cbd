"""`torch.version`: the version and build settings. Nothing here is compiled."""

from __future__ import annotations

from edutorch.torch_version import PYTORCH, TorchVersion

OWN = "0.1.0"
"""edutorch's own version."""

__version__: str = TorchVersion(f"{PYTORCH}+edutorch.{OWN}")
"""The value of `torch.__version__` in a script that runs on edutorch."""

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None
