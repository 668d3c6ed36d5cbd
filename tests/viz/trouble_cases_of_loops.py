"""More programs with one mistake each: habits, memory, errors (see `trouble_cases.py`)."""

import edutorch as torch
from edutorch import nn, optim, viz
from edutorch.nn import functional as F
from tests.viz.trouble_cases import STEPS, batch, body, case, until

# Habits -------------------------------------------------------------------------------------


@case("zero-gradient", "loss.backward()", "`0.weight`, `0.bias`, `2.weight`")
def dead_units(watch):
    net = body()
    with torch.no_grad():
        net[0].bias.fill_(-100)
    return plain(watch, net, "zero-gradient")


@case("loss-constant", "optimizer.step()", "the learning rate above 0")
def a_learning_rate_of_zero(watch):
    return plain(watch, body(), "loss-constant", lr=0.0)


@case("eval-mode", "optimizer.step()", "`Dropout` behave as in a test")
def a_model_left_in_eval_mode(watch):
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Linear(8, 2)).eval()
    return plain(watch, net, "eval-mode")


def plain(watch, net, finding_kind, lr=0.1):
    x, y = batch()
    optimizer = optim.SGD(net.parameters(), lr=lr)
    with watch(net) as view:
        for _ in until(view, finding_kind):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@case("not-optimized", "optimizer.step()", "`2.weight`, `2.bias`")
def half_of_the_parameters(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net[0].parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "not-optimized"):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@case("not-optimized", "optimizer.step()", "`encoder.weight`, `encoder.bias`")
def a_whole_model_that_was_forgotten(watch):
    x, y = batch()
    encoder, decoder = nn.Linear(3, 4), nn.Linear(4, 2)
    optimizer = optim.SGD(decoder.parameters(), lr=0.1)
    with watch(encoder, decoder) as view:
        for _ in until(view, "not-optimized"):
            optimizer.zero_grad()
            loss = F.cross_entropy(decoder(encoder(x)), y)
            loss.backward()
            optimizer.step()
    return view


@case("no-zero-grad", "loss.backward()", "0.weight.grad")
def gradients_that_add_up(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    with watch(net) as view:
        for _ in until(view, "no-zero-grad"):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@case("no-zero-grad", "loss.backward()", "0.weight.grad")
def gradients_that_are_clipped_and_add_up(watch):
    x, y = batch()
    net = body()
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    with watch(net) as view:
        for _ in until(view, "no-zero-grad"):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
    return view


@case("no-zero-grad", "loss_g.backward()", "generator.weight.grad")
def a_generator_that_is_not_cleared(watch):
    torch.manual_seed(0)
    generator, critic = nn.Linear(4, 3), nn.Linear(3, 1)
    optimizer_g = optim.Adam(generator.parameters(), lr=0.001)
    optimizer_d = optim.Adam(critic.parameters(), lr=0.001)
    with watch(generator, critic) as view:
        for _ in until(view, "no-zero-grad"):
            real, fake = torch.randn(8, 3), generator(torch.randn(8, 4))
            optimizer_d.zero_grad()
            loss_d = (critic(fake.detach()) - critic(real)).mean()
            loss_d.backward()
            optimizer_d.step()
            loss_g = -critic(fake).mean()
            loss_g.backward()
            optimizer_g.step()
    return view


@case("double-softmax", "loss = F.cross_entropy(F.softmax(net(x), 1), y)", "Leave softmax out")
def softmax_in_front_of_cross_entropy(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "double-softmax"):
            optimizer.zero_grad()
            loss = F.cross_entropy(F.softmax(net(x), 1), y)
            loss.backward()
            optimizer.step()
    return view


@case("probabilities-to-nll", "loss = F.nll_loss(net(x), y)", "from softmax")
def probabilities_where_logarithms_belong(watch):
    x, y = batch()
    net = nn.Sequential(nn.Linear(3, 2), nn.Softmax(1))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with watch(net) as view:
        for _ in until(view, "probabilities-to-nll"):
            optimizer.zero_grad()
            loss = F.nll_loss(net(x), y)
            loss.backward()
            optimizer.step()
    return view


@case("exploding", "optimizer.step()", "divide the learning rate (3) by 10")
def steps_that_are_too_long(watch):
    x, _ = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=3.0)
    with watch(net) as view:
        for _ in until(view, "exploding"):
            optimizer.zero_grad()
            loss = (net(x) ** 2).mean()
            loss.backward()
            optimizer.step()
    return view


# Memory -------------------------------------------------------------------------------------


@case("history", "total = total + loss", "behind add")
def a_sum_of_losses(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    total = 0
    with watch(net) as view:
        for _ in until(view, "history"):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            total = total + loss
            loss.backward()
            optimizer.step()
    return view


@case("kept-graphs", "loss = F.cross_entropy(net(x), y)", "kept alive by `losses`")
def a_list_of_losses(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    losses = []
    with watch(net) as view:
        for _ in until(view, "kept-graphs"):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss)
    return view


@case("kept-graphs", "loss = F.cross_entropy(net(x), y)", "kept alive by")
def losses_in_an_object(watch):
    class Log:
        def __init__(self):
            self.losses = []

    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    log = Log()
    with watch(net) as view:
        for _ in until(view, "kept-graphs"):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            log.losses.append(loss)
    return view


@case("stale", "y = w.exp()", "kept `y` for backward")
def a_value_that_was_overwritten(watch):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with watch():
        y = w.exp()
        loss = y.sum()
        with torch.no_grad():
            y.detach().mul_(2)
        return viz.trouble(loss)


# Errors -------------------------------------------------------------------------------------


@case("error", "loss = F.cross_entropy(net(x), y)", "linear failed: axis k")
def layers_that_do_not_fit(watch):
    x, y = batch()
    net = body()
    view = watch(net)
    try:
        with view:
            for step in range(STEPS):
                if step == STEPS - 1:
                    net[2] = nn.Linear(5, 2)
                loss = F.cross_entropy(net(x), y)
                loss.backward()
    except RuntimeError:
        pass
    return view


@case("stopped", "raise ValueError", "ValueError was raised by your own code")
def an_error_of_ones_own(watch):
    x, y = batch()
    net = body()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    view = watch(net)
    try:
        with view:
            for step in range(STEPS):
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                if step == STEPS - 1:
                    raise ValueError("the data are wrong")
    except ValueError:
        pass
    return view
