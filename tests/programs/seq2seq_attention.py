"""Translation with attention and teacher forcing: Bahdanau et al. 2014, https://arxiv.org/abs/1409.0473."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        weights = F.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)
        self.dropout = nn.Dropout(0.1)

    def forward(self, encoder_outputs, encoder_hidden, target):
        decoder_input = torch.zeros(target.size(0), 1, dtype=torch.long)
        decoder_hidden = encoder_hidden
        outputs = []
        for i in range(target.size(1)):
            output, decoder_hidden = self.step(decoder_input, decoder_hidden, encoder_outputs)
            outputs.append(output)
            decoder_input = target[:, i].unsqueeze(1)
        return F.log_softmax(torch.cat(outputs, dim=1), dim=-1)

    def step(self, input, hidden, encoder_outputs):
        embedded = self.dropout(self.embedding(input))
        context, _ = self.attention(hidden.permute(1, 0, 2), encoder_outputs)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    encoder, decoder = EncoderRNN(9, 4), AttnDecoderRNN(4, 9)
    encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.001)
    decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.001)
    criterion = nn.NLLLoss()
    source, target = torch.randint(0, 9, (3, 5)), torch.randint(0, 9, (3, 4))
    with watch(encoder, decoder):
        for _ in range(steps):
            encoder_optimizer.zero_grad()
            decoder_optimizer.zero_grad()
            encoder_outputs, encoder_hidden = encoder(source)
            decoder_outputs = decoder(encoder_outputs, encoder_hidden, target)
            loss = criterion(decoder_outputs.view(-1, 9), target.view(-1))
            loss.backward()
            encoder_optimizer.step()
            decoder_optimizer.step()
