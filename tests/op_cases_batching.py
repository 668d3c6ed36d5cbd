"""The two doors of `vmap`: their argument is a level, which only `vmap` opens."""

from __future__ import annotations

from tests.op_cases import EXCLUDED

for _name in ("batched", "unbatched"):
    EXCLUDED[_name] = "needs an open level of vmap: see test_vmap.py"
