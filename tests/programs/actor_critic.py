"""Actor-critic, one body with two heads: Mnih et al. 2016, https://arxiv.org/abs/1602.01783."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from edutorch.distributions import Categorical
from tests.programs import unwatched


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 8)
        self.action_head = nn.Linear(8, 2)
        self.value_head = nn.Linear(8, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        action_prob = F.softmax(self.action_head(x), dim=-1)
        return action_prob, self.value_head(x)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = Policy()
    optimizer = optim.Adam(model.parameters(), lr=3e-2)
    with watch(model):
        for _ in range(steps):
            saved_actions, rewards = [], []
            state = torch.zeros(4)
            for t in range(5):
                probs, state_value = model(state)
                m = Categorical(probs)
                action = m.sample()
                saved_actions.append((m.log_prob(action), state_value))
                state = state + 0.1 * (2 * action.item() - 1)
                rewards.append(1.0 - 0.2 * t)
            R, returns = 0.0, []
            for r in rewards[::-1]:
                R = r + 0.99 * R
                returns.insert(0, R)
            returns = torch.tensor(returns)
            returns = (returns - returns.mean()) / (returns.std() + 1e-6)
            policy_losses, value_losses = [], []
            for (log_prob, value), R in zip(saved_actions, returns, strict=True):
                advantage = R - value.item()
                policy_losses.append(-log_prob * advantage)
                value_losses.append(F.smooth_l1_loss(value, R.reshape(1)))
            optimizer.zero_grad()
            loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
            loss.backward()
            optimizer.step()
