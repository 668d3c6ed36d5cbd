"""A word-level language model: LSTM, tied weights, truncated backpropagation, perplexity."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from repeatable import same_start, write_losses

TEXT = """the sun rose over the hill and the hill was green . the old man walked up the hill with
his dog . the dog ran after the birds and the birds flew over the sea . the sea was blue and the
sun was warm . the old man sat down on the green hill and looked over the blue sea . when the sun
went down the man and the dog walked home . the moon rose over the sea and the birds slept . """


class Corpus:
    def __init__(self, text):
        words = text.split() * 3
        self.idx2word = sorted(set(words))
        self.word2idx = {word: i for i, word in enumerate(self.idx2word)}
        self.ids = torch.tensor([self.word2idx[word] for word in words]).type(torch.int64)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.0, tie_weights=False):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise ValueError("When using the tied flag, nhid must be equal to emsize")
            self.decoder.weight = self.encoder.weight
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        shape = (self.nlayers, bsz, self.nhid)
        return (weight.new_zeros(shape), weight.new_zeros(shape))


def repackage_hidden(h):
    """Cut hidden states off from their past."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


parser = argparse.ArgumentParser(description="Word language model")
parser.add_argument("--emsize", type=int, default=24)
parser.add_argument("--nlayers", type=int, default=2)
parser.add_argument("--lr", type=float, default=2.0)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--bptt", type=int, default=7)
parser.add_argument("--out", default="")
args = parser.parse_args()
corpus = Corpus(TEXT)
train_data = batchify(corpus.ids, 4)
ntokens = len(corpus.idx2word)
model = RNNModel(ntokens, args.emsize, args.emsize, args.nlayers, tie_weights=True)
same_start(model, seed=1)
criterion = nn.NLLLoss()
losses, perplexities, lr, best = [], [], args.lr, None
for epoch in range(1, args.epochs + 1):
    model.train()
    total_loss, hidden = 0.0, model.init_hidden(4)
    for i in range(0, train_data.size(0) - 1, args.bptt):
        data, targets = get_batch(train_data, i, args.bptt)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        output, _ = model(train_data[:-1], model.init_hidden(4))
        val_loss = criterion(output, train_data[1:].view(-1)).item()
    perplexities.append(math.exp(val_loss))
    print("| epoch {:3d} | loss {:5.2f} | ppl {:8.2f}".format(epoch, val_loss, perplexities[-1]))
    if best is None or val_loss < best:
        best = val_loss
    else:
        lr /= 4.0
words, input, hidden = [], torch.tensor([[corpus.word2idx["the"]]]), model.init_hidden(1)
with torch.no_grad():
    for _ in range(12):
        output, hidden = model(input, hidden)
        word_idx = output.squeeze().div(0.5).exp().argmax()
        input.fill_(word_idx)
        words.append(corpus.idx2word[word_idx])
print(" ".join(words))
write_losses(args.out, loss=losses, perplexity=perplexities)
