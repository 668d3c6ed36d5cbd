"""Look at a policy while it plays: the rendered game beside the live picture of the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..modes import no_grad
from ..ops import from_numpy, multinomial
from .environments import load_gymnasium


def play_frames(
    scores: Callable[[Any], Any], env: str, steps: int = 200, seed: int = 0, sample: bool = False
) -> Iterator[np.ndarray]:
    """Yield the rendered frames of a policy that plays, (height, width, 3) of uint8.

    Args:
        scores: from states, (1, d), to a score of each action, (1, actions).
        sample: draw the action by its probability instead of taking the best.

    Raises: MissingExtraError: gymnasium is not installed, or what it renders with.
    """
    gymnasium = load_gymnasium()
    game = gymnasium.make(env, render_mode="rgb_array")
    state, _ = game.reset(seed=seed)
    for _ in range(steps):
        yield game.render()
        with no_grad():
            score = scores(from_numpy(np.asarray(state, np.float32)[None]))
        action = multinomial(score.softmax(1), 1) if sample else score.argmax(1)
        state, _, terminated, truncated, _ = game.step(int(action.item()))
        if terminated or truncated:
            state, _ = game.reset()
    game.close()


def watch(agent: Any, env: str, steps: int = 200, seed: int = 0, every: int = 2) -> Any:
    """Show a policy at play in a notebook: each rendered frame, and the network beside it.

    The picture of the network is `viz.live(agent)`: what each layer computes for this frame.

    Args:
        agent: a trained network with `scores`, as `train` returns it.
        steps: so many steps are played.
        every: a frame is shown every so many steps.

    Returns: the last frame, (height, width, 3).

    Raises: MissingExtraError: gymnasium or IPython is not installed.
    """
    from .. import viz

    show = frame_display()
    frame = None
    with viz.live(agent):
        for step, frame in enumerate(play_frames(agent.scores, env, steps, seed)):
            if step % every == 0:
                show(frame)
    return frame


def frame_display() -> Callable[[np.ndarray], None]:
    """Return a function that shows a frame in place of the one before, in a notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        return lambda frame: None
    if get_ipython() is None:
        return lambda frame: None
    handle = display(HTML(""), display_id=True)

    def show(frame: np.ndarray) -> None:
        from ..viz.tensors.images import image

        handle.update(image(from_numpy(frame)))

    return show
