"""BERT's heads: filling in words, classifying texts and tokens, finding an answer in a text."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from ... import nn
from ...core.tensor import Tensor
from ...nn import functional as F
from .bert import BertModel, HeadOutput
from .configs import BertConfig
from .pretrained import PretrainedModel, activation_function


class BertPreTrainedModel(PretrainedModel):
    """What BERT's models with a head have in common."""

    config_class = BertConfig
    base_prefix = "bert"
    optional_keys = BertModel.optional_keys + ("qa_outputs.",)

    def init_head(self, *layers: nn.Linear) -> None:
        """Draw the head's weights as those of the model are."""
        for layer in layers:
            self.bert.init_weights(layer)


class BertForMaskedLM(BertPreTrainedModel):
    """BERT that scores each word of the vocabulary for each token, to fill in masked ones.

    Shape: (batch, tokens) → (batch, tokens, vocab_size).
    """

    tied_keys: ClassVar = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.cls = nn.ModuleDict({"predictions": BertLMPredictionHead(config)})
        head = self.cls["predictions"]
        self.init_head(head.transform["dense"])
        head.decoder.weight = self.bert.embeddings.word_embeddings.weight

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, labels: Tensor | None = None,
    ) -> HeadOutput:  # fmt: skip
        """Return scores, and with labels the loss.

        Args:
            labels: (batch, tokens): the true ids; -100 where nothing was masked.
        """
        hidden = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        logits = self.cls["predictions"](hidden)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return HeadOutput(loss, logits)


class BertLMPredictionHead(nn.Module):
    """A dense layer, then scores by the embedding table of the input."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = nn.ModuleDict(
            {
                "dense": nn.Linear(config.hidden_size, config.hidden_size),
                "LayerNorm": nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
            }
        )
        self.act = activation_function(config.hidden_act, "BertConfig")
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        nn.init.zeros_(self.decoder.bias)
        self.bias = self.decoder.bias  # checkpoints know it under both names

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the scores. Shape: (…, hidden_size) → (…, vocab_size)."""
        hidden = self.act(self.transform["dense"](hidden))
        return self.decoder(self.transform["LayerNorm"](hidden))


class BertForSequenceClassification(BertPreTrainedModel):
    """BERT that puts a text into a class: a linear layer on the pooled [CLS].

    Shape: (batch, tokens) → (batch, num_labels).
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_head(self.classifier)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, labels: Tensor | None = None,
    ) -> HeadOutput:  # fmt: skip
        """Return scores, and with labels the loss.

        Args:
            labels: (batch,) class numbers; or numbers to come close to, if there is one label; or
                (batch, num_labels) of 0.0 and 1.0, if several classes may hold.
        """
        pooled = self.bert(input_ids, attention_mask, token_type_ids).pooler_output
        logits = self.classifier(self.dropout(pooled))
        if labels is None:
            return HeadOutput(None, logits)
        if self.config.num_labels == 1:
            return HeadOutput(F.mse_loss(logits.squeeze(-1), labels.squeeze()), logits)
        if labels.is_floating_point():
            return HeadOutput(F.binary_cross_entropy_with_logits(logits, labels), logits)
        return HeadOutput(F.cross_entropy(logits, labels.flatten()), logits)


class BertForTokenClassification(BertPreTrainedModel):
    """BERT that puts each token into a class: names of persons, of places.

    Shape: (batch, tokens) → (batch, tokens, num_labels).
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.init_head(self.classifier)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, labels: Tensor | None = None,
    ) -> HeadOutput:  # fmt: skip
        """Return scores, and with labels (batch, tokens) the loss; -100 is left out."""
        hidden = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        logits = self.classifier(self.dropout(hidden))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return HeadOutput(loss, logits)


class AnswerOutput(NamedTuple):
    """Scores of each token to be the first, and the last, of the answer."""

    loss: Tensor | None
    start_logits: Tensor
    end_logits: Tensor


class BertForQuestionAnswering(BertPreTrainedModel):
    """BERT that finds the answer to a question in a text: where it begins and ends.

    Shape: (batch, tokens) → (batch, tokens) twice.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.init_head(self.qa_outputs)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
    ) -> AnswerOutput:  # fmt: skip
        """Return scores, and with both positions, each (batch,), the loss: the mean of the two."""
        hidden = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        start, end = self.qa_outputs(hidden).unbind(-1)
        if start_positions is None or end_positions is None:
            return AnswerOutput(None, start, end)
        loss = F.cross_entropy(start, start_positions) + F.cross_entropy(end, end_positions)
        return AnswerOutput(loss / 2, start, end)
