"""`torch.ops.torchaudio` and `_torchaudio`: what torchaudio has in C++, by `edutorch.audio`.

Its Python code gives the recursions their gradients, so these write into arrays that it made.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from edutorch.ops import cat, tensor

from .operators import OpNamespace


def recursion(x: Any, a: Any) -> Any:
    """Return y with y[n] = x[n] - Σ_{i>0} a[i] y[n-i].

    `edutorch.audio` is imported when it is used: most programs have no sound.
    """
    return import_module("edutorch.audio.functional.recursion").Recursion.apply(x, a)


def lfilter_core_loop(waveform: Any, a_flipped: Any, padded_output: Any) -> None:
    """Write y[n] = x[n] - Σ_{i>0} a[i] y[n-i] behind the zeros at the start of `padded_output`.

    Shape: waveform (batch, channels, time), a_flipped (channels, order + 1), padded_output
    (batch, channels, order + time).
    """
    y = recursion(waveform.detach(), a_flipped.detach().flip(1))
    padded_output[:, :, a_flipped.shape[1] - 1 :] = y


def overdrive_core_loop(
    waveform: Any, saturated: Any, last_in: Any, last_out: Any, output: Any
) -> None:
    """Write x / 2 + 0.75 z, with z[n] = s[n] - s[n-1] + 0.995 z[n-1] for the saturated s.

    Shape: (channels, time); last_in and last_out, s and z before the first sample, (channels).
    """
    first = saturated[:, :1] - last_in.unsqueeze(1) + 0.995 * last_out.unsqueeze(1)
    steps = cat([first, saturated[:, 1:] - saturated[:, :-1]], 1)
    a = tensor([[1.0, -0.995]], dtype=waveform.dtype)
    z = recursion(steps.unsqueeze(1), a).squeeze(1)
    output.copy_(waveform * 0.5 + z * 0.75)


def forced_align(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int
) -> tuple[Any, Any]:
    """Return the token of each frame on the best path, and the scores of all tokens."""
    align = import_module("edutorch.audio.functional").forced_align
    paths, _ = align(log_probs, targets, input_lengths, target_lengths, blank)
    return paths, log_probs


def fill(namespace: OpNamespace) -> None:
    """Define the operators."""
    if namespace.name == "torchaudio":
        define_recursions(namespace)
        return
    namespace.define_composite("cuda_version() -> int?", lambda: None)
    namespace.define_composite("is_rir_available() -> bool", lambda: False)
    namespace.define_composite("is_align_available() -> bool", lambda: True)
    namespace.define_composite("ffmpeg_is_available() -> bool", lambda: False)


def define_recursions(namespace: OpNamespace) -> None:
    """Define what torchaudio's Python code calls."""
    namespace.define_composite(
        "_lfilter_core_loop(Tensor waveform, Tensor a_flipped, Tensor(a!) padded_output) -> ()",
        lfilter_core_loop,
    )
    namespace.define_composite(
        "_overdrive_core_loop(Tensor waveform, Tensor saturated, Tensor last_in, Tensor last_out, "
        "Tensor(a!) output) -> ()",
        overdrive_core_loop,
    )
    namespace.define_composite(
        "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, "
        "Tensor target_lengths, int blank) -> (Tensor, Tensor)",
        forced_align,
    )
