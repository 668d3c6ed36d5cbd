"""The exercises of `notebooks/01_scalar_autograd.ipynb`."""

import math

import edutorch as torch

from ..exercise import Exercise, Hint, Mutant


class ByHand(Exercise):
    """Two gradients by hand."""

    id = "01.by_hand"
    notebook, cell = "01_scalar_autograd", "cell-31"
    names = ("a_grad", "b_grad")

    # The point is each student's own: a number that a neighbour says is the wrong one.
    shared_values = {"a": 2.0, "b": 5.0}

    def values(rng):
        a, b = (rng.integers(11, 99, size=2) / 10).tolist()
        return {"a": a, "b": b}

    def cases(rng):
        # The question has one answer. So the numbers are used on nudges of a and b: what
        # gradients are for.
        for _ in range(3):
            nudge_a, nudge_b = rng.uniform(0.1, 1.0, size=2).tolist()
            yield {"nudge_a": nudge_a, "nudge_b": nudge_b}

    def answer(theirs, a, b, nudge_a, nudge_b):
        a, b = torch.tensor(a), torch.tensor(b)
        a * b + b * b  # for the picture; the answer holds nothing but what is the student's
        growth = theirs.a_grad * nudge_a + theirs.b_grad * nudge_b
        return {"a_grad": theirs.a_grad, "b_grad": theirs.b_grad, "growth": growth}

    def right(a, b, nudge_a, nudge_b):
        a = torch.tensor(a, dtype=torch.float64, requires_grad=True)
        b = torch.tensor(b, dtype=torch.float64, requires_grad=True)
        (a * b + b * b).backward()
        a_grad, b_grad = a.grad.item(), b.grad.item()
        growth = a_grad * nudge_a + b_grad * nudge_b
        return {"a_grad": a_grad, "b_grad": b_grad, "growth": growth}

    hints = (
        Hint(
            "both are still 0: put in the numbers that you have found on paper",
            lambda attempt: attempt.value["a_grad"] == attempt.value["b_grad"] == 0,
        ),
        Hint(
            "one is the other: `a_grad` belongs to a, and along a the product grows by b",
            lambda attempt: (
                attempt.is_close(attempt.right["a_grad"], "b_grad")
                and attempt.is_close(attempt.right["b_grad"], "a_grad")
            ),
            mark="mul",
        ),
        Hint(
            "`a_grad` is right; count the arrows that leave b: a gradient comes back on each, as "
            "`viz.walk(a * b + b * b)` shows",
            lambda attempt: (
                attempt.is_close(attempt.right["a_grad"], "a_grad")
                and any(
                    attempt.is_close(part, "b_grad")
                    for part in incomplete_gradients(attempt.case["a"], attempt.case["b"])
                )
            ),
            mark="mul",
        ),
        Hint(
            "that is the value of y; asked is how much y grows when a, or b, grows a little",
            lambda attempt: any(
                attempt.is_close(value_by_hand(attempt.case["a"], attempt.case["b"]), name)
                for name in ("a_grad", "b_grad")
            ),
            mark="add",
        ),
    )
    mutants = (
        Mutant("a_grad, b_grad = 12.0, 5.0", hint=1),
        Mutant("a_grad, b_grad = 5.0, 7.0  # b·b counted once", hint=2),
        Mutant("a_grad, b_grad = 5.0, 10.0  # a·b forgotten", hint=2),
        Mutant("a_grad, b_grad = 35.0, 35.0", hint=3),
        Mutant("a_grad, b_grad = 2.0, 12.0  # a itself, not what it is multiplied by"),
        Mutant('a_grad, b_grad = "5", "12"'),
    )
    starter = """\
a_grad, b_grad = 0.0, 0.0  # your numbers
"""

    def solution_of(a, b):
        return f"a_grad, b_grad = {b}, {a} + {b} + {b}  # b has three ways: a·b once, b·b twice\n"

    solution = solution_of(**shared_values)


def value_by_hand(a, b):
    """Return y at a point."""
    return a * b + b * b


def incomplete_gradients(a, b):
    """Return what is left of the gradient of b, a + b + b, if one or two ways are not seen."""
    return a, b, a + b, b + b


def exponential_gradient(case, through_exp):
    """Return the gradient of y = w·eˣˣ + x for x, if what passes through the exponential is this.

    Args:
        through_exp: maps g, the value below and the exponential to what the rule sends on.
    """
    x, w = case["x"], case["w"]
    return through_exp(w, x * x, math.exp(x * x)) * 2 * x + 1


