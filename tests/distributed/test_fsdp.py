"""FSDP against DDP, and how much memory it needs."""

import pytest

from tests.distributed.launch import check_ranks


def test_fsdp_is_ddp_in_parts():
    assert "gathered at most" in check_ranks("sharded.py", "2", ranks=2)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_fsdp_of_twelve_layers(ranks):
    check_ranks("sharded.py", "12", ranks=ranks, timeout=600)


def test_programs_of_earlier_versions_run():
    assert "older programs run" in check_ranks("older_programs.py", ranks=2)
