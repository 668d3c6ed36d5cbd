"""REINFORCE with returns normalized: Williams 1992, https://doi.org/10.1007/BF00992696."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from edutorch.distributions import Categorical
from tests.programs import unwatched


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 8)
        self.dropout = nn.Dropout(p=0.6)
        self.affine2 = nn.Linear(8, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.affine2(x), dim=1)


def select_action(policy, state):
    m = Categorical(policy(state.unsqueeze(0)))
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode(policy, optimizer):
    R, returns, policy_loss = 0, [], []
    for r in policy.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    for log_prob, R in zip(policy.saved_log_probs, returns, strict=True):
        policy_loss.append(-log_prob * R)
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    policy = Policy()
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    with watch(policy):
        for _ in range(steps):
            state = torch.zeros(4)
            for t in range(6):
                action = select_action(policy, state)
                state = state + (0.1 if action else -0.1)
                policy.rewards.append(1.0 - 0.1 * t)
            finish_episode(policy, optimizer)
