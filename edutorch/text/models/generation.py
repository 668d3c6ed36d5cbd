"""Writing on from a prompt: greedy, by chance, or by beam search.

Read `GenerationMixin.generate` first: it calls `extend` (one text for each prompt, greedy or by
chance) or `BeamSearch`. Both call a `Predictor`, which runs the model on the new tokens alone and
keeps the keys and values of those before in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...dtypes import bool as boolean
from ...errors import InvalidValueError, ShapeError, unknown_keyword
from ...modes import no_grad
from ...nn import functional as F
from ...ops import cat, full, multinomial, ones, ones_like, tensor, topk
from .configs import PretrainedConfig
from .pretrained import PretrainedModel

Cache = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, each (batch, heads, tokens, features of a head)."""


@dataclass(frozen=True)
class GenerationConfig:
    """How to write on. The names are those of transformers.

    Args:
        max_new_tokens: how many tokens to add at most; by default 20.
        max_length: how many tokens a text may have, with its prompt, if max_new_tokens is None.
        do_sample: draw each token; otherwise the likeliest is taken.
        temperature: divides the scores before drawing: below 1 bolder, above 1 more varied.
        top_k: draw among the k likeliest.
        top_p: draw among the likeliest that together have this probability.
        num_beams: above 1: beam search with so many texts at a time.
        length_penalty: a beam's score is its log-probability / length^length_penalty.
        num_return_sequences: how many texts to return for each prompt, drawn or the best beams.
        early_stopping: end a beam search once `num_beams` texts have ended.
        eos_token_id, pad_token_id: the end of a text, and what fills up after it; by default those
            of the model's config.
        use_cache: keep keys and values; without it, each step reads the whole text again.

    Raises: InvalidValueError: a setting is out of its range.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    num_beams: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    use_cache: bool = True

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "top_k", "num_beams", "num_return_sequences"):
            value = getattr(self, name)
            check_setting(name, value, value is None or value >= 1, "at least 1")
        temperature, top_p = self.temperature, self.top_p
        hint = "above 0; greedy is do_sample=False"
        check_setting("temperature", temperature, temperature > 0, hint)
        is_share = top_p is None or 0 < top_p <= 1
        check_setting("top_p", top_p, is_share, "above 0, and at most 1")
        if self.do_sample and self.num_beams > 1:
            raise InvalidValueError(
                "generate", "beam search takes the best texts and draws none",
                {"num_beams": self.num_beams, "do_sample": True}, "leave one of the two out",
            )  # fmt: skip
        if self.num_return_sequences > self.num_beams and not self.do_sample:
            raise InvalidValueError(
                "generate", "there are not so many different texts",
                {"num_return_sequences": self.num_return_sequences, "num_beams": self.num_beams},
                "draw them with do_sample=True, or search with more beams",
            )  # fmt: skip

    def resolve(self, config: PretrainedConfig, prompt_length: int) -> GenerationConfig:
        """Return these settings with a number of new tokens, and the ids of a model's config."""
        count = self.max_new_tokens or 20
        if self.max_new_tokens is None and self.max_length is not None:
            count = self.max_length - prompt_length
            if count < 1:
                raise InvalidValueError(
                    "generate", "the prompt is as long as the text may be",
                    {"prompt": prompt_length, "max_length": self.max_length},
                    "max_new_tokens counts the new tokens alone",
                )  # fmt: skip
        eos = config.eos_token_id if self.eos_token_id is None else self.eos_token_id
        pad = config.pad_token_id if self.pad_token_id is None else self.pad_token_id
        # Something must stand there, and the end says best that nothing follows.
        pad = (eos or 0) if pad is None else pad
        return replace(self, max_new_tokens=count, eos_token_id=eos, pad_token_id=pad)


def check_setting(name: str, value: object, is_valid: bool, limit: str) -> None:
    """Raise InvalidValueError for a setting out of its range."""
    if not is_valid:
        raise InvalidValueError("generate", f"{name} must be {limit}", {name: value})


