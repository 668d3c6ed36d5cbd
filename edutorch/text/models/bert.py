"""BERT: a Transformer that sees the whole text, trained by filling in masked words.

The keys of its state_dict are HuggingFace's, so the published weights load.

Paper: Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, arXiv:1810.04805.
"""

from __future__ import annotations

from typing import NamedTuple

from ... import nn
from ...core.tensor import Tensor
from ...nn import functional as F
from ...ops import arange, zeros_like
from .configs import BertConfig
from .pretrained import PretrainedModel, activation_function


class BertOutput(NamedTuple):
    """What the model without a head returns; `pooler_output` is None without a pooler."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None


class HeadOutput(NamedTuple):
    """What a model with a head returns; `loss` is None without labels."""

    loss: Tensor | None
    logits: Tensor


class BertEmbeddings(nn.Module):
    """Which token it is, where it stands, and in which of two sentences."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(
            config.vocab_size, width, padding_idx=config.pad_token_id
        )
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        """Return the normalized sum of the three. Shape: (batch, tokens) → (…, hidden_size)."""
        positions = arange(input_ids.shape[1], device=input_ids.device)
        summed = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.LayerNorm(summed + self.position_embeddings(positions)))


class BertSelfAttention(nn.Module):
    """Queries, keys and values of all heads, and what the queries gather."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads, self.dropout_p = config.num_attention_heads, config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the attended values. Shape: (batch, tokens, hidden_size) → the same."""
        query, key, value = (
            layer(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        dropout_p = self.dropout_p if self.training else 0.0
        attended = F.scaled_dot_product_attention(query, key, value, mask, dropout_p)
        return attended.transpose(1, 2).flatten(2)


class BertResidual(nn.Module):
    """norm(residual + dropout(dense(hidden))): how both halves of a layer end."""

    def __init__(self, in_features: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, residual: Tensor) -> Tensor:
        """Return the normalized sum."""
        return self.LayerNorm(residual + self.dropout(self.dense(hidden)))


class BertLayer(nn.Module):
    """Attention, then two dense layers, each with a residual connection."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {
                "self": BertSelfAttention(config),
                "output": BertResidual(config.hidden_size, config),
            }
        )
        dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate = nn.ModuleDict({"dense": dense})
        self.output = BertResidual(config.intermediate_size, config)
        self.act = activation_function(config.hidden_act, "BertConfig")

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the layer's output. Shape: (batch, tokens, hidden_size) → the same."""
        hidden = self.attention["output"](self.attention["self"](hidden, mask), hidden)
        return self.output(self.act(self.intermediate["dense"](hidden)), hidden)


class BertModel(PretrainedModel):
    """BERT without a head: a vector for each token, and one for the text.

    Shape: (batch, tokens) → (batch, tokens, hidden_size) and (batch, hidden_size).

    >>> sizes = {"vocab_size": 10, "hidden_size": 4, "num_attention_heads": 2}
    >>> model = BertModel(BertConfig(**sizes, num_hidden_layers=1, intermediate_size=8))
    >>> model(edutorch.tensor([[1, 2, 3]])).pooler_output.shape
    torch.Size([1, 4])
    """

    config_class = BertConfig
    base_prefix = "bert"
    optional_keys = ("pooler.", "bert.pooler.", "classifier.", "cls.")

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.check_heads(config.hidden_size, config.num_attention_heads)
        self.embeddings = BertEmbeddings(config)
        layers = [BertLayer(config) for _ in range(config.num_hidden_layers)]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.pooler = None
        if add_pooling_layer:  # reads the first token, [CLS]
            self.pooler = nn.ModuleDict(
                {"dense": nn.Linear(config.hidden_size, config.hidden_size)}
            )
        self.apply(self.init_weights)

    def init_weights(self, module: nn.Module) -> None:
        """Draw weights from N(0, σ²); biases and the padding's embedding are 0."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> BertOutput:  # fmt: skip
        """Return the last hidden states and the pooled one.

        Args:
            input_ids: (batch, tokens).
            attention_mask: (batch, tokens): 0 for padding.
            token_type_ids: (batch, tokens): 0 for the first sentence, 1 for the second.

        Raises: InvalidValueError: there are more tokens than positions.
        """
        limit = self.config.max_position_embeddings
        self.check_length(input_ids.shape[1], limit, "max_position_embeddings")
        if token_type_ids is None:
            token_type_ids = zeros_like(input_ids)
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None, :]
        hidden = self.embeddings(input_ids, token_type_ids)
        for layer in self.encoder["layer"]:
            hidden = layer(hidden, mask)
        pooled = None
        if self.pooler is not None:
            pooled = self.pooler["dense"](hidden[:, 0]).tanh()
        return BertOutput(hidden, pooled)
