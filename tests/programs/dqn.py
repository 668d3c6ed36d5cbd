"""DQN with a target network and replay: Mnih et al. 2015, https://doi.org/10.1038/nature14236."""

import random
from collections import deque

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched

GAMMA, TAU, BATCH = 0.99, 0.005, 6


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 8)
        self.layer2 = nn.Linear(8, 8)
        self.layer3 = nn.Linear(8, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    random.seed(0)
    policy_net, target_net = DQN(4, 2), DQN(4, 2)
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.AdamW(policy_net.parameters(), lr=1e-4, amsgrad=True)
    memory = deque(maxlen=100)
    for _ in range(20):
        memory.append((torch.randn(4), random.randrange(2), random.random(), torch.randn(4)))
    state = torch.randn(1, 4)
    with watch(policy_net, target_net):
        for _ in range(steps):
            with torch.no_grad():
                action = policy_net(state).max(1).indices.item()
            next_state = state + 0.1 * (2 * action - 1)
            memory.append((state[0], action, 1.0, next_state[0]))
            state = next_state
            states, actions, rewards, next_states = zip(*random.sample(memory, BATCH), strict=True)
            state_batch, next_state_batch = torch.stack(states), torch.stack(next_states)
            action_batch = torch.tensor(actions).unsqueeze(1)
            reward_batch = torch.tensor(rewards)
            state_action_values = policy_net(state_batch).gather(1, action_batch)
            with torch.no_grad():
                next_state_values = target_net(next_state_batch).max(1).values
            expected = (next_state_values * GAMMA) + reward_batch
            criterion = nn.SmoothL1Loss()
            loss = criterion(state_action_values, expected.unsqueeze(1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(policy_net.parameters(), 100)
            optimizer.step()
            target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
            for key in policy_state:
                target_state[key] = policy_state[key] * TAU + target_state[key] * (1 - TAU)
            target_net.load_state_dict(target_state)
