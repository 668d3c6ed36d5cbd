"""A table of vectors, one for each number: how words enter a network."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...ops import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


class TableError(EdutorchError, AssertionError):
    """The table of an embedding is not what its settings say (an AssertionError, as PyTorch's)."""


class Table(Module):
    """What both embeddings share: the table, and how it starts."""

    weight: Parameter

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
        _weight: Tensor | None, device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (num_embeddings, embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise TableError(
                type(self).__name__, "Padding_idx must be within num_embeddings",
                {"padding_idx": padding_idx, "num_embeddings": num_embeddings},
            )  # fmt: skip
        if _weight is not None and tuple(_weight.shape) != shape:
            raise TableError(
                type(self).__name__,
                "Shape of weight does not match num_embeddings and embedding_dim",
                {"weight": tuple(_weight.shape), "expected": shape},
            )
        self.num_embeddings, self.embedding_dim = shape
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is None:
            self.weight = Parameter(empty(shape, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draw new random numbers."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0


def rows_of(embeddings: Tensor) -> tuple[int, int]:
    """Return the shape of a given table. Raises: TableError: it is none."""
    if embeddings.ndim != 2:
        raise TableError(
            "from_pretrained", "Embeddings parameter is expected to be 2-dimensional",
            {"embeddings": tuple(embeddings.shape)},
        )  # fmt: skip
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(Table):
    """Rows of a table that is trained, found by number.

    Args:
        num_embeddings: how many rows.
        embedding_dim: how long each is.
        padding_idx: a row that stays 0 and is not trained.
        max_norm: rows longer than this are shortened when they are asked for.
        norm_type: the p of their length.
        scale_grad_by_freq: divide each row's gradient by how often it was asked for.
        sparse: accepted; gradients are dense here.

    Starts with standard normal numbers.

    >>> nn.Embedding(10, 3)(tensor([[1, 2]])).shape
    torch.Size([1, 2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.weight.requires_grad_(not _freeze)

    def forward(self, input: Tensor) -> Tensor:
        """Look up the rows."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings that differ from the usual ones."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        usual = {
            "padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False,
            "sparse": False,
        }  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """Make one from a table that is there already; `freeze` keeps it from being trained.

        Raises: TableError (an AssertionError): the table is not (rows, d).

        >>> nn.Embedding.from_pretrained(tensor([[1.0, 2.0]]))(tensor([0]))
        tensor([[1., 2.]])
        """
        return cls(
            *rows_of(embeddings), padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            embeddings, freeze,
        )  # fmt: skip


class EmbeddingBag(Table):
    """The sum, mean or largest of several rows of a table: one vector for each bag of numbers.

    Args: as for `Embedding`, and
        mode: "sum", "mean" or "max".
        include_last_offset: the last of the offsets is where the last bag ends.
        padding_idx: a row that does not count.

    Starts with standard normal numbers.

    >>> nn.EmbeddingBag(10, 3)(tensor([1, 2, 4]), tensor([0, 2])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.mode, self.sparse = scale_grad_by_freq, mode, sparse
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Look up bags of one size (n, size), or all in a row, with where each begins."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings that differ from the usual ones, and the mode."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        usual = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        for name, value in usual.items():
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
        """Make one from a table that is there already; `freeze` keeps it from being trained.

        Raises: TableError (an AssertionError): the table is not (rows, d).

        >>> nn.EmbeddingBag.from_pretrained(tensor([[1.0], [3.0]]))(tensor([[0, 1]]))
        tensor([[2.]])
        """
        made = cls(
            *rows_of(embeddings), max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            embeddings, include_last_offset, padding_idx,
        )  # fmt: skip
        made.weight.requires_grad_(not freeze)
        return made
