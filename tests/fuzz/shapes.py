"""Random matching shapes: a contract per function, with a letter per axis.

"nk km" gives a matrix of (n, k) and one of (k, m). `*` stands for any leading axes, the same
wherever it occurs; a digit for an axis of that size; `-` for an argument left out. Who has no
contract takes shapes that broadcast.
"""

from __future__ import annotations

import re
from random import Random

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33, 65)
SMALL = (1, 2, 2, 3, 3, 4, 5)
LARGE = (
    (1001,),
    (3, 700),
    (2, 3, 400),
    (70_000,),
    (260, 257),
    (66_000, 1),
    (1, 66_000),
    (2, 33_000),
)
"""More than 1,000 elements, and more than 65,504: the largest float16."""

# Of each name, the shapes of its tensors in the order of the signature.
CONTRACTS: dict[str, str] = {}


def contract(names: str, shapes: str) -> None:
    for name in names.split():
        CONTRACTS[name] = shapes


contract("mm", "nk km")
contract("bmm", "bnk bkm")
contract("mv", "nk k")
contract("dot vdot", "n n")
contract("outer ger", "n m")
contract("inner", "*k mk")
contract("matmul", "*nk *km")
contract("addmm", "nm nk km")
contract("addmv", "n nk k")
contract("addr", "nm n m")
contract("addbmm", "nm bnk bkm")
contract("baddbmm", "bnm bnk bkm")
contract("chain_matmul multi_dot", "nk km mj")
contract("tensordot", "nkm kmj")
contract("cross linalg.cross", "*3 *3")
contract("cdist", "*nd *md")
contract("pdist", "nd")
contract("kron", "nm kj")
contract("block_diag", "nm kj n")
contract("cartesian_prod meshgrid", "n m k")
contract("combinations vander", "n")
contract("linear", "*ni oi o")
contract("bilinear", "ni nj oij o")
contract("conv1d convolution", "ncx oc3 o")
contract("conv2d", "ncxy oc33 o")
contract("conv3d", "ncxyz oc222 o")
contract("conv_transpose1d", "ncx co3 o")
contract("conv_transpose2d", "ncxy co32 o")
contract("conv_transpose3d", "ncxyz co222 o")
contract("conv_tbc", "xnc 3co o")
contract("embedding", "vd *")
contract("embedding_bag", "nm vd")
contract("embedding_renorm", "vd m")
contract("prelu", "nc* c")
contract("layer_norm rms_norm", "*cd cd cd")
contract("group_norm", "nc* c c")
contract("batch_norm", "nc* c c c c")
contract("instance_norm", "ncx c c c c")
contract("channel_shuffle native_channel_shuffle", "n4xy")
contract("pixel_shuffle", "n4xy")
contract("pixel_unshuffle", "nc44")
contract("scaled_dot_product_attention", "*hle *hse *hsv ls")
contract("grid_sample grid_sampler grid_sampler_2d", "ncxy nhw2")
contract("grid_sampler_3d", "ncxyz nhwd3")
contract("affine_grid affine_grid_generator", "n23")
contract("cross_entropy", "nc n c")
contract("nll_loss", "nc n c")
contract("multi_margin_loss", "nc n c")
contract("multilabel_margin_loss", "nc nc")
contract("multilabel_soft_margin_loss", "nc nc c")
contract("cosine_embedding_loss", "nd nd n")
contract("margin_ranking_loss triplet_margin_loss", "nd nd nd")
contract("ctc_loss", "tnc ns n n")
contract("gaussian_nll_loss", "nd nd nd")
contract("fold", "n8l")
contract("unfold", "ncxy")
contract("lstm_cell", "ni nh qi qh q q")
contract("gru_cell", "ni nh ri rh r r")
contract("rnn_tanh_cell rnn_relu_cell", "ni nh hi hh h h")
contract("histogram", "n n")
contract("histogramdd", "nd")
contract("bincount", "n n")
contract("trace diag_embed diagflat", "nm")  # diagflat: its result has (n m)² elements
contract("unbind split chunk tensor_split split_with_sizes hsplit vsplit dsplit unsafe_split "
         "unsafe_chunk unsafe_split_with_sizes", "*nm")  # fmt: skip
