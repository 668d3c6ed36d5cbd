"""Counting FLOPs: matrix products and convolutions, forward and backward."""

from __future__ import annotations

from collections import defaultdict

from ..profiler.recording import Recording, RecordingOptions, is_product_op
from ..profiler.tree import Span, walk

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """Counts the FLOPs of matrix products and convolutions inside a block, per module.

    The formulas are in `edutorch/profiler/recording.py`. As in PyTorch, elementwise ops are not
    counted: next to the products they are negligible.

    Args:
        mods: accepted, without effect: modules are detected automatically.
        depth: how many levels of modules the table shows.
        display: print the table at the end of the block.
        custom_mapping: accepted, without effect.

    >>> from edutorch.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = ones(3, 4) @ ones(4, 5)
    >>> counter.get_total_flops()
    120
    """

    def __init__(
        self,
        mods: object = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: object = None,
    ) -> None:  # fmt: skip
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._recording: Recording | None = None

    def __enter__(self) -> FlopCounterMode:
        self._recording = Recording(RecordingOptions(flops=True), counted=is_product_op)
        self._recording.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._recording is None:
            return
        self._recording.stop()
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for span in walk(self._recording.roots):
            if span.flops:
                # Counted for every module around it: a row holds all that is inside.
                for place in module_paths(span):
                    counts[place][span.name] += span.flops
        self.flop_counts = {place: dict(flops_by_op) for place, flops_by_op in counts.items()}
        self._recording = None
        if self.display:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """Return the number of FLOPs of the last block."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Return the FLOPs by module ('Global' for all), and by op."""
        return self.flop_counts

    def get_table(self, depth: int | None = None) -> str:
        """Return the FLOPs as a table, with modules down to `depth` levels."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = [("Module", "FLOP", "% Total")]
        for path, counts in self.flop_counts.items():
            level = 0 if path == "Global" else path.count(".") + 1
            if level > depth:
                continue
            totals = [(path, sum(counts.values())), *((f" - {op}", n) for op, n in counts.items())]
            rows += [
                (" " * level + name, str(count), f"{100 * count / total:.2f}%")
                for name, count in totals
            ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"{name.ljust(widths[0])}  {count.rjust(widths[1])}  {share.rjust(widths[2])}"
            for name, count, share in rows
        ]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def module_paths(span: Span) -> list[str]:
    """Return 'Global' and the path of each module around a span: 'Net', 'Net.features.0'."""
    paths = ["Global"]
    for module in span.module:
        path, _, class_name = module.partition(" (")
        paths.append(f"{span.module[0]}.{path}" if class_name else path)
    return paths
