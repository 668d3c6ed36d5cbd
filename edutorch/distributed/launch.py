"""`python -m torch.distributed.launch`: the launcher under its older name.

It passes `--local-rank=N` to the program, unless `--use-env` is given: then LOCAL_RANK is only in
the environment, as with `torchrun`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .run import main as run
from .run.child import LOCAL_RANK_VARIABLE

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the launcher; the process ends with the exit code of the program.

    Args: args: by default those of the command line.
    """
    words = list(sys.argv[1:] if args is None else args)
    own = [word for word in words if word not in ("--use-env", "--use_env")]
    if len(own) == len(words):
        os.environ[LOCAL_RANK_VARIABLE] = "1"
    run(own)


if __name__ == "__main__":
    main()
