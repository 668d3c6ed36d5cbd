"""GPT-2 and BERT with HuggingFace's keys, written to be read, and `generate`.

    model = text.models.GPT2LMHeadModel.from_pretrained("a folder")
    model.generate(input_ids, max_new_tokens=20, num_beams=4)

The real transformers runs as well: `python -m edutorch add transformers`.
"""

from .bert import BertModel
from .bert_heads import (
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from .configs import BertConfig, ConfigError, GPT2Config
from .generation import GenerationConfig, filter_logits
from .gpt2 import GPT2LMHeadModel, GPT2Model

__all__ = [
    "BertConfig", "BertForMaskedLM", "BertForQuestionAnswering", "BertForSequenceClassification",
    "BertForTokenClassification", "BertModel", "ConfigError", "GPT2Config", "GPT2LMHeadModel",
    "GPT2Model", "GenerationConfig", "filter_logits",
]  # fmt: skip
