"""Starts our launcher in a container of Vertex AI: `python vertex_start.py SECRET train.py …`.

Vertex says in $CLUSTER_SPEC who takes part: a pool with the first node, a pool with the others.
SECRET is a file that all nodes read, as /gcs/BUCKET/rendezvous.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

spec = json.loads(os.environ["CLUSTER_SPEC"])
pools = [hosts for _, hosts in sorted(spec["cluster"].items())]
own_pool = int(spec["task"]["type"].removeprefix("workerpool"))
address, _, port = pools[0][0].rpartition(":")

secret, *program = sys.argv[1:]
private = Path(tempfile.mkdtemp(), "secret")  # nobody else may read it, unlike what lies in /gcs
shutil.copyfile(secret, private)
private.chmod(0o600)

os.environ |= {
    "PET_NNODES": str(sum(map(len, pools))),
    "PET_NODE_RANK": str(sum(map(len, pools[:own_pool])) + int(spec["task"]["index"])),
    "PET_MASTER_ADDR": address,
    "PET_MASTER_PORT": port,
    "PET_RDZV_SECRET_FILE": str(private),
}
os.execv(sys.executable, [sys.executable, "-m", "edutorch.distributed.run", *program])