contract("cov", "nm m m")
contract("corrcoef", "nm")
contract("fliplr flipud rot90 argwhere tril triu diag diagonal", "*nm")
contract("searchsorted", "*n *m")
contract("bucketize", "*m n")
contract("isin", "*m n")
contract("quantile nanquantile", "*nm q")
contract("masked_scatter", "*nm *nm *nm")
contract("stft", "nx")
contract("norm_except_dim", "nm")
for _rank, _axes in enumerate(("x", "xy", "xyz"), 1):
    contract(f"avg_pool{_rank}d max_pool{_rank}d max_pool{_rank}d_with_indices lp_pool{_rank}d "
             f"adaptive_avg_pool{_rank}d adaptive_max_pool{_rank}d dropout{_rank}d "
             f"adaptive_max_pool{_rank}d_with_indices fractional_max_pool{_rank}d "
             f"fractional_max_pool{_rank}d_with_indices", f"nc{_axes}")  # fmt: skip
    contract(f"max_unpool{_rank}d", f"nc{_axes} nc{_axes}")
contract("interpolate upsample upsample_bilinear upsample_nearest", "ncxy")
contract("local_response_norm feature_alpha_dropout feature_dropout", "ncxy")

# Linear algebra: square matrices and what goes with them.
contract("cholesky cholesky_ex cholesky_inverse det slogdet logdet inv inv_ex inverse eig eigvals "
         "eigh eigvalsh matrix_power matrix_exp cond lu_factor_ex ldl_factor ldl_factor_ex "
         "tensorinv", "*nn")  # fmt: skip
contract("svd svdvals qr pinv pinverse matrix_rank matrix_norm nuclear_norm lu lu_factor geqrf "
         "frobenius_norm", "*nm")  # fmt: skip
contract("solve solve_ex solve_triangular lstsq", "*nn *nk")
contract("triangular_solve cholesky_solve", "*nk *nn")
contract("lu_solve", "*nk *nn *n")
contract("linalg.lu_solve ldl_solve", "*nn *n *nk")
contract("lu_unpack", "*nn *n")
contract("orgqr householder_product", "*mn *n")
contract("ormqr", "*mn *n *mk")
contract("tensorsolve", "234k kk")
contract("vecdot", "*n *n")

# Along a dimension: the index has the rank of the input.
contract("gather take_along_dim", "nm km")
contract("scatter scatter_add scatter_reduce", "nm km km")
contract("index_add index_copy index_reduce", "nm k km")
contract("index_select index_fill", "nm k")
contract("index_put", "nm k km")
contract("take", "nm k")
contract("put", "nm k k")
contract("select_scatter", "nm m")
contract("diagonal_scatter", "nn n")
contract("slice_scatter", "nm nm")
contract("as_strided_scatter", "44 22")

# Modules: what they are called with; settings take the sizes from `AXES`.
contract("nn.Linear", "*i")
contract("nn.Bilinear", "ni nj")
contract("nn.Embedding", "*m")
contract("nn.EmbeddingBag", "nm")
contract("nn.GRU nn.LSTM nn.RNN", "lni")
contract("nn.GRUCell nn.RNNCell", "ni nh")
contract("nn.LSTMCell", "ni")
contract("nn.MultiheadAttention", "lne sne sne")
contract("nn.LayerNorm nn.RMSNorm", "*c")
contract("nn.GroupNorm nn.PReLU", "nc*")
contract("nn.CrossEntropyLoss nn.NLLLoss nn.MultiMarginLoss", "nc n")
contract("nn.NLLLoss2d", "ncxy nxy")
contract("nn.MultiLabelMarginLoss nn.MultiLabelSoftMarginLoss nn.CosineSimilarity "
         "nn.PairwiseDistance", "nd nd")  # fmt: skip
contract("nn.CosineEmbeddingLoss", "nd nd n")
contract("nn.MarginRankingLoss nn.TripletMarginLoss nn.GaussianNLLLoss", "nd nd nd")
contract("nn.CTCLoss", "tnc ns n n")
contract("nn.Fold", "n8l")
contract("nn.Unfold nn.Upsample nn.UpsamplingBilinear2d nn.UpsamplingNearest2d nn.Softmax2d "
         "nn.LocalResponseNorm nn.FeatureAlphaDropout", "ncxy")  # fmt: skip
