"""Fields: how a column of a data set is read, and how it becomes a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....core.tensor import Tensor
from ....dtypes import dtype as DType
from ....dtypes import int64
from ....errors import InvalidValueError
from ....ops import tensor
from ...data.utils import get_tokenizer
from ..vocab import Vocab
from .dataset import Dataset


class Pipeline:
    """A function that is applied to a value, or to each item of a list, and others after it.

    >>> Pipeline(str.lower).add_after(str.strip)(["A ", " B"])
    ['a', 'b']
    """

    def __init__(self, convert_token: Callable[..., Any] | None = None) -> None:
        self.convert_token = convert_token or (lambda x: x)
        self.pipes: list[Callable[..., Any]] = [self.call]

    def __call__(self, x: Any, *args: Any) -> Any:
        for pipe in self.pipes:
            x = pipe(x, *args)
        return x

    def call(self, x: Any, *args: Any) -> Any:
        """Apply this function alone."""
        if isinstance(x, list):
            return [self.convert_token(item, *args) for item in x]
        return self.convert_token(x, *args)

    def add_before(self, pipeline: Callable[..., Any]) -> Pipeline:
        """Put a function before the others."""
        other = pipeline if isinstance(pipeline, Pipeline) else Pipeline(pipeline)
        self.pipes = other.pipes + self.pipes
        return self

    def add_after(self, pipeline: Callable[..., Any]) -> Pipeline:
        """Put a function after the others."""
        other = pipeline if isinstance(pipeline, Pipeline) else Pipeline(pipeline)
        self.pipes = self.pipes + other.pipes
        return self


class RawField:
    """A column that stays as it is.

    Args:
        preprocessing: applied to each value when it is read.
        postprocessing: applied to the values of a batch.
        is_target: whether it is what a model should predict.
    """

    def __init__(
        self, preprocessing: Callable[..., Any] | None = None,
        postprocessing: Callable[..., Any] | None = None, is_target: bool = False,
    ) -> None:  # fmt: skip
        self.preprocessing, self.postprocessing = preprocessing, postprocessing
        self.is_target = is_target

    def preprocess(self, x: Any) -> Any:
        """Return a value as it is kept."""
        return x if self.preprocessing is None else self.preprocessing(x)

    def process(self, batch: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Return the values of a batch."""
        return batch if self.postprocessing is None else self.postprocessing(batch)


