"""GPT-2: a Transformer that reads from left to right and predicts the next token.

The keys of its state_dict are HuggingFace's, so the published weights load.

Paper: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from ... import nn
from ...core.tensor import Tensor
from ...nn import functional as F
from ...ops import addmm, arange, cat, empty, zeros
from .configs import GPT2Config
from .generation import Cache, GenerationMixin
from .pretrained import PretrainedModel, activation_function


class GPT2Output(NamedTuple):
    """What the model without a head returns."""

    last_hidden_state: Tensor
    past_key_values: Cache | None


class CausalLMOutput(NamedTuple):
    """What a language model returns; `loss` is None without labels."""

    loss: Tensor | None
    logits: Tensor
    past_key_values: Cache | None


class Conv1D(nn.Module):
    """A linear layer whose weight is stored as (in, out): GPT-2's checkpoints have it so."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(empty(nx, nf))
        self.bias = nn.Parameter(zeros(nf))

    def forward(self, input: Tensor) -> Tensor:
        """Return input · weight + bias. Shape: (…, in) → (…, out)."""
        rows = input.reshape(-1, input.shape[-1])
        return addmm(self.bias, rows, self.weight).reshape(*input.shape[:-1], self.nf)


class GPT2Attention(nn.Module):
    """Self-attention in several heads, which keeps keys and values of earlier tokens.

    Shape: (batch, new tokens, features) → the same; keys and values are
    (batch, heads, all tokens, features / heads).
    """

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.n_head, self.attn_pdrop = config.n_head, config.attn_pdrop
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)  # query, key and value at once
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(
        self, input: Tensor, mask: Tensor | None, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the attended values, and keys and values for the tokens to come."""
        batch, length, width = input.shape
        heads = (batch, length, self.n_head, width // self.n_head)
        query, key, value = (
            part.reshape(heads).transpose(1, 2) for part in self.c_attn(input).split(width, dim=2)
        )
        if past is not None:
            key, value = cat([past[0], key], dim=2), cat([past[1], value], dim=2)
        dropout_p = self.attn_pdrop if self.training else 0.0
        is_causal = mask is None and length > 1
        attended = F.scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal)
        joined = attended.transpose(1, 2).reshape(batch, length, width)
        return self.resid_dropout(self.c_proj(joined)), (key, value)


class GPT2MLP(nn.Module):
    """Two layers on each token by itself, the inner one four times as wide."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        inner = config.n_inner or 4 * config.n_embd
        self.c_fc = Conv1D(inner, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, inner)
        self.act = activation_function(config.activation_function, "GPT2Config")
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, input: Tensor) -> Tensor:
        """Return dropout(c_proj(act(c_fc(input))))."""
        return self.dropout(self.c_proj(self.act(self.c_fc(input))))


class GPT2Block(nn.Module):
    """x ← x + attention(norm(x)), then x ← x + mlp(norm(x))."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = GPT2Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = GPT2MLP(config)

    def forward(
        self, input: Tensor, mask: Tensor | None, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the block's output, and the keys and values of its attention."""
        attended, present = self.attn(self.ln_1(input), mask, past)
        hidden = input + attended
        return hidden + self.mlp(self.ln_2(hidden)), present


class GPT2Model(PretrainedModel):
    """GPT-2 without its head: token ids become a vector for each token.

    Shape: (batch, tokens) → (batch, tokens, n_embd).

    >>> model = GPT2Model(GPT2Config(vocab_size=10, n_positions=8, n_embd=4, n_layer=1, n_head=2))
    >>> model(edutorch.tensor([[1, 2, 3]])).last_hidden_state.shape
    torch.Size([1, 3, 4])
    """

    config_class = GPT2Config
    base_prefix = "transformer"

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.check_heads(config.n_embd, config.n_head)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)  # what the token is
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)  # where it stands
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([GPT2Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.apply(self.init_weights)

    def init_weights(self, module: nn.Module) -> None:
        """Draw the weights from N(0, σ²), those of the projections onto the sum a bit smaller."""
        deviation = self.config.initializer_range
        if isinstance(module, Conv1D | nn.Embedding):
            nn.init.normal_(module.weight, std=deviation)
        if isinstance(module, GPT2Attention | GPT2MLP):  # called after its own layers
            depth = 2 * self.config.n_layer
            nn.init.normal_(module.c_proj.weight, std=deviation / math.sqrt(depth))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None, use_cache: bool = False,
    ) -> GPT2Output:  # fmt: skip
        """Return the last hidden states.

        Args:
            input_ids: (batch, tokens): only the new ones if there is a cache.
            attention_mask: (batch, all tokens): 0 for padding, which may stand on the left.
            past_key_values: keys and values of the tokens before, of an earlier call.
            use_cache: whether to return keys and values.

        Raises: InvalidValueError: there are more tokens than positions.
        """
        past_length = past_key_values[0][0].shape[2] if past_key_values else 0
        length = past_length + input_ids.shape[1]
        self.check_length(length, self.config.n_positions, "n_positions")
        positions = arange(past_length, length, device=input_ids.device)
        mask = None
        if attention_mask is not None or (past_length and input_ids.shape[1] > 1):
            # No token sees a later one.
            mask = positions[:, None] >= arange(length, device=input_ids.device)
        if attention_mask is not None:
            mask = mask & attention_mask.bool()[:, None, None, :]
            # The first token that is not padding has position 0.
            positions = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, past_length:]
        hidden = self.drop(self.wte(input_ids) + self.wpe(positions))
        cache: Cache = []
        for block, past in zip(self.h, past_key_values or [None] * len(self.h), strict=True):
            hidden, present = block(hidden, mask, past)
            cache.append(present)
        return GPT2Output(self.ln_f(hidden), cache if use_cache else None)


class GPT2LMHeadModel(GenerationMixin):
    """GPT-2 with its head: the scores of the next token, for each token of the text.

    Shape: (batch, tokens) → (batch, tokens, vocab_size).

    >>> config = GPT2Config(vocab_size=10, n_positions=8, n_embd=4, n_layer=1, n_head=2)
    >>> model = GPT2LMHeadModel(config)
    >>> model(edutorch.tensor([[1, 2, 3]])).logits.shape
    torch.Size([1, 3, 10])
    """

    config_class = GPT2Config
    base_prefix = "transformer"
    tied_keys: ClassVar = {"lm_head.weight": "transformer.wte.weight"}

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.transformer = GPT2Model(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight  # one table reads and writes tokens

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None, labels: Tensor | None = None,
        use_cache: bool = False,
    ) -> CausalLMOutput:  # fmt: skip
        """Return scores, and with labels the loss. For the arguments see `GPT2Model.forward`.

        Args:
            labels: usually `input_ids` themselves: each token is compared with the scores of the
                token before it. -100 is left out.
        """
        hidden, cache = self.transformer(input_ids, attention_mask, past_key_values, use_cache)
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss, logits, cache)