class GenerationMixin(PretrainedModel):
    """Gives a language model `generate`."""

    def generate(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        generation_config: GenerationConfig | None = None, **settings: Any,
    ) -> Tensor:  # fmt: skip
        """Return the prompts with what the model writes after them.

        Args:
            input_ids: (batch, tokens), at least one token.
            attention_mask: (batch, tokens): 0 for padding on the left of shorter prompts.
            generation_config, settings: see `GenerationConfig`.

        Shape: (batch, tokens) → (batch · num_return_sequences, tokens + new ones).

        Raises: InvalidValueError: a setting out of its range, an empty prompt, or more tokens than
            the model has positions.
        """
        check_prompts(input_ids)
        for name in settings:
            if name not in GenerationConfig.__dataclass_fields__:
                raise unknown_keyword("generate", name, GenerationConfig.__dataclass_fields__)
        plan = replace(generation_config or GenerationConfig(), **settings)
        plan = plan.resolve(self.config, input_ids.shape[1])
        if plan.num_beams == 1 and plan.num_return_sequences > 1:
            input_ids = input_ids.repeat_interleave(plan.num_return_sequences, dim=0)
            if attention_mask is not None:
                attention_mask = attention_mask.repeat_interleave(plan.num_return_sequences, dim=0)
        predictor = Predictor(self, plan.use_cache)
        was_training = self.training
        self.eval()
        try:
            with no_grad():
                if plan.num_beams > 1:
                    return BeamSearch(plan).run(predictor, input_ids, attention_mask)
                return extend(predictor, input_ids, attention_mask, plan)
        finally:
            self.train(was_training)


def check_prompts(input_ids: Tensor) -> None:
    """Raise an error for prompts that are no batch, or empty."""
    shape = {"input_ids": tuple(input_ids.shape)}
    if input_ids.dim() != 2:
        message = "the prompts must be (batch, tokens)"
        raise ShapeError("generate", message, shape, "a single prompt: input_ids[None]")
    if input_ids.shape[1] == 0:
        hint = "begin with one token at least, such as the config's bos_token_id"
        raise InvalidValueError("generate", "the prompt is empty", shape, hint)


class Predictor:
    """Returns the scores of the next token, and remembers what it has read."""

    def __init__(self, model: Callable[..., Any], use_cache: bool) -> None:
        self.model, self.use_cache = model, use_cache
        self.cache: Cache | None = None

    def __call__(self, texts: Tensor, mask: Tensor | None) -> Tensor:
        """Return the scores after each text. Shape: (batch, tokens) → (batch, vocab_size)."""
        read = self.cache[0][0].shape[2] if self.cache else 0
        output = self.model(texts[:, read:], mask, self.cache, use_cache=self.use_cache)
        self.cache = output.past_key_values
        return output.logits[:, -1]

    def reorder(self, rows: Tensor) -> None:
        """Let row i go on with what row `rows[i]` has read."""
        if self.cache:
            self.cache = [(key[rows], value[rows]) for key, value in self.cache]


def grow_mask(mask: Tensor | None) -> Tensor | None:
    """Return a mask with one more token that counts."""
    return None if mask is None else cat([mask, ones_like(mask[:, :1])], dim=1)


# One text at a time --------------------------------------------------------------------


def extend(
    predictor: Predictor, texts: Tensor, mask: Tensor | None, plan: GenerationConfig
) -> Tensor:
    """Return the texts with one token after the other, until all have ended."""
    padding = full((), plan.pad_token_id, dtype=texts.dtype, device=texts.device)
    is_open = ones(texts.shape[0], dtype=boolean, device=texts.device)
    for _ in range(plan.max_new_tokens or 0):
        token = choose(predictor(texts, mask), plan).where(is_open, padding)
        texts, mask = cat([texts, token[:, None]], dim=1), grow_mask(mask)
        if plan.eos_token_id is not None:
            is_open = is_open & (token != plan.eos_token_id)
            if not is_open.any():
                break
    return texts


def choose(logits: Tensor, plan: GenerationConfig) -> Tensor:
    """Return the next token of each text. Shape: (batch, vocab_size) → (batch,)."""
    if not plan.do_sample:
        return logits.argmax(-1)
    kept = filter_logits(logits, plan.temperature, plan.top_k, plan.top_p)
    return multinomial(F.softmax(kept, dim=-1), 1).squeeze(1)


