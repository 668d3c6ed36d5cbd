"""A training program as it is written for PyTorch and torchvision."""

TRAINING = """
import torch
from torch import nn, optim
from torchvision import datasets, transforms

# Data preparation
transform = transforms.ToTensor()
train_dataset = datasets.MNIST(root='./data', train=True, download=True, transform=transform)
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=64, shuffle=True)

# Model definition
class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(28*28, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = x.view(-1, 28*28)
        x = torch.relu(self.fc1(x))
        return self.fc2(x)

model = Net()
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=0.001)

# Training loop
for epoch in range(5):
    for images, labels in train_loader:
        outputs = model(images)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"Epoch {epoch+1}, Loss: {loss.item():.4f}")
"""
"""A program as it is written for torchvision, with not a line of ours."""

ACCURACY = """
test_dataset = datasets.MNIST(root='./data', train=False, transform=transform)
images, labels = next(iter(torch.utils.data.DataLoader(test_dataset, batch_size=1000)))
print("accuracy", (model(images).argmax(1) == labels).float().mean().item())
"""
