"""From a text to a tensor in steps, as modules: `Sequential(tokenizer, VocabTransform(…), …)`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import nn
from ..core.tensor import Tensor
from ..dtypes import dtype as DType
from ..dtypes import int64
from ..errors import ArgumentError, InvalidValueError
from ..nn import functional as F
from ..ops import rand, randint_like, where
from . import functional
from .tokenizers import BPE, WordPiece
from .vocab import Vocab

__all__ = [
    "AddToken", "BERTTokenizer", "GPT2BPETokenizer", "LabelToIndex", "MaskTransform",
    "PadTransform", "Sequential", "StrToIntTransform", "ToTensor", "Truncate", "VocabTransform",
]  # fmt: skip


class Sequential(nn.Sequential):
    """Transforms, one after the other.

    >>> words = Vocab(["<pad>", "<bos>", "to", "be"])
    >>> transform = Sequential(VocabTransform(words), AddToken(1), Truncate(4), ToTensor(0))
    >>> transform([["to", "be"], ["be"]])
    tensor([[1, 2, 3],
            [1, 3, 0]])
    """

    def forward(self, input: Any) -> Any:
        """Return the input after all transforms."""
        for module in self:
            input = module(input)
        return input


class VocabTransform(nn.Module):
    """Tokens become ids: of one text, or of each text of a batch."""

    def __init__(self, vocab: Vocab) -> None:
        super().__init__()
        if not isinstance(vocab, Vocab):
            raise ArgumentError("VocabTransform", f"expected a Vocab, got {type(vocab).__name__}")
        self.vocab = vocab

    def forward(self, input: Any) -> Any:
        """Return the ids."""
        if functional.is_batch("VocabTransform", input):
            return [self.vocab.lookup_indices(tokens) for tokens in input]
        return self.vocab.lookup_indices(input)


class ToTensor(nn.Module):
    """Lists of ids become a tensor; see `functional.to_tensor`."""

    def __init__(self, padding_value: int | None = None, dtype: DType = int64) -> None:
        super().__init__()
        self.padding_value, self.dtype = padding_value, dtype

    def forward(self, input: Any) -> Tensor:
        """Return the tensor."""
        return functional.to_tensor(input, self.padding_value, self.dtype)


class LabelToIndex(nn.Module):
    """The names of classes become numbers.

    Args:
        label_names: the names, or
        label_path: a file with a name in each line.
        sort_names: whether they are numbered by the alphabet.

    >>> LabelToIndex(["test", "label", "indices"], sort_names=True)(["indices", "test"])
    [0, 2]
    """

    def __init__(
        self, label_names: Sequence[str] | None = None, label_path: str | Path | None = None,
        sort_names: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if (label_names is None) == (label_path is None):
            raise InvalidValueError("LabelToIndex", "give either label_names or label_path")
        if label_path is not None:
            lines = Path(label_path).read_text("utf-8").splitlines()
            label_names = [line.strip() for line in lines if line.strip()]
        names = list(label_names or ())
        self._label_vocab = Vocab(sorted(names) if sort_names else names)
        self._label_names = self._label_vocab.get_itos()

    def forward(self, labels: Any) -> Any:
        """Return the number of a name, or of each name."""
        if isinstance(labels, str):
            return self._label_vocab[labels]
        return self._label_vocab.lookup_indices(labels)

    @property
    def label_names(self) -> list[str]:
        """The names in the order of their numbers."""
        return self._label_names


class Truncate(nn.Module):
    """Keeps the first items of a list, or of each list."""

    def __init__(self, max_seq_len: int) -> None:
        super().__init__()
        self.max_seq_len = max_seq_len

    def forward(self, input: Any) -> Any:
        """Return what is kept."""
        return functional.truncate(input, self.max_seq_len)


class AddToken(nn.Module):
    """Puts a token before a list, or before each list; `begin=False`: after it."""

    def __init__(self, token: int | str, begin: bool = True) -> None:
        super().__init__()
        self.token, self.begin = token, begin

    def forward(self, input: Any) -> Any:
        """Return the longer lists."""
        return functional.add_token(input, self.token, self.begin)


class PadTransform(nn.Module):
    """Fills up the last dimension of a tensor to a length, if it is shorter.

    >>> PadTransform(4, 0)(edutorch.tensor([[1, 2]]))
    tensor([[1, 2, 0, 0]])
    """

    def __init__(self, max_length: int, pad_value: int) -> None:
        super().__init__()
        self.max_length, self.pad_value = max_length, float(pad_value)

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor, its last dimension at least `max_length`."""
        missing = self.max_length - x.shape[-1]
        return F.pad(x, (0, missing), value=self.pad_value) if missing > 0 else x


