"""Arrays that must not be written, such as a broadcast of one row, are left to the definition."""

from __future__ import annotations

import numpy as np

from edutorch.core.tensor import wrap
from edutorch.kernels.cpu.jit import are_contiguous_floats


def test_kernels_leave_read_only_arrays_to_the_definition():
    array = np.ones((512, 512), np.float32)
    assert are_contiguous_floats((array,))
    array.flags.writeable = False
    assert not are_contiguous_floats((array,))
    assert (wrap(array) * wrap(array)).sum() == 512 * 512
