"""Several cards: which one computes, that they do not mix, and what a number means."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import edutorch
from edutorch import backends, nn, optim
from edutorch.errors import DeviceError
from tests.simulation import simulated


@pytest.fixture(params=["cuda", "strict"])
def card(request):
    """The name of a device with at least two cards: on the strict one, the current one counts."""
    if request.param == "cuda":
        with simulated(2):
            yield "cuda"
        return
    yield "strict"
    assert backends.cards_of("strict").current_index() == 0, "the current card was not restored"


def name_of(card, index):
    return "strict" if (card, index) == ("strict", 0) else f"{card}:{index}"


def test_a_network_over_two_cards_learns_as_on_the_cpu(card):
    def train(first, second):
        edutorch.manual_seed(1)
        x, target = edutorch.randn(8, 4), edutorch.randint(0, 3, (8,))
        lower = nn.Sequential(nn.Linear(4, 8), nn.Tanh()).to(first)
        upper = nn.Linear(8, 3).to(second)
        optimizer = optim.Adam([*lower.parameters(), *upper.parameters()], lr=0.01)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            y = upper(lower(x.to(first)).to(second))
            loss = nn.functional.cross_entropy(y, target.to(second))
            loss.backward()
            loss_again = nn.functional.cross_entropy(
                upper(lower(x.to(first)).to(second)), target.to(second)
            )
            loss_again.backward()  # gradients add up on their own card
            nn.utils.clip_grad_norm_(upper.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses, lower[0].weight, upper.weight, optimizer

    expected, *_ = train("cpu", "cpu")
    losses, low, high, optimizer = train(f"{card}:0", f"{card}:1")
    assert losses == pytest.approx(expected, rel=1e-6)
    assert losses[-1] < losses[0]
    for index, weight in enumerate((low, high)):
        place = name_of(card, index)
        state = optimizer.state[weight]["exp_avg"]
        assert [str(t.device) for t in (weight, weight.grad, state)] == [place] * 3


def test_two_cards_do_not_mix(card):
    x, w = edutorch.ones(2, 3, device=f"{card}:0"), edutorch.ones(3, 2, device=f"{card}:1")
    with pytest.raises(DeviceError) as caught:
        x @ w
    message = str(caught.value)
    assert message.startswith("matmul: Expected all tensors to be on the same device")
    assert f"input  = (2, 3) on {name_of(card, 0)}" in message
    assert f"other  = (3, 2) on {name_of(card, 1)}" in message
    for call in (
        lambda: edutorch.cat([x, w.T]),
        lambda: nn.functional.linear(x, w.T),
        lambda: edutorch.where(x > 0, x, w.T),
        lambda: x.add_(w.T),
        lambda: x + edutorch.ones(2, 3),
    ):
        with pytest.raises(DeviceError, match="same device"):
            call()
    one = edutorch.tensor(2.0)  # a single number of the CPU may be combined with any card
    assert (w * one).device == w.device


def test_what_is_made_from_a_tensor_is_on_its_card(card):
    x = edutorch.arange(6.0, device=f"{card}:1").reshape(2, 3)
    made = [
        x + 1, x[0], x[x > 1], x.mean(), x.T.contiguous(), x.sort().values, x.clone(),
        x.new_zeros(2), edutorch.zeros_like(x), edutorch.rand_like(x), edutorch.dropout(x, 0.5,
        True),
        x.cumsum(0), x.half().float(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)),
        x.softmax(1),
        x.argmax(), edutorch.eye(2, device=x.device) @ x, x.expand(4, 2, 3),
        edutorch.einsum("ij,kj->ik", x, x),
    ]  # fmt: skip
    x[0] = 7
    x[1:, edutorch.tensor([0], device=x.device)] *= 2
    x.index_add_(0, edutorch.tensor([1], device=x.device), x[:1])
    x.copy_(edutorch.ones(3))
    assert x.tolist() == [[1, 1, 1]] * 2
    assert {str(tensor.device) for tensor in (*made, x)} == {f"{card}:1"}
    assert (x.get_device(), x.device.index) == (1, 1)
    assert repr(x).endswith(f"device='{card}:1')")
    assert x.to(f"{card}:1") is x
    assert x.to(f"{card}:0").cpu().tolist() == x.tolist()


def test_each_card_has_a_generator(card):
    edutorch.manual_seed(5)
    drawn = [edutorch.rand(3, device=f"{card}:{index}").tolist() for index in (0, 1)]
    assert drawn[0] == drawn[1], "a seed gives each card the same numbers, as in PyTorch"
    assert edutorch.rand(3, device=f"{card}:1").tolist() != drawn[1]
    own = edutorch.Generator(device=f"{card}:1").manual_seed(5)
    assert own.device == f"{card}:1"
    assert edutorch.rand(3, device=f"{card}:1", generator=own).tolist() == drawn[1]


def test_checkpoints_go_where_they_are_mapped(card):
    file = io.BytesIO()
    edutorch.save({"w": edutorch.ones(2, device=f"{card}:1")}, file)
    first, second = name_of(card, 0), f"{card}:1"
    for where, expected in (
        (None, second),
        ("cpu", "cpu"),
        ({second: first}, first),
        (edutorch.device(second), second),
        (lambda storage, location: storage.to(first) if location == second else None, first),
    ):
        file.seek(0)
        assert str(edutorch.load(file, map_location=where)["w"].device) == expected


# Numbers --------------------------------------------------------------------------------------


def test_a_number_is_a_card():
    with simulated(2):
        assert str(edutorch.device(1)) == "cuda:1"
        assert str(edutorch.ones(1).to(1).device) == "cuda:1"
        assert str(edutorch.randn(2, device=0).device) == "cuda:0"
        assert str(edutorch.ones(1).cuda(1).device) == "cuda:1"
        model = nn.Linear(2, 2).to(1)
        assert {str(p.device) for p in model.parameters()} == {"cuda:1"}
        assert {str(p.device) for p in model.cuda(0).parameters()} == {"cuda:0"}
        assert {str(p.device) for p in model.cuda("cuda:1").parameters()} == {"cuda:1"}


def test_the_current_card_is_where_cuda_creates():
    with simulated(3):
        cuda = edutorch.cuda
        assert (cuda.device_count(), cuda.current_device()) == (3, 0)
        cuda.set_device("cuda:2")
        assert edutorch.ones(1, device="cuda").device.index == 2
        with cuda.device(1):
            assert edutorch.ones(1).cuda().device.index == 1
            with cuda.device_of(edutorch.ones(1, device=0)):
                assert cuda.current_device() == 0
            with cuda.device(None):
                assert cuda.current_device() == 1
        assert cuda.current_device() == 2
        cuda.set_device(-1)  # as in PyTorch: it stays
        assert cuda.current_device() == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: edutorch.ones(1, device="cuda:7"), "there is no cuda:7"),
        (lambda: edutorch.ones(1).to(7), "there is no cuda:7"),
        (lambda: edutorch.cuda.set_device(2), "this machine has 2 simulated cards: cuda:0, cuda:1"),
        (lambda: edutorch.cuda.set_device("cpu"), "Expected a cuda device, but got: cpu"),
        (lambda: edutorch.cuda.get_device_name(3), "there is no cuda:3"),
        (lambda: edutorch.device("cuda:x"), "Invalid device string: 'cuda:x'"),
        (lambda: edutorch.device("cuda:-1"), "Invalid device string: 'cuda:-1'"),
        (lambda: edutorch.device("cuda:"), "Invalid device string: 'cuda:'"),
        (lambda: edutorch.device("cuda:01"), "Invalid device string: 'cuda:01'"),
        (lambda: edutorch.device(-1), "Device index must not be negative"),
        (lambda: edutorch.device("cuda", -1), "Device index must not be negative"),
        (
            lambda: edutorch.device("cuda:0", 1),
            "must not include an index because",
        ),
        (lambda: backends.cards_of("cpu"), "'cpu' is one device, and has no cards"),
        (lambda: backends.cards_of("gpu"), "there is no device 'gpu'"),
    ],
)
def test_numbers_that_are_no_card(call, message):
    with simulated(2), pytest.raises(RuntimeError) as caught:
        call()
    assert message in str(caught.value)


def test_the_strict_device_notices_the_wrong_current_card():
    """Without the switch a GPU would put the result on another card, without a word."""
    x = edutorch.ones(2, device="strict:1")._array
    with pytest.raises(RuntimeError, match="array of card 1, and the current card is 0"):
        x + x
