"""Masks of attention as functions of positions, and the blocks in which they let anything through.

    def causal(b, h, q_idx, kv_idx):
        return q_idx >= kv_idx

    mask = create_block_mask(causal, None, None, 1024, 1024)

A fast kernel skips blocks that are masked altogether. Here the blocks are only described: for each
row of blocks, how many hold anything, and which. A block is full where nothing in it is masked.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

from ...backends.device import DeviceLike
from ...core.tensor import Tensor
from ...dtypes import int32
from ...errors import ArgumentError, InvalidValueError
from ...ops import arange, argsort, broadcast_to, zeros

__all__ = [
    "BlockMask", "and_masks", "create_block_mask", "create_mask", "noop_mask", "or_masks",
]  # fmt: skip

Mask = Callable[[Any, Any, Any, Any], Any]
"""A function of batch, head, and the positions of query and key: may they see each other?"""

DEFAULT_BLOCK_SIZE = 128
SHOWN_BLOCKS = {0: " ", 1: "░", 2: "█"}


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Return True: nothing is masked."""
    return batch == batch


def and_masks(*mask_mods: Mask) -> Mask:
    """Return a mask that lets through what all masks let through."""
    return combine_masks("and_masks", lambda a, b: a & b, mask_mods)


def or_masks(*mask_mods: Mask) -> Mask:
    """Return a mask that lets through what any of the masks lets through."""
    return combine_masks("or_masks", lambda a, b: a | b, mask_mods)


