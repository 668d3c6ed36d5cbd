// axes_last: the reduced axes behind the others, so that they are one row of elements.
template <class T>
Tensor<T> axes_last(const Tensor<T>& x, const Shape& axes) {
  Shape order;
  std::array<bool, 8> reduced{};
  for (Index i = 0; i < axes.rank; ++i) {
    reduced[static_cast<std::size_t>(in_order(axes[i], x.shape.rank))] = true;
  }
  bool is_moved = false;
  for (const bool wanted : {false, true}) {
    for (Index axis = 0; axis < x.shape.rank; ++axis) {
      if (reduced[static_cast<std::size_t>(axis)] == wanted) {
        is_moved = is_moved || axis != order.rank;
        order.push(axis);
      }
    }
  }
  return is_moved ? permute(x, order) : x;
}

// reduce: a function of the elements along some axes; `keepdim` leaves these with size 1.
template <class R, class T, class F>
Tensor<R> reduce(const Tensor<T>& x, const Shape& axes, bool keepdim, F function) {
  Shape shape;
  Index length = 1;
  for (Index axis = 0; axis < x.shape.rank; ++axis) {
    bool is_reduced = false;
    for (Index i = 0; i < axes.rank; ++i) {
      is_reduced = is_reduced || in_order(axes[i], x.shape.rank) == axis;
    }
    if (is_reduced) length *= x.shape[axis];
    if (!is_reduced) shape.push(x.shape[axis]);
    else if (keepdim) shape.push(1);
  }
  const Tensor<T> rows = axes_last(x, axes);
  Tensor<R> result(shape);
  for (Index row = 0; row < result.count(); ++row) {
    result.data()[row] = static_cast<R>(function(rows.data() + row * length, length));
  }
  return result;
}

// wide_type: sums of floats are kept in double precision, those of integers in 64 bits.
template <class T>
using wide_type = std::conditional_t<std::is_floating_point_v<T>, double, Index>;

// sum: the sum along some axes.
template <class R, class T>
Tensor<R> sum(const Tensor<T>& x, const Shape& axes, bool keepdim) {
  return reduce<R>(x, axes, keepdim, [](const T* row, Index length) {
    wide_type<R> total = 0;
    for (Index i = 0; i < length; ++i) total += static_cast<wide_type<R>>(row[i]);
    return total;
  });
}

// mean: the average along some axes.
template <class R, class T>
Tensor<R> mean(const Tensor<T>& x, const Shape& axes, bool keepdim) {
  return reduce<R>(x, axes, keepdim, [](const T* row, Index length) {
    double total = 0;
    for (Index i = 0; i < length; ++i) total += static_cast<double>(row[i]);
    return total / static_cast<double>(length);
  });
}

// prod: the product along some axes.
template <class R, class T>
Tensor<R> prod(const Tensor<T>& x, const Shape& axes, bool keepdim) {
  return reduce<R>(x, axes, keepdim, [](const T* row, Index length) {
    wide_type<R> total = 1;
    for (Index i = 0; i < length; ++i) total *= static_cast<wide_type<R>>(row[i]);
    return total;
  });
}

// extreme_at: where the largest, or smallest, element of a row is; the first NaN counts as it.
template <bool Largest, class T>
Index extreme_at(const T* row, Index length) {
  if (length == 0) throw std::invalid_argument("an extreme of no elements");
  Index best = 0;
  for (Index i = 0; i < length; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(row[i])) return i;
    }
    if (Largest ? row[i] > row[best] : row[i] < row[best]) best = i;
  }
  return best;
}

// extreme: the largest, or smallest, element along some axes.
template <bool Largest, class T>
Tensor<T> extreme(const Tensor<T>& x, const Shape& axes, bool keepdim) {
  return reduce<T>(x, axes, keepdim, [](const T* row, Index length) {
    return row[extreme_at<Largest>(row, length)];
  });
}

// arg_extreme: the number of the largest, or smallest, element along some axes.
template <bool Largest, class T>
Tensor<Index> arg_extreme(const Tensor<T>& x, const Shape& axes, bool keepdim) {
  return reduce<Index>(x, axes, keepdim, [](const T* row, Index length) {
    return extreme_at<Largest>(row, length);
  });
}

// cumsum: running sums along an axis.
template <class R, class T>
Tensor<R> cumsum(const Tensor<T>& x, Index dim) {
  Tensor<R> result = convert<R>(x);
  if (x.shape.rank == 0) return result;
  const Index axis = in_order(dim, x.shape.rank), inner = x.shape.strides_from(axis);
  for (Index i = 0; i < x.count(); ++i) {
    if (i / inner % x.shape[axis] > 0) {
      result.data()[i] = static_cast<R>(result.data()[i] + result.data()[i - inner]);
    }
  }
  return result;
}