def filter_logits(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Return scores from which only likely tokens can be drawn: the others are -∞.

    >>> filter_logits(edutorch.tensor([[1.0, 3.0, 2.0]]), top_k=2)
    tensor([[-inf, 3., 2.]])
    """
    logits = logits / temperature
    if top_k is not None:
        lowest = topk(logits, min(top_k, logits.shape[-1])).values[..., -1:]
        logits = logits.masked_fill(logits < lowest, -math.inf)
    if top_p is not None:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = F.softmax(ordered, dim=-1)
        # A token stays while those before it do not have the probability yet: so the first does.
        before = probabilities.cumsum(-1) - probabilities
        is_unlikely = (before >= top_p).scatter(-1, order, before >= top_p)
        logits = logits.masked_fill(is_unlikely, -math.inf)
    return logits


# Beam search ---------------------------------------------------------------------------


class Beam(NamedTuple):
    """A text on its way: its log-probability, its tokens, and the row that it continues."""

    score: float
    tokens: list[int]
    row: int = 0


class BeamSearch:
    """Keeps the best unfinished texts of each prompt, and the best finished ones apart.

    A step looks at the 2 · num_beams best continuations: even if half of them end, there are
    enough to go on with.
    """

    def __init__(self, plan: GenerationConfig) -> None:
        self.plan, self.num_beams = plan, plan.num_beams

    def run(self, predictor: Predictor, prompts: Tensor, mask: Tensor | None) -> Tensor:
        """Return the best texts after each prompt, filled up to the same length."""
        rows = prompts.tolist()
        self.prompt_length = len(rows[0])
        self.max_length = self.prompt_length + (self.plan.max_new_tokens or 0)
        # All beams of a prompt are the same text at first, so only one of them may count.
        running = [
            [Beam(-1e9 if beam else 0.0, tokens) for beam in range(self.num_beams)]
            for tokens in rows
        ]
        finished: list[list[Beam]] = [[] for _ in rows]
        is_open = [True] * len(rows)
        mask = None if mask is None else mask.repeat_interleave(self.num_beams, dim=0)
        while True:
            texts = [beam.tokens for beams in running for beam in beams]
            logits = predictor(tensor(texts, device=prompts.device), mask)
            log_probs = F.log_softmax(logits.float(), dim=-1)
            ended = True
            for index, beams in enumerate(running):
                own = log_probs[index * self.num_beams : (index + 1) * self.num_beams]
                candidates = self.continuations(beams, own, index * self.num_beams)
                if is_open[index]:
                    self.keep_finished(finished[index], candidates)
                running[index] = self.keep_running(candidates)
                is_open[index] &= self.can_improve(running[index], finished[index])
                ended &= all(self.has_ended(beam.tokens) for beam in candidates)
            if ended or not any(is_open) or self.has_enough(finished):
                break
            picked = [beam.row for beams in running for beam in beams]
            predictor.reorder(tensor(picked, device=prompts.device))
            mask = grow_mask(mask)
        count = self.plan.num_return_sequences
        best = [beam.tokens for beams in finished for beam in beams[:count]]
        length = max(map(len, best))
        filled = [tokens + [self.plan.pad_token_id] * (length - len(tokens)) for tokens in best]
        return tensor(filled, device=prompts.device)

    def continuations(self, beams: list[Beam], log_probs: Tensor, first_row: int) -> list[Beam]:
        """Return the best texts that are one token longer, the best first."""
        scores = (
            log_probs + tensor([beam.score for beam in beams], device=log_probs.device)[:, None]
        )
        best = topk(scores.flatten(), min(2 * self.num_beams, scores.numel()))
        candidates = []
        for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            row, token = divmod(index, log_probs.shape[1])
            candidates.append(Beam(score, [*beams[row].tokens, token], first_row + row))
        return candidates

    def has_ended(self, tokens: list[int]) -> bool:
        """Whether a text has its end, or is as long as it may be."""
        is_full = len(tokens) == self.max_length
        return is_full or tokens[-1] == self.plan.eos_token_id

    def keep_running(self, candidates: list[Beam]) -> list[Beam]:
        """Return the texts to go on with; ended ones only where there are too few others."""
        ranked = sorted(candidates, key=lambda beam: self.has_ended(beam.tokens))
        return ranked[: self.num_beams]

    def keep_finished(self, finished: list[Beam], candidates: list[Beam]) -> None:
        """Add those of the `num_beams` best that have ended, and keep the best `num_beams`."""
        if self.plan.early_stopping and len(finished) == self.num_beams:
            return
        for beam in candidates[: self.num_beams]:
            if self.has_ended(beam.tokens):
                length = len(beam.tokens) - self.prompt_length
                finished.append(beam._replace(score=beam.score / length**self.plan.length_penalty))
        finished.sort(key=lambda beam: -beam.score)
        del finished[self.num_beams :]

    def can_improve(self, running: list[Beam], finished: list[Beam]) -> bool:
        """Whether a text on its way may still become better than the worst finished one."""
        if len(finished) < self.num_beams:
            return True
        length = len(running[0].tokens) - self.prompt_length
        return running[0].score / length**self.plan.length_penalty > finished[-1].score

    def has_enough(self, finished: list[list[Beam]]) -> bool:
        """Whether every prompt has its finished texts, where that is enough."""
        return self.plan.early_stopping and all(len(beams) == self.num_beams for beams in finished)
