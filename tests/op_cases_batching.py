"""The ops `batched` and `unbatched`: their argument is a level, which only `vmap` creates."""

from __future__ import annotations

from tests.op_cases import EXCLUDED

for _name in ("batched", "unbatched"):
    EXCLUDED[_name] = "needs an open level of vmap: see test_vmap.py"
