// Weighted sums of windows along an axis, which resize an image, and their derivative, which is the
// same with the taps transposed: one thread for each result, no atomics.
// T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

// y[o, j, i] = sum of weights[k] * x[o, positions[k], i] over k from starts[j] to starts[j + 1],
// where x is (outer, n, inner) and y (outer, count, inner).
extern "C" __global__ void sum_windows(const T *x, const int64 *starts, const int64 *positions,
                                       const Wide *weights, T *y, int64 size, int64 n, int64 count,
                                       int64 inner) {
    int64 at = global_index();
    if (at < size) {
        int64 outer = at / inner / count, window = at / inner % count;
        Wide sum = 0;
        for (int64 k = starts[window]; k < starts[window + 1]; k++)
            sum += weights[k] * widen(x[(outer * n + positions[k]) * inner + at % inner]);
        y[at] = narrow<T>(sum);
    }
}
