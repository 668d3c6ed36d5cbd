// Cross entropy of logits and classes, forward and backward: one block per row of logits. The
// softmax of a row is never written: its maximum and the logarithm of its sum are enough.
// T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

// The weight of a row: 0 for an ignored class, NaN for one out of range.
__device__ inline Wide row_weight(int64 target, const T *weight, int n, int64 ignored,
                                  int has_weight) {
    if (target == ignored) return 0;
    if (target < 0 || target >= n) return NOT_A_NUMBER;
    return has_weight ? widen(weight[target]) : (Wide)1;
}

// losses[r] = (log s - (x[target] - m)) * weight, where m = max x and s = sum exp(x - m);
// m and log s of each row are kept for the derivative.
extern "C" __global__ void cross_entropy_rows(const T *x, const int64 *targets, const T *weight,
                                              Wide *losses, Wide *factors, Wide *statistics,
                                              int n, int64 ignored, int has_weight) {
    __shared__ Wide scratch[WARP];
    const T *row = x + (int64)blockIdx.x * n;
    Wide peak = -INF, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) peak = Max::of(peak, widen(row[i]));
    peak = block_reduce<Max>(peak, scratch, (Wide)-INF);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += exp(widen(row[i]) - peak);
    sum = block_reduce<Sum>(sum, scratch, (Wide)0);
    if (threadIdx.x == 0) {
        int64 target = targets[blockIdx.x];
        Wide factor = row_weight(target, weight, n, ignored, has_weight), shift = log(sum);
        Wide loss = factor;  // 0 or NaN, where no logit is read
        if (factor != 0 && factor == factor) loss = (shift - (widen(row[target]) - peak)) * factor;
        losses[blockIdx.x] = loss;
        factors[blockIdx.x] = factor;
        statistics[2 * (int64)blockIdx.x] = peak;
        statistics[2 * (int64)blockIdx.x + 1] = shift;
    }
}

// loss = sum of losses / divisor, with divisor = sum of factors (or 1): one block, fixed order.
extern "C" __global__ void finish_cross_entropy(const Wide *losses, const Wide *factors, T *loss,
                                                Wide *divisor, int rows, int is_mean) {
    __shared__ Wide scratch[WARP];
    Wide sum = 0, total = 0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        sum += losses[i];
        total += factors[i];
    }
    sum = block_reduce<Sum>(sum, scratch, (Wide)0);
    total = is_mean ? block_reduce<Sum>(total, scratch, (Wide)0) : (Wide)1;
    if (threadIdx.x == 0) {
        loss[0] = narrow<T>(sum / total);
        divisor[0] = total;
    }
}

// grad = (softmax x - onehot target) * g * weight / divisor; 0 in an ignored row, also if all are.
// g has an element for each row (per_row = 1), or one for all.
extern "C" __global__ void cross_entropy_rows_backward(
    const T *g, const T *x, const int64 *targets, const T *weight, const Wide *statistics,
    const Wide *divisor, T *grad, int n, int64 ignored, int has_weight, int per_row) {
    int64 row = blockIdx.x, start = row * n, target = targets[row];
    Wide factor = row_weight(target, weight, n, ignored, has_weight);
    Wide scale = factor == 0 ? (Wide)0 : widen(g[per_row ? row : 0]) * factor / divisor[0];
    Wide peak = statistics[2 * row], shift = statistics[2 * row + 1];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide share = exp(widen(x[start + i]) - peak - shift);
        if (i == target) share -= 1;
        grad[start + i] = narrow<T>(factor == 0 ? (Wide)0 : share * scale);
    }
}
