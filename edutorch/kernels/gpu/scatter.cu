// Rows added to the rows of a table: the gradient of an embedding, and of indexing by integers.
// T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

// target[r] += sum of values[order[i]] over all i with sorted[i] = r. `order` sorts the indices, so
// that equal ones are neighbors: the block of the first of them adds all, in the order of the
// values. No atomics: the result is always the same.
extern "C" __global__ void add_sorted_rows(T *target, const int64 *sorted, const int64 *order,
                                           const T *values, int64 count, int inner) {
    int64 first = blockIdx.x, row = sorted[first];
    if (first > 0 && sorted[first - 1] == row) return;  // not the first of its row
    if (row < 0) return;  // out of range, which is reported elsewhere: see index_checks.py
    for (int column = threadIdx.x; column < inner; column += blockDim.x) {
        Wide sum = 0;
        for (int64 i = first; i < count && sorted[i] == row; i++)
            sum += widen(values[order[i] * inner + column]);
        T *place = target + row * inner + column;
        *place = narrow<T>(widen(*place) + sum);
    }
}
