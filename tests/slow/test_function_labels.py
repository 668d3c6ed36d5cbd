"""Pictures and `grad_fn` show public names, for every function in PyTorch's table."""

from __future__ import annotations

import warnings

import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
pytest.importorskip("torch")


def test_pictures_and_nodes_have_public_names() -> None:
    from tests.slow import function_labels

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = list(function_labels.rows())
    wrong = [f"{row.function}: {row.wrong()}" for row in rows if row.wrong()]
    print(function_labels.table(rows))
    assert len({row.function for row in rows}) > 400
    assert not wrong, "\n".join(wrong)


def test_a_private_name_is_noticed() -> None:
    from tests.slow.function_labels import Row

    assert "between" in Row("hardtanh", ("between",), "HardtanhBackward0", "", False).wrong()
    assert "Leaky" in Row("leaky_relu", ("leaky_relu",), "LeakyBackward0", "", False).wrong()
    assert "MulBackward1" in Row("mul", ("mul",), "MulBackward1", "MulBackward0", True).wrong()
    assert not Row("mul", ("mul",), "MulBackward0", "MulBackward0", True).wrong()
