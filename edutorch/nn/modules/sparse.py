"""Embedding layers: lookup tables of vectors."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...ops import empty
from .. import functional as F
from .. import init
from ..common_types import DeviceLike, DTypeLike
from ..parameter import Parameter
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


class EmbeddingError(EdutorchError, AssertionError):
    """The weight of an embedding does not fit its settings (an AssertionError, as in PyTorch)."""


class _EmbeddingBase(Module):
    """Base of both embeddings: the weight, and its initialization."""

    weight: Parameter

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
        _weight: Tensor | None, device: DeviceLike, dtype: DTypeLike,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (num_embeddings, embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise EmbeddingError(
                type(self).__name__, "Padding_idx must be within num_embeddings",
                {"padding_idx": padding_idx, "num_embeddings": num_embeddings},
            )  # fmt: skip
        if _weight is not None and tuple(_weight.shape) != shape:
            raise EmbeddingError(
                type(self).__name__,
                "Shape of weight does not match num_embeddings and embedding_dim",
                {"weight": tuple(_weight.shape), "expected": shape},
            )
        self.num_embeddings, self.embedding_dim = shape
        # Counted from the front, as it is compared with indices.
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is None:
            self.weight = Parameter(empty(shape, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Reinitialize the parameters."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            # Through `data`: the reset is no step that autograd should record.
            self.weight.data[self.padding_idx] = 0


def embedding_shape(embeddings: Tensor) -> tuple[int, int]:
    """Return the shape of a given weight. Raises: EmbeddingError: it is not 2-D."""
    if embeddings.ndim != 2:
        raise EmbeddingError(
            "from_pretrained", "Embeddings parameter is expected to be 2-dimensional",
            {"embeddings": tuple(embeddings.shape)},
        )  # fmt: skip
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(_EmbeddingBase):
    """A lookup table of trainable vectors: each index selects a row of `weight`.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of each row.
        padding_idx: the index of a row that stays 0 and gets no gradient.
        max_norm: rows with a larger norm are scaled down to it when they are looked up.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide each row's gradient by how often its index occurs.
        sparse: whether the gradient of the weight is a sparse tensor (SGD, SparseAdam, Adagrad).

    The weight is initialized from a standard normal distribution.

    >>> nn.Embedding(10, 3)(tensor([[1, 2]])).shape
    torch.Size([1, 2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.weight.requires_grad_(not _freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        defaults = {
            "padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False,
            "sparse": False,
        }  # fmt: skip
        for name, value in defaults.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """Create an embedding with a given weight; `freeze` excludes it from training.

        Raises: EmbeddingError (an AssertionError): the weight is not (rows, d).

        >>> nn.Embedding.from_pretrained(tensor([[1.0, 2.0]]))(tensor([0]))
        tensor([[1., 2.]])
        """
        return cls(
            *embedding_shape(embeddings),
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            embeddings,
            freeze,
        )


class EmbeddingBag(_EmbeddingBase):
    """The sum, mean or maximum of several rows of a table: one vector per bag of indices.

    Args: as for `Embedding`, and
        mode: "sum", "mean" or "max".
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: the index of a row that is left out.

    The weight is initialized from a standard normal distribution.

    >>> nn.EmbeddingBag(10, 3)(tensor([1, 2, 4]), tensor([0, 2])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.mode, self.sparse = scale_grad_by_freq, mode, sparse
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Look up bags of one size (n, size), or bags in one row, given their offsets."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        defaults = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        for name, value in defaults.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """Create an embedding with a given weight; `freeze` excludes it from training.

        Raises: EmbeddingError (an AssertionError): the weight is not (rows, d).

        >>> nn.EmbeddingBag.from_pretrained(tensor([[1.0], [3.0]]))(tensor([[0, 1]]))
        tensor([[2.]])
        """
        module = cls(
            *embedding_shape(embeddings), max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            embeddings, include_last_offset, padding_idx,
        )  # fmt: skip
        module.weight.requires_grad_(not freeze)
        return module
