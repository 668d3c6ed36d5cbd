"""CUDA graphs on simulated cards: captured once, replayed on the same memory."""

import pytest

import edutorch
from edutorch import cuda, nn
from edutorch.errors import ShapeError
from edutorch.nn import functional as F


def test_a_replay_reads_and_writes_the_same_memory(cards):
    x, y = edutorch.ones(3, device="cuda"), edutorch.zeros(3, device="cuda")
    ran = []
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        assert cuda.is_current_stream_capturing()
        y += 2 * x
        total = y.sum()
        ran.append(1)
    assert not cuda.is_current_stream_capturing()
    assert y.tolist() == [0, 0, 0]  # a capture computes nothing
    x.copy_(edutorch.tensor([1.0, 2.0, 3.0]))
    g.replay()
    assert y.tolist() == [2, 4, 6] and total.item() == 12
    g.replay()
    assert y.tolist() == [4, 8, 12] and total.item() == 24
    assert ran == [1]


def sgd(parameters):
    return edutorch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return edutorch.optim.Adam(parameters, lr=0.05, capturable=True)


def adamw(parameters):
    return edutorch.optim.AdamW(parameters, lr=0.05, amsgrad=True, capturable=True)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("make_optimizer", [sgd, adam, adamw])
def test_a_captured_step_is_the_eager_step(cards, set_to_none, make_optimizer):
    results = []
    for is_captured in (False, True):
        edutorch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
        optimizer = make_optimizer(model.parameters())
        x = edutorch.randn(16, 4, device="cuda")
        target = edutorch.randint(0, 2, (16,), device="cuda")

        def step(model=model, optimizer=optimizer, x=x, target=target):
            optimizer.zero_grad(set_to_none)
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        step()  # the state of the optimizer exists before the capture
        losses = []
        g = cuda.CUDAGraph()
        if is_captured:
            with cuda.graph(g):
                static_loss = step()
        for _ in range(4):
            if is_captured:
                g.replay()
                losses.append(static_loss.item())
            else:
                losses.append(step().item())
        steps = [state["step"].item() for state in optimizer.state.values() if "step" in state]
        results.append((losses, steps, [p.tolist() for p in model.parameters()]))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [("Adam", {}, "instance of Adam but param_groups' capturable is False"),
     ("NAdam", {"capturable": True}, "NAdam cannot be captured")],
)  # fmt: skip
def test_a_capture_refuses_steps_that_the_host_counts(cards, name, settings, reason):
    weight = edutorch.ones(2, device="cuda", requires_grad=True)
    optimizer = getattr(edutorch.optim, name)([weight], **settings)
    weight.sum().backward()
    with pytest.raises(RuntimeError, match=reason), cuda.graph(cuda.CUDAGraph()):
        optimizer.step()
    assert weight.tolist() == [1, 1]
    optimizer.step()
    assert weight.tolist() != [1, 1]


def test_dropout_is_drawn_anew(cards):
    x = edutorch.ones(1000, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = F.dropout(x, 0.5)
    g.replay()
    first = y.tolist()
    g.replay()
    assert y.tolist() != first


def test_what_a_capture_refuses(cards):
    x = edutorch.ones(3, device="cuda")
    for wait in (x.sum().item, x.tolist, x.cpu, lambda: bool(x[0] > 0), cuda.synchronize):
        g = cuda.CUDAGraph()
        capture = cuda.graph(g)
        with pytest.raises(RuntimeError, match="operation not permitted when"), capture:
            wait()
        with pytest.raises(RuntimeError, match="without a preceding successful capture"):
            g.replay()
    assert x.tolist() == [1, 1, 1] and not cuda.is_current_stream_capturing()
    g = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="non-default stream"):
        g.capture_begin()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        g.capture_end()
    with pytest.raises(ValueError, match="unknown capture_error_mode"):
        g.capture_begin(capture_error_mode="strict")
    with pytest.raises(RuntimeError, match=r"pool\(\) without"):
        g.pool()


def test_begin_and_end_by_hand(cards):
    x, pool, stream = edutorch.ones(2, device="cuda"), cuda.graph_pool_handle(), cuda.Stream()
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.stream(stream):
        first.capture_begin(pool)
        x *= 2
        first.capture_end()
        with pytest.raises(RuntimeError, match="already owns a captured graph"):
            first.capture_begin()
    assert first.pool() == pool and pool != cuda.graph_pool_handle()
    with cuda.graph(second, pool=first.pool(), stream=stream):
        x += 1
    first.replay()
    second.replay()
    first.instantiate()
    assert x.tolist() == [3, 3]
    first.reset()
    with pytest.raises(RuntimeError, match="without a preceding"):
        first.replay()
    second.replay()
    assert x.tolist() == [4, 4]


