"""FSDP against DDP, and how much memory it needs."""

import pytest

from tests.distributed.launch import check_ranks


def test_fsdp_is_ddp_in_parts():
    assert "gathered at most" in check_ranks("sharded.py", ranks=2)


@pytest.mark.slow
def test_fsdp_on_three_ranks():
    check_ranks("sharded.py", ranks=3)
