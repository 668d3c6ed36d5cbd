"""Two simulated cards, for each test here that asks for them."""

import pytest

from edutorch import backends
from edutorch.cuda.graphs import graph
from edutorch.ops.random import _GENERATORS


@pytest.fixture
def cards():
    before = backends.simulated_cards()
    backends.simulate_cards(2)
    yield backends.cards_of()
    graph.default_capture_stream = None
    backends.simulate_cards(before)
    for name in [name for name in _GENERATORS if name.startswith("cuda")]:
        del _GENERATORS[name]  # they draw on the cards that are gone
