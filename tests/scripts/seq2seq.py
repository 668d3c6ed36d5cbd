"""Translate number words into digits: GRU encoder and decoder, attention, teacher forcing."""

import argparse
import random
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from repeatable import same_start, write_losses
from torch import Tensor, optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD_token, SOS_token, EOS_token = 0, 1, 2
WORDS = "zero one two three four five six seven eight nine".split()


class Lang:
    def __init__(self, name):
        self.name = name
        self.word2index = {"PAD": 0, "SOS": 1, "EOS": 2}
        self.index2word = {0: "PAD", 1: "SOS", 2: "EOS"}
        self.n_words = 3

    def addSentence(self, sentence):
        for word in sentence.split(" "):
            if word not in self.word2index:
                self.word2index[word] = self.n_words
                self.index2word[self.n_words] = word
                self.n_words += 1

    def indexes(self, sentence) -> List[int]:
        return [self.word2index[word] for word in sentence.split(" ")] + [EOS_token]


class Pairs(Dataset):
    def __init__(self, count, source, target, seed=0):
        dice = random.Random(seed)
        self.pairs = []
        for _ in range(count):
            digits = [dice.randrange(10) for _ in range(dice.randint(2, 6))]
            pair = " ".join(WORDS[d] for d in digits), " ".join(str(d) for d in reversed(digits))
            source.addSentence(pair[0])
            target.addSentence(pair[1])
            self.pairs.append(pair)
        self.source, self.target = source, target

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i) -> Tuple[Tensor, Tensor]:
        a, b = self.pairs[i]
        return torch.LongTensor(self.source.indexes(a)), torch.LongTensor(self.target.indexes(b))


def collate(batch):
    batch.sort(key=lambda pair: len(pair[0]), reverse=True)
    sources, targets = zip(*batch)
    lengths = torch.tensor([len(s) for s in sources])
    padded = pad_sequence(sources, batch_first=True, padding_value=PAD_token)
    return padded, lengths, pad_sequence(targets, batch_first=True, padding_value=PAD_token)


class Encoder(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.0):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size, padding_idx=PAD_token)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden_size, hidden_size)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input: Tensor, lengths: Tensor):
        embedded = self.dropout(self.embedding(input))
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True)
        output, hidden = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        output = output[:, :, : self.hidden_size] + output[:, :, self.hidden_size :]
        hidden = torch.tanh(self.bridge(torch.cat((hidden[-2], hidden[-1]), dim=1)))
        return output, hidden.unsqueeze(0)


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class LuongAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.general = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, query, keys, mask):
        scores = torch.bmm(self.general(query), keys.transpose(1, 2))
        scores.masked_fill_(mask.logical_not()[:, None, :], -1e9)
        weights = scores.softmax(-1)
        return weights @ keys, weights


class AttnDecoder(nn.Module):
    def __init__(self, hidden_size, output_size, attention, dropout_p=0.0):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size, padding_idx=PAD_token)
        self.attention = {"bahdanau": BahdanauAttention, "luong": LuongAttention}[attention](
            hidden_size
        )
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)
        self.dropout = nn.Dropout(dropout_p)

    def forward(
        self, keys, hidden, mask, target: Optional[Tensor] = None, max_length=8, forcing=1.0
    ):
        input = torch.empty(keys.size(0), 1, dtype=torch.long, device=keys.device).fill_(SOS_token)
        outputs, attentions = [], []
        for i in range(max_length if target is None else target.size(1)):
            output, hidden, weights = self.forward_step(input, hidden, keys, mask)
            outputs.append(output)
            attentions.append(weights)
            if target is not None and coin.random() < forcing:
                input = target[:, i].unsqueeze(1)
            else:
                _, topi = output.topk(1)
                input = topi.squeeze(-1).detach()
        return torch.cat(outputs, dim=1), hidden, torch.cat(attentions, dim=1)

    def forward_step(self, input, hidden, keys, mask):
        embedded = self.dropout(self.embedding(input))
        context, weights = self.attention(hidden.permute(1, 0, 2), keys, mask)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden, weights


def beam_search(decoder, keys, hidden, mask, width=3, max_length=8):
    beams = [(0.0, [SOS_token], hidden)]
    for _ in range(max_length):
        grown = []
        for score, tokens, state in beams:
            if tokens[-1] == EOS_token:
                grown.append((score, tokens, state))
                continue
            input = torch.tensor([[tokens[-1]]], device=keys.device)
            output, new_state, _ = decoder.forward_step(input, state, keys, mask)
            values, indices = F.log_softmax(output[0, 0], dim=-1).topk(width)
            for value, index in zip(values, indices):
                grown.append((score + value.item(), [*tokens, index.item()], new_state))
        beams = sorted(grown, key=lambda beam: beam[0], reverse=True)[:width]
    return beams[0]


parser = argparse.ArgumentParser()
parser.add_argument("--attention", choices=["bahdanau", "luong"], default="bahdanau")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--hidden", type=int, default=24)
parser.add_argument("--forcing", type=float, default=0.75)
parser.add_argument("--clip", type=float, default=1.0)
parser.add_argument("--out", default="")
args = parser.parse_args()
coin = random.Random(7)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
english, digits = Lang("english"), Lang("digits")
loader = DataLoader(Pairs(80, english, digits), batch_size=8, shuffle=False, collate_fn=collate)
encoder = same_start(Encoder(english.n_words, args.hidden), seed=1).to(device)
decoder = same_start(AttnDecoder(args.hidden, digits.n_words, args.attention), seed=2).to(device)
encoder_optimizer = optim.Adam(encoder.parameters(), lr=5e-3)
decoder_optimizer = optim.Adam(decoder.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD_token)

losses, norms, step = [], [], 0
while step < args.steps:
    total_loss = 0
    for source, lengths, target in loader:
        source, target = source.to(device), target.to(device)
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        keys, hidden = encoder(source, lengths)
        mask = source != PAD_token
        outputs, _, _ = decoder(keys, hidden, mask, target, forcing=args.forcing)
        loss = criterion(outputs.view(-1, outputs.size(-1)), target.view(-1))
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(encoder.parameters(), args.clip).item())
        nn.utils.clip_grad_norm_(decoder.parameters(), args.clip)
        encoder_optimizer.step()
        decoder_optimizer.step()
        total_loss += loss.item()
        losses.append(loss.item())
        step += 1
        if step >= args.steps:
            break
    print("step %d, loss %.4f" % (step, total_loss / len(loader)))

encoder.eval()
decoder.eval()
with torch.no_grad():
    source = torch.tensor(english.indexes("three one four"), dtype=torch.long).view(1, -1)
    keys, hidden = encoder(source.to(device), torch.tensor([source.size(1)]))
    mask = torch.ones_like(source, dtype=torch.bool)
    outputs, _, attention = decoder(keys, hidden, mask)
    greedy = outputs.argmax(dim=-1).squeeze().tolist()
    score, beam, _ = beam_search(decoder, keys, hidden, mask)
    print([digits.index2word[i] for i in greedy], [digits.index2word[i] for i in beam], score)
    assert torch.allclose(attention.sum(-1), torch.ones(1, 8))
write_losses(args.out, loss=losses, norm=norms, greedy=greedy, beam=[score, *beam])
