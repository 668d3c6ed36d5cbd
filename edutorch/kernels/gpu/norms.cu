// Layer norm (centered = 1) and RMS norm (centered = 0) of each row, and their derivatives.
// T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

// The mean m of a row (0 unless centered) and its deviation, sqrt(v + eps), in all threads.
__device__ inline void find_moments(const T *row, int n, Wide eps, int centered, Wide *scratch,
                                    Wide &mean, Wide &deviation) {
    Wide sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += widen(row[i]);
    mean = centered ? block_reduce<Sum>(sum, scratch, (Wide)0) / n : (Wide)0;
    // A second pass: mean x^2 - m^2 would cancel.
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide distance = widen(row[i]) - mean;
        squares += distance * distance;
    }
    deviation = sqrt(block_reduce<Sum>(squares, scratch, (Wide)0) / n + eps);
}

// y = (x - m) / sqrt(v + eps) * weight + bias, with m = mean x (or 0) and v = mean (x - m)^2.
extern "C" __global__ void norm_rows(const T *x, const T *weight, const T *bias, T *y, int n,
                                     Wide eps, int centered, int has_weight, int has_bias) {
    __shared__ Wide scratch[WARP];
    int64 start = (int64)blockIdx.x * n;
    Wide mean, deviation;
    find_moments(x + start, n, eps, centered, scratch, mean, deviation);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide value = (widen(x[start + i]) - mean) / deviation;
        if (has_weight) value *= widen(weight[i]);
        if (has_bias) value += widen(bias[i]);
        y[start + i] = narrow<T>(value);
    }
}

// With z = (x - m) / sqrt(v + eps) and h = g * weight:
// grad_input = (h - mean h - z mean(h z)) / sqrt(v + eps); RMS norm has no mean h.
// The mean and sqrt(v + eps) of each row are kept for `norm_columns_backward`.
extern "C" __global__ void norm_rows_backward(const T *g, const T *x, const T *weight,
                                              T *grad_input, Wide *statistics, int n, Wide eps,
                                              int centered, int has_weight) {
    __shared__ Wide scratch[WARP];
    int64 start = (int64)blockIdx.x * n;
    Wide mean, deviation, sum_h = 0, sum_hz = 0;
    find_moments(x + start, n, eps, centered, scratch, mean, deviation);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide h = widen(g[start + i]) * (has_weight ? widen(weight[i]) : (Wide)1);
        sum_h += h;
        sum_hz += h * ((widen(x[start + i]) - mean) / deviation);
    }
    Wide mean_h = centered ? block_reduce<Sum>(sum_h, scratch, (Wide)0) / n : (Wide)0;
    Wide mean_hz = block_reduce<Sum>(sum_hz, scratch, (Wide)0) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Wide h = widen(g[start + i]) * (has_weight ? widen(weight[i]) : (Wide)1);
        Wide z = (widen(x[start + i]) - mean) / deviation;
        grad_input[start + i] = narrow<T>((h - mean_h - z * mean_hz) / deviation);
    }
    if (threadIdx.x == 0) {
        statistics[2 * (int64)blockIdx.x] = mean;
        statistics[2 * (int64)blockIdx.x + 1] = deviation;
    }
}

// grad_weight = sum g z and grad_bias = sum g over the rows. A block has 32 columns and a group of
// rows, 8 at a time; sums[group] has n of the one, then n of the other: `sum_columns` adds them up.
extern "C" __global__ void norm_columns_backward(const T *g, const T *x, const Wide *statistics,
                                                 Wide *sums, int rows, int n, int group_size) {
    __shared__ Wide weights[8][WARP + 1], biases[8][WARP + 1];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int column = blockIdx.x * WARP + lane, stop = min(rows, (int)(blockIdx.y + 1) * group_size);
    Wide sum_gz = 0, sum_g = 0;
    if (column < n)
        for (int r = blockIdx.y * group_size + warp; r < stop; r += 8) {
            Wide gradient = widen(g[(int64)r * n + column]);
            Wide distance = widen(x[(int64)r * n + column]) - statistics[2 * (int64)r];
            sum_gz += gradient * (distance / statistics[2 * (int64)r + 1]);
            sum_g += gradient;
        }
    weights[warp][lane] = sum_gz;
    biases[warp][lane] = sum_g;
    __syncthreads();
    if (warp == 0 && column < n) {
        for (int k = 1; k < 8; k++) {
            sum_gz += weights[k][lane];
            sum_g += biases[k][lane];
        }
        sums[(int64)blockIdx.y * 2 * n + column] = sum_gz;
        sums[((int64)blockIdx.y * 2 + 1) * n + column] = sum_g;
    }
}
