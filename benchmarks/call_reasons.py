"""Why some everyday calls take more than 1.5 times as long as PyTorch's."""

from __future__ import annotations

SHARED_GRADIENT = """
    PyTorch's `.grad` is a view of the gradient that the caller passed, of no cost; here it is a
    copy, so that a later change of the one does not change the other
"""

REASONS = {
    "x.reshape(-1)": SHARED_GRADIENT,
    "x.t()": SHARED_GRADIENT,
    "x.numpy()": """
        an array knows the tensor whose memory it shows, so that a value which backward needs and
        NumPy has overwritten is refused; PyTorch computes a wrong gradient
    """,
    "torch.from_numpy(array)": "two Python calls; PyTorch's is compiled",
}
REASONS = {call: " ".join(reason.split()) for call, reason in REASONS.items()}
