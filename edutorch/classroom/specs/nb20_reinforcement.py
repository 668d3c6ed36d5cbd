"""The exercises of `notebooks/20_reinforcement.ipynb`."""

import numpy as np

import edutorch as torch
from edutorch import nn

from ..exercise import Exercise, Hint, Mutant


def returns_of(rewards, ended, last, gamma, step=None):
    """Return the discounted returns of a stream, or those of a wrong `step`."""
    step = step or (lambda reward, after, end: reward + gamma * after * (1 - end))
    total, returns = np.asarray(last), np.zeros_like(rewards)
    for row in reversed(range(len(rewards))):
        total = step(rewards[row], total, ended[row])
        returns[row] = total
    return returns


def are_returns(attempt, step=None, **changed):
    """Return whether an answer is what this rule, or changed arguments, would give."""
    case = {**attempt.case, **changed}
    return attempt.is_close(torch.tensor(returns_of(**case, step=step)))


class StreamReturns(Exercise):
    """Discounted returns of worlds that run without a break."""

    id = "20.returns"
    notebook, cell = "20_reinforcement", "cell-42"
    points = 2
    names = ("stream_returns",)

    def cases(rng):
        for steps, worlds in ((6, 3), (5, 5), (4, 1)):
            ended = np.zeros((steps, worlds))
            # In each world an episode ends in the middle, and the last one goes on.
            ended[rng.integers(1, steps - 2, size=worlds), np.arange(worlds)] = 1
            yield {
                "rewards": rng.normal(size=(steps, worlds)) + 1,
                "ended": ended,
                "last": rng.normal(size=worlds) + 3,
                "gamma": rng.uniform(0.6, 0.95),
            }

    def answer(theirs, rewards, ended, last, gamma):
        return theirs.stream_returns(
            torch.tensor(rewards), torch.tensor(ended), torch.tensor(last), gamma
        )

    def right(rewards, ended, last, gamma):
        return torch.tensor(returns_of(rewards, ended, last, gamma))

    hints = (
        Hint(
            "nothing is computed yet: these are the rewards; go through the rows from the last one "
            "to the first",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["rewards"])),
        ),
        Hint(
            "rewards of the next episode count for the one before: what has to be 0 where `ended` "
            "is 1?",
            lambda attempt: are_returns(attempt, ended=0 * attempt.case["ended"]),
            mark="add",
        ),
        Hint(
            "the record stops before the episodes do: what comes after its last row is `last`",
            lambda attempt: are_returns(attempt, last=0 * attempt.case["last"]),
            mark="add",
        ),
        Hint(
            "the reward of the last step of an episode is lost: only what comes after it is not "
            "there",
            lambda attempt: are_returns(
                attempt,
                lambda reward, after, end: (reward + attempt.case["gamma"] * after) * (1 - end),
            ),
            mark="mul",
        ),
        Hint(
            "a later reward counts as much as an early one: where is the discount?",
            lambda attempt: are_returns(attempt, gamma=1.0),
            mark="add",
        ),
        Hint(
            "the returns are right, but stand in the order in which they were computed",
            lambda attempt: attempt.is_close(attempt.right.flip(0)),
            mark="stack",
        ),
        Hint(
            "this adds up what came *before* a step: a move is worth what comes after it",
            lambda attempt: attempt.is_close(
                torch.tensor(
                    returns_of(
                        attempt.case["rewards"][::-1], attempt.case["ended"][::-1],
                        attempt.case["last"], attempt.case["gamma"],
                    )[::-1].copy()
                )
            ),
            mark="add",
        ),
    )  # fmt: skip
    starter = """\
def stream_returns(rewards, ended, last, gamma):
    return rewards  # your code
"""
    solution = """\
def stream_returns(rewards, ended, last, gamma):
    total, returns = last, []
    for reward, end in zip(reversed(rewards.unbind()), reversed(ended.unbind())):
        total = reward + gamma * total * (1 - end)
        returns.append(total)
    return torch.stack(returns[::-1])
"""
    mutants = (
        Mutant(solution.replace(" * (1 - end)", ""), hint=1),
        Mutant(solution.replace("= last, []", "= torch.zeros_like(last), []"), hint=2),
        Mutant(
            solution.replace("reward + gamma * total * (1", "(reward + gamma * total) * (1"), hint=3
        ),
        Mutant(solution.replace("gamma * ", ""), hint=4),
        Mutant(solution.replace("[::-1]", ""), hint=5),
        Mutant(
            solution.replace("reversed(rewards.unbind())", "rewards")
            .replace("reversed(ended.unbind())", "ended")
            .replace("[::-1]", ""),
            hint=6,
        ),
        Mutant(solution.replace("(1 - end)", "end")),
        Mutant(solution.replace("torch.stack(returns[::-1])", "total")),
    )


def gradients_of(attempt, name):
    """Return the right gradient of `log_chance` or `value`, and the other part of both losses.

    The second is what flows into it where the advantage is not cut off, or with the wrong sign.
    """
    log_chance, value, returns = (
        torch.tensor(attempt.case[key]) for key in ("log_chance", "value", "returns")
    )
    advantage = (returns - value) / len(value)
    if name == "log_chance":
        return -advantage, advantage
    return -advantage, log_chance / len(value)


