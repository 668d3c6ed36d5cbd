"""`torch.ops.torchaudio` and `_torchaudio`: questions that torchaudio asks its C++ library."""

from __future__ import annotations

from .operators import OpNamespace


def fill(namespace: OpNamespace) -> None:
    """Define the operators."""
    namespace.define_composite("cuda_version() -> int?", lambda: None)
    namespace.define_composite("is_rir_available() -> bool", lambda: False)
    namespace.define_composite("is_align_available() -> bool", lambda: False)
    namespace.define_composite("ffmpeg_is_available() -> bool", lambda: False)
