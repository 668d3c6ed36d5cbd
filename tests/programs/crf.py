"""A BiLSTM-CRF, whose forward algorithm is a loop: Lample et al. 2016, https://arxiv.org/abs/1603.01360."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched

START, STOP = 3, 4


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab_size=9, tagset_size=5, embedding_dim=3, hidden_dim=4):
        super().__init__()
        self.tagset_size = tagset_size
        self.word_embeds = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim // 2, bidirectional=True)
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)
        self.transitions = nn.Parameter(torch.randn(tagset_size, tagset_size))
        self.transitions.data[START, :] = -10000
        self.transitions.data[:, STOP] = -10000

    def _forward_alg(self, feats):
        forward_var = torch.full((1, self.tagset_size), -10000.0)
        forward_var[0][START] = 0.0
        for feat in feats:
            alphas_t = []
            for next_tag in range(self.tagset_size):
                emit_score = feat[next_tag].view(1, -1).expand(1, self.tagset_size)
                trans_score = self.transitions[next_tag].view(1, -1)
                next_tag_var = forward_var + trans_score + emit_score
                alphas_t.append(torch.logsumexp(next_tag_var, dim=1).view(1))
            forward_var = torch.cat(alphas_t).view(1, -1)
        terminal_var = forward_var + self.transitions[STOP]
        return torch.logsumexp(terminal_var, dim=1)[0]

    def _score_sentence(self, feats, tags):
        score = torch.zeros(1)
        tags = torch.cat([torch.tensor([START], dtype=torch.long), tags])
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return score + self.transitions[STOP, tags[-1]]

    def neg_log_likelihood(self, sentence, tags):
        embeds = self.word_embeds(sentence).view(len(sentence), 1, -1)
        lstm_out, _ = self.lstm(embeds)
        feats = self.hidden2tag(lstm_out.view(len(sentence), -1))
        return self._forward_alg(feats) - self._score_sentence(feats, tags)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = BiLSTM_CRF()
    optimizer = optim.SGD(model.parameters(), lr=0.01, weight_decay=1e-4)
    sentence, tags = torch.tensor([0, 3, 5, 2]), torch.tensor([0, 1, 1, 2])
    with watch(model):
        for _ in range(steps):
            model.zero_grad()
            loss = model.neg_log_likelihood(sentence, tags)
            loss.backward()
            optimizer.step()