class StrToIntTransform(nn.Module):
    """Texts that spell integers become integers."""

    def forward(self, input: Any) -> Any:
        """Return the integers."""
        return functional.str_to_int(input)


class MaskTransform(nn.Module):
    """Hides random tokens, for a model that learns to fill them in.

    Of the tokens that are chosen, 80 % become the mask, 10 % another token, and 10 % stay.

    Args:
        vocab_len: the size of the vocabulary.
        mask_idx, bos_idx, pad_idx: the ids of the mask, the beginning and the padding; the last is
            never chosen.
        mask_bos: whether the beginning may be chosen.
        mask_prob: the probability of being chosen.

    Shape: (batch, tokens) → (batch, tokens), (chosen tokens,), (batch, tokens): the tokens with
        masks, the true ids of the chosen ones, and 1 where they stand.

    Paper: Devlin et al., arXiv:1810.04805.
    """

    mask_mask_prob = 0.8
    rand_mask_prob = 0.1

    def __init__(
        self, vocab_len: int, mask_idx: int, bos_idx: int, pad_idx: int, mask_bos: bool = False,
        mask_prob: float = 0.15,
    ) -> None:  # fmt: skip
        super().__init__()
        self.vocab_len, self.mask_idx, self.bos_idx, self.pad_idx = (
            vocab_len, mask_idx, bos_idx, pad_idx
        )  # fmt: skip
        self.mask_bos, self.mask_prob = mask_bos, mask_prob

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the masked tokens, the true ids of the chosen ones, and where they stand."""
        may_choose = tokens != self.pad_idx
        if not self.mask_bos:
            may_choose = may_choose & (tokens != self.bos_idx)
        is_chosen = may_choose & (rand(tokens.shape, device=tokens.device) < self.mask_prob)
        lot = rand(tokens.shape, device=tokens.device)
        is_hidden = is_chosen & (lot < self.mask_mask_prob)
        is_other = is_chosen & ~is_hidden & (lot < self.mask_mask_prob + self.rand_mask_prob)
        masked = tokens.masked_fill(is_hidden, self.mask_idx)
        masked = where(is_other, randint_like(tokens, self.vocab_len), masked)
        return masked, tokens[is_chosen], is_chosen.long()


class GPT2BPETokenizer(nn.Module):
    """GPT-2's tokenizer, read from its two files (see `tokenizers.BPE`).

    Args:
        encoder_json_path: the vocabulary, encoder.json or vocab.json.
        vocab_bpe_path: the merges, vocab.bpe or merges.txt.
        return_tokens: whether to return tokens; otherwise ids, as texts.
    """

    def __init__(
        self, encoder_json_path: str | Path, vocab_bpe_path: str | Path, return_tokens: bool = False
    ) -> None:
        super().__init__()
        self.bpe = BPE.from_files(encoder_json_path, vocab_bpe_path)
        self._return_tokens = return_tokens

    def forward(self, input: Any) -> Any:
        """Return the tokens, or ids as texts, of a text or of each text."""
        if not isinstance(input, str):
            return [self.forward(text) for text in input]
        tokens = self.bpe.tokenize(input)
        return tokens if self._return_tokens else [str(self.bpe.vocab[token]) for token in tokens]


class BERTTokenizer(nn.Module):
    """BERT's tokenizer, read from vocab.txt (see `tokenizers.WordPiece`).

    Args:
        vocab_path: a file with a token in each line.
        do_lower_case: whether case and accents are removed.
        strip_accents: whether accents are removed, if not as `do_lower_case` says.
        return_tokens: whether to return tokens; otherwise ids, as texts.
    """

    def __init__(
        self, vocab_path: str | Path, do_lower_case: bool = True,
        strip_accents: bool | None = None, return_tokens: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.words = WordPiece.from_files(vocab_path, do_lower_case)
        self.words.strip_accents = strip_accents
        self._return_tokens = return_tokens

    def forward(self, input: Any) -> Any:
        """Return the tokens, or ids as texts, of a text or of each text."""
        if not isinstance(input, str):
            return [self.forward(text) for text in input]
        tokens = self.words.tokenize(input)
        return tokens if self._return_tokens else [str(self.words.vocab[token]) for token in tokens]
