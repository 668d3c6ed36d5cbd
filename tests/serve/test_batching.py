"""Batches: who shares a call, who leaves it, what happens to the others."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edutorch import nn
from edutorch.serve.batching import Batcher
from edutorch.serve.errors import BadRequest, ModelError, RequestError
from edutorch.serve.metrics import Metrics
from edutorch.serve.served import Arrays, Served, TensorSpec, from_module
from edutorch.serve.settings import Settings
from edutorch.serve.warmup import warm_up

SETTINGS = Settings(Path("."), max_batch=8, batch_delay=0.05, queue=4)


class Model:
    """Doubles its input, notes the rows of each call, and waits while it is held."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, arrays: Arrays) -> Arrays:
        self.go_on.wait(30)
        self.rows.append(len(arrays["x"]))
        if (arrays["x"] < 0).any():
            raise ValueError("negative")
        return {"y": 2 * arrays["x"]}


def run(scenario, settings: Settings = SETTINGS, shape=(-1, -1)) -> None:
    """Run a scenario with a batcher and its model."""
    model = Model()
    spec = TensorSpec("x", "FP32", shape)
    served = Served((spec,), (spec._replace(name="y"),), model)

    async def main() -> None:
        with ThreadPoolExecutor(settings.workers) as executor:
            metrics = Metrics().of("m", "1")
            try:
                await scenario(Batcher(served, settings, executor, metrics, True), model)
            finally:
                model.go_on.set()

    asyncio.run(main())


def ask(batcher: Batcher, rows: int = 1, columns: int = 2, value: float = 1.0):
    return batcher.submit({"x": np.full((rows, columns), value, "f4")})


def test_requests_that_come_together_share_a_call():
    async def scenario(batcher, model):
        pending = [ask(batcher, value=value) for value in range(3)]
        results = await asyncio.gather(*(item.future for item in pending))
        assert [result["y"].tolist() for result in results] == [
            [[2.0 * v, 2.0 * v]] for v in range(3)
        ]
        assert model.rows == [3]

    run(scenario)


def test_a_full_batch_does_not_wait():
    async def scenario(batcher, model):
        pending = [ask(batcher, rows=4), ask(batcher, rows=4)]
        await asyncio.wait_for(asyncio.gather(*(item.future for item in pending)), 30)
        assert model.rows == [8]

    run(scenario, replace(SETTINGS, batch_delay=1000))


def test_requests_of_other_shapes_have_a_batch_of_their_own():
    async def scenario(batcher, model):
        pending = [ask(batcher, columns=columns) for columns in (2, 3, 2)]
        results = await asyncio.gather(*(item.future for item in pending))
        assert [result["y"].shape for result in results] == [(1, 2), (1, 3), (1, 2)]
        assert sorted(model.rows) == [1, 2]

    run(scenario)


def test_a_request_with_more_rows_than_a_batch_runs_alone():
    async def scenario(batcher, model):
        pending = [ask(batcher, rows=20), ask(batcher)]
        await asyncio.gather(*(item.future for item in pending))
        assert model.rows == [20, 1]

    run(scenario)


def test_while_the_worker_is_busy_requests_pile_up():
    async def scenario(batcher, model):
        model.go_on.clear()
        first = ask(batcher)
        await asyncio.sleep(0.02)
        others = [ask(batcher) for _ in range(4)]
        with pytest.raises(RequestError) as refused:
            ask(batcher)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        model.go_on.set()
        await asyncio.gather(first.future, *(item.future for item in others))
        assert model.rows == [1, 4]

    run(scenario, replace(SETTINGS, batch_delay=0))


def test_who_goes_away_leaves_the_batch():
    async def scenario(batcher, model):
        stays, leaves = ask(batcher), ask(batcher)
        leaves.future.cancel()
        batcher.withdraw(leaves)
        await stays.future
        assert model.rows == [1]
        assert batcher.waiting == 0

    run(scenario)


def test_one_that_fails_spoils_no_other():
    async def scenario(batcher, model):
        pending = [ask(batcher, value=value) for value in (1, -1, 2)]
        results = await asyncio.gather(*(item.future for item in pending), return_exceptions=True)
        assert isinstance(results[1], ValueError)
        assert results[0]["y"][0, 0] == 2 and results[2]["y"][0, 0] == 4

    run(scenario)


def test_draining_runs_what_is_left():
    async def scenario(batcher, model):
        pending = [ask(batcher) for _ in range(3)]
        await asyncio.wait_for(batcher.drain(), 30)
        assert all(item.future.done() for item in pending)

    run(scenario, replace(SETTINGS, batch_delay=1000))


def test_an_error_of_an_op_is_the_clients():
    from edutorch.serve.batching import as_answer

    served = from_module(nn.Embedding(4, 2), [TensorSpec("i", "INT64", (-1,))])
    with pytest.raises(IndexError) as failure:
        served.call({"i": np.array([4])})
    answer = as_answer(failure.value)
    assert isinstance(answer, BadRequest) and "4" in answer.message
    assert isinstance(as_answer(ModelError("serve", "wrong")), ModelError)


# Warm-up -----------------------------------------------------------------------------


def test_rows_that_depend_on_each_other_do_not_share_a_call():
    inputs = [TensorSpec("x", "FP32", (-1, 3))]
    assert warm_up(from_module(nn.Softmax(1), inputs))[1]
    assert not warm_up(from_module(nn.Softmax(0), inputs))[1]


def test_a_model_in_training_mode_is_set_to_eval():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout())
    assert warm_up(from_module(model, [TensorSpec("x", "FP32", (-1, 3))]))[1]


def test_results_in_lists_and_dicts_are_outputs_in_their_order():
    def module(x):
        return {"a": x, "rest": [(x + 1, None), x + 2]}

    served = from_module(module, [TensorSpec("x", "FP32", (-1, 1))])
    results = served.call({"x": np.zeros((1, 1), "f4")})
    assert {name: array.item() for name, array in results.items()} == {
        "output0": 0, "output1": 1, "output2": 2,
    }  # fmt: skip


def test_a_free_size_that_works_is_looked_for():
    served = from_module(
        nn.Sequential(nn.Conv2d(1, 2, 5), nn.Flatten(2), nn.AdaptiveAvgPool1d(1)),
        [TensorSpec("x", "FP32", (-1, 1, -1, -1))],
        [TensorSpec("y", "FP32", (-1, 2, 1))],
    )
    served, joins = warm_up(served)
    assert served.free_size == 16 and joins


def test_a_model_that_fails_its_warm_up_says_why():
    spec = TensorSpec("x", "FP32", (-1, 2))
    served = Served((spec,), (spec._replace(name="y", shape=(-1, 3)),), lambda a: {"y": a["x"]})
    with pytest.raises(ModelError, match=r"returned  = float32 \[1, 2\]"):
        warm_up(served)
