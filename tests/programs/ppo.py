"""PPO with a clipped objective, on a batch gathered before: https://arxiv.org/abs/1707.06347."""

import edutorch as torch
from edutorch import nn, optim
from edutorch.distributions import Normal
from tests.programs import unwatched


class ActorCritic(nn.Module):
    def __init__(self, obs=3, act=2, hidden=6):
        super().__init__()
        self.critic = nn.Sequential(
            nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, 1),
        )  # fmt: skip
        self.actor_mean = nn.Sequential(
            nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, act),
        )  # fmt: skip
        self.actor_logstd = nn.Parameter(torch.zeros(1, act))

    def get_action_and_value(self, x, action=None):
        mean = self.actor_mean(x)
        probs = Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    agent = ActorCritic()
    optimizer = optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    obs = torch.randn(8, 3)
    with torch.no_grad():
        actions, logprobs, _, values = agent.get_action_and_value(obs)
    returns = torch.randn(8)
    advantages = returns - values.view(-1)
    clip_coef, ent_coef, vf_coef = 0.2, 0.01, 0.5
    with watch(agent):
        for _ in range(steps):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs, actions)
            logratio = newlogprob - logprobs
            ratio = logratio.exp()
            with torch.no_grad():
                approx_kl = ((ratio - 1) - logratio).mean()
            adv = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            pg_loss1 = -adv * ratio
            pg_loss2 = -adv * torch.clamp(ratio, 1 - clip_coef, 1 + clip_coef)
            pg_loss = torch.max(pg_loss1, pg_loss2).mean()
            v_loss = 0.5 * ((newvalue.view(-1) - returns) ** 2).mean()
            loss = pg_loss - ent_coef * entropy.mean() + v_loss * vf_coef
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            if approx_kl > 10.0:
                break
