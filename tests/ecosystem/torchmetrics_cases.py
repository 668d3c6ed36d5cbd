"""Metrics of torchmetrics, each with two batches: they run on PyTorch and on edutorch.

.venv/bin/python -m tests.ecosystem.oracle -m tests.ecosystem.torchmetrics_cases
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torchmetrics import (
    aggregation,
    audio,
    classification,
    clustering,
    image,
    nominal,
    regression,
    retrieval,
    segmentation,
    text,
)

from tests.ecosystem.summaries import array_of, round_figure, write_golden

CLASSES = 4
SAMPLES = 64
Batch = tuple[Any, ...]
"""The arguments of one `update`: arrays, which become tensors, or lists of sentences."""


def generator(batch: int) -> np.random.Generator:
    return np.random.default_rng(batch)


def binary(batch: int) -> Batch:
    draw = generator(batch)
    return draw.random(SAMPLES, np.float32), draw.integers(0, 2, SAMPLES)


def multiclass(batch: int) -> Batch:
    draw = generator(batch)
    scores = draw.random((SAMPLES, CLASSES), np.float32) ** 2
    return scores / scores.sum(1, keepdims=True), draw.integers(0, CLASSES, SAMPLES)


def multilabel(batch: int) -> Batch:
    draw = generator(batch)
    shape = SAMPLES, CLASSES
    return draw.random(shape, np.float32), draw.integers(0, 2, shape)


def values(batch: int) -> Batch:
    """Return predictions, and targets about them; all are positive."""
    draw = generator(batch)
    target = draw.random(SAMPLES, np.float32) + 0.5
    return target * (0.8 + 0.4 * draw.random(SAMPLES, np.float32)), target


def vectors(batch: int) -> Batch:
    draw = generator(batch)
    return tuple(draw.standard_normal((SAMPLES, 8), np.float32) for _ in range(2))


def distributions(batch: int) -> Batch:
    draw = generator(batch)
    weights = draw.random((2, SAMPLES, CLASSES), np.float32) + 0.1
    return tuple(weights / weights.sum(-1, keepdims=True))


def images(batch: int) -> Batch:
    """Return pictures and what they were before noise came to them."""
    draw = generator(batch)
    target = np.cumsum(draw.random((2, 3, 48, 48), np.float32), -1) / 48
    noise = 0.05 * draw.random(target.shape, np.float32)
    return (0.9 * target + noise).astype(np.float32), target.astype(np.float32)


def one_image(batch: int) -> Batch:
    return images(batch)[:1]


def masks(batch: int) -> Batch:
    draw = generator(batch)
    return tuple(draw.integers(0, CLASSES, (2, 12, 12)) for _ in range(2))


def waves(batch: int) -> Batch:
    draw = generator(batch)
    target = draw.standard_normal((2, 2, 800), np.float32)
    noise = draw.standard_normal(target.shape, np.float32)
    return target + 0.3 * noise, target


def labels(batch: int) -> Batch:
    draw = generator(batch)
    return tuple(draw.integers(0, CLASSES, SAMPLES) for _ in range(2))


def points(batch: int) -> Batch:
    draw = generator(batch)
    group = draw.integers(0, CLASSES, SAMPLES)
    noise = draw.standard_normal((SAMPLES, 3), np.float32)
    return (noise + group[:, None]).astype(np.float32), group


def one_array(batch: int) -> Batch:
    return (generator(batch).random(SAMPLES, np.float32),)


def queries(batch: int) -> Batch:
    draw = generator(batch)
    scores = draw.random(SAMPLES, np.float32)
    return scores, draw.integers(0, 2, SAMPLES), draw.integers(0, 6, SAMPLES)


def tokens(batch: int) -> Batch:
    draw = generator(batch)
    return draw.standard_normal((2, 9, 12), np.float32), draw.integers(0, 12, (2, 9))


SPOKEN = [
    ["the cat sat on the mat", "a small network learns to read"],
    ["each gradient is a sum over all paths", "the loss went up, then down"],
]
WRITTEN = [
    ["the cat is on the mat", "a small net has learnt to read"],
    ["every gradient is the sum over paths", "the loss goes up and then it goes down"],
]


def sentences(batch: int) -> Batch:
    return SPOKEN[batch], WRITTEN[batch]


def translations(batch: int) -> Batch:
    """Return sentences, and of each two that would be right."""
    return SPOKEN[batch], [[right, right.replace("the", "that")] for right in WRITTEN[batch]]


def answers(batch: int) -> Batch:
    pairs = list(zip(SPOKEN[batch], WRITTEN[batch], strict=True))
    said = [{"prediction_text": said, "id": said} for said, _ in pairs]
    right = [{"answers": {"answer_start": [0], "text": [text]}, "id": said} for said, text in pairs]
    return said, right


BY_CLASS = {"num_classes": CLASSES}
BY_LABEL = {"num_labels": CLASSES}
UNIT = {"data_range": 1.0}

TABLE: Sequence[tuple[Callable[[int], Batch], Any, Sequence[tuple[str, dict[str, Any]]]]] = [
    (binary, classification, [
        ("BinaryAccuracy", {}), ("BinaryAUROC", {}), ("BinaryAveragePrecision", {}),
        ("BinaryCalibrationError", {}), ("BinaryHingeLoss", {}), ("BinaryROC", {"thresholds": 11}),
        ("BinaryPrecisionRecallCurve", {"thresholds": 11}),
        ("BinaryRecallAtFixedPrecision", {"min_precision": 0.5}),
    ]),
    (multiclass, classification, [
        ("MulticlassAccuracy", BY_CLASS), ("MulticlassPrecision", BY_CLASS),
        ("MulticlassRecall", BY_CLASS),
        ("MulticlassF1Score", BY_CLASS), ("MulticlassFBetaScore", {**BY_CLASS, "beta": 0.5}),
        ("MulticlassSpecificity", BY_CLASS), ("MulticlassConfusionMatrix", BY_CLASS),
        ("MulticlassCohenKappa", BY_CLASS), ("MulticlassMatthewsCorrCoef", BY_CLASS),
        ("MulticlassJaccardIndex", BY_CLASS), ("MulticlassAUROC", BY_CLASS),
        ("MulticlassStatScores", BY_CLASS),
        ("MulticlassAveragePrecision", BY_CLASS), ("MulticlassCalibrationError", BY_CLASS),
    ]),
    (multilabel, classification, [
        ("MultilabelF1Score", BY_LABEL), ("MultilabelHammingDistance", BY_LABEL),
        ("MultilabelCoverageError", BY_LABEL), ("MultilabelRankingLoss", BY_LABEL),
        ("MultilabelRankingAveragePrecision", BY_LABEL), ("MultilabelExactMatch", BY_LABEL),
    ]),
    (values, regression, [
        ("MeanSquaredError", {}), ("MeanAbsoluteError", {}), ("MeanAbsolutePercentageError", {}),
        ("MeanSquaredLogError", {}), ("R2Score", {}), ("ExplainedVariance", {}),
        ("PearsonCorrCoef", {}), ("SpearmanCorrCoef", {}), ("KendallRankCorrCoef", {}),
        ("ConcordanceCorrCoef", {}), ("LogCoshError", {}), ("MinkowskiDistance", {"p": 3}),
        ("RelativeSquaredError", {}), ("SymmetricMeanAbsolutePercentageError", {}),
        ("TweedieDevianceScore", {"power": 1.5}), ("WeightedMeanAbsolutePercentageError", {}),
    ]),
    (vectors, regression, [("CosineSimilarity", {"reduction": "mean"})]),
    (distributions, regression, [("KLDivergence", {}), ("JensenShannonDivergence", {})]),
    (images, image, [
        ("PeakSignalNoiseRatio", UNIT), ("StructuralSimilarityIndexMeasure", UNIT),
        ("MultiScaleStructuralSimilarityIndexMeasure", {**UNIT, "kernel_size": 3, "sigma": 0.5}),
        ("UniversalImageQualityIndex", {}), ("ErrorRelativeGlobalDimensionlessSynthesis", {}),
        ("SpectralAngleMapper", {}), ("RelativeAverageSpectralError", {}),
        ("RootMeanSquaredErrorUsingSlidingWindow", {}), ("SpatialCorrelationCoefficient", {}),
        ("VisualInformationFidelity", {}), ("SpectralDistortionIndex", {}),
    ]),
    (one_image, image, [("TotalVariation", {})]),
    (masks, segmentation, [
        ("MeanIoU", {**BY_CLASS, "input_format": "index"}),
        ("GeneralizedDiceScore", {**BY_CLASS, "input_format": "index"}),
    ]),
    (waves, audio, [
        ("SignalNoiseRatio", {}), ("ScaleInvariantSignalNoiseRatio", {}),
        ("ScaleInvariantSignalDistortionRatio", {}),
        ("SignalDistortionRatio", {"filter_length": 32}),
    ]),
    (labels, clustering, [
        ("RandScore", {}), ("AdjustedRandScore", {}), ("MutualInfoScore", {}),
        ("NormalizedMutualInfoScore", {}), ("VMeasureScore", {}), ("FowlkesMallowsIndex", {}),
        ("AdjustedMutualInfoScore", {}),
    ]),
    (points, clustering, [
        ("CalinskiHarabaszScore", {}), ("DaviesBouldinScore", {}), ("DunnIndex", {}),
    ]),
    (labels, nominal, [("CramersV", BY_CLASS), ("TheilsU", BY_CLASS)]),
    (one_array, aggregation, [
        ("MeanMetric", {}), ("SumMetric", {}), ("MaxMetric", {}), ("MinMetric", {}),
        ("CatMetric", {}), ("RunningMean", {"window": 2}),
    ]),
    (queries, retrieval, [
        ("RetrievalMAP", {}), ("RetrievalMRR", {}), ("RetrievalNormalizedDCG", {"top_k": 5}),
        ("RetrievalPrecision", {"top_k": 3}),
    ]),
    (tokens, text, [("Perplexity", {})]),
    (sentences, text, [
        ("WordErrorRate", {}), ("CharErrorRate", {}), ("MatchErrorRate", {}),
        ("WordInfoLost", {}), ("WordInfoPreserved", {}), ("EditDistance", {}),
        ("ExtendedEditDistance", {}),
    ]),
    (translations, text, [
        ("BLEUScore", {"n_gram": 2}), ("SacreBLEUScore", {"n_gram": 2}), ("CHRFScore", {}),
        ("TranslationEditRate", {}),
    ]),
    (answers, text, [("SQuAD", {})]),
]  # fmt: skip

CASES: dict[str, tuple[Callable[[int], Batch], Callable[[], Any]]] = {
    name: (draw, partial(getattr(module, name), **settings))
    for draw, module, entries in TABLE
    for name, settings in entries
}


def make_tensors(batch: Batch) -> Batch:
    return tuple(torch.from_numpy(part) if isinstance(part, np.ndarray) else part for part in batch)


def compute(case: str) -> Any:
    """Return what a metric answers after two batches."""
    draw, make = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some metrics warn of the memory that they need
        metric = make()
        for batch in (0, 1):
            metric.update(*make_tensors(draw(batch)))
        return figures(metric.compute())


def figures(answer: Any) -> Any:
    """Return of a tensor, or of each in a tuple or dictionary, its dtype, shape and elements."""
    if isinstance(answer, dict):
        return {name: figures(value) for name, value in answer.items()}
    if isinstance(answer, tuple | list):
        return [figures(value) for value in answer]
    array = array_of(answer)
    elements = [round_figure(value) for value in array.reshape(-1)]
    return {"dtype": str(answer.dtype), "shape": list(array.shape), "elements": elements}


if __name__ == "__main__":
    write_golden("torchmetrics", {case: compute(case) for case in CASES})
