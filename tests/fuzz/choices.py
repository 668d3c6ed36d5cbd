"""Tables that arguments are drawn from: by a parameter's name."""

from __future__ import annotations

import re
from typing import Any

SKIPPED = set(
    "out device layout pin_memory requires_grad generator memory_format non_blocking sparse_grad "
    "size_average reduce_ sparse foreach fused capturable differentiable driver _weight _freeze "
    "validate_args norm_first hook closure _random_samples compute_mode data_source inplace "
    "align_to_window is_coalesced lower_triangular unused refused named process_group tol tseq "
    "onesided_ get_infos check_errors backend deterministic max_norm".split()
)
"""Parameters that are left at their defaults."""

INDEX_TARGETS = re.compile(
    r".*(cross_entropy|CrossEntropyLoss|nll_loss|NLLLoss2?d?|multi_margin.*|MultiMargin.*|"
    r"multilabel_margin.*|MultiLabelMargin.*|ctc_loss|CTCLoss)"
)
SIGN_TARGETS = re.compile(r".*(hinge|Hinge|cosine_embedding|CosineEmbedding|margin_ranking|"
                          r"MarginRanking|soft_margin|SoftMargin).*")  # fmt: skip
UNIT_TARGETS = re.compile(r".*(binary_cross_entropy|BCE|kl_div|KLDiv|poisson_nll|PoissonNLL).*")
SPD_TARGETS = re.compile(r".*(cholesky.*|eigh|eigvalsh|cholesky_ex|ldl_factor.*)")

WORDS: dict[str, tuple[Any, ...]] = {
    "reduction": ("mean", "sum", "none"),
    "padding_mode": ("zeros", "reflect", "replicate", "circular", "border", "reflection"),
    "mode": ("nearest", "bilinear", "bicubic", "area", "nearest-exact", "linear", "trilinear",
             "constant", "reflect", "replicate", "circular", "sum", "mean", "max"),
    "norm": ("ortho", "forward", "backward"),
    "rounding_mode": ("floor", "trunc"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "reduce": ("sum", "prod", "mean", "amax", "amin", "add", "multiply"),
    "indexing": ("ij", "xy"), "UPLO": ("L", "U"), "side": ("left", "right"),
    "approximate": ("none", "tanh"), "nonlinearity": ("tanh", "relu"),
    "pad_mode": ("constant", "reflect"),
    "line_search_fn": ("strong_wolfe",),
    "equation": ("ij,jk->ik", "ij,jk", "...j,jk->...k", "ij->ji",
                                                      "ii->i", "ij->", "i,j->ij", "ij,ij->i"),
}  # fmt: skip

INTS: dict[str, tuple[Any, ...]] = {
    "groups": (1, 1, 1, 2), "num_groups": (1, 1, 2, 3), "k": (1, 1, 2, 3, 0), "n": (1, 2, 3, 0, -1),
    "num_layers": (1, 1, 2), "chunks": (1, 2, 3, 5), "correction": (1, 0, 2), "r": (2, 1, 3),
    "decimals": (0, 1, 2, -1), "steps": (5, 1, 0, 17), "ignore_index": (-100, 0, 1),
    "bins": (4, 10),
    "num_classes": (-1, 5, 8), "n_fft": (4, 8), "window_length": (5, 1, 8, 0), "p": (1, 2),
    "padding_idx": (0, 1, -1), "num_heads": (1, 2), "output_size": (1, 2, 3), "minlength": (0, 5),
    "diagonal": (0, 1, -1), "offset": (0, 1, -1), "ind": (1, 2), "upscale_factor": (2,),
    "downscale_factor": (2,), "normalized_shape": (1, 2, 3), "blank": (0,), "edge_order": (1, 2),
    "divisor_override": (3, 1, -2), "decoder": (1,), "total_count": (1, 5, 10),
    "num_samples": (1, 2),
    "start": (0, 1, -1), "end": (5, 0, 2), "step": (1, 2), "length": (1, 2, 0), "dilation": (1, 2),
    "split_size": (1, 2, 3), "split_size_or_sections": (1, 2, 3), "history_size": (3,),
    "max_iter": (4,), "size": (2, 1, 3), "dimension": (0, -1, 1), "q": (0.5, 0.0, 1.0, 0.3),
    "element_dims": (1,), "bit_width": (8,), "hop_length": (2, 1), "win_length": (4,),
    "reduction": (0, 1, 2), "interpolation_mode": (0, 1, 2), "padding_mode": (0, 1, 2),
    "batch_first": (True, False), "row": (3, 1), "col": (3, 4), "N": (2,), "C": (3,), "HxW": (4,),
}  # fmt: skip

FLOAT_CHOICES: dict[str, tuple[Any, ...]] = {
    "p": (2.0, 1.0, 0.0, float("inf"), 3.0, 0.5), "lr": (0.1, 0.01), "eps": (1e-5, 1e-8, 0.1),
    "momentum": (0.1, 0.9, 0.0), "beta": (1.0, 0.5, 2.0), "threshold": (0.0, 1.0, 20.0),
    "dropout": (0.0,), "dropout_p": (0.0,), "norm_type": (2.0, 1.0), "weight_decay": (0.0, 0.1),
    "ord": (2, 1, float("inf"), -float("inf"), 0, 3, -1, 0.5), "delta": (1.0, 0.5),
    "alpha": (1.0, 0.5, 2, -1.5),
    "scale_factor": (2.0, 1.5, 0.5), "lambd": (0.5, 0.0, 1.0), "rcond": (1e-6,),
    "margin": (1.0, 0.0, 0.5),
    "label_smoothing": (0.0, 0.1, 1.0), "rho": (0.9,), "lower": (0.1,), "upper": (0.3,),
    "maxnorm": (1.0, 0.1),
    "min_val": (-1.0, 0.0), "max_val": (1.0, 2.0), "base": (10.0, 2.0), "lr_decay": (0.0, 0.1),
    "initial_accumulator_value": (0.0, 0.1), "t0": (1e6, 1.0), "momentum_decay": (4e-3,),
    "tolerance_grad": (1e-7,), "tolerance_change": (1e-9,), "beta2_decay": (-0.8,), "d": (1.0,),
    "dampening": (0.0, 0.1), "scale": (0.5, 1.0),
}  # fmt: skip

NUMBERS = (1, 2, 0, -1, 0.5, 1.5, -2.5, 3, True, 1e-5, 1e4, float("inf"), float("nan"))

DISTRIBUTION_FILLS = {
    "loc": "normal", "scale": "positive", "probs": "unit", "logits": "normal", "rate": "positive",
    "concentration": "positive", "concentration0": "positive", "concentration1": "positive",
    "df": "positive", "df1": "positive", "df2": "positive", "low": "zeros", "high": "positive",
    "temperature": "positive", "alpha": "positive", "covariance_matrix": "spd",
    "cov_diag": "positive",
    "cov_factor": "normal", "scale_tril": "spd", "precision_matrix": "spd",
}  # fmt: skip
