// Elements picked along an axis: one thread for each result.
// T is the type in memory; see `row_launch.py`.

// y[o, j, i] = x[o, index[o, j, i], i], where x is (outer, n, inner) and y (outer, count, inner).
extern "C" __global__ void gather_elements(const T *x, const int64 *index, T *y, int64 size, int64 n,
                                           int64 count, int64 inner) {
    int64 at = global_index();
    if (at < size) {
        // Indices are in range: `checked_range` has seen to it, or clamped them.
        y[at] = x[(at / inner / count * n + index[at]) * inner + at % inner];
    }
}