def combine_masks(name: str, combine: Callable[[Any, Any], Any], masks: tuple[Mask, ...]) -> Mask:
    """Return a mask that combines the answers of several.

    Raises: RuntimeError: one of them is no function.
    """
    if not all(callable(mask) for mask in masks):
        raise InvalidValueError(name, f"All inputs should be callable mask_mods: {masks}")

    def combined(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        answer = masks[0](b, h, q_idx, kv_idx)
        for mask in masks[1:]:
            answer = combine(answer, mask(b, h, q_idx, kv_idx))
        return answer

    return combined


def positions(B: int, H: int, Q_LEN: int, KV_LEN: int, device: DeviceLike) -> list[Tensor]:
    """Return the four indices as tensors that broadcast to (B, H, Q_LEN, KV_LEN)."""
    indices = []
    for axis, size in enumerate((B, H, Q_LEN, KV_LEN)):
        shape = [1, 1, 1, 1]
        shape[axis] = size
        indices.append(arange(size, device=device).reshape(shape))
    return indices


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: DeviceLike = None,
) -> Tensor:  # fmt: skip
    """Return what a mask function, or a score function of zeros, gives at all positions.

    It is called once, with tensors of positions that broadcast: it has to work element by element.

    Args:
        mod_fn: `mask_mod(b, h, q_idx, kv_idx)`, or `score_mod(score, b, h, q_idx, kv_idx)`.
        B, H: the numbers of batches and heads; None: the mask is the same for all.

    Raises: TypeError: no function. InvalidValueError: another number of arguments.

    >>> nn.attention.flex_attention.create_mask(
    ...     lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    arguments = positions(*shape, device)
    if takes_scores(mod_fn):
        return broadcast_to(mod_fn(zeros(shape, device=device), *arguments), shape).contiguous()
    return broadcast_to(mod_fn(*arguments), shape).contiguous()


def takes_scores(mod_fn: Any) -> bool:
    """Return True for a score function, which has five arguments; a mask function has four.

    Raises: TypeError: no function. InvalidValueError: another number of arguments.
    """
    if not callable(mod_fn):
        raise ArgumentError("create_mask", f"{mod_fn} is not a callable object")
    parameters = inspect.signature(mod_fn).parameters.values()
    count = sum(
        parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        for parameter in parameters
    )
    if count not in (4, 5):
        raise InvalidValueError("create_mask", f"Expected 4 or 5 positional args, got {count}")
    return count == 5


def create_block_mask(
    mask_mod: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: DeviceLike = None, BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False, separate_full_blocks: bool = True, **settings: Any,
) -> BlockMask:  # fmt: skip
    """Return the blocks of a mask, for `flex_attention`.

    Args:
        mask_mod: the function (b, h, q_idx, kv_idx) → bool.
        B, H: the numbers of batches and heads; None: the mask is the same for all.
        BLOCK_SIZE: of queries and keys in a block.
        separate_full_blocks: whether blocks without a masked position are listed by themselves.

    Raises: TypeError: no function.

    >>> mask = nn.attention.flex_attention.create_block_mask(
    ...     lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 8, 8, BLOCK_SIZE=4)
    >>> mask.sparsity()
    25.0
    """
    dense = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device).bool()
    block_size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    partial, whole = find_blocks(dense, block_size)
    if not separate_full_blocks:
        partial, whole = partial | whole, None
    kv = list_blocks(partial)
    full_kv = (None, None) if whole is None else list_blocks(whole)
    return BlockMask((Q_LEN, KV_LEN), *kv, *full_kv, block_size, mask_mod)


def find_blocks(dense: Tensor, block_size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return which blocks of a mask are partly open, and which are open altogether."""
    *leading, rows, columns = dense.shape
    block_rows, block_columns = -(-rows // block_size[0]), -(-columns // block_size[1])
    # A block at the edge is filled up with masked positions.
    padded = zeros(
        *leading, block_rows * block_size[0], block_columns * block_size[1],
        dtype=dense.dtype, device=dense.device,
    )  # fmt: skip
    padded[..., :rows, :columns] = dense
    blocks = padded.reshape(*leading, block_rows, block_size[0], block_columns, block_size[1])
    count = blocks.sum((-3, -1))
    is_whole = count == block_size[0] * block_size[1]
    return (count > 0) & ~is_whole, is_whole


def list_blocks(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return, for each row of blocks, how many are marked, and the columns, those marked first."""
    order = argsort(blocks.int(), dim=-1, descending=True, stable=True)
    return blocks.sum(-1).to(int32), order.to(int32)


def to_grid(counts: Tensor, indices: Tensor) -> Tensor:
    """Return the blocks of a list as a grid of 0 and 1: the inverse of `list_blocks`."""
    columns = indices.shape[-1]
    is_listed = (arange(columns, device=counts.device) < counts.unsqueeze(-1)).to(int32)
    grid = zeros(*indices.shape, dtype=int32, device=counts.device)
    return grid.scatter(-1, indices.long(), is_listed)


class BlockMask:
    """A mask of attention as a list of blocks, and the function that tells about each position.

    Args:
        seq_lengths: the numbers of queries and keys.
        kv_num_blocks: for each row of blocks, how many are partly open: (B, H, rows).
        kv_indices: their columns, then the others: (B, H, rows, columns).
        full_kv_num_blocks, full_kv_indices: the same for blocks that are open altogether.
        BLOCK_SIZE: of a block.
        mask_mod: the function.
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int], mask_mod: Mask,
    ) -> None:  # fmt: skip
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        # The same by columns, which a kernel needs for the gradients of keys and values.
        transposed = to_grid(kv_num_blocks, kv_indices).transpose(-2, -1)
        self.q_num_blocks, self.q_indices = list_blocks(transposed)
        self.full_q_num_blocks = self.full_q_indices = None
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            transposed = to_grid(full_kv_num_blocks, full_kv_indices).transpose(-2, -1)
            self.full_q_num_blocks, self.full_q_indices = list_blocks(transposed)

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE, mask_mod: Mask | None = None,
        seq_lengths: tuple[int, int] | None = None, **settings: Any,
    ) -> BlockMask:  # fmt: skip
        """Make a mask from lists of blocks.

        Raises: InvalidValueError: the lists have too few dimensions.
        """
        if kv_indices.ndim < 2:
            raise InvalidValueError(
                "BlockMask", "BlockMask must have at least 2 dimensions",
                {"kv_indices": tuple(kv_indices.shape)},
            )  # fmt: skip
        block_size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        rows, columns = kv_indices.shape[-2:]
        lengths = seq_lengths or (rows * block_size[0], columns * block_size[1])
        return cls(
            lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, block_size,
            mask_mod or noop_mask,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of positions."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def to_dense(self) -> Tensor:
        """Return the grid of blocks: 1 where anything is let through."""
        grid = to_grid(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return grid
        return grid | to_grid(self.full_kv_num_blocks, self.full_kv_indices)

    def sparsity(self) -> float:
        """Return the percentage of positions in blocks that are masked altogether."""
        open_blocks = int(self.to_dense().sum())
        computed = open_blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def __getitem__(self, index: Any) -> BlockMask:
        """Return the mask of some batches or heads."""

        def part(tensor: Tensor | None) -> Any:
            return None if tensor is None else tensor[index]

        return BlockMask(
            self.seq_lengths, part(self.kv_num_blocks), part(self.kv_indices),
            part(self.full_kv_num_blocks), part(self.full_kv_indices), self.BLOCK_SIZE,
            self.mask_mod,
        )  # fmt: skip

    def to(self, device: DeviceLike) -> BlockMask:
        """Return the mask with its lists on a device."""

        def moved(tensor: Tensor | None) -> Any:
            return None if tensor is None else tensor.to(device)

        return BlockMask(
            self.seq_lengths, moved(self.kv_num_blocks), moved(self.kv_indices),
            moved(self.full_kv_num_blocks), moved(self.full_kv_indices), self.BLOCK_SIZE,
            self.mask_mod,
        )  # fmt: skip

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Return a drawing: █ for an open block, ░ for one that is partly open.

        Args:
            grid_size: the largest number of rows and columns; -1: all.
            limit: the largest number of drawings.
        """
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        grid = self.to_dense()
        whole = self.full_kv_num_blocks
        if whole is not None and self.full_kv_indices is not None:
            grid = grid + to_grid(whole, self.full_kv_indices)
        lines = []
        leading = list(itertools.product(*map(range, grid.shape[:-2])))
        for index in leading[:limit]:
            part = grid[index][: rows if rows > 0 else None, : columns if columns > 0 else None]
            drawn = ["".join(2 * SHOWN_BLOCKS[cell] for cell in row) for row in part.tolist()]
            lines += [str(index), *drawn, ""]
        if len(leading) > limit:
            lines += ["...", f"to_string(limit={len(leading)}) draws all, mask[batch, head] one"]
        return "\n".join(lines)

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,\n{self.to_string()})"
        )

    def __repr__(self) -> str:
        names = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
        parts = [f"    {name}={getattr(getattr(self, name), 'shape', None)}," for name in names]
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        lines = [
            "BlockMask(", *parts, f"    BLOCK_SIZE={self.BLOCK_SIZE},", f"    shape={self.shape},",
            f"    sparsity={self.sparsity():.2f}%,", f"    mask_mod={name}", ")",
        ]  # fmt: skip
        return "\n".join(lines)
