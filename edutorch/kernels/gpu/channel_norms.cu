// Batch norm and group norm of (n, channels, spatial), and their derivatives. Both have a mean and
// a variance for each set of elements: x is (samples, sets, inner), and a set has all x[:, set, :].
// In batch norm a set is a channel; in group norm it is a group of one sample, and samples = 1.
// T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

// The place of element i of a set.
__device__ inline int64 place_in(int64 i, int64 set, int64 sets, int64 inner) {
    return (i / inner * sets + set) * inner + i % inner;
}

// moments[set] = mean, variance, deviation = sqrt(variance + eps): one block per set.
extern "C" __global__ void set_moments(const T *x, Wide *moments, int64 samples, int64 sets,
                                       int64 inner, Wide eps) {
    __shared__ Wide scratch[WARP];
    int64 set = blockIdx.x, count = samples * inner;
    Wide sum = 0, squares = 0;
    for (int64 i = threadIdx.x; i < count; i += blockDim.x)
        sum += widen(x[place_in(i, set, sets, inner)]);
    Wide mean = block_reduce<Sum>(sum, scratch, (Wide)0) / count;
    // A second pass: mean x^2 - m^2 would cancel.
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
        Wide distance = widen(x[place_in(i, set, sets, inner)]) - mean;
        squares += distance * distance;
    }
    Wide variance = block_reduce<Sum>(squares, scratch, (Wide)0) / count;
    if (threadIdx.x == 0) {
        moments[3 * set] = mean;
        moments[3 * set + 1] = variance;
        moments[3 * set + 2] = sqrt(variance + eps);
    }
}

// y = (x - mean) / deviation * weight + bias: one thread per element.
extern "C" __global__ void normalize_sets(const T *x, const Wide *moments, const T *weight,
                                          const T *bias, T *y, int64 size, int64 sets, int64 inner,
                                          int64 channels, int64 spatial, int has_weight,
                                          int has_bias) {
    int64 at = global_index();
    if (at < size) {
        int64 set = at / inner % sets, channel = at / spatial % channels;
        Wide value = (widen(x[at]) - moments[3 * set]) / moments[3 * set + 2];
        if (has_weight) value *= widen(weight[channel]);
        if (has_bias) value += widen(bias[channel]);
        y[at] = narrow<T>(value);
    }
}

// With z = (x - mean) / deviation and h = g * weight: means[set] = mean h, mean h z.
extern "C" __global__ void set_gradients(const T *g, const T *x, const Wide *moments,
                                         const T *weight, Wide *means, int64 samples, int64 sets,
                                         int64 inner, int64 channels, int64 spatial,
                                         int has_weight) {
    __shared__ Wide scratch[WARP];
    int64 set = blockIdx.x, count = samples * inner;
    Wide mean = moments[3 * set], deviation = moments[3 * set + 2], sum_h = 0, sum_hz = 0;
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
        int64 at = place_in(i, set, sets, inner);
        Wide h = widen(g[at]);
        if (has_weight) h *= widen(weight[at / spatial % channels]);
        sum_h += h;
        sum_hz += h * ((widen(x[at]) - mean) / deviation);
    }
    sum_h = block_reduce<Sum>(sum_h, scratch, (Wide)0);
    sum_hz = block_reduce<Sum>(sum_hz, scratch, (Wide)0);
    if (threadIdx.x == 0) {
        means[2 * set] = sum_h / count;
        means[2 * set + 1] = sum_hz / count;
    }
}

// grad_input = (h - mean h - z mean(h z)) / deviation: one thread per element.
extern "C" __global__ void normalize_sets_backward(
    const T *g, const T *x, const Wide *moments, const T *weight, const Wide *means, T *grad_input,
    int64 size, int64 sets, int64 inner, int64 channels, int64 spatial, int has_weight) {
    int64 at = global_index();
    if (at < size) {
        int64 set = at / inner % sets;
        Wide deviation = moments[3 * set + 2], z = (widen(x[at]) - moments[3 * set]) / deviation;
        Wide h = widen(g[at]);
        if (has_weight) h *= widen(weight[at / spatial % channels]);
        grad_input[at] = narrow<T>((h - means[2 * set] - z * means[2 * set + 1]) / deviation);
    }
}

// grad_weight = sum g z, grad_bias = sum g of each channel: one block per channel.
extern "C" __global__ void channel_gradients(const T *g, const T *x, const Wide *moments,
                                             T *grad_weight, T *grad_bias, int64 n, int64 sets,
                                             int64 inner, int64 channels, int64 spatial) {
    __shared__ Wide scratch[WARP];
    int64 channel = blockIdx.x, count = n * spatial;
    Wide sum_gz = 0, sum_g = 0;
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
        int64 at = place_in(i, channel, channels, spatial), set = at / inner % sets;
        Wide gradient = widen(g[at]);
        sum_gz += gradient * ((widen(x[at]) - moments[3 * set]) / moments[3 * set + 2]);
        sum_g += gradient;
    }
    sum_gz = block_reduce<Sum>(sum_gz, scratch, (Wide)0);
    sum_g = block_reduce<Sum>(sum_g, scratch, (Wide)0);
    if (threadIdx.x == 0) {
        grad_weight[channel] = narrow<T>(sum_gz);
        grad_bias[channel] = narrow<T>(sum_g);
    }
}