def test_graphed_callables(cards):
    edutorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).cuda()
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).cuda()
    plain.load_state_dict(model.state_dict())
    sample = edutorch.randn(5, 3, device="cuda", requires_grad=True)
    graphed = cuda.make_graphed_callables(model, (sample,))
    assert graphed is model
    for _ in range(2):
        data = edutorch.randn(5, 3, device="cuda")
        x, same = data.clone().requires_grad_(), data.clone().requires_grad_()
        loss, expected = graphed(x).square().sum(), plain(same).square().sum()
        loss.backward()
        expected.backward()
        assert loss.item() == expected.item()
        assert x.grad.tolist() == same.grad.tolist()
    for mine, its in zip(model.parameters(), plain.parameters(), strict=True):
        assert edutorch.allclose(mine.grad, its.grad)
    model.eval()
    assert edutorch.equal(model(x), plain(x))  # the graph is that of training: `forward` runs

    def pair(a):
        return a * 2, {"sum": a.sum()}

    twice, more = cuda.make_graphed_callables((pair, edutorch.sin), ((sample,), (sample,)))
    first, rest = twice(x)
    assert first.tolist() == (x * 2).tolist() and rest["sum"].item() == x.sum().item()
    assert more(x).tolist() == x.sin().tolist()


def test_graphed_callables_refuse_other_shapes(cards):
    model = nn.Linear(3, 2).cuda()
    graphed = cuda.make_graphed_callables(model, (edutorch.randn(4, 3, device="cuda"),))
    before = model.weight.tolist()
    x = edutorch.randn(4, 3, device="cuda")
    for shape in ((1, 3), (5, 3), (3,), ()):
        with pytest.raises(ShapeError) as caught:
            graphed(edutorch.ones(shape, device="cuda"))
        first, *_, last = str(caught.value).splitlines()
        assert f"the graph was captured for the shape (4, 3), not {shape}" in first
        assert last == (
            "  hint: capture another one with sample_args of this shape, or pad the batch"
        )
    for wrong in ((), (x, x)):
        with pytest.raises(
            ValueError, match=f"captured with 1 inputs, and is called with {len(wrong)}"
        ):
            graphed(*wrong)
    assert model.weight.tolist() == before
    assert edutorch.allclose(graphed(x), x @ model.weight.t() + model.bias)


# Random numbers -----------------------------------------------------------------------------------


def drop_twice(x):
    return F.dropout(x, 0.5) + F.dropout(x, 0.3)


def test_dropout_of_replays_is_that_of_eager_calls(cards):
    x = edutorch.ones(20, device="cuda")
    cuda.manual_seed(3)
    eager = [drop_twice(x).tolist() for _ in range(5)]
    after = edutorch.rand(2, device="cuda").tolist()
    cuda.manual_seed(3)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = drop_twice(x)
    masks = []
    for number in range(5):
        if number == 2:  # between replays, outside of the graph
            masks.append(drop_twice(x).tolist())
            continue
        g.replay()
        masks.append(y.tolist())
    assert masks == eager and len(set(map(str, eager))) == 5
    assert edutorch.rand(2, device="cuda").tolist() == after
    cuda.manual_seed(3)
    g.replay()
    assert y.tolist() == eager[0]
    cuda.manual_seed(3)
    state = cuda.get_rng_state()
    g.replay()
    cuda.set_rng_state(state)
    g.replay()
    assert y.tolist() == eager[0]


def test_graphed_callables_draw_on(cards):
    sample = edutorch.ones(20, device="cuda", requires_grad=True)
    graphed = cuda.make_graphed_callables(drop_twice, (sample,))
    results = []
    for function in (drop_twice, graphed):
        cuda.manual_seed(5)
        masks = []
        for _ in range(3):
            x = edutorch.ones(20, device="cuda", requires_grad=True)
            y = function(x)
            y.sum().backward()
            assert x.grad.tolist() == y.tolist()  # the same mask in both directions
            masks.append(y.tolist())
        results.append((masks, edutorch.rand(2, device="cuda").tolist()))
    assert results[0] == results[1]


def test_a_failed_capture_draws_nothing(cards):
    x = edutorch.ones(20, device="cuda")
    cuda.manual_seed(6)
    state = cuda.get_rng_state()

    def fail():
        with cuda.graph(cuda.CUDAGraph()):
            drop_twice(x)
            raise KeyError("halfway")

    with pytest.raises(KeyError):
        fail()
    assert edutorch.equal(cuda.get_rng_state(), state)