def has_gradient(attempt, name, compute):
    """Return whether the gradient of `log_chance` or of `value` is this function of two parts."""
    return attempt.is_close(compute(*gradients_of(attempt, name)), f"gradient of {name}")


def is_finite_loss(attempt):
    loss = attempt.value["loss"]
    return loss.shape == () and loss.is_floating_point() and loss.isfinite().item()


class ActorCriticLoss(Exercise):
    """What must be cut from the graph of an actor and its critic."""

    id = "20.detach"
    notebook, cell = "20_reinforcement", "cell-46"
    points = 2
    names = ("actor_critic_loss",)

    def cases(rng):
        for steps in (5, 2, 8):
            yield {
                "log_chance": -rng.uniform(0.2, 2.0, size=steps),
                "value": rng.normal(size=steps),
                "returns": rng.normal(size=steps) + 2,
            }

    def answer(theirs, log_chance, value, returns):
        log_chance = torch.tensor(log_chance, requires_grad=True)
        value = torch.tensor(value, requires_grad=True)
        loss = theirs.actor_critic_loss(log_chance, value, torch.tensor(returns))
        is_loss = isinstance(loss, torch.Tensor) and loss.shape == ()
        if is_loss and loss.requires_grad:
            loss.backward()
        return {
            "loss": loss.detach() if is_loss else loss,
            "gradient of log_chance": log_chance.grad,
            "gradient of value": value.grad,
        }

    def right(log_chance, value, returns):
        advantage = torch.tensor(returns - value)
        return {
            "loss": -(torch.tensor(log_chance) * advantage).mean() + advantage.square().mean() / 2,
            "gradient of log_chance": -advantage / len(value),
            "gradient of value": -advantage / len(value),
        }

    hints = (
        Hint(
            "the critic has no loss of its own yet, and the loss of the actor pulls at `value`: "
            "see the path from it",
            lambda attempt: has_gradient(attempt, "value", lambda _, pull: pull),
            mark="value",
        ),
        Hint(
            "the loss of the actor pulls at `value`, beside its own: in the actor's loss the "
            "advantage is a number",
            lambda attempt: has_gradient(attempt, "value", lambda own, pull: own + pull),
            mark="value",
        ),
        Hint(
            "no gradient comes to `value`: its own loss must reach it",
            lambda attempt: attempt.value["gradient of value"] is None and is_finite_loss(attempt),
            mark="value",
        ),
        Hint(
            "no gradient comes to `log_chance`: too much was cut off",
            lambda attempt: (
                attempt.value["gradient of log_chance"] is None and is_finite_loss(attempt)
            ),
            mark="log_chance",
        ),
        Hint(
            "this makes good actions less likely: an optimizer goes downhill",
            lambda attempt: has_gradient(attempt, "log_chance", lambda own, other: other),
            mark="mul",
        ),
        Hint(
            "the value moves away from the returns, or twice as fast as it should: look at the "
            "critic's part of the loss",
            lambda attempt: (
                has_gradient(attempt, "value", lambda own, _: -own)
                or has_gradient(attempt, "value", lambda own, _: 2 * own)
            ),
            mark="mse_loss",
        ),
        Hint(
            "the gradients grow with the number of steps: the mean was asked for",
            lambda attempt: has_gradient(
                attempt, "log_chance", lambda own, _: own * len(attempt.case["value"])
            ),
            mark="sum",
        ),
    )
    starter = """\
def actor_critic_loss(log_chance, value, returns):
    return -(log_chance * (returns - value)).mean()  # your code
"""
    solution = """\
def actor_critic_loss(log_chance, value, returns):
    advantage = (returns - value).detach()
    return -(log_chance * advantage).mean() + 0.5 * F.mse_loss(value, returns)
"""
    mutants = (
        Mutant(
            """\
def actor_critic_loss(log_chance, value, returns):
    return -(log_chance * (returns - value)).mean() + 0.5 * F.mse_loss(value, returns)
""",
            hint=1,
        ),
        Mutant(
            """\
def actor_critic_loss(log_chance, value, returns):
    return -(log_chance * (returns - value).detach()).mean()
""",
            hint=2,
        ),
        Mutant(
            """\
def actor_critic_loss(log_chance, value, returns):
    value = value.detach()
    return -(log_chance * (returns - value)).mean() + 0.5 * F.mse_loss(value, returns)
""",
            hint=2,
        ),
        Mutant(solution.replace("-(log_chance", "-(log_chance.detach()"), hint=3),
        Mutant(solution.replace("return -(", "return ("), hint=4),
        Mutant(solution.replace("0.5 * ", ""), hint=5),
        Mutant(solution.replace("+ 0.5 * F", "- 0.5 * F"), hint=5),
        Mutant(
            solution.replace(".mean()", ".sum()")
            .replace("returns)\n", 'returns, reduction="sum")\n')
            .replace('value, returns, reduction="sum"):', "value, returns):"),
            hint=6,
        ),
        Mutant(solution.replace("(returns - value).detach()", "returns")),
    )


