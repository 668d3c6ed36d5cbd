"""A student and an averaged teacher: Tarvainen and Valpola 2017, https://arxiv.org/abs/1703.01780."""

import copy

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


def update_ema_variables(model, ema_model, alpha):
    for ema_param, param in zip(ema_model.parameters(), model.parameters(), strict=True):
        ema_param.data.mul_(alpha).add_(param.data, alpha=1 - alpha)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    teacher = copy.deepcopy(student)
    for param in teacher.parameters():
        param.detach_()
    optimizer = optim.SGD(student.parameters(), lr=0.1)
    x, labels = torch.randn(8, 4), torch.tensor([0, 1, 2, 1, -1, -1, -1, -1])
    with watch(student, teacher):
        for _ in range(steps):
            student_logits = student(x + 0.1 * torch.randn_like(x))
            teacher_logits = teacher(x + 0.1 * torch.randn_like(x)).detach()
            class_loss = F.cross_entropy(student_logits, labels, ignore_index=-1)
            consistency_loss = F.mse_loss(
                F.softmax(student_logits, dim=1), F.softmax(teacher_logits, dim=1)
            )
            loss = class_loss + 0.5 * consistency_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            update_ema_variables(student, teacher, 0.99)
