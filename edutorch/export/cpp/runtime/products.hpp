// product_panel: some rows of c += a · b, for 8 columns of b, which lie together in `panel`.
template <Index Rows, class T>
void product_panel(const T* a, const T* panel, T* c, Index k, Index n, Index width) {
  T sums[Rows * 8] = {};  // these stay in registers
  for (Index p = 0; p < k; ++p) {
    for (Index i = 0; i < Rows; ++i) {
      const T x = a[i * k + p];
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 1  // unrolled here, g++ no longer turns the eight sums into one vector
#endif
      for (Index v = 0; v < 8; ++v) sums[i * 8 + v] += x * panel[p * 8 + v];
    }
  }
  for (Index i = 0; i < Rows; ++i) {
    for (Index v = 0; v < width; ++v) c[i * n + v] += sums[i * 8 + v];
  }
}

// product: c += a · b for matrices (m, k) and (k, n), row by row.
template <class T>
void product(const T* a, const T* b, T* c, Index m, Index k, Index n) {
  std::vector<T> packed(static_cast<std::size_t>(k * 8));
  T* panel = packed.data();
  for (Index j = 0; j < n; j += 8) {
    const Index width = std::min<Index>(n - j, 8);
    for (Index p = 0; p < k; ++p) {
      for (Index v = 0; v < width; ++v) panel[p * 8 + v] = b[p * n + j + v];
    }
    Index i = 0;
    for (; i + 4 <= m; i += 4) product_panel<4>(a + i * k, panel, c + i * n + j, k, n, width);
    for (; i + 2 <= m; i += 2) product_panel<2>(a + i * k, panel, c + i * n + j, k, n, width);
    for (; i < m; ++i) product_panel<1>(a + i * k, panel, c + i * n + j, k, n, width);
  }
}
#ifdef EDU_USE_CBLAS
inline void product(const float* a, const float* b, float* c, Index m, Index k, Index n) {
  const int rows = static_cast<int>(m), inner = static_cast<int>(k), columns = static_cast<int>(n);
  if (m == 0 || k == 0 || n == 0) return;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, inner, 1.0F, a, inner, b,
              columns, 1.0F, c, columns);
}
inline void product(const double* a, const double* b, double* c, Index m, Index k, Index n) {
  const int rows = static_cast<int>(m), inner = static_cast<int>(k), columns = static_cast<int>(n);
  if (m == 0 || k == 0 || n == 0) return;
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, inner, 1.0, a, inner, b,
              columns, 1.0, c, columns);
}
#endif

// transposed: the columns of a matrix as rows.
template <class T>
std::vector<T> transposed(const T* matrix, Index rows, Index columns) {
  std::vector<T> result(static_cast<std::size_t>(rows * columns));
  T* out = result.data();
  constexpr Index side = 16;  // square by square, which stays in the cache
  for (Index top = 0; top < rows; top += side) {
    for (Index left = 0; left < columns; left += side) {
      const Index bottom = std::min(rows, top + side), right = std::min(columns, left + side);
      for (Index j = left; j < right; ++j) {
        for (Index i = top; i < bottom; ++i) out[j * rows + i] = matrix[i * columns + j];
      }
    }
  }
  return result;
}

// linear: x · wᵀ + b over the last axis.
template <class T>
[[gnu::noinline]] Tensor<T> linear(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  const Index n = weight.size(0), k = weight.size(1), m = k == 0 ? 0 : x.count() / k;
  Shape shape = x.shape;
  shape[shape.rank - 1] = n;
  Tensor<T> result(shape);
  if (bias) {
    for (Index i = 0; i < m; ++i) std::copy_n(bias.data(), n, result.data() + i * n);
  }
  product(x.data(), transposed(weight.data(), n, k).data(), result.data(), m, k, n);
  return result;
}

// matmul: a product of matrices, of each pair of a batch; vectors are rows and columns.
template <class T>
[[gnu::noinline]] Tensor<T> matmul(const Tensor<T>& a, const Tensor<T>& b) {
  Shape left = a.shape, right = b.shape;
  if (left.rank == 1) left = Shape{1, left[0]};
  if (right.rank == 1) right = Shape{right[0], 1};
  const Index m = left[left.rank - 2], k = left[left.rank - 1], n = right[right.rank - 1];
  if (right[right.rank - 2] != k) {
    throw std::invalid_argument("matmul: shapes that do not fit: " + text(a.shape) + " and " +
                                text(b.shape));
  }
  left.rank -= 2;
  right.rank -= 2;
  const Shape batch = broadcast(left, right);
  Shape shape = batch;
  if (a.shape.rank > 1) shape.push(m);
  if (b.shape.rank > 1) shape.push(n);
  Tensor<T> result(shape);
  const Index pairs = batch.count();
  for (Index pair = 0; pair < pairs; ++pair) {
    Index rest = pair, at_a = 0, at_b = 0, step_a = 1, step_b = 1;
    for (Index axis = batch.rank - 1; axis >= 0; --axis) {
      const Index position = rest % batch[axis];
      rest /= batch[axis];
      const Index in_a = axis - (batch.rank - left.rank), in_b = axis - (batch.rank - right.rank);
      if (in_a >= 0) {
        at_a += left[in_a] == 1 ? 0 : position * step_a;
        step_a *= left[in_a];
      }
      if (in_b >= 0) {
        at_b += right[in_b] == 1 ? 0 : position * step_b;
        step_b *= right[in_b];
      }
    }
    product(a.data() + at_a * m * k, b.data() + at_b * k * n, result.data() + pair * m * n, m, k,
            n);
  }
  return result;
}