def target_of(attempt, chooses, judges, ends=True):
    """Return whether an answer is the target where these networks choose and judge."""
    case = attempt.case
    values = {name: case["new"] @ case[name] for name in ("network", "frozen")}
    chosen = values[chooses].argmax(1)
    worth = values[judges][np.arange(len(chosen)), chosen]
    after = case["gamma"] * worth * (1 - case["ended"] * ends)
    return attempt.is_close(torch.tensor(case["rewards"] + after), "target")


class DoubleTarget(Exercise):
    """The target of double DQN."""

    id = "20.target"
    notebook, cell = "20_reinforcement", "cell-50"
    points = 2
    names = ("double_target",)

    def cases(rng):
        for rows, actions in ((6, 4), (4, 4), (8, 3)):
            ended = np.zeros(rows)
            ended[rng.integers(rows)] = 1
            new, network = rng.normal(size=(rows, 3)), rng.normal(size=(3, actions))
            # The networks disagree about which action is the best: otherwise all answers agree.
            yield {
                "network": network,
                "frozen": 0.3 * network[:, ::-1] + rng.normal(size=(3, actions)),
                "rewards": rng.normal(size=rows),
                "new": new,
                "ended": ended,
                "gamma": rng.uniform(0.7, 0.95),
            }

    def answer(theirs, network, frozen, rewards, new, ended, gamma):
        class QNetwork(nn.Module):
            def __init__(self, weight):
                super().__init__()
                self.weight = nn.Parameter(torch.tensor(weight))

            def forward(self, states):
                return states @ self.weight

        target = theirs.double_target(
            QNetwork(network), QNetwork(frozen), torch.tensor(rewards), torch.tensor(new),
            torch.tensor(ended), gamma,
        )  # fmt: skip
        if not isinstance(target, torch.Tensor):
            return {"target": target, "is cut from the graph": True}
        return {"target": target.detach(), "is cut from the graph": not target.requires_grad}

    def right(network, frozen, rewards, new, ended, gamma):
        chosen = (new @ network).argmax(1)
        worth = (new @ frozen)[np.arange(len(chosen)), chosen]
        target = torch.tensor(rewards + gamma * worth * (1 - ended))
        return {"target": target, "is cut from the graph": True}

    hints = (
        Hint(
            "these are the rewards: what may still come after the step is missing",
            lambda attempt: attempt.is_close(torch.tensor(attempt.case["rewards"]), "target"),
        ),
        Hint(
            "that is the plain target: here `frozen` chooses the action whose value it says itself",
            lambda attempt: target_of(attempt, "frozen", "frozen"),
            mark="max",
        ),
        Hint(
            "the network that learns says what its own choice is worth: the target moves with "
            "every update",
            lambda attempt: target_of(attempt, "network", "network"),
            mark="max",
        ),
        Hint(
            "the two are swapped: which one chooses, and which one says what the choice is worth?",
            lambda attempt: target_of(attempt, "frozen", "network"),
            mark="argmax",
        ),
        Hint(
            "after the end of an episode there is nothing more to come",
            lambda attempt: target_of(attempt, "network", "frozen", ends=False),
            mark="add",
        ),
        Hint(
            "the targets are right, but a gradient flows back through them into the networks: cut "
            "it off",
            lambda attempt: (
                attempt.value["is cut from the graph"] is False
                and target_of(attempt, "network", "frozen")
            ),
            mark="add",
        ),
    )
    starter = """\
def double_target(network, frozen, rewards, new, ended, gamma):
    return rewards  # your code
"""
    solution = """\
def double_target(network, frozen, rewards, new, ended, gamma):
    with torch.no_grad():
        chosen = network(new).argmax(1, keepdim=True)
        worth = frozen(new).gather(1, chosen)[:, 0]
        return rewards + gamma * worth * (1 - ended)
"""
    mutants = (
        Mutant(
            """\
def double_target(network, frozen, rewards, new, ended, gamma):
    with torch.no_grad():
        return rewards + gamma * frozen(new).max(1).values * (1 - ended)
""",
            hint=1,
        ),
        Mutant(
            """\
def double_target(network, frozen, rewards, new, ended, gamma):
    with torch.no_grad():
        return rewards + gamma * network(new).max(1).values * (1 - ended)
""",
            hint=2,
        ),
        Mutant(
            solution.replace("network(new)", "other(new)")
            .replace("frozen(new)", "network(new)")
            .replace("other(new)", "frozen(new)"),
            hint=3,
        ),
        Mutant(solution.replace(" * (1 - ended)", ""), hint=4),
        Mutant(
            """\
def double_target(network, frozen, rewards, new, ended, gamma):
    chosen = network(new).argmax(1, keepdim=True)
    worth = frozen(new).gather(1, chosen)[:, 0]
    return rewards + gamma * worth * (1 - ended)
""",
            hint=5,
        ),
        Mutant(solution.replace("gamma * ", "")),
        Mutant(
            solution.replace("rewards + gamma * worth * (1 - ended)", "gamma * worth * (1 - ended)")
        ),
    )
