"""The taps of a convolution's filters that meet the image, where the others meet its padding alone.

Deep in a network images become small: a filter of 3 × 3 over an image of one pixel, padded to
3 × 3, meets the pixel with its middle tap, and zeros with eight. So a ninth of it is computed.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from ...nn.functional.sliding_window import Counts, Pads

__all__ = ["MeetingTaps", "meeting_taps"]


class MeetingTaps(NamedTuple):
    """The part of the filters that meets the image, and the padding that goes with it.

    Attributes:
        index: of the array of filters: both axes of channels, and a slice for each further axis.
    """

    index: tuple[slice, ...]
    pads: Pads

    @property
    def kernel(self) -> Counts:
        """The number of taps along each axis that is left."""
        return tuple(taps.stop - taps.start for taps in self.index[2:])


@functools.lru_cache(maxsize=256)
def meeting_taps(
    sizes: Counts, kernel: Counts, stride: Counts, pads: Pads, dilation: Counts
) -> MeetingTaps | None:
    """Return the taps that meet an image at one of their positions; None if all do.

    Args:
        sizes: of the image, without batch and channels; a number for each axis, as in the others.
    """
    index, remaining = [slice(None), slice(None)], []
    for size, taps, step, (before, after), gap in zip(
        sizes, kernel, stride, pads, dilation, strict=True
    ):
        count = (size + before + after - gap * (taps - 1) - 1) // step + 1
        first_position, last_position = -before, -before + (count - 1) * step
        positions = range(first_position, last_position + 1, step)
        meets = [any(0 <= at + tap * gap < size for at in positions) for tap in range(taps)]
        if True not in meets:
            return None
        start, stop = meets.index(True), taps - meets[::-1].index(True)
        index.append(slice(start, stop))
        remaining.append((before - start * gap, after - (taps - stop) * gap))
    if all(part.stop - part.start == taps for part, taps in zip(index[2:], kernel, strict=True)):
        return None
    if min(min(pair) for pair in remaining) < 0:
        return None
    return MeetingTaps(tuple(index), tuple(remaining))
