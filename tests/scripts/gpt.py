"""Train a small GPT on characters: python gpt.py --max_iters=20 --out=losses.json"""

import math
import os
import sys
import tempfile
import time
from ast import literal_eval
from contextlib import nullcontext

import numpy as np
import torch
from gpt_model import GPT, GPTConfig
from repeatable import same_start, write_losses

# settings, each of which `--name=value` changes
out = ""
eval_interval = 10
eval_iters = 2
gradient_accumulation_steps = 2
batch_size = 6
block_size = 16
n_layer = 2
n_head = 4
n_embd = 32
dropout = 0.0
bias = False
flash = True
learning_rate = 3e-3
max_iters = 20
weight_decay = 1e-1
beta1 = 0.9
beta2 = 0.95
grad_clip = 1.0
warmup_iters = 4
lr_decay_iters = 20
min_lr = 3e-4
device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float32"
compile = False
config_keys = [
    k
    for k, v in globals().items()
    if not k.startswith("_") and isinstance(v, (int, float, bool, str))
]
for arg in sys.argv[1:]:
    key, val = arg.removeprefix("--").split("=")
    if key not in config_keys:
        raise ValueError(f"Unknown config key: {key}")
    try:
        globals()[key] = literal_eval(val)
    except (SyntaxError, ValueError):
        globals()[key] = val
config = {k: globals()[k] for k in config_keys}

TEXT = """
The miller had three sons, and when he died he left them his mill, his donkey and his cat.
The eldest took the mill, the second took the donkey, and the youngest had nothing but the cat.
"What shall I do with a cat?" said he. "My brothers can live by working together, but I shall
have to go hungry." The cat, who had heard all this, looked up and said: "Do not worry, master.
Give me a bag, and have a pair of boots made for me, and you will see that you are not as
poor as you think." The young man did not believe a word of it, but he had seen how the cat
caught mice, hanging by the feet or hiding in the flour, and so he did as he was asked.
"""
chars = sorted(set(TEXT))
stoi = {ch: i for i, ch in enumerate(chars)}
itos = {i: ch for i, ch in enumerate(chars)}
data = np.array([stoi[c] for c in TEXT], dtype=np.uint16)
train_data, val_data = data[: int(0.8 * len(data))], data[int(0.8 * len(data)) :]

torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.set_float32_matmul_precision("high")
device_type = "cuda" if "cuda" in device else "cpu"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = (
    nullcontext()
    if device_type == "cpu"
    else torch.amp.autocast(device_type=device_type, dtype=ptdtype)
)
where = np.random.RandomState(1)


def get_batch(split):
    data = train_data if split == "train" else val_data
    ix = where.randint(len(data) - block_size, size=(batch_size,))
    x = torch.stack([torch.from_numpy((data[i : i + block_size]).astype(np.int64)) for i in ix])
    y = torch.stack(
        [torch.from_numpy((data[i + 1 : i + 1 + block_size]).astype(np.int64)) for i in ix]
    )
    if device_type == "cuda":
        x, y = (
            x.pin_memory().to(device, non_blocking=True),
            y.pin_memory().to(device, non_blocking=True),
        )
    else:
        x, y = x.to(device), y.to(device)
    return x, y


model_args = dict(
    n_layer=n_layer, n_head=n_head, n_embd=n_embd, block_size=block_size, bias=bias,
    vocab_size=len(chars), dropout=dropout, flash=flash,
)  # fmt: skip
model = GPT(GPTConfig(**model_args))
same_start(model, seed=2)
model.to(device)
optimizer = model.configure_optimizers(weight_decay, learning_rate, (beta1, beta2), device_type)
if compile:
    print("compiling the model...")
    unoptimized_model = model
    model = torch.compile(model)


@torch.no_grad()
def estimate_loss():
    found = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            with ctx:
                _logits, loss = model(X, Y)
            losses[k] = loss.item()
        found[split] = losses.mean()
    model.train()
    return found


def get_lr(it):
    """Warm up in a line, then fall along a cosine, then stay."""
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    if it > lr_decay_iters:
        return min_lr
    decay_ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    assert 0 <= decay_ratio <= 1
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


def save_checkpoint(folder):
    checkpoint = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "model_args": model_args,
        "iter_num": iter_num, "best_val_loss": best_val_loss, "config": config,
    }  # fmt: skip
    path = os.path.join(folder, "ckpt.pt")
    torch.save(checkpoint, path)
    return path


losses_train, losses_val = [], []
best_val_loss = 1e9
iter_num = 0
X, Y = get_batch("train")
t0 = time.time()
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        losses_val.append(losses["val"].item())
        best_val_loss = min(best_val_loss, losses["val"].item())
    if iter_num >= max_iters:
        break
    for _micro_step in range(gradient_accumulation_steps):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        loss.backward()
    if grad_clip != 0.0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    lossf = loss.item() * gradient_accumulation_steps
    losses_train.append(lossf)
    t1 = time.time()
    print(f"iter {iter_num}: loss {lossf:.4f}, time {(t1 - t0) * 1000:.2f}ms")
    t0 = t1
    iter_num += 1

with tempfile.TemporaryDirectory() as folder:
    path = save_checkpoint(folder)
    checkpoint = torch.load(path, map_location=device)
resumed = GPT(GPTConfig(**checkpoint["model_args"]))
state_dict = checkpoint["model"]
unwanted_prefix = "_orig_mod."
for k in list(state_dict):
    if k.startswith(unwanted_prefix):
        state_dict[k[len(unwanted_prefix) :]] = state_dict.pop(k)
resumed.load_state_dict(state_dict)
resumed.to(device)
resumed_optimizer = resumed.configure_optimizers(
    weight_decay, learning_rate, (beta1, beta2), device_type
)
resumed_optimizer.load_state_dict(checkpoint["optimizer"])
resumed.eval()
model.eval()
with torch.no_grad():
    assert torch.equal(resumed(X, Y)[0], model(X, Y)[0])
    start = torch.tensor([[stoi["T"]]], dtype=torch.long, device=device)
    written = resumed.generate(start, max_new_tokens=30, temperature=0.8, top_k=10)
    assert written.shape == (1, 31)
    print("".join(itos[i] for i in written[0].tolist()))
write_losses(out, train=losses_train, val=losses_val)
