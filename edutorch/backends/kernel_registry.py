"""The registry of kernels: the file of each, and the size from which on it is worth its call.

A key is the name of an op (its forward), or `op/input` (the derivative rule of that input);
`add/onto` is what the engine does with gradients that meet. The kernel of `gelu` is made by the
function `gelu` of `kernels/cpu/<file>.py`, that of `gelu/input` by `gelu_input`. Called with the
arguments of the definition after `xp`, it returns the result, or None for a case that it does not
handle: then the definition runs.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KERNELS", "Row"]


class Row(NamedTuple):
    """One kernel: for fewer elements than `min_size` in its first array, it is not called."""

    file: str
    min_size: int


KERNELS: dict[str, Row] = {
    "linear": Row("matmul", 1024),
    "linear/input": Row("matmul", 4096),
    "linear/weight": Row("matmul", 4096),
    "matmul": Row("matmul", 4096),
    "matmul/input": Row("matmul", 4096),
    "matmul/other": Row("matmul", 4096),
    "mm": Row("matmul", 4096),
    "mm/input": Row("matmul", 4096),
    "mm/mat2": Row("matmul", 4096),
    "lstm_gates": Row("rnn_cell", 1024),
    "lstm_gates/joint_vjp": Row("rnn_cell", 1024),
    "gru_gates": Row("rnn_cell", 1024),
    "gru_gates/joint_vjp": Row("rnn_cell", 1024),
    "lstm_sequence": Row("rnn_sequence", 1024),
    "lstm_sequence/joint_vjp": Row("rnn_sequence", 1024),
    "gru_sequence": Row("rnn_sequence", 1024),
    "gru_sequence/joint_vjp": Row("rnn_sequence", 1024),
    "rnn_sequence": Row("rnn_sequence", 1024),
    "rnn_sequence/joint_vjp": Row("rnn_sequence", 1024),
    "conv2d": Row("conv", 256),
    "conv2d/bias": Row("conv_gradients", 2048),
    "conv_nd": Row("conv", 256),
    "conv_nd/bias": Row("conv_gradients", 2048),
    "conv_transpose_nd": Row("conv", 256),
    "conv_weight_grad": Row("conv_gradients", 256),
    "max_pool": Row("max_pool", 1024),
    "max_pool/input": Row("max_pool", 256),
    "max_pool_indices": Row("max_pool", 1024),
    "avg_pool": Row("avg_pool", 1024),
    "avg_pool_grad": Row("avg_pool", 256),
    "bmm": Row("batched_matmul", 4096),
    "attention_forward": Row("attention", 1024),
    "attention_forward/joint_vjp": Row("attention", 1024),
    "add": Row("arithmetic", 131_072),
    "add/onto": Row("arithmetic", 131_072),
    "sub": Row("arithmetic", 131_072),
    "mul": Row("arithmetic", 131_072),
    "mul/input": Row("arithmetic", 131_072),
    "mul/other": Row("arithmetic", 131_072),
    "div": Row("arithmetic", 131_072),
    "div/input": Row("arithmetic", 131_072),
    "exp": Row("activations", 2048),
    "exp/input": Row("activations", 32_768),
    "log": Row("activations", 2048),
    "erf": Row("activations", 256),
    "tanh": Row("activations", 1024),
    "tanh/input": Row("activations", 4096),
    "sigmoid": Row("activations", 1024),
    "sigmoid/input": Row("activations", 4096),
    "relu": Row("activations", 16_384),
    "relu/input": Row("activations", 8192),
    "silu_forward": Row("activations", 1024),
    "silu_forward/input": Row("activations", 256),
    "softplus": Row("activations", 256),
    "softplus/input": Row("activations", 1024),
    "gelu": Row("activations", 256),
    "gelu/input": Row("activations", 256),
    "leaky_relu_forward": Row("activations", 16_384),
    "leaky_relu_forward/input": Row("activations", 16_384),
    "elu_forward": Row("activations", 4096),
    "elu_forward/input": Row("activations", 4096),
    "hardtanh_forward": Row("activations", 16_384),
    "hardtanh_forward/input": Row("activations", 16_384),
    "softmax": Row("softmax", 256),
    "softmax/input": Row("softmax", 1024),
    "log_softmax": Row("softmax", 256),
    "log_softmax/input": Row("softmax", 1024),
    "native_layer_norm": Row("norms", 256),
    "native_layer_norm/joint_vjp": Row("norms", 256),
    "fused_rms_norm": Row("norms", 256),
    "fused_rms_norm/joint_vjp": Row("norms", 256),
    "native_group_norm": Row("norms", 256),
    "native_group_norm/joint_vjp": Row("norms", 256),
    "native_batch_norm": Row("norms", 256),
    "native_batch_norm/joint_vjp": Row("norms", 256),
    "sum": Row("reductions", 65_536),
    "mean": Row("reductions", 65_536),
    "var": Row("reductions", 16_384),
    "amax": Row("reductions", 131_072),
}
