"""Three tokenizers, written to be read: BPE (GPT-2), WordPiece (BERT), Unigram (SentencePiece).

bpe = text.tokenizers.BPE.train(sentences, vocab_size=1000)
bpe.decode(bpe.encode("to be or not to be"))
bpe.save("tokenizer.json")        # HuggingFace's format
fast = bpe.to_fast()              # the same in Rust: pip install "edutorch[text]"
"""

from .bpe import BPE
from .tokenizer import Tokenizer, TokenizerFileError
from .unigram import Unigram
from .wordpiece import WordPiece

__all__ = ["BPE", "Tokenizer", "TokenizerFileError", "Unigram", "WordPiece"]
