"""A small GPT that writes Python's manual on, letter by letter: its training, and its weights.

    python -m edutorch.zoo.char_gpt "The for statement"     # write on
    python -m edutorch.zoo.char_gpt --train                 # train it again: three minutes

It has read the text that `help()` shows, which every Python carries (PSF licence), and nothing
else. One topic in ten is held out: of these it needs 1.67 bits for each character; a character by
its frequency alone needs 4.61. Seed 0, Python 3.11; the manual of another Python differs a little.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..core.tensor import Tensor
from ..datasets import load_manual
from ..errors import InvalidValueError
from ..modes import no_grad
from ..ops import randint, stack, tensor
from ..optim import AdamW
from ..optim.lr_scheduler import OneCycleLR
from ..random import manual_seed
from ..serialization import load
from ..text.models import GPT2Config, GPT2LMHeadModel
from ..utils.atomic_files import write_atomically

WEIGHTS = Path(__file__).parent / "weights" / "char_gpt.safetensors"

BITS = 1.67
"""What these weights need for a character of the topics held out."""

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
"""The vocabulary: a character's id is its position. Others become "?"."""

CONFIG = {
    "vocab_size": len(CHARACTERS), "n_positions": 128, "n_embd": 88, "n_layer": 3, "n_head": 4,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None,
    "eos_token_id": None,
}  # fmt: skip

SEED = 0
STEPS = 2000
BATCH = 16
LEARNING_RATE = 4e-3


def encode(text: str) -> list[int]:
    """Return the ids of a text's characters.

    >>> decode(encode("naïve"))
    'na?ve'
    """
    unknown = CHARACTERS.index("?")
    return [position if (position := CHARACTERS.find(c)) >= 0 else unknown for c in text]


def decode(ids: Sequence[int]) -> str:
    """Return the text of ids."""
    return "".join(CHARACTERS[index] for index in ids)


def load_texts() -> tuple[str, str]:
    """Return the text to learn from, and that of the topics held out: every tenth."""
    topics = list(load_manual().values())
    held_out = topics[5::10]
    return "\n".join(topic for topic in topics if topic not in held_out), "\n".join(held_out)


def load_model(path: str | Path = WEIGHTS) -> GPT2LMHeadModel:
    """Return the trained model, in evaluation mode.

    >>> load_model().config.n_layer
    3
    """
    model = GPT2LMHeadModel(GPT2Config.from_dict(CONFIG))
    state = {name: value.float() for name, value in load(path).items()}
    model.load_state_dict(model.adapt_keys(state))
    return model.eval()


def write(model: GPT2LMHeadModel, prompt: str, length: int = 200, temperature: float = 0.7) -> str:
    """Return a prompt with what the model writes after it.

    It sees the last half of its positions when they are full, and goes on.

    Raises: InvalidValueError: the prompt is empty.
    """
    if not prompt:
        raise InvalidValueError("char_gpt.write", "the prompt is empty", hint='begin with "The"')
    ids = encode(prompt)
    half = model.config.n_positions // 2
    while length > 0:
        seen = tensor([ids[-half:]])
        count = min(length, half)
        written = model.generate(
            seen, max_new_tokens=count, do_sample=True, temperature=temperature
        )
        ids += written[0, seen.shape[1] :].tolist()
        length -= count
    return decode(ids)


def measure_bits(model: GPT2LMHeadModel, text: str) -> float:
    """Return the bits that a model needs for a character of a text, on average.

    It reads half of its positions before the first character that counts.
    """
    ids = tensor(encode(text))
    size = model.config.n_positions
    half = size // 2
    total = count = 0.0
    with no_grad():
        for start in range(0, len(ids) - size, half):
            window = ids[start : start + size][None]
            labels = window.clone()
            labels[:, :half] = -100
            total += model(window, labels=labels).loss.item() * half
            count += half
    return total / count / math.log(2)


def frequency_bits(text: str) -> float:
    """Return the bits for a character by its frequency alone.

    >>> frequency_bits("aabb")
    1.0
    """
    counts = Counter(encode(text))
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def train(seed: int = SEED, steps: int = STEPS, report: int = 100) -> GPT2LMHeadModel:
    """Return a model that was trained on the manual.

    Args:
        report: the loss is printed every so many steps; 0: never.
    """
    manual_seed(seed)
    ids = tensor(encode(load_texts()[0]))
    model = GPT2LMHeadModel(GPT2Config.from_dict(CONFIG))
    optimizer = AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.05)
    for step in range(steps):
        batch = draw_windows(ids, model.config.n_positions)
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if report and step % report == 0:
            print(f"step {step:4}  {loss.item() / math.log(2):.2f} bits per character")
    return model.eval()


def draw_windows(ids: Tensor, size: int) -> Tensor:
    """Return windows of a text, at random. Shape: (characters,) → (BATCH, size)."""
    starts = randint(0, len(ids) - size, (BATCH,))
    return stack([ids[start : start + size] for start in starts.tolist()])


def save_model(model: GPT2LMHeadModel, path: str | Path) -> None:
    """Write the weights as float16, which halves the file."""
    from safetensors.numpy import save

    arrays = {
        name: value.half().numpy()
        for name, value in model.state_dict().items()
        if name not in model.tied_keys
    }
    write_atomically(path, save(arrays, metadata={"format": "pt"}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: write on, or train."""
    parser = argparse.ArgumentParser(prog="python -m edutorch.zoo.char_gpt", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("prompt", nargs="?", default="The ", help="what to write on from")
    parser.add_argument("--length", type=int, default=400, help="how many characters to write")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--train", action="store_true", help="train, and write the weights")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--output", default=str(WEIGHTS), help="where the weights go")
    options = parser.parse_args(arguments)
    if options.train:
        save_model(train(options.seed, options.steps), options.output)
        text = load_texts()[1]
        bits = measure_bits(load_model(options.output), text)
        print(f"held out: {bits:.3f} bits per character; by frequency {frequency_bits(text):.3f}")
    else:
        manual_seed(options.seed)
        print(write(load_model(), options.prompt, options.length))


if __name__ == "__main__":
    main()
