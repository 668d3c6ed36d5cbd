"""REINFORCE on a cart that balances a pole; the cart-pole is a few lines of NumPy below."""

import argparse
import math
from collections import deque
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from repeatable import Dice, same_start, write_losses
from torch.distributions import Categorical

parser = argparse.ArgumentParser(description="REINFORCE example")
parser.add_argument("--gamma", type=float, default=0.99, metavar="G")
parser.add_argument("--seed", type=int, default=543, metavar="N")
parser.add_argument("--episodes", type=int, default=20)
parser.add_argument("--log-interval", type=int, default=5, metavar="N")
parser.add_argument("--sampled-by-torch", action="store_true")
parser.add_argument("--plain-returns", action="store_true", help="do not normalise the returns")
parser.add_argument("--double", action="store_true", help="compute in float64")
parser.add_argument("--out", default="")
args = parser.parse_args()


if args.double:
    torch.set_default_dtype(torch.float64)


class CartPole:
    """A pole on a cart, pushed left or right every 20 ms (Barto, Sutton and Anderson 1983)."""

    def __init__(self, seed):
        self.dice = np.random.RandomState(seed)

    def reset(self):
        self.state = self.dice.uniform(-0.05, 0.05, size=4)
        return self.state.astype(np.float32), {}

    def step(self, action):
        x, speed, angle, turning = self.state
        push = 10.0 if action == 1 else -10.0
        inner = (push + 0.05 * turning**2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * inner) / (
            0.5 * (4.0 / 3.0 - 0.1 * math.cos(angle) ** 2 / 1.1)
        )
        pull = inner - 0.05 * turn * math.cos(angle) / 1.1
        self.state = np.array(
            [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turning, turning + 0.02 * turn]
        )
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095
        return self.state.astype(np.float32), 1.0, bool(fallen), False, {}


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(4, 32)
        self.dropout = nn.Dropout(p=0.0)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = self.affine1(x)
        x = self.dropout(x)
        x = F.relu(x)
        action_scores = self.affine2(x)
        return F.softmax(action_scores, dim=1)


env = CartPole(args.seed)
torch.manual_seed(args.seed)
policy = same_start(Policy(), seed=args.seed)
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = np.finfo(np.float32).eps.item()
dice = Dice(args.seed)


def select_action(state):
    state = torch.from_numpy(state).to(torch.get_default_dtype()).unsqueeze(0)
    probs = policy(state)
    m = Categorical(probs)
    action = m.sample() if args.sampled_by_torch else torch.tensor([dice.choose(probs[0])])
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    R = 0
    policy_loss = []
    returns = deque()
    for r in policy.rewards[::-1]:
        R = r + args.gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    if not args.plain_returns:
        returns = (returns - returns.mean()) / (returns.std() + eps)
    for log_prob, R in zip(policy.saved_log_probs, returns):
        policy_loss.append(-log_prob * R)
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    steps = len(policy.rewards)
    entropy = Categorical(torch.stack([p.exp() for p in policy.saved_log_probs]).T).entropy()
    del policy.rewards[:]
    del policy.saved_log_probs[:]
    return policy_loss.item(), steps, entropy.item()


def main():
    running_reward = 10
    losses, lengths, entropies = [], [], []
    for i_episode in count(1):
        state, _ = env.reset()
        ep_reward = 0
        for _t in range(1, 60):
            action = select_action(state)
            state, reward, done, _, _ = env.step(action)
            policy.rewards.append(reward)
            ep_reward += reward
            if done:
                break
        running_reward = 0.05 * ep_reward + (1 - 0.05) * running_reward
        loss, length, entropy = finish_episode()
        losses.append(loss)
        lengths.append(length)
        entropies.append(entropy)
        if i_episode % args.log_interval == 0:
            print(
                "Episode {}\tLast reward: {:.2f}\tAverage reward: {:.2f}".format(
                    i_episode, ep_reward, running_reward
                )
            )
        if i_episode >= args.episodes:
            break
    write_losses(args.out, loss=losses, length=lengths, entropy=entropies)


if __name__ == "__main__":
    main()
