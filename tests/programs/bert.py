"""BERT, 12 encoder layers, masked words and next sentence: https://arxiv.org/abs/1810.04805."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class BertEmbeddings(nn.Module):
    def __init__(self, vocab, hidden, length):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, hidden, padding_idx=0)
        self.position_embeddings = nn.Embedding(length, hidden)
        self.token_type_embeddings = nn.Embedding(2, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("position_ids", torch.arange(length).expand((1, -1)))

    def forward(self, input_ids, token_type_ids):
        positions = self.position_ids[:, : input_ids.size(1)]
        embeddings = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        embeddings += self.position_embeddings(positions)
        return self.dropout(self.LayerNorm(embeddings))


class BertForPreTraining(nn.Module):
    def __init__(self, vocab=13, hidden=4, layers=12, heads=2, length=8):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab, hidden, length)
        layer = nn.TransformerEncoderLayer(
            hidden, heads, 4 * hidden, dropout=0.1, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.pooler = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh())
        self.transform = nn.Sequential(
            nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden, eps=1e-12)
        )
        self.decoder = nn.Linear(hidden, vocab)
        self.decoder.weight = self.embeddings.word_embeddings.weight
        self.seq_relationship = nn.Linear(hidden, 2)

    def forward(self, input_ids, token_type_ids, attention_mask):
        x = self.embeddings(input_ids, token_type_ids)
        x = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        return self.decoder(self.transform(x)), self.seq_relationship(self.pooler(x[:, 0]))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = BertForPreTraining()
    optimizer = optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    input_ids = torch.tensor([[1, 5, 3, 2, 7, 8, 2], [1, 3, 9, 2, 6, 2, 0]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0]])
    labels = torch.tensor([[-100, -100, 6, -100, -100, -100, -100], [-100, 4] + [-100] * 5])
    is_next = torch.tensor([1, 0])
    criterion = nn.CrossEntropyLoss()
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            scores, relation = model(input_ids, segments, (input_ids != 0).long())
            masked_lm_loss = criterion(scores.view(-1, 13), labels.view(-1))
            next_sentence_loss = criterion(relation.view(-1, 2), is_next.view(-1))
            loss = masked_lm_loss + next_sentence_loss
            loss.backward()
            optimizer.step()
