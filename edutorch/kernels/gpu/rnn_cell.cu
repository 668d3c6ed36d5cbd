// The gates of an LSTM and of a GRU, one thread for each element of the state, and their
// derivatives. T is the type in memory, Wide that of the arithmetic; see `row_launch.py`.

__device__ inline Wide sigmoid(Wide x) { return 1 / (1 + exp(-x)); }

// c' = sigmoid(f) c + sigmoid(i) tanh(u), h' = sigmoid(o) tanh(c'); y has all h', then all c'.
extern "C" __global__ void lstm_gates(const T *x, const T *c, T *y, int rows, int k) {
    int64 at = global_index(), size = (int64)rows * k;
    if (at < size) {
        int64 start = at / k * 4 * k + at % k;
        Wide i = sigmoid(widen(x[start])), f = sigmoid(widen(x[start + k]));
        Wide u = tanh(widen(x[start + 2 * k])), o = sigmoid(widen(x[start + 3 * k]));
        Wide state = f * widen(c[at]) + i * u;
        y[at] = narrow<T>(o * tanh(state));
        y[size + at] = narrow<T>(state);
    }
}

// The gradients of x and c: that of c' has a part of its own, and one by way of h'.
extern "C" __global__ void lstm_gates_backward(const T *g, const T *x, const T *c, T *grad_x,
                                               T *grad_c, int rows, int k) {
    int64 at = global_index(), size = (int64)rows * k;
    if (at < size) {
        int64 start = at / k * 4 * k + at % k;
        Wide i = sigmoid(widen(x[start])), f = sigmoid(widen(x[start + k]));
        Wide u = tanh(widen(x[start + 2 * k])), o = sigmoid(widen(x[start + 3 * k]));
        Wide old = widen(c[at]), tanh_c = tanh(f * old + i * u);
        Wide grad_h = widen(g[at]);
        Wide grad_state = widen(g[size + at]) + grad_h * o * (1 - tanh_c * tanh_c);
        grad_x[start] = narrow<T>(grad_state * u * i * (1 - i));
        grad_x[start + k] = narrow<T>(grad_state * old * f * (1 - f));
        grad_x[start + 2 * k] = narrow<T>(grad_state * i * (1 - u * u));
        grad_x[start + 3 * k] = narrow<T>(grad_h * tanh_c * o * (1 - o));
        grad_c[at] = narrow<T>(grad_state * f);
    }
}

// m = tanh(x_n + sigmoid(r) hidden_n), h' = m + sigmoid(z) (h - m), with r = x_r + hidden_r.
extern "C" __global__ void gru_gates(const T *x, const T *hidden, const T *h, T *y, int rows,
                                     int k) {
    int64 at = global_index(), size = (int64)rows * k;
    if (at < size) {
        int64 start = at / k * 3 * k + at % k;
        Wide r = sigmoid(widen(x[start]) + widen(hidden[start]));
        Wide z = sigmoid(widen(x[start + k]) + widen(hidden[start + k]));
        Wide m = tanh(widen(x[start + 2 * k]) + r * widen(hidden[start + 2 * k]));
        y[at] = narrow<T>(m + z * (widen(h[at]) - m));
    }
}

// The gradients of x, hidden and h.
extern "C" __global__ void gru_gates_backward(const T *g, const T *x, const T *hidden, const T *h,
                                              T *grad_x, T *grad_hidden, T *grad_h, int rows,
                                              int k) {
    int64 at = global_index(), size = (int64)rows * k;
    if (at < size) {
        int64 start = at / k * 3 * k + at % k;
        Wide hidden_m = widen(hidden[start + 2 * k]), gradient = widen(g[at]);
        Wide r = sigmoid(widen(x[start]) + widen(hidden[start]));
        Wide z = sigmoid(widen(x[start + k]) + widen(hidden[start + k]));
        Wide m = tanh(widen(x[start + 2 * k]) + r * hidden_m);
        Wide grad_m = gradient * (1 - z) * (1 - m * m);
        Wide grad_r = grad_m * hidden_m * r * (1 - r);
        Wide grad_z = gradient * (widen(h[at]) - m) * z * (1 - z);
        grad_x[start] = grad_hidden[start] = narrow<T>(grad_r);
        grad_x[start + k] = grad_hidden[start + k] = narrow<T>(grad_z);
        grad_x[start + 2 * k] = narrow<T>(grad_m);
        grad_hidden[start + 2 * k] = narrow<T>(grad_m * r);
        grad_h[at] = narrow<T>(gradient * z);
    }
}
