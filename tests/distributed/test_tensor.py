"""Distributed tensors: their ops in all placements, and layers that are divided by them."""

import pytest

from tests.distributed.launch import check_ranks


def test_ops_in_all_placements_are_those_of_plain_tensors():
    printed = check_ranks("tensor_rules.py", ranks=2)
    assert int(printed.split()[0]) > 500, printed


@pytest.mark.slow
def test_ops_on_three_ranks():
    check_ranks("tensor_rules.py", ranks=3)


def test_a_gpt_in_parts_is_the_whole():
    assert "numbers on each rank" in check_ranks("tensor_parallel.py", ranks=2)


@pytest.mark.slow
def test_a_gpt_divided_by_tensor_parallel_and_fsdp():
    check_ranks("tensor_parallel.py", ranks=4)
