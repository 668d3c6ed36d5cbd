"""Asks a server with KServe's own client: `python kserve_client.py URL MODEL`.

It prints what was answered as JSON. It needs the package `kserve` and nothing of edutorch, so that
it may run with the versions of NumPy and others that this wants.
"""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig


async def ask(url: str, model: str) -> dict:
    """Ask for readiness, and for the same rows as JSON and as binary data."""
    rows = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        answers = {
            "live": await client.is_server_live(url),
            "ready": await client.is_server_ready(url),
            "model": await client.is_model_ready(url, model),
        }
        for binary in (False, True):
            tensor = InferInput("x", [2, 64], "FP32")
            tensor.set_data_from_numpy(rows, binary_data=binary)
            request = InferRequest(model, [tensor], parameters={"binary_data_output": binary})
            answer = await client.infer(url, request, model_name=model)
            answers[f"binary {binary}"] = answer.outputs[0].as_numpy().tolist()
    return answers


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ask(*sys.argv[1:]))))
