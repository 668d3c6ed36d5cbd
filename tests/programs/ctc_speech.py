"""Speech frames to letters with the CTC loss: Graves et al. 2006, https://doi.org/10.1145/1143844.1143891."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class SpeechModel(nn.Module):
    def __init__(self, features=4, hidden=5, letters=6):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(features, hidden, 3, padding=1), nn.GELU())
        self.rnn = nn.GRU(hidden, hidden, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, letters)

    def forward(self, x):
        x = self.conv(x).permute(2, 0, 1)
        x, _ = self.rnn(x)
        return self.fc(x).log_softmax(2)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = SpeechModel()
    ctc_loss = nn.CTCLoss(blank=0)
    optimizer = optim.AdamW(model.parameters(), lr=5e-4)
    spectrograms = torch.rand(3, 4, 10)
    targets = torch.randint(1, 6, (3, 4))
    input_lengths = torch.full((3,), 10, dtype=torch.long)
    target_lengths = torch.tensor([4, 2, 3])
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            output = model(spectrograms)
            loss = ctc_loss(output, targets, input_lengths, target_lengths)
            loss.backward()
            optimizer.step()
