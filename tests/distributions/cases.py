"""One or two parameter sets of each distribution, as arrays for both libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

A = np.array
random = np.random.default_rng(0)
MATRIX = random.normal(size=(3, 3))
COVARIANCE = MATRIX @ MATRIX.T + np.eye(3)
FACTOR = np.linalg.cholesky(COVARIANCE)
PROBS = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
SOME = np.array([0.3, 0.5, 0.8])

# name → (class, arguments)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "Normal": ("Normal", {"loc": A([0.5, -1.0]), "scale": A([1.0, 2.5])}),
    "Laplace": ("Laplace", {"loc": A([0.5, -1.0]), "scale": A([1.0, 2.5])}),
    "Cauchy": ("Cauchy", {"loc": A([0.5, -1.0]), "scale": A([1.0, 2.5])}),
    "Uniform": ("Uniform", {"low": A([0.5, -1.0]), "high": A([1.0, 2.5])}),
    "Bernoulli": ("Bernoulli", {"probs": SOME}),
    "Bernoulli logits": ("Bernoulli", {"logits": A([-1.0, 0.5, 2.0])}),
    "Geometric": ("Geometric", {"probs": SOME}),
    "Geometric logits": ("Geometric", {"logits": A([-1.0, 0.5, 2.0])}),
    "Poisson": ("Poisson", {"rate": A([0.5, 3.0, 20.0])}),
    "Binomial": ("Binomial", {"total_count": 5, "probs": SOME}),
    "Binomial logits": ("Binomial", {"total_count": 5, "logits": A([-1.0, 0.5])}),
    "NegativeBinomial": (
        "NegativeBinomial", {"total_count": A([1.0, 4.0, 2.5]), "probs": SOME}
    ),
    "Categorical": ("Categorical", {"probs": PROBS}),
    "Categorical logits": ("Categorical", {"logits": np.log(PROBS) + 1}),
    "OneHotCategorical": ("OneHotCategorical", {"probs": PROBS}),
    "OneHotCategoricalStraightThrough": ("OneHotCategoricalStraightThrough", {"probs": PROBS}),
    "Multinomial": ("Multinomial", {"total_count": 4, "probs": PROBS}),
    "Exponential": ("Exponential", {"rate": A([0.5, 2.0])}),
    "Gamma": (
        "Gamma", {"concentration": A([0.4, 2.0, 30.0]), "rate": A([1.0, 0.5, 4.0])}
    ),
    "Chi2": ("Chi2", {"df": A([1.0, 5.0])}),
    "Beta": (
        "Beta",
        {"concentration1": A([0.5, 2.0, 9.0]), "concentration0": A([0.7, 3.0, 4.0])},
    ),
    "Dirichlet": ("Dirichlet", {"concentration": A([[0.5, 2.0, 1.0], [3.0, 4.0, 8.0]])}),
    "StudentT": (
        "StudentT",
        {"df": A([3.0, 8.0]), "loc": A([0.5, 1.0]), "scale": A([1.0, 2.0])},
    ),
    "FisherSnedecor": ("FisherSnedecor", {"df1": A([3.0, 6.0]), "df2": A([9.0, 7.0])}),
    "LogNormal": ("LogNormal", {"loc": A([0.5, -1.0]), "scale": A([0.3, 0.8])}),
    "LogisticNormal": ("LogisticNormal", {"loc": A([0.5, -1.0]), "scale": A([0.3, 1])}),
    "HalfNormal": ("HalfNormal", {"scale": A([0.5, 2.0])}),
    "HalfCauchy": ("HalfCauchy", {"scale": A([0.5, 2.0])}),
    "Gumbel": ("Gumbel", {"loc": A([0.5, -1.0]), "scale": A([1.0, 2.5])}),
    "Pareto": ("Pareto", {"scale": A([0.5, 1.0]), "alpha": A([3.0, 6.5])}),
    "Weibull": ("Weibull", {"scale": A([0.5, 1.0]), "concentration": A([1.5, 3.5])}),
    "Kumaraswamy": (
        "Kumaraswamy", {"concentration1": A([1.5, 3.0]), "concentration0": A([2.0, 1.2])}
    ),
    "InverseGamma": (
        "InverseGamma", {"concentration": A([3.5, 7.0]), "rate": A([1.0, 0.5])}
    ),
    "VonMises": ("VonMises", {"loc": A([0.5, -1.0]), "concentration": A([0.7, 6.0])}),
    # Between 0.499 and 0.501 PyTorch treats the distribution as uniform.
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": A([0.1, 0.6, 0.9])}),
    "GeneralizedPareto": (
        "GeneralizedPareto",
        {
            "loc": A([0.5, -1.0, 0.0]), "scale": A([1.0, 2.5, 1.0]),
            "concentration": A([0.2, -0.5, 0.0]),
        },
    ),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": A(0.7), "probs": SOME}),
    "LogitRelaxedBernoulli": (
        "LogitRelaxedBernoulli", {"temperature": A(0.7), "logits": SOME}
    ),
    "RelaxedOneHotCategorical": (
        "RelaxedOneHotCategorical", {"temperature": A(0.7), "probs": PROBS}
    ),
    "MultivariateNormal": (
        "MultivariateNormal", {"loc": A([1.0, 2.0, 3.0]), "covariance_matrix": COVARIANCE}
    ),
    "MultivariateNormal precision": (
        "MultivariateNormal", {"loc": A([1.0, 2.0, 3.0]), "precision_matrix": COVARIANCE}
    ),
    "MultivariateNormal tril": (
        "MultivariateNormal", {"loc": random.normal(size=(2, 3)), "scale_tril": FACTOR}
    ),
    "LowRankMultivariateNormal": (
        "LowRankMultivariateNormal",
        {
            "loc": A([1.0, 2.0, 3.0]), "cov_factor": random.normal(size=(3, 2)),
            "cov_diag": A([0.5, 1.0, 2.0]),
        },
    ),
    "Wishart": ("Wishart", {"df": A(6.5), "covariance_matrix": COVARIANCE}),
    "LKJCholesky": ("LKJCholesky", {"dim": 3, "concentration": A([0.8, 2.0])}),
}  # fmt: skip


VECTORS = {"MultivariateNormal", "LowRankMultivariateNormal"}


def build(
    library: Any, name: str, grad: bool = True, most: int | None = None, device: str = "cpu"
) -> tuple[Any, list[Any]]:
    """Build a case's distribution with a library; return it and its parameters."""
    cls, arguments = CASES[name]
    most = None if cls in VECTORS else most
    made = dict(arguments)
    for key, value in arguments.items():
        if isinstance(value, np.ndarray):
            values = value[:most] if value.ndim == 1 else value
            made[key] = library.tensor(
                values.tolist(), dtype=library.float64, requires_grad=grad, device=device
            )
    tensors = [tensor for tensor in made.values() if isinstance(tensor, library.Tensor)]
    place = library.distributions
    if cls == "LogitRelaxedBernoulli":  # PyTorch has it in its file only
        place = place.relaxed_bernoulli
    return getattr(place, cls)(**made), tensors
