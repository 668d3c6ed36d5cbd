"""The charts: bars of ratios, and curves with their exponents. They are left in `results/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("results")
OURS, THEIRS, GOAL = "#0072B2", "#D55E00", "#555555"  # told apart by the colour-blind too


def canvas(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """Return an empty figure and its axes. (No window: it is only written to a file.)"""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def save(figure: Any, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=110)


def ratios(
    name: str, title: str, medians: dict[str, float], goals: dict[str, float | None]
) -> None:
    """Draw a bar per workload: how long we take where PyTorch takes 1. A line is a goal."""
    figure, (axes,) = canvas(8, 0.9 + 0.32 * len(medians))
    names, values = list(medians), list(medians.values())
    bars = axes.barh(names, values, color=[OURS if value <= 1 else THEIRS for value in values])
    axes.bar_label(bars, [f"{value:.2f}" for value in values], padding=3)
    for position, case in enumerate(names):
        goal = goals.get(case)
        if goal is not None:
            axes.plot([goal, goal], [position - 0.4, position + 0.4], color=GOAL, linewidth=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("less is faster; grey line: goal")
    save(figure, name)


def curves(name: str, curves_by_title: dict[str, Any]) -> None:
    """Draw time over size, both on logarithmic axes, one panel for each `scaling.Curve`."""
    figure, panels = canvas(3.4 * len(curves_by_title), 3.4, len(curves_by_title))
    for axes, (title, curve) in zip(panels, curves_by_title.items(), strict=True):
        for rival, colour, marker in (("edutorch", OURS, "o"), ("PyTorch", THEIRS, "s")):
            if rival in curve.times:
                label = f"{rival}, exponent {curve.exponent(rival):.2f}"
                times = [time * 1e3 for time in curve.times[rival]]
                axes.loglog(curve.sizes, times, marker=marker, color=colour, label=label)
        axes.set_xticks(curve.sizes, list(map(str, curve.sizes)), minor=False)
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(curve.what)
        axes.set_ylabel("ms per step")
        axes.legend(fontsize=7)
    save(figure, name)


def bars(name: str, title: str, values_by_name: dict[str, dict[str, float]], unit: str) -> None:
    """Draw groups of bars: one group per entry, one bar per rival."""
    figure, (axes,) = canvas(8, 3.4)
    rivals = list(next(iter(values_by_name.values())))
    for index, (rival, colour) in enumerate(zip(rivals, (OURS, THEIRS, GOAL), strict=False)):
        positions = [position + 0.4 * index for position in range(len(values_by_name))]
        drawn = axes.bar(positions, [values[rival] for values in values_by_name.values()], 0.4,
                         color=colour, label=rival)  # fmt: skip
        axes.bar_label(drawn, fmt="%.0f", fontsize=7)
    axes.set_xticks(
        [position + 0.2 for position in range(len(values_by_name))],
        list(values_by_name),
        fontsize=8,
    )
    axes.set_ylabel(unit)
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend()
    save(figure, name)