contract("nn.PixelShuffle nn.ChannelShuffle", "n4xy")
contract("nn.PixelUnshuffle", "nc44")
contract("nn.Flatten", "nm*")
contract("nn.Unflatten", "n4*")
for _rank, _axes in enumerate(("x", "xy", "xyz"), 1):
    contract(" ".join(f"nn.{_name}{_rank}d" for _name in (
        "Conv", "ConvTranspose", "BatchNorm", "InstanceNorm", "AvgPool", "MaxPool", "LPPool",
        "AdaptiveAvgPool", "AdaptiveMaxPool", "FractionalMaxPool", "Dropout", "CircularPad",
        "ConstantPad", "ReflectionPad", "ReplicationPad", "ZeroPad",
    )), f"nc{_axes}")  # fmt: skip
    contract(f"nn.MaxUnpool{_rank}d", f"nc{_axes} nc{_axes}")
for _name in (
    "MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss KLDivLoss PoissonNLLLoss "
    "SoftMarginLoss HingeEmbeddingLoss"
).split():
    contract(f"nn.{_name}", "*n *n")

AXES = {
    "in_channels": "c", "out_channels": "o", "in_features": "i", "out_features": "o",
    "num_features": "c", "num_channels": "c", "embed_dim": "e", "input_size": "i",
    "hidden_size": "h", "num_embeddings": "v", "embedding_dim": "d", "in1_features": "i",
    "in2_features": "j", "normalized_shape": "c", "num_parameters": "c", "upscale_factor": "2",
    "downscale_factor": "2",
}  # fmt: skip
"""Settings that are the size of an axis."""

EVEN = {
    "e": (2, 4, 6),
    "c": (1, 2, 3, 4, 6),
    "x": (1, 4, 5, 7, 9),
    "y": (1, 4, 5, 8),
    "z": (2, 4, 5),
}
"""Axes that want other sizes than the rest."""


def any_shape(rng: Random, large: float = 0.06) -> tuple[int, ...]:
    """Draw a shape: mostly small, some empty, some with more than 65,504 elements."""
    if rng.random() < large:
        return rng.choice(LARGE)
    rank = rng.choice((0, 1, 1, 2, 2, 3, 3, 4))
    return tuple(rng.choice(SIZES[: 15 - 3 * rank]) for _ in range(rank))


def broadcast_variant(rng: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts with another, mostly the same one."""
    chance = rng.random()
    if chance < 0.55:
        return shape
    if chance < 0.96:
        cut = shape[rng.randint(0, len(shape)) :]
        return tuple(1 if rng.random() < 0.3 else size for size in cut)
    return any_shape(rng, large=0)


class Shapes:
    """The shapes of one call: by contract, or such that they broadcast."""

    def __init__(self, rng: Random, path: str, leaf: str) -> None:
        self.rng = rng
        text = CONTRACTS.get(path) or (None if path.startswith("nn.") and path.count(".") == 1
                                       else CONTRACTS.get(leaf))  # fmt: skip
        self.contracts = text.split() if text else []
        self.next = 0
        self.base = any_shape(rng)
        self.star = tuple(rng.choice((0, 1, 2, 3)) for _ in range(rng.choice((0, 0, 1, 2))))
        self.sizes: dict[str, int] = {}
        self.stretched = rng.random() < 0.05
        self.is_empty = rng.random() < 0.07

    def axis(self, letter: str) -> int:
        """Return the size of an axis, drawn at its first use."""
        if letter.isdigit():
            return int(letter)
        if letter not in self.sizes:
            drawn = self.rng.choice(EVEN.get(letter, SMALL))
            if letter == "n" and self.is_empty:
                drawn = 0
            if letter in "nmkt" and self.stretched:
                is_square = any(2 * letter in text for text in self.contracts)
                sizes = (33, 120, 257) if is_square else (33, 257, 1100, 2100)  # n³ takes long
                drawn, self.stretched = self.rng.choice(sizes), False
            self.sizes[letter] = drawn
        if letter == "q":
            return 4 * self.axis("h")
        return 3 * self.axis("h") if letter == "r" else self.sizes[letter]

    def draw(self) -> tuple[int, ...]:
        """Return the shape of the next tensor."""
        self.next += 1
        if not self.contracts:
            return self.base if self.next == 1 else broadcast_variant(self.rng, self.base)
        text = self.contracts[min(self.next, len(self.contracts)) - 1]
        shape: list[int] = []
        for letter in re.sub("-", "", text):
            shape += self.star if letter == "*" else (self.axis(letter),)
        if self.rng.random() < 0.03 and shape:  # mostly refused: are the reasons the same?
            shape[self.rng.randrange(len(shape))] = self.rng.choice(SMALL)
        return tuple(shape)
