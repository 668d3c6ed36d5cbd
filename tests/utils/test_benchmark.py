"""`torch.utils.benchmark`: what it prints is what PyTorch prints, and timers measure."""

from __future__ import annotations

import re

import pytest

from edutorch.utils import benchmark

TIMES = {
    "narrow": ([1.2e-5, 1.3e-5, 1.25e-5, 1.24e-5, 1.26e-5], 1),
    "one": ([1.2e-5], 100),
    "three": ([1.2e-3] * 3, 10),
    "wide": ([1e-3, 2e-3, 5e-3, 1e-3, 1e-3, 2e-3], 10),
    "doubtful": ([1e-3, 1.3e-3, 1.2e-3, 1e-3, 1e-3, 1.1e-3], 10),
    "seconds": ([90.0, 91.0], 1),
    "short": ([2e-8] * 5, 1),
}
SPECS = {
    "plain": {},
    "labelled": {"label": "matmul", "sub_label": "n=3", "description": "ours"},
    "setup": {"setup": "x = 1", "sub_label": "n=3"},
    "long setup": {"setup": "import torch\nx = 1", "label": "matmul"},
    "long": {"stmt": "a = 1\nfor i in range(3):\n    pass", "num_threads": 4, "env": "cpu"},
}


def measure(module, times, number=1, **spec):
    spec = {"stmt": "f(x)", "setup": "pass", **spec}
    return module.Measurement(number, list(times), module.TaskSpec(**spec))


def without_address(text):
    return re.sub(r"^<.*>$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", TIMES)
def test_a_measurement_prints_as_in_pytorch(torch, name, spec):
    import torch.utils.benchmark as theirs

    times, number = TIMES[name]
    ours, other = (measure(module, times, number, **SPECS[spec]) for module in (benchmark, theirs))
    assert without_address(repr(ours)) == without_address(repr(other))
    for value in ("median", "mean", "iqr", "times"):
        assert getattr(ours, value) == pytest.approx(getattr(other, value))
    for value in ("significant_figures", "has_warnings", "title", "env", "as_row_name"):
        assert getattr(ours, value) == getattr(other, value)
    assert ours.meets_confidence() == other.meets_confidence()


def results(module):
    made = []
    for threads in (1, 4):
        for size, time in ((8, 1e-6), (64, 2.345e-5), (512, 1.2345e-2)):
            for description, factor in (("ours", 1.0), ("theirs", 1.7)):
                times = [time * factor / threads * (1 + 0.001 * i) for i in range(9)]
                made.append(measure(
                    module, times, label="matmul", sub_label=f"n={size}", description=description,
                    num_threads=threads,
                ))  # fmt: skip
    wide = measure(module, TIMES["wide"][0], label="matmul", sub_label="n=9", description="ours")
    return [*made, wide, measure(module, [1.5, 1.6], label="other", description="theirs")]


@pytest.mark.parametrize(
    "options", [(), ("trim_significant_figures",), ("colorize",), ("rowwise",),
                ("highlight_warnings",), ("trim_significant_figures", "highlight_warnings")],
)  # fmt: skip
def test_a_table_is_that_of_pytorch(torch, options):
    import torch.utils.benchmark as theirs

    tables = []
    for module in (benchmark, theirs):
        table = module.Compare(results(module))
        for option in options:
            if option == "rowwise":
                table.colorize(rowwise=True)
            else:
                getattr(table, option)()
        tables.append(str(table))
    assert tables[0] == tables[1]


def test_units(torch):
    import torch.utils.benchmark as theirs

    for time in (2e-8, 9.99e-7, 1e-6, 3e-5, 1e-3, 0.5, 1.0, 900.0):
        assert benchmark.select_unit(time) == theirs.select_unit(time)
        for figures in (1, 2, 3):
            expected = pytest.approx(theirs.trim_sigfig(time, figures))
            assert benchmark.trim_sigfig(time, figures) == expected
    assert benchmark.unit_to_english("us") == "microsecond"
    assert benchmark.trim_sigfig(0.0, 2) == 0


def test_a_timer_measures():
    timer = benchmark.Timer("y = x + 1\n", "x = 2", label="sum", num_threads=1)
    once = timer.timeit(50)
    assert (once.number_per_run, len(once.times), once.title) == (50, 1, "sum")
    assert once.median > 0
    blocks = []
    many = timer.blocked_autorange(lambda number, time: blocks.append(number), min_run_time=0.005)
    assert len(many.times) == len(blocks)
    assert sum(many.raw_times) >= 0.005
    assert timer.adaptive_autorange(min_run_time=0.001, max_run_time=0.01).times


def test_the_number_of_threads_is_set_and_restored():
    import edutorch

    before = edutorch.get_num_threads()
    seen = []
    timer = benchmark.Timer(
        "seen.append(threads())", globals={"seen": seen, "threads": edutorch.get_num_threads},
        num_threads=3,
    )  # fmt: skip
    timer.timeit(1)
    assert set(seen) == {3}
    assert edutorch.get_num_threads() == before


def test_measurements_are_merged():
    spec = benchmark.TaskSpec("f", "pass")
    same = [benchmark.Measurement(2, [2.0], spec), benchmark.Measurement(2, [4.0], spec)]
    (merged,) = benchmark.Measurement.merge(same)
    assert (merged.number_per_run, merged.times) == (2, [1.0, 2.0])
    (merged,) = benchmark.Measurement.merge([*same, benchmark.Measurement(1, [3.0], spec)])
    assert (merged.number_per_run, merged.times) == (1, [1.0, 2.0, 3.0])


def test_bad_arguments():
    with pytest.raises(NotImplementedError, match="only statements in Python"):
        benchmark.Timer("int x;", language="c++")
    with pytest.raises(ValueError, match="global_setup is used for C"):
        benchmark.Timer("x", global_setup="#include")
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`, got float"):
        benchmark.Compare([0.1])
    with pytest.raises(ValueError, match="there are no times"):
        _ = benchmark.Measurement(1, [], benchmark.TaskSpec("f", "pass")).median
    timer = benchmark.Timer("pass")
    for method in (timer.repeat, timer.autorange, timer.collect_callgrind):
        with pytest.raises(NotImplementedError):
            method()
    with pytest.raises(AttributeError, match="'Measurement' object has no attribute 'nothing'"):
        _ = benchmark.Measurement(1, [1.0], benchmark.TaskSpec("f", "pass")).nothing
    with pytest.raises(SyntaxError):
        benchmark.Timer("x +").timeit(1)
    with pytest.raises(NameError):
        benchmark.Timer("nothing").timeit(1)
