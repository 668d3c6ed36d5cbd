"""The real torchmetrics: 100 metrics answer as on PyTorch after two batches."""

import pickle

import numpy as np
import pytest

torchmetrics = pytest.importorskip("torchmetrics")

from tests.ecosystem.summaries import read_golden  # noqa: E402
from tests.ecosystem.torchmetrics_cases import (  # noqa: E402
    CASES,
    compute,
    images,
    make_tensors,
    multiclass,
)


def test_golden_answers_of_all_metrics():
    assert list(CASES) == list(read_golden("torchmetrics"))


@pytest.mark.parametrize("case", CASES)
def test_metrics_answer_as_on_pytorch(case):
    ours, theirs = compute(case), read_golden("torchmetrics")[case]
    assert_close(ours, theirs, case)


def assert_close(ours, theirs, path):
    """Compare two answers of `figures`: structure, dtypes, shapes; elements by 1e-4."""
    if isinstance(theirs, list):
        assert len(ours) == len(theirs), path
        for index, value in enumerate(theirs):
            assert_close(ours[index], value, f"{path}[{index}]")
    elif "elements" in theirs:
        assert (ours["dtype"], ours["shape"]) == (theirs["dtype"], theirs["shape"]), path
        np.testing.assert_allclose(
            ours["elements"], theirs["elements"], rtol=1e-4, atol=1e-6, err_msg=path
        )
    else:
        assert list(ours) == list(theirs), path
        for name, value in theirs.items():
            assert_close(ours[name], value, f"{path}.{name}")


def test_a_collection_answers_per_batch_and_goes_on_from_its_state():
    def make_metrics():
        metrics = torchmetrics.MetricCollection(
            [CASES[name][1]() for name in ("MulticlassAccuracy", "MulticlassRecall")],
            prefix="train/",
        )
        metrics.persistent(True)
        return metrics

    metrics = make_metrics()
    first, second = (make_tensors(multiclass(batch)) for batch in (0, 1))
    of_a_batch = metrics(*first)
    assert list(of_a_batch) == ["train/MulticlassAccuracy", "train/MulticlassRecall"]
    assert of_a_batch == metrics.compute()
    resumed = make_metrics()
    resumed.load_state_dict(metrics.state_dict())
    copied = pickle.loads(pickle.dumps(metrics))
    for other in (metrics, resumed, copied):
        other.update(*second)
    assert metrics.compute() == copied.compute()
    assert {name: value.item() for name, value in resumed.compute().items()} == {
        name: value.item() for name, value in metrics.compute().items()
    }
    metrics.reset()
    assert metrics(*first) == of_a_batch


def test_the_gradient_of_a_metric_reaches_its_input():
    pictures, target = make_tensors(images(0))
    pictures.requires_grad_()
    torchmetrics.functional.structural_similarity_index_measure(
        pictures, target, data_range=1.0
    ).backward()
    assert pictures.grad.abs().sum() > 0
