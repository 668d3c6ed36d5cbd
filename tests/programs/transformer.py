"""The Transformer, six layers on each side: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762."""

import math

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, dropout, maxlen=20):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding.unsqueeze(-2))

    def forward(self, token_embedding):
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(0), :])


class Seq2SeqTransformer(nn.Module):
    def __init__(self, vocab=9, emb_size=4, nhead=2, layers=6):
        super().__init__()
        self.emb_size = emb_size
        self.transformer = nn.Transformer(
            d_model=emb_size, nhead=nhead, num_encoder_layers=layers,
            num_decoder_layers=layers, dim_feedforward=6, dropout=0.1,
        )  # fmt: skip
        self.generator = nn.Linear(emb_size, vocab)
        self.src_tok_emb = nn.Embedding(vocab, emb_size)
        self.tgt_tok_emb = nn.Embedding(vocab, emb_size)
        self.positional_encoding = PositionalEncoding(emb_size, dropout=0.1)

    def forward(self, src, tgt):
        tgt_mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(0))
        src_emb = self.positional_encoding(self.src_tok_emb(src) * math.sqrt(self.emb_size))
        tgt_emb = self.positional_encoding(self.tgt_tok_emb(tgt) * math.sqrt(self.emb_size))
        return self.generator(self.transformer(src_emb, tgt_emb, tgt_mask=tgt_mask))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    transformer = Seq2SeqTransformer()
    for p in transformer.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    loss_fn = nn.CrossEntropyLoss(ignore_index=1)
    optimizer = optim.Adam(transformer.parameters(), lr=0.0001, betas=(0.9, 0.98), eps=1e-9)
    src, tgt = torch.randint(2, 9, (5, 3)), torch.randint(2, 9, (6, 3))
    with watch(transformer):
        for _ in range(steps):
            logits = transformer(src, tgt[:-1, :])
            optimizer.zero_grad()
            loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
            loss.backward()
            optimizer.step()
