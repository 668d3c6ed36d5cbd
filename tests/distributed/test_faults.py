"""A job that cannot go on ends with one message, which names the rank and the cause."""

import pytest

from tests.distributed.launch import run_ranks

CAUSES = {
    "kill": "was killed by signal 9 (SIGKILL)",
    "raise": "has failed: ValueError: a bad batch",
    "shape": "called another collective than the others",
    "dtype": "called another collective than the others",
    "other": "called another collective than the others",
    "async": "called another collective than the others",
    "leave": "left after 10 collectives",
    "skip": "left after 29 collectives",
    "stop": "has been stopped",
}


@pytest.mark.parametrize("what", CAUSES)
def test_the_rank_that_is_to_blame_is_named(what):
    done = run_ranks("one_bad_rank.py", what, "1", ranks=3)
    assert done.returncode == 1
    said = done.stderr
    assert CAUSES[what] in said, said
    assert "rank 1 of 3" in said, said
    assert "one_bad_rank.py:" in said, said
    assert len(said.splitlines()) <= 40, said


def test_a_pause_of_three_seconds_is_no_fault():
    done = run_ranks("one_bad_rank.py", "pause", "1", ranks=3)
    assert (done.returncode, done.stdout) == (0, "done 0 3\n"), done.stderr


def test_a_job_starts_anew_and_says_how_often():
    done = run_ranks("one_bad_rank.py", "raise", "0", ranks=2, options=("--max-restarts", "1"))
    assert done.returncode == 1
    assert done.stderr.count("a bad batch") >= 2
    assert "starts anew (0 left)" in done.stderr
