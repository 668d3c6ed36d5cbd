"""More correct loops: of networks whose graphs are unusual (see `correct_loops.py`)."""

import edutorch as torch
from edutorch import nn, optim
from edutorch.nn import functional as F
from edutorch.utils.checkpoint import checkpoint
from tests.viz.correct_loops import STEPS, batch, body, loop, plain


@loop
def tied_weights(watch):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.mix = nn.Embedding(7, 4), nn.Linear(4, 4)
            self.out = nn.Linear(4, 7, bias=False)
            self.out.weight = self.words.weight

        def forward(self, x):
            return self.out(self.mix(self.words(x)).tanh())

    torch.manual_seed(0)
    net, x = Tied(), torch.randint(0, 7, (5, 6))
    loss_of = lambda: F.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())  # noqa: E731
    return plain(watch, net, optim.Adam(net.parameters(), lr=1e-3), loss_of)


@loop
def attention_with_a_mask(watch):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
            self.out = nn.Linear(4, 4)
            self.register_buffer("later", torch.ones(5, 5).triu(1).bool())

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 2
            weights = scores.masked_fill(self.later, float("-inf")).softmax(-1)
            return self.out(weights @ self.value(x))

    torch.manual_seed(0)
    net, x = Attention(), torch.randn(3, 5, 4)
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    return plain(watch, net, optimizer, lambda: F.mse_loss(net(x)[:, :-1], x[:, 1:]))


@loop
def a_mask_that_is_added(watch):
    torch.manual_seed(0)
    net, x = nn.Linear(4, 4), torch.randn(3, 5, 4)
    mask = torch.full((5, 5), float("-inf")).triu(1)

    def loss_of():
        hidden = net(x)
        return ((hidden @ hidden.mT + mask).softmax(-1) @ hidden).square().mean()

    return plain(watch, net, optim.Adam(net.parameters(), lr=1e-3), loss_of)


@loop
def a_transformer(watch):
    torch.manual_seed(0)
    net, x = (
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True),
        torch.randn(2, 4, 8),
    )
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    optimizer = optim.AdamW(net.parameters(), lr=1e-3)
    return plain(
        watch, net, optimizer, lambda: (net(x, src_mask=mask) - x.roll(1, 1)).square().mean()
    )


@loop
def checkpointing(watch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = body(), nn.Linear(2, 2)

        def forward(self, x):
            return self.last(checkpoint(self.first, x, use_reentrant=False))

    x, y = batch()
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y))


@loop
def truncated_through_time(watch):
    torch.manual_seed(0)
    net = nn.RNN(3, 4, batch_first=True)
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    state = torch.zeros(1, 2, 4)
    with watch(net) as view:
        for _ in range(STEPS):
            optimizer.zero_grad()
            out, state = net(torch.randn(2, 5, 3), state.detach())
            loss = (out - 0.5).square().mean()
            loss.backward()
            optimizer.step()
    return view


@loop
def several_losses(watch):
    x, y = batch()
    trunk, left, right = nn.Linear(3, 8), nn.Linear(8, 2), nn.Linear(8, 1)
    parts = nn.ModuleList([trunk, left, right])
    optimizer = optim.SGD(parts.parameters(), lr=0.02)
    with watch(parts) as view:
        for _ in range(STEPS):
            optimizer.zero_grad()
            hidden = trunk(x).tanh()
            loss = F.cross_entropy(left(hidden), y)
            loss.backward(retain_graph=True)
            other = right(hidden).square().mean()
            other.backward()
            optimizer.step()
    return view


@loop
def numbers_in_a_list(watch):
    x, y = batch()
    net = body()
    losses, kept, best = [], [], [float("inf")]

    def note(step, loss):
        losses.append(loss.item())
        kept.append(loss.detach())
        best[0] = min(best[0], loss.item())

    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y), after=note)


@loop
def log_probabilities_of_an_episode(watch):
    torch.manual_seed(0)
    net = body()
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    saved = []
    with watch(net) as view:
        for _ in range(STEPS):
            for _ in range(12):
                scores = F.log_softmax(net(torch.randn(1, 3)), 1)
                saved.append(scores[0, int(torch.randint(0, 2, (1,)))])
            optimizer.zero_grad()
            loss = -(torch.stack(saved) * torch.randn(12)).sum()
            loss.backward()
            optimizer.step()
            del saved[:]
    return view


@loop
def inner_steps_of_maml(watch):
    torch.manual_seed(0)
    w = nn.Parameter(torch.randn(3))
    optimizer = optim.SGD([w], lr=0.01)
    with watch() as view:
        for _ in range(STEPS):
            x = torch.randn(8, 3)
            optimizer.zero_grad()
            (g,) = torch.autograd.grad(((x @ w - 1) ** 2).mean(), [w], create_graph=True)
            loss = ((x @ (w - 0.1 * g) - 1) ** 2).mean()
            loss.backward()
            optimizer.step()
    return view


@loop
def points_of_a_physics_network(watch):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.linspace(0, 1, 10)[:, None].requires_grad_()
    optimizer = optim.Adam(net.parameters(), lr=1e-3)

    def loss_of():
        u = net(x)
        (slope,) = torch.autograd.grad(u.sum(), [x], create_graph=True)
        return (slope + u).square().mean() + (net(torch.zeros(1, 1)) - 1).square().mean()

    return plain(watch, net, optimizer, loss_of)


@loop
def an_image_that_is_optimized(watch):
    torch.manual_seed(0)
    judge = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).eval()
    image = nn.Parameter(torch.zeros(3))
    optimizer = optim.Adam([image], lr=1e-3)
    return plain(watch, judge, optimizer, lambda: (judge(image) - 1).square().mean())


@loop
def a_teacher_that_is_hidden(watch):
    class Student(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = body()
            self.teacher = [body()]  # in a list, so that it is no part of the state_dict

        def forward(self, x):
            with torch.no_grad():
                wanted = self.teacher[0](x)
            return F.mse_loss(self.layers(x), wanted)

    x, _ = batch()
    net = Student()
    return plain(watch, net, optim.SGD(net.parameters(), lr=0.05), lambda: net(x))


@loop
def layers_listed_twice(watch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
            self.order = [self.first, self.last]

        def forward(self, x):
            for layer in self.order:
                x = layer(x).tanh()
            return x

    x, y = batch()
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y))


@loop
def a_loss_that_is_reached(watch):
    x, _ = batch()
    net = nn.Linear(3, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: (net(x) - 100).relu().sum())


@loop
def zero_initialised_branch(watch):
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.down, self.up = nn.Linear(3, 2), nn.Linear(3, 1), nn.Linear(1, 2)
            nn.init.zeros_(self.up.weight)

        def forward(self, x):
            return self.body(x) + self.up(self.down(x))

    x, y = batch()
    net = Branch()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y))


@loop
def a_batch_norm_that_is_frozen(watch):
    x, y = batch()
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    net[1].eval()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    return plain(watch, net, optimizer, lambda: F.cross_entropy(net(x), y))


@loop
def sharpness_aware(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.05)
    with watch(net) as view:
        for _ in range(STEPS):
            F.cross_entropy(net(x), y).backward()
            with torch.no_grad():
                moves = [0.01 * parameter.grad for parameter in net.parameters()]
                for parameter, move in zip(net.parameters(), moves, strict=True):
                    parameter += move
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            with torch.no_grad():
                for parameter, move in zip(net.parameters(), moves, strict=True):
                    parameter -= move
            optimizer.step()
            optimizer.zero_grad()
    return view
