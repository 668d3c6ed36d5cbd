"""A differential fuzzer: random public calls, here, in PyTorch and in float64.

`python -m tests.fuzz --minutes 2 --seed 0` prints its findings, each as a script of a few lines.
Its files, in reading order:

- `tensors.py`: a tensor as data: shape, dtype, layout in memory, kind of values, seed.
- `calls.py`: a call as data, and its execution by a library: forward, backward and so on.
- `targets.py`: the public functions to call, and their parameters, read from the signatures.
- `shapes.py`, `arguments.py`: tables from which random arguments are drawn.
- `judge.py`: whether two outcomes agree, by a tolerance per dtype, and who is right if not.
- `minimise.py`, `scripts.py`: a finding made small, and written as a script.
- `worker.py`, `session.py`: calls run in a process of their own, which is killed when it hangs.
- `known.py`: intended differences from PyTorch, with reasons.
"""
