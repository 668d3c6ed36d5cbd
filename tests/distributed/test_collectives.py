"""All collectives, on one to four ranks, against NumPy."""

import pytest

from tests.distributed.launch import check_ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_collective_gives_numpys_answer(ranks):
    printed = check_ranks("every_collective.py", ranks=ranks)
    assert int(printed.split()[0]) > 1000, printed


@pytest.mark.slow
def test_every_collective_on_four_ranks():
    check_ranks("every_collective.py", ranks=4)


@pytest.mark.parametrize("views", ["0", "1"])
def test_ddp_is_one_process_with_the_whole_batch(views):
    assert "the same weights" in check_ranks("same_weights.py", f"views={views}", ranks=2)


def test_ddp_on_three_ranks():
    check_ranks("same_weights.py", ranks=3)


def test_collectives_in_a_random_order():
    assert "500 collectives" in check_ranks("random_collectives.py", "3", "500", ranks=3)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_ten_thousand_collectives(ranks):
    printed = check_ranks("random_collectives.py", "11", "10000", ranks=ranks, timeout=600)
    assert "10000 collectives" in printed
