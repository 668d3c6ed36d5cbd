"""Pipelines: the orders of their schedules, and a model in stages against one process."""

import pytest

from edutorch.distributed.pipelining.orders import (
    draw,
    gpipe,
    interleaved_1f1b,
    one_forward_one_backward,
)
from tests.distributed.launch import check_ranks
from tests.oracle import require_torch


def test_a_model_in_stages_is_one_process_with_the_whole_batch():
    assert "the same gradients" in check_ranks("pipelined.py", ranks=2)


@pytest.mark.slow
def test_four_stages_on_four_ranks():
    assert "the same gradients" in check_ranks("pipelined.py", ranks=4)


@pytest.mark.parametrize("order", [gpipe, one_forward_one_backward])
@pytest.mark.parametrize("ranks", range(1, 6))
def test_no_schedule_waits_for_ever(order, ranks):
    for microbatches in range(1, 12):
        rows = draw(order, ranks, microbatches).splitlines()
        assert len(rows) == ranks
        for row in rows:
            assert row.count("f") == row.count("B") == microbatches


@pytest.mark.parametrize("ranks", range(1, 5))
@pytest.mark.parametrize("stages_per_rank", [1, 2, 3])
def test_interleaved_stages_do_not_wait_for_ever(ranks, stages_per_rank):
    for rounds in (1, 2, 4):
        drawn = draw(interleaved_1f1b, ranks, rounds * ranks, stages_per_rank)
        assert drawn.count("f") == rounds * ranks * ranks * stages_per_rank


def test_1f1b_keeps_no_more_microbatches_than_stages_follow():
    for ranks in range(1, 6):
        for rank in range(ranks):
            kept = most = 0
            for action in one_forward_one_backward(rank, [rank], 12, ranks):
                kept += 1 if action.direction == "F" else -1
                most = max(most, kept)
            assert most == ranks - rank


@pytest.mark.parametrize(("ranks", "stages_per_rank", "rounds"), [(2, 2, 2), (4, 2, 1), (3, 3, 2)])
def test_the_interleaved_order_is_pytorchs(ranks, stages_per_rank, rounds):
    require_torch()
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    theirs = object.__new__(schedules.ScheduleInterleaved1F1B)
    theirs.__dict__.update(
        n_local_stages=stages_per_rank, pp_group_size=ranks, number_of_rounds=rounds,
        microbatches_per_round=ranks, _n_microbatches=ranks * rounds,
        backward_requires_autograd=True,
    )  # fmt: skip
    for rank in range(ranks):
        wanted = [
            (
                a.stage_index,
                "F" if a.computation_type.name == "FORWARD" else "B",
                a.microbatch_index,
            )
            for a in theirs._calculate_single_rank_operations(rank)
            if a is not None
        ]
        stages = range(rank, ranks * stages_per_rank, ranks)
        assert [tuple(a) for a in interleaved_1f1b(rank, stages, ranks * rounds, ranks)] == wanted
