"""Saves in a child process that is killed or interrupted, many times; run by test_whole_files.py.

A process of its own, because forking is cheap here: no threads, and nothing but edutorch.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import edutorch


def content(number):
    return {"number": number, "x": edutorch.full((20_000,), float(number))}


def save_on_and_on(path, number, report):
    """Overwrite a checkpoint until something stops it; report each number that was saved."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        while True:
            number += 1
            edutorch.save(content(number), path)
            os.write(report, b"%d\n" % number)
    except KeyboardInterrupt:
        code = 0
    finally:
        os._exit(code)


def trial(path, number, signal_number, wait):
    """Stop a child that saves; return its last report, its status, and what lies there."""
    reading, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        save_on_and_on(path, number, report)
    os.close(report)
    os.read(reading, 1)  # the first save is done: the next ones are under way
    time.sleep(wait)
    os.kill(child, signal_number)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        lines = file.read().split("\n")
    reported = [int(line) for line in lines[1:] if line]  # of the first line a letter is gone
    return max(reported, default=number + 1), status, sorted(os.listdir(os.path.dirname(path)))


def main(folder, signal_number, trials):
    path = os.path.join(folder, "checkpoint")
    choose = random.Random(int(signal_number))
    stray, number = 0, 0
    for _ in range(trials):
        edutorch.save(content(number), path)
        assert os.listdir(folder) == ["checkpoint"], os.listdir(folder)
        last, status, names = trial(path, number, signal_number, choose.uniform(0, 0.01))
        stray += len(names) > 1
        if signal_number == signal.SIGINT:
            assert status == 0, status
            assert names == ["checkpoint"], names  # it has cleaned up after itself
        else:
            assert os.WTERMSIG(status) == signal_number, status
        loaded = edutorch.load(path)
        assert loaded["number"] in (last, last + 1), (loaded["number"], last)
        assert loaded["x"].tolist() == [float(loaded["number"])] * 20_000
        number = loaded["number"]
    edutorch.save(content(number), path)
    assert os.listdir(folder) == ["checkpoint"]
    print(f"{trials} trials, {stray} left a temporary file for the next save to remove")


if __name__ == "__main__":
    main(sys.argv[1], signal.Signals[sys.argv[2]], int(sys.argv[3]))
