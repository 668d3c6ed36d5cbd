"""A differential fuzzer: random public calls, here, in PyTorch and in float64.

`python -m tests.fuzz --minutes 2 --seed 0` prints what it found, each finding as a script of a few
lines. How it works, in the order of its files:

- `tensors.py`: a tensor as data: shape, dtype, layout in memory, kind of values, seed.
- `calls.py`: a call as data, and how a library carries it out: forward, backward and so on.
- `targets.py`: which calls there are, read from the signatures of the public functions.
- `shapes.py`, `arguments.py`: tables from which random arguments are drawn.
- `judge.py`: whether two outcomes agree, by a tolerance per dtype, and who is right if not.
- `minimise.py`, `scripts.py`: a finding made small, and written as a script.
- `worker.py`, `session.py`: calls run in a process of their own, which is killed when it hangs.
- `allowed_globals.py`: what is left out and why.
"""
