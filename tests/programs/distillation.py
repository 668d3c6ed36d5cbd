"""Distillation of a large net into a small one: Hinton et al. 2015, https://arxiv.org/abs/1503.02531."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    teacher = nn.Sequential(
        nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)
    )
    student = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    teacher.eval()
    student.train()
    T, soft_target_loss_weight, ce_loss_weight = 2, 0.25, 0.75
    ce_loss = nn.CrossEntropyLoss()
    optimizer = optim.Adam(student.parameters(), lr=0.001)
    inputs, labels = torch.randn(6, 4), torch.randint(0, 3, (6,))
    with watch(student, teacher):
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.no_grad():
                teacher_logits = teacher(inputs)
            student_logits = student(inputs)
            soft_targets = nn.functional.softmax(teacher_logits / T, dim=-1)
            soft_prob = nn.functional.log_softmax(student_logits / T, dim=-1)
            soft_targets_loss = (
                torch.sum(soft_targets * (soft_targets.log() - soft_prob))
                / soft_prob.size()[0]
                * (T**2)
            )
            label_loss = ce_loss(student_logits, labels)
            loss = soft_target_loss_weight * soft_targets_loss + ce_loss_weight * label_loss
            loss.backward()
            optimizer.step()