def gradient_of_one_way(x, w):
    """Return what is left in x if each way back overwrites what came on another."""
    return w * math.exp(x * x) * x


def sends(through_exp):
    """Return the condition that the value is right, and that this is what the rule sends on."""
    return lambda attempt: (
        attempt.is_close(attempt.right["value"], "value")
        and attempt.is_close(exponential_gradient(attempt.case, through_exp), "gradient")
    )


class Exponential(Exercise):
    """An exponential for your own autograd."""

    id = "01.exponential"
    notebook, cell = "01_scalar_autograd", "cell-35"
    points = 2
    names = ("exponential", "Number")

    def cases(rng):
        for low, high in ((0.3, 1.2), (-1.2, -0.3), (-0.2, 0.2), (1.2, 1.5)):
            # w is what comes back to the exponential: neither 0 nor 1, nor the exponential itself.
            yield {"x": float(rng.uniform(low, high)), "w": float(rng.uniform(-3.0, -2.0))}

    def answer(theirs, x, w):
        number = theirs.Number(x)
        result = theirs.exponential(number * number) * theirs.Number(w) + number
        result.backward()
        return {"value": result.value, "gradient": number.grad}

    def right(x, w):
        leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        result = (leaf * leaf).exp() * w + leaf
        result.backward()
        return {"value": result.item(), "gradient": leaf.grad.item()}

    hints = (
        Hint(
            "nothing is computed yet: `math.exp` of the number's `value` comes first",
            lambda attempt: attempt.is_close(attempt.case["x"], "value"),
        ),
        Hint(
            "the value is right, but the rule sends g on as it came: how steep is the curve there?",
            sends(lambda g, below, y: g),
        ),
        Hint(
            "the value is right, but the rule does not use g: something comes after the "
            "exponential, and that is in g",
            sends(lambda g, below, y: y),
        ),
        Hint(
            "the rule is that of a power, where the base varies; here the exponent does",
            sends(lambda g, below, y: g * below * math.exp(below - 1)),
        ),
        Hint(
            "the value is right, and your rule sends nothing on",
            sends(lambda g, below, y: 0.0),
        ),
        Hint(
            "look at `Number.backward`, not here: x reaches the end on several ways, and what "
            "comes back on them adds up",
            lambda attempt: (
                attempt.is_close(attempt.right["value"], "value")
                and attempt.is_close(gradient_of_one_way(**attempt.case), "gradient")
            ),
        ),
    )
    mutants = (
        Mutant(
            """\
def exponential(number):
    y = math.exp(number.value)
    return Number(y, (number,), (lambda g: g,))
""",
            hint=1,
        ),
        Mutant(
            """\
def exponential(number):
    y = math.exp(number.value)
    return Number(y, (number,), (lambda g: y,))
""",
            hint=2,
        ),
        Mutant(
            """\
def exponential(number):
    x = number.value
    return Number(math.exp(x), (number,), (lambda g: g * x * math.exp(x - 1),))
""",
            hint=3,
        ),
        Mutant(
            """\
def exponential(number):
    return Number(math.exp(number.value), (number,), (lambda g: 0.0,))
""",
            hint=4,
        ),
        Mutant(
            """\
def exponential(number):
    return Number(math.exp(number.value))
""",
            hint=4,
        ),
        Mutant(
            """\
def exponential(number):
    y = math.exp(number.value)
    return Number(y, (number,), (lambda g: g * y,))


def backward(self):
    self.grad = 1.0
    waiting = [self]
    for number in waiting:
        for each, rule in zip(number.inputs, number.rules):
            each.grad = rule(number.grad)
        waiting += number.inputs


Number.backward = backward
""",
            hint=5,
        ),
        Mutant(
            """\
def exponential(number):
    y = math.exp(number.value)
    return Number(y, (number,), (lambda g: g * number.value,))
"""
        ),
        Mutant(
            """\
def exponential(number):
    return math.exp(number.value)
"""
        ),
    )
    before = """\
class Number:
    def __init__(self, value, inputs=(), rules=()):
        self.value, self.grad = value, 0.0
        self.inputs, self.rules = inputs, rules

    def __add__(self, other):
        return Number(self.value + other.value, (self, other), (lambda g: g, lambda g: g))

    def __mul__(self, other):
        a, b = self.value, other.value
        return Number(a * b, (self, other), (lambda g: g * b, lambda g: g * a))

    def tanh(self):
        y = math.tanh(self.value)
        return Number(y, (self,), (lambda g: g * (1 - y**2),))

    def backward(self):
        order, seen = [], set()

        def visit(number):
            if id(number) not in seen:
                seen.add(id(number))
                for each in number.inputs:
                    visit(each)
                order.append(number)

        visit(self)
        self.grad = 1.0
        for number in reversed(order):
            for each, rule in zip(number.inputs, number.rules):
                each.grad += rule(number.grad)  # += : several ways add up
"""
    starter = """\
def exponential(number):
    return Number(0.0, (number,), (lambda g: 0.0,))  # your code
"""
    solution = """\
def exponential(number):
    y = math.exp(number.value)
    return Number(y, (number,), (lambda g: g * y,))
"""


