"""DDP's options, uneven inputs, communication hooks, and SyncBatchNorm."""

import pytest

from tests.distributed.launch import check_ranks


def test_everything_that_ddp_can_be_told():
    assert "all options" in check_ranks("ddp_options.py")


def test_sync_batch_norm_is_batch_norm_of_the_whole_batch():
    assert "as one batch" in check_ranks("sync_batch_norm.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", ["ddp_options.py", "sync_batch_norm.py", "sharded_optimizer.py"]
)
def test_the_same_on_more_ranks(program):
    check_ranks(program, ranks=3)


def test_training_is_that_of_one_process_and_equal_from_run_to_run():
    first, second = (check_ranks("one_process.py", "50") for _ in range(2))
    assert first.startswith("bits ")
    assert first == second


@pytest.mark.slow
def test_training_on_four_ranks():
    assert check_ranks("one_process.py", "200", ranks=4).startswith("bits ")


def test_an_optimizer_whose_state_is_divided_is_the_optimizer():
    assert "divided" in check_ranks("sharded_optimizer.py")


def test_collectives_are_rows_of_the_profiler():
    assert "profiled" in check_ranks("profiled.py")
