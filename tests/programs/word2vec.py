"""Skip-gram with negative sampling: Mikolov et al. 2013, https://arxiv.org/abs/1310.4546."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class SkipGramModel(nn.Module):
    def __init__(self, emb_size=12, emb_dimension=4):
        super().__init__()
        self.u_embeddings = nn.Embedding(emb_size, emb_dimension)
        self.v_embeddings = nn.Embedding(emb_size, emb_dimension)
        initrange = 1.0 / emb_dimension
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.constant_(self.v_embeddings.weight.data, 0.1)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u = self.u_embeddings(pos_u)
        emb_v = self.v_embeddings(pos_v)
        emb_neg_v = self.v_embeddings(neg_v)
        score = torch.sum(torch.mul(emb_u, emb_v), dim=1)
        score = -F.logsigmoid(torch.clamp(score, max=10, min=-10))
        neg_score = torch.bmm(emb_neg_v, emb_u.unsqueeze(2)).squeeze()
        neg_score = torch.clamp(neg_score, max=10, min=-10)
        neg_score = -torch.sum(F.logsigmoid(-neg_score), dim=1)
        return torch.mean(score + neg_score)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = SkipGramModel()
    optimizer = optim.Adam(model.parameters(), lr=0.001)
    pos_u, pos_v = torch.randint(0, 12, (5,)), torch.randint(0, 12, (5,))
    with watch(model):
        for _ in range(steps):
            neg_v = torch.randint(0, 12, (5, 3))
            optimizer.zero_grad()
            loss = model(pos_u, pos_v, neg_v)
            loss.backward()
            optimizer.step()