def powers(attempt):
    """Return x³ at each x that was tried."""
    return [box.norm for box in attempt.graph.boxes if box.label == "pow"]


class FlatPlace(Exercise):
    """Downhill to a gradient of zero."""

    id = "01.flat_place"
    notebook, cell = "01_scalar_autograd", "cell-39"
    points = 2
    names = ("flat_place",)
    # Where |f′| is below 0.001 for the first time, x is not exact.
    tolerance = {"float64": 2e-3}

    def cases(rng):
        # f(x) = x³ − 3·bottom²·x is lowest at `bottom`, among the positive numbers.
        for start in (2.0, 2.3, 0.8):
            yield {"bottom": float(rng.uniform(1.2, 1.5)), "start": start}

    def answer(theirs, bottom, start):
        place = theirs.flat_place(lambda x: x**3 - 3 * bottom**2 * x, start)
        return float(place)

    def right(bottom, start):
        return bottom

    hints = (
        Hint(
            "that is where it started: no step has been made",
            lambda attempt: attempt.value == attempt.case["start"],
        ),
        Hint(
            "it walks uphill: the gradient says where f grows, and you want the other direction",
            lambda attempt: (
                attempt.case["start"] > attempt.right and powers(attempt)[1] > powers(attempt)[0]
            ),
            mark="pow",
        ),
        Hint(
            "that is right for x³ − 3x only; take the gradients of the `f` that you are given",
            lambda attempt: math.isclose(attempt.value, 1.0, abs_tol=1e-3),
        ),
        Hint(
            "it runs past the bottom and does not come to rest: gradients add up over several "
            "calls of backward",
            lambda attempt: (
                attempt.case["start"] > attempt.right
                and min(powers(attempt)) < (0.95 * attempt.right) ** 3
            ),
        ),
        Hint(
            "it stops too early: the gradient there is not smaller than 0.001 yet",
            lambda attempt: abs(attempt.value - attempt.right) > 1e-3,
        ),
    )
    mutants = (
        Mutant(
            """\
def flat_place(f, start):
    x = torch.tensor(start, requires_grad=True)
    for _ in range(4):
        x.grad = None
        f(x).backward()
        with torch.no_grad():
            x += 0.05 * x.grad
    return x.item()
""",
            hint=1,
        ),
        Mutant("def flat_place(f, start): return 1.0", hint=2),
        Mutant(
            """\
def flat_place(f, start):
    x = torch.tensor(start, requires_grad=True)
    for _ in range(5):
        x.grad = None
        f(x).backward()
        with torch.no_grad():
            x -= 0.05 * x.grad
    return x.item()
""",
            hint=4,
        ),
        Mutant(
            """\
def flat_place(f, start):
    x = torch.tensor(start, requires_grad=True)
    f(x).backward()
    with torch.no_grad():
        x -= 0.05 * x.grad
    return start
""",
            hint=0,
        ),
        Mutant(
            """\
def flat_place(f, start):
    x = torch.tensor(start, requires_grad=True)
    for _ in range(20):
        f(x).backward()
        with torch.no_grad():
            x -= 0.05 * x.grad
    return x.item()
""",
            hint=3,
        ),
        Mutant(
            """\
def flat_place(f, start):
    x = torch.tensor(start, requires_grad=True)
    for _ in range(20):
        f(x).backward()
        x = x - 0.05 * x.grad
    return x.item()
"""
        ),
    )
    starter = """\
def flat_place(f, start):
    return start  # your code


place = flat_place(lambda x: x**3 - 3 * x, 2.0)
"""
    solution = """\
def flat_place(f, start):
    x = torch.tensor(start, requires_grad=True)
    while True:
        x.grad = None
        f(x).backward()
        if x.grad.abs() < 0.001:
            return x.item()
        with torch.no_grad():
            x -= 0.05 * x.grad


place = flat_place(lambda x: x**3 - 3 * x, 2.0)
"""
