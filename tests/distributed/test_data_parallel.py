"""DDP's options, uneven inputs, communication hooks, and SyncBatchNorm."""

import pytest

from tests.distributed.launch import check_ranks


def test_everything_that_ddp_can_be_told():
    assert "all options" in check_ranks("ddp_options.py")


def test_sync_batch_norm_is_batch_norm_of_the_whole_batch():
    assert "as one batch" in check_ranks("sync_batch_norm.py")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ddp_options.py", "sync_batch_norm.py"])
def test_the_same_on_more_ranks(program):
    check_ranks(program, ranks=3)
