// Sums, squared distances from a centre, and maxima of rows; sums of columns.
// T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

// partial[r][c] = sum of the elements of chunk c of row r, or of their squared distances.
extern "C" __global__ void sum_chunks(const T *x, const Wide *centers, Wide *partial, int64 n,
                                      int chunk, int squared) {
    __shared__ Wide scratch[WARP];
    int64 row = blockIdx.x, start = (int64)blockIdx.y * chunk, stop = min(n, start + chunk);
    Wide center = squared ? centers[row] : (Wide)0, sum = 0;
    for (int64 i = start + threadIdx.x; i < stop; i += blockDim.x) {
        Wide distance = widen(x[row * n + i]) - center;
        sum += squared ? distance * distance : distance;
    }
    sum = block_reduce<Sum>(sum, scratch, (Wide)0);
    if (threadIdx.x == 0) partial[row * gridDim.y + blockIdx.y] = sum;
}

// y[r] = (sum of row r of a small table) / divisor, as T or as Wide.
extern "C" __global__ void finish_sums(const Wide *partial, T *y, Wide *wide_y, int rows, int chunks,
                                       Wide divisor, int is_wide) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        Wide sum = 0;
        for (int i = 0; i < chunks; i++) sum += partial[(int64)row * chunks + i];
        if (is_wide) wide_y[row] = sum / divisor;
        else y[row] = narrow<T>(sum / divisor);
    }
}

// partial[r][c] = max of chunk c of row r; NaN stays.
extern "C" __global__ void max_chunks(const T *x, T *partial, int64 n, int chunk) {
    __shared__ Wide scratch[WARP];
    int64 row = blockIdx.x, start = (int64)blockIdx.y * chunk, stop = min(n, start + chunk);
    Wide peak = -INF;
    for (int64 i = start + threadIdx.x; i < stop; i += blockDim.x)
        peak = Max::of(peak, widen(x[row * n + i]));
    peak = block_reduce<Max>(peak, scratch, (Wide)-INF);
    if (threadIdx.x == 0) partial[row * gridDim.y + blockIdx.y] = narrow<T>(peak);
}

// partial[group][column] = sum over the rows of a group: 32 columns a block, 8 rows at a time.
extern "C" __global__ void sum_columns(const T *x, Wide *partial, int rows, int n, int group_size) {
    __shared__ Wide sums[8][WARP + 1];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int column = blockIdx.x * WARP + lane, stop = min(rows, (int)(blockIdx.y + 1) * group_size);
    Wide sum = 0;
    if (column < n)
        for (int r = blockIdx.y * group_size + warp; r < stop; r += 8)
            sum += widen(x[(int64)r * n + column]);
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < n) {
        for (int k = 1; k < 8; k++) sum += sums[k][lane];
        partial[(int64)blockIdx.y * n + column] = sum;
    }
}

// y[column] = (sum of a column of a small table) / divisor.
extern "C" __global__ void finish_columns(const Wide *partial, T *y, int groups, int n,
                                          Wide divisor) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < n) {
        Wide sum = 0;
        for (int i = 0; i < groups; i++) sum += partial[(int64)i * n + column];
        y[column] = narrow<T>(sum / divisor);
    }
}
