// softmax and log_softmax of each row, and their derivatives: one block per row.
// T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

// y = exp(x - m) / s, or x - m - log s, where m = max x and s = sum exp(x - m).
extern "C" __global__ void softmax_rows(const T *x, T *y, int n, int logarithm) {
    __shared__ Wide scratch[WARP];
    const T *row = x + (int64)blockIdx.x * n;
    T *out = y + (int64)blockIdx.x * n;
    // Without the maximum, exp would overflow; with it, the largest term is 1.
    Wide peak = -INF, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) peak = Max::of(peak, widen(row[i]));
    peak = block_reduce<Max>(peak, scratch, (Wide)-INF);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += exp(widen(row[i]) - peak);
    sum = block_reduce<Sum>(sum, scratch, (Wide)0);
    Wide shift = log(sum);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide centered = widen(row[i]) - peak;
        // Not x - (peak + shift): that would round shift away.
        out[i] = narrow<T>(logarithm ? centered - shift : exp(centered) / sum);
    }
}

// y (g - sum g y) for softmax; g - exp(y) sum g for log_softmax.
extern "C" __global__ void softmax_rows_backward(const T *g, const T *y, T *grad_input, int n,
                                                 int logarithm) {
    __shared__ Wide scratch[WARP];
    int64 start = (int64)blockIdx.x * n;
    Wide sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide gradient = widen(g[start + i]);
        sum += logarithm ? gradient : gradient * widen(y[start + i]);
    }
    sum = block_reduce<Sum>(sum, scratch, (Wide)0);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide gradient = widen(g[start + i]), value = widen(y[start + i]);
        grad_input[start + i] =
            narrow<T>(logarithm ? gradient - exp(value) * sum : value * (gradient - sum));
    }
}
