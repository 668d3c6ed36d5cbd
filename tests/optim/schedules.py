"""The settings to test each scheduler with, and a run of one."""

from __future__ import annotations

import pytest

SETTINGS = [
    ("LambdaLR", {"lr_lambda": lambda step: 1 / (1 + step)}),
    ("LambdaLR", {"lr_lambda": [lambda step: 0.9**step, lambda step: 0.8**step]}),
    ("MultiplicativeLR", {"lr_lambda": lambda step: 0.95 if step % 2 else 1.01}),
    ("StepLR", {"step_size": 7, "gamma": 0.5}), ("StepLR", {"step_size": 1}),
    ("MultiStepLR", {"milestones": [50, 3, 3]}), ("MultiStepLR", {"milestones": (10, 20)}),
    ("ExponentialLR", {"gamma": 0.97}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 9}), ("ConstantLR", {}),
    ("LinearLR", {"total_iters": 11}), ("LinearLR", {}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 30}),
    ("PolynomialLR", {}), ("PolynomialLR", {"total_iters": 40, "power": 2.5}),
    ("CosineAnnealingLR", {"T_max": 20}), ("CosineAnnealingLR", {"T_max": 13, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 7}),
    ("CyclicLR", {"base_lr": [0.01, 0.1], "max_lr": 0.3, "step_size_up": 7, "step_size_down": 4,
                  "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": [0.3, 1.0], "step_size_up": 9, "mode": "exp_range",
                  "gamma": 0.98, "base_momentum": 0.5}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 9, "cycle_momentum": False,
                  "scale_fn": lambda x: 1 / (1 + x), "scale_mode": "iterations"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 110}),
    ("OneCycleLR", {"max_lr": [0.5, 0.1], "epochs": 11, "steps_per_epoch": 10,
                    "anneal_strategy": "linear", "three_phase": True}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 121, "pct_start": 0.5, "cycle_momentum": False,
                    "div_factor": 3.0, "final_div_factor": 10.0, "three_phase": True}),
    ("SWALR", {"swa_lr": 0.05}), ("SWALR", {"swa_lr": [0.05, 0.5], "anneal_epochs": 0}),
    ("SWALR", {"swa_lr": 0.05, "anneal_strategy": "linear", "anneal_epochs": 25}),
    ("SequentialLR", {"of": "warm-up, then cosine"}), ("SequentialLR", {"of": "three in a row"}),
    ("SequentialLR", {"of": "nested"}), ("ChainedScheduler", {"of": "chained"}),
    ("ChainedScheduler", {"of": "three at once"}),
]  # fmt: skip


def make(library, name, settings, optimizer_name="SGD"):
    """Return an optimizer with two groups and its scheduler."""
    x, y = (library.zeros(1, requires_grad=True) for _ in range(2))
    more = {"momentum": 0.9} if optimizer_name == "SGD" else {}
    groups = [{"params": [x]}, {"params": [y], "lr": 0.3}]
    optimizer = getattr(library.optim, optimizer_name)(groups, lr=0.1, **more)
    if "of" in settings:
        return optimizer, COMBINED[settings["of"]](library.optim.lr_scheduler, optimizer)
    home = library.optim.swa_utils if name == "SWALR" else library.optim.lr_scheduler
    return optimizer, getattr(home, name)(optimizer, **settings)


COMBINED = {
    "warm-up, then cosine": lambda lrs, o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.1, total_iters=5), lrs.CosineAnnealingLR(o, 30)], [5]
    ),
    "three in a row": lambda lrs, o: lrs.SequentialLR(
        o, [lrs.ConstantLR(o, 0.1, 4), lrs.StepLR(o, 3), lrs.PolynomialLR(o, 9)], [10, 30]
    ),
    "chained": lambda lrs, o: lrs.ChainedScheduler(
        [lrs.LinearLR(o, 0.1, total_iters=5), lrs.ExponentialLR(o, 0.9)]
    ),
    "three at once": lambda lrs, o: lrs.ChainedScheduler(
        [lrs.StepLR(o, 9, 0.5), lrs.LinearLR(o, total_iters=20), lrs.ExponentialLR(o, 0.99)],
        optimizer=o,
    ),
    "nested": lambda lrs, o: lrs.SequentialLR(
        o, [lrs.ChainedScheduler([lrs.ConstantLR(o), lrs.ExponentialLR(o, 0.9)]),
            lrs.CosineAnnealingWarmRestarts(o, 9, 2)], [12],
    ),
}  # fmt: skip


def settings_of(optimizer):
    """Return the settings that schedules change."""
    return [
        [value for key, value in sorted(group.items()) if key in ("lr", "momentum", "betas")]
        for group in optimizer.param_groups
    ]


def go(optimizer, scheduler, steps):
    """Return the rates and momenta of all steps."""
    results = []
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        results += settings_of(optimizer)
    return results


def flat(values):
    """Yield the elements of nested lists."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from flat(value)
        else:
            yield float(value)


def close(ours, theirs):
    """Compare two runs."""
    assert list(flat(ours)) == pytest.approx(list(flat(theirs)), rel=1e-12, abs=1e-15)


PLATEAUS = [
    {"patience": 2}, {"patience": 0, "factor": 0.5, "cooldown": 3}, {"mode": "max", "patience": 4},
    {"threshold": 0.1, "threshold_mode": "abs", "patience": 1}, {"min_lr": 0.02, "patience": 1},
    {"min_lr": [0.01, 0.2], "patience": 1, "eps": 1e-3},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.2, "patience": 2},
]  # fmt: skip
