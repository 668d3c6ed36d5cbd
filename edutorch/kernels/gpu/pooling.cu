// Max and average pooling of planes, and their derivatives: one thread for each result, which reads
// what it needs. No atomics, also where windows overlap. See `pooling.py`.

// The windows of a plane: window (y, x) begins at (y * stride_y - pad_y, x * stride_x - pad_x), and
// its element (j, i) lies (j * step_y, i * step_x) further.
#define WINDOWS                                                                                  \
    int height, int width, int count_y, int count_x, int kernel_y, int kernel_x, int stride_y,   \
        int stride_x, int pad_y, int pad_x, int step_y, int step_x

// y = max of each window, and its tap j * kernel_x + i: the first maximum, or the last NaN. The
// padding is never chosen; a window that lies in it has the tap -1.
extern "C" __global__ void max_pool(const T *x, T *y, int *taps, int64 size, WINDOWS) {
    int64 at = global_index();
    if (at < size) {
        const T *plane = x + at / count_x / count_y * height * width;
        int top = (int)(at / count_x % count_y) * stride_y - pad_y;
        int left = (int)(at % count_x) * stride_x - pad_x, chosen = -1;
        Wide largest = -INF;
        for (int j = 0; j < kernel_y; j++)
            for (int i = 0; i < kernel_x; i++) {
                int row = top + j * step_y, column = left + i * step_x;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                Wide value = widen(plane[(int64)row * width + column]);
                if (chosen < 0 || value > largest || value != value) {
                    largest = value;
                    chosen = j * kernel_x + i;
                }
            }
        y[at] = narrow<T>(largest);
        taps[at] = chosen;
    }
}

// grad = the sum of g over the windows that took their maximum here.
extern "C" __global__ void max_pool_backward(const T *g, const int *taps, T *grad, int64 size,
                                             WINDOWS) {
    int64 at = global_index();
    if (at < size) {
        int64 plane = at / width / height;
        int row = (int)(at / width % height) + pad_y, column = (int)(at % width) + pad_x;
        Wide sum = 0;
        for (int j = 0; j < kernel_y; j++)
            for (int i = 0; i < kernel_x; i++) {
                int top = row - j * step_y, left = column - i * step_x;
                if (top < 0 || left < 0 || top % stride_y || left % stride_x) continue;
                int y = top / stride_y, x = left / stride_x;
                if (y >= count_y || x >= count_x) continue;
                int64 window = (plane * count_y + y) * count_x + x;
                if (taps[window] == j * kernel_x + i) sum += widen(g[window]);
            }
        grad[at] = narrow<T>(sum);
    }
}

// What the sum of a window is divided by along one axis: how many of its elements count.
__device__ inline int counted(int start, int kernel, int pad, int size, int include_pad) {
    int stop = min(start + kernel, size + pad);
    return include_pad ? stop - start : min(stop, size) - max(start, 0);
}

// y = (sum of each window) / divisor, or by the number of its elements if divisor is 0.
extern "C" __global__ void avg_pool(const T *x, T *y, int64 size, int include_pad, Wide divisor,
                                    WINDOWS) {
    int64 at = global_index();
    if (at < size) {
        const T *plane = x + at / count_x / count_y * height * width;
        int top = (int)(at / count_x % count_y) * stride_y - pad_y;
        int left = (int)(at % count_x) * stride_x - pad_x;
        Wide sum = 0;
        for (int row = max(top, 0); row < min(top + kernel_y, height); row++)
            for (int column = max(left, 0); column < min(left + kernel_x, width); column++)
                sum += widen(plane[(int64)row * width + column]);
        int elements = counted(top, kernel_y, pad_y, height, include_pad) *
                       counted(left, kernel_x, pad_x, width, include_pad);
        y[at] = narrow<T>(sum / (divisor != 0 ? divisor : (Wide)elements));
    }
}

// grad = the sum of g / divisor over the windows that this element is in.
extern "C" __global__ void avg_pool_backward(const T *g, T *grad, int64 size, int include_pad,
                                             Wide divisor, WINDOWS) {
    int64 at = global_index();
    if (at < size) {
        int64 plane = at / width / height;
        int row = (int)(at / width % height) + pad_y, column = (int)(at % width) + pad_x;
        Wide sum = 0;
        for (int j = 0; j < kernel_y; j++)
            for (int i = 0; i < kernel_x; i++) {
                int top = row - j * step_y, left = column - i * step_x;
                if (top < 0 || left < 0 || top % stride_y || left % stride_x) continue;
                int y = top / stride_y, x = left / stride_x;
                if (y >= count_y || x >= count_x) continue;
                int elements = counted(top - pad_y, kernel_y, pad_y, height, include_pad) *
                               counted(left - pad_x, kernel_x, pad_x, width, include_pad);
                Wide gradient = widen(g[(plane * count_y + y) * count_x + x]);
                sum += gradient / (divisor != 0 ? divisor : (Wide)elements);
            }
        grad[at] = narrow<T>(sum);
    }
}
