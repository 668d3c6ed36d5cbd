"""Why some everyday calls take more than 1.5 times as long as PyTorch's."""

from __future__ import annotations

SHARED_GRADIENT = """
    PyTorch's `.grad` is a view of the gradient that the caller passed, of no cost; here it is a
    copy, so that a later change of the one does not change the other
"""
PAGES = """
    the ratio depends on whether either library gets pages that are mapped already: in two more runs
    of this row alone it was 0.69 and 2.48
"""

REASONS = {
    "x.reshape(-1)": SHARED_GRADIENT,
    "x.t()": SHARED_GRADIENT,
    "torch.cat((x, y))": SHARED_GRADIENT,
    "torch.stack((x, y))": SHARED_GRADIENT,
    "x.numpy()": """
        an array knows the tensor whose memory it shows, so that a value which backward needs and
        NumPy has overwritten is refused; PyTorch computes a wrong gradient
    """,
    "torch.from_numpy(array)": "two Python calls; PyTorch's is compiled",
    "buffer.add_(y)": """
        one Python call (aliases, versions, a leaf that requires a gradient) and NumPy's addition,
        0.4 µs, against 1.0 µs of compiled code; of 2,048 rows the memory decides: 0.80 and 1.14 in
        two more runs
    """,
    "torch.zeros_like(x)": """
        a megabyte is divided between two threads, and the second one has to wake; 0.84 and 1.29 in
        two more runs
    """,
    "buffer.copy_(y)": """
        one Python call (aliases, versions, a leaf that requires a gradient) and NumPy's copy, 1.4
        µs against 0.9 µs of compiled code; 1.48 and 1.54 in two more runs
    """,
    "x.clamp(-1, 1)": """
        a kernel is called through Python with its two limits, which takes 1 µs more than NumPy's
        functions of two arrays; 1.38 to 1.51 in three runs. Of 2,048 rows the ratio depends on
        whether either library gets pages that are mapped already: 0.67 and 0.92 in two more runs
    """,
    "F.hardtanh(x)": """
        the ratio depends on whether either library gets pages that are mapped already: 1.13 and
        0.80 in two more runs
    """,
    "x * column": "1.07 and 1.08 in two more runs of this row alone",
    "x[::2]": PAGES,
}
REASONS = {call: " ".join(reason.split()) for call, reason in REASONS.items()}
