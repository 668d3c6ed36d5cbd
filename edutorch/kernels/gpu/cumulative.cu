// Running sums of rows: one block per row, which goes along it tile by tile.
// T is the type in memory; see `row_launch.py`. Sums are kept in float64, as in the definition: in
// float32 each one would add its rounding to all later ones.

// y[i] = x[0] + ... + x[i] of each row.
extern "C" __global__ void cumsum_rows(const T *x, T *y, int n) {
    __shared__ double sums[WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    int64 start = (int64)blockIdx.x * n;
    double before = 0;  // the sum of all tiles before
    for (int tile = 0; tile < n; tile += blockDim.x) {
        int i = tile + threadIdx.x;
        double sum = i < n ? (double)widen(x[start + i]) : 0.0;
        // After the step of distance d a lane has the sum of itself and the 2 d - 1 before it.
        for (int distance = 1; distance < WARP; distance *= 2) {
            double lower = __shfl_up_sync(ALL_LANES, sum, distance);
            if (lane >= distance) sum += lower;
        }
        __syncthreads();  // `sums` may still be read for the tile before
        if (lane == WARP - 1) sums[warp] = sum;
        __syncthreads();
        double shift = before;
        for (int k = 0; k < warps; k++) {
            if (k < warp) shift += sums[k];
            before += sums[k];
        }
        if (i < n) y[start + i] = narrow<T>((Wide)(shift + sum));
    }
}
