"""Tree-LSTM (child-sum), by recursion: Tai et al. 2015, https://arxiv.org/abs/1503.00075."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class ChildSumTreeLSTM(nn.Module):
    def __init__(self, in_dim, mem_dim):
        super().__init__()
        self.mem_dim = mem_dim
        self.ioux, self.iouh = nn.Linear(in_dim, 3 * mem_dim), nn.Linear(mem_dim, 3 * mem_dim)
        self.fx, self.fh = nn.Linear(in_dim, mem_dim), nn.Linear(mem_dim, mem_dim)

    def node_forward(self, inputs, child_c, child_h):
        child_h_sum = torch.sum(child_h, dim=0, keepdim=True)
        iou = self.ioux(inputs) + self.iouh(child_h_sum)
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        i, o, u = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(u)
        f = torch.sigmoid(self.fh(child_h) + self.fx(inputs).repeat(len(child_h), 1))
        c = torch.mul(i, u) + torch.sum(torch.mul(f, child_c), dim=0, keepdim=True)
        return c, torch.mul(o, torch.tanh(c))

    def forward(self, tree, embeddings):
        word, children = tree
        states = [self.forward(child, embeddings) for child in children]
        if not states:
            child_c = torch.zeros(1, self.mem_dim)
            child_h = torch.zeros(1, self.mem_dim)
        else:
            child_c = torch.cat([c for c, _ in states], dim=0)
            child_h = torch.cat([h for _, h in states], dim=0)
        return self.node_forward(embeddings[word].unsqueeze(0), child_c, child_h)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8, 3)
        self.treelstm = ChildSumTreeLSTM(3, 4)
        self.wp = nn.Linear(4, 3)

    def forward(self, tree, words):
        _, hidden = self.treelstm(tree, self.emb(words))
        return F.log_softmax(self.wp(hidden), dim=1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    tree = (0, [(1, [(2, []), (3, [])]), (4, [(5, [(6, [])])])])
    words, label = torch.tensor([3, 1, 4, 1, 5, 2, 6]), torch.tensor([2])
    model = Classifier()
    optimizer = optim.Adagrad(model.parameters(), lr=0.05)
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.nll_loss(model(tree, words), label)
            loss.backward()
            optimizer.step()