class Field(RawField):
    """A column of texts, which become a tensor of numbers.

    Args:
        sequential: whether a value is a text of several tokens.
        use_vocab: whether tokens get numbers from a vocabulary; otherwise they are numbers.
        init_token, eos_token: put before and after each text.
        fix_length: the length of all texts; otherwise that of the longest in the batch.
        dtype: of the tensor.
        preprocessing: applied to the tokens when they are read.
        postprocessing: applied to the numbers of a batch, and the vocabulary.
        lower: whether texts are put into lower case.
        tokenize: what `get_tokenizer` takes; None splits at white space.
        tokenizer_language: the language for it.
        include_lengths: whether to return (tensor, lengths).
        batch_first: whether the tensor is (batch, tokens); otherwise (tokens, batch).
        pad_token, unk_token: fill up, and stand for unknown words.
        pad_first, truncate_first: whether texts are filled up, and cut, at their beginning.
        stop_words: words that are left out.
        is_target: whether it is what a model should predict.

    >>> field = Field(lower=True, batch_first=True)
    >>> texts = [field.preprocess(text) for text in ("To be or", "not To")]
    >>> field.build_vocab(texts)
    >>> field.process(texts)
    tensor([[2, 3, 5],
            [4, 2, 1]])
    """

    vocab_cls = Vocab

    def __init__(
        self, sequential: bool = True, use_vocab: bool = True, init_token: str | None = None,
        eos_token: str | None = None, fix_length: int | None = None, dtype: DType = int64,
        preprocessing: Callable[..., Any] | None = None,
        postprocessing: Callable[..., Any] | None = None, lower: bool = False,
        tokenize: Any = None, tokenizer_language: str = "en", include_lengths: bool = False,
        batch_first: bool = False, pad_token: str | None = "<pad>",
        unk_token: str | None = "<unk>", pad_first: bool = False, truncate_first: bool = False,
        stop_words: Iterable[str] | None = None, is_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(preprocessing, postprocessing, is_target)
        self.sequential, self.use_vocab = sequential, use_vocab
        self.init_token, self.eos_token, self.fix_length = init_token, eos_token, fix_length
        self.dtype, self.lower = dtype, lower
        self.tokenize = get_tokenizer(tokenize, tokenizer_language)
        self.include_lengths, self.batch_first = include_lengths, batch_first
        self.pad_token = pad_token if sequential else None
        self.unk_token = unk_token
        self.pad_first, self.truncate_first = pad_first, truncate_first
        self.stop_words = None if stop_words is None else set(stop_words)
        self.vocab: Vocab | None = None

    def preprocess(self, x: Any) -> Any:
        """Return the tokens of a text."""
        if self.sequential and isinstance(x, str):
            x = self.tokenize(x.rstrip("\n"))
        if self.lower:
            x = Pipeline(str.lower)(x)
        if self.sequential and self.use_vocab and self.stop_words:
            x = [word for word in x if word not in self.stop_words]
        return super().preprocess(x)

    def process(self, batch: Sequence[Any], device: Any = None, **ignored: Any) -> Any:
        """Return the tensor of a batch."""
        return self.numericalize(self.pad(batch), device=device)

    def pad(self, minibatch: Sequence[Any]) -> Any:
        """Return texts of one length, and with `include_lengths` how long they were."""
        texts = list(minibatch)
        if not self.sequential:
            return texts
        start = [] if self.init_token is None else [self.init_token]
        end = [] if self.eos_token is None else [self.eos_token]
        limit = max((len(text) for text in texts), default=0)
        if self.fix_length is not None:
            limit = self.fix_length - len(start) - len(end)
        padded, lengths = [], []
        for text in texts:
            kept = list(text[-limit:] if self.truncate_first and limit else text[:limit])
            filling = [self.pad_token] * (limit - len(kept))
            row = [*start, *kept, *end]
            padded.append(filling + row if self.pad_first else row + filling)
            lengths.append(len(row))
        return (padded, lengths) if self.include_lengths else padded

    def build_vocab(self, *args: Any, **kwargs: Any) -> None:
        """Make the vocabulary of data sets (their columns with this field), or of lists of tokens.

        Args:
            args: the data sets or lists.
            kwargs: `max_size`, `min_freq`, `vectors`, … of `legacy.vocab.Vocab`.
        """
        counter: Counter[str] = Counter()
        for source in args:
            columns = [source]
            if isinstance(source, Dataset):
                names = [name for name, field in source.fields.items() if field is self]
                columns = [getattr(source, name) for name in names]
            for column in columns:
                for value in column:
                    counter.update(value if self.sequential else [value])
        tokens = (self.unk_token, self.pad_token, self.init_token, self.eos_token)
        specials = dict.fromkeys(
            token for token in (*tokens, *kwargs.pop("specials", ())) if token is not None
        )
        self.vocab = self.vocab_cls(counter, specials=list(specials), **kwargs)

    def numericalize(self, arr: Any, device: Any = None) -> Any:
        """Return padded texts as a tensor, with their lengths if `include_lengths`.

        Raises: InvalidValueError: there is no vocabulary yet.
        """
        lengths = None
        if self.include_lengths:
            if not isinstance(arr, tuple):
                message = "include_lengths needs a pair of texts and lengths"
                raise InvalidValueError("Field", message)
            arr, lengths = arr
        if self.use_vocab:
            if self.vocab is None:
                raise InvalidValueError(
                    "Field", "there is no vocabulary yet", hint="field.build_vocab(train_data)"
                )
            arr = [self.number(value) for value in arr]
        else:
            arr = [self.number_itself(value) for value in arr]
        if self.postprocessing is not None:
            arr = self.postprocessing(arr, self.vocab)
        values = tensor(arr, dtype=self.dtype, device=device)
        if self.sequential and not self.batch_first:
            values = values.t().contiguous()
        if lengths is None:
            return values
        return values, tensor(lengths, dtype=int64, device=device)

    def number(self, value: Any) -> Any:
        """Return the indices of tokens, or of one token."""
        words: Any = self.vocab
        return [words.stoi[word] for word in value] if self.sequential else words.stoi[value]

    def number_itself(self, value: Any) -> Any:
        """Return the number that a text spells."""
        convert = float if self.dtype.is_floating_point else int
        if self.sequential:
            return [convert(item) for item in value]
        return convert(value) if isinstance(value, str) else value


class ReversibleField(Field):
    """A field whose tensors can be turned into texts again."""

    def reverse(self, batch: Tensor) -> list[str]:
        """Return the texts of a batch, each up to its end."""
        rows = batch.tolist() if self.batch_first else batch.t().tolist()
        words: Any = self.vocab
        texts = []
        for row in rows:
            tokens = [words.itos[index] for index in row]
            if self.eos_token in tokens:
                tokens = tokens[: tokens.index(self.eos_token)]
            hidden = (self.init_token, self.pad_token)
            texts.append(" ".join(token for token in tokens if token not in hidden))
        return texts


class LabelField(Field):
    """A column of classes: one token each, none of them unknown.

    >>> labels = LabelField()
    >>> labels.build_vocab(["pos", "neg", "pos"])
    >>> labels.process(["neg", "pos"])
    tensor([1, 0])
    """

    def __init__(self, **kwargs: Any) -> None:
        fixed = {"sequential": False, "unk_token": None, "is_target": True}
        super().__init__(**{**kwargs, **fixed})
