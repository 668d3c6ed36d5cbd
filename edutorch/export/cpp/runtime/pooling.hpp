// each_pool: calls a function for every channel, output and element of its window inside of the
// image: visit(output, element, tap).
template <class F>
void each_pool(const Shape& shape, const Window& window, const Shape& outputs, F visit) {
  const Shape image = last_sizes(shape, window.kernel.rank);
  const Index size = image.count(), count = outputs.count();
  const Index channels = size == 0 ? 0 : shape.count() / size, width = outputs[outputs.rank - 1];
  each_tap(window, image, outputs, [&](Index tap, Index row, Index from, Index to, Index first,
                                       Index step) {
    for (Index channel = 0; channel < channels; ++channel) {
      for (Index i = from; i < to; ++i) {
        visit(channel * count + row * width + i, channel * size + first + (i - from) * step, tap);
      }
    }
  });
}

// pooled_shape: the shape with the last axes in their new sizes.
inline Shape pooled_shape(Shape shape, const Shape& outputs) {
  for (Index axis = 0; axis < outputs.rank; ++axis) {
    shape[shape.rank - outputs.rank + axis] = outputs[axis];
  }
  return shape;
}

// max_pool: the largest element of each window; NaN counts as the largest.
template <class T>
Tensor<T> max_pool(const Tensor<T>& x, const Window& window, const Shape& outputs) {
  const T least = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                              : std::numeric_limits<T>::lowest();
  Tensor<T> result = full<T>(pooled_shape(x.shape, outputs), least);
  T* out = result.data();
  each_pool(x.shape, window, outputs, [&](Index output, Index element, Index) {
    const T value = x.data()[element];
    if (value > out[output] || value != value) out[output] = value;
  });
  return result;
}

// max_pool_indices: the number of the element of each window that `max_pool` takes.
template <class R, class T>
Tensor<R> max_pool_indices(const Tensor<T>& x, const Window& window, const Shape& outputs) {
  const Shape shape = pooled_shape(x.shape, outputs);
  Tensor<R> taps = full<R>(shape, static_cast<R>(-1));
  Tensor<T> best(shape);
  each_pool(x.shape, window, outputs, [&](Index output, Index element, Index tap) {
    const T value = x.data()[element];
    if (taps.data()[output] < 0 || value > best.data()[output] || value != value) {
      best.data()[output] = value;
      taps.data()[output] = static_cast<R>(tap);
    }
  });
  return taps;
}

// max_pool_scatter: each element goes to the one that it was taken from.
template <class T, class R>
Tensor<T> max_pool_scatter(const Tensor<T>& g, const Tensor<R>& taps, const Shape& shape,
                           const Window& window) {
  Tensor<T> result(shape);
  const Shape outputs = last_sizes(g.shape, window.kernel.rank);
  each_pool(shape, window, outputs, [&](Index output, Index element, Index tap) {
    if (static_cast<Index>(taps.data()[output]) == tap) result.data()[element] += g.data()[output];
  });
  return result;
}

// pool_divisors: how many elements each window averages.
template <class T>
Tensor<T> pool_divisors(const Shape& shape, const Window& window, const Shape& outputs,
                        bool counts_padding, Index divisor) {
  if (divisor > 0) return full<T>(outputs, static_cast<T>(divisor));
  Tensor<T> result(outputs);
  const Shape image = last_sizes(shape, window.kernel.rank);
  for (Index i = 0; i < outputs.count(); ++i) {
    Index total = 1, rest = i;
    for (Index axis = outputs.rank - 1; axis >= 0; --axis) {
      Index start = rest % outputs[axis] * window.stride[axis] - window.before[axis];
      rest /= outputs[axis];
      Index end = std::min(start + window.kernel[axis], image[axis] + window.before[axis]);
      if (!counts_padding) {
        start = std::max<Index>(start, 0);
        end = std::min(end, image[axis]);
      }
      total *= end - start;
    }
    result.data()[i] = static_cast<T>(total);
  }
  return result;
}

// avg_pool: the average of each window.
template <class T>
Tensor<T> avg_pool(const Tensor<T>& x, const Window& window, const Shape& outputs,
                   bool counts_padding, Index divisor) {
  Tensor<T> result(pooled_shape(x.shape, outputs));
  const Tensor<T> divisors =
      pool_divisors<T>(x.shape, window, outputs, counts_padding, divisor);
  each_pool(x.shape, window, outputs, [&](Index output, Index element, Index) {
    result.data()[output] += x.data()[element];
  });
  const Index count = outputs.count();
  for (Index i = 0; i < result.count(); ++i) result.data()[i] /= divisors.data()[i % count];
  return result;
}

// avg_pool_grad: each element is spread evenly over its window.
template <class T>
Tensor<T> avg_pool_grad(const Tensor<T>& g, const Shape& shape, const Window& window,
                        bool counts_padding, Index divisor) {
  Tensor<T> result(shape);
  const Shape outputs = last_sizes(g.shape, window.kernel.rank);
  const Tensor<T> divisors = pool_divisors<T>(shape, window, outputs, counts_padding, divisor);
  const Index count = outputs.count();
  each_pool(shape, window, outputs, [&](Index output, Index element, Index) {
    result.data()[element] += g.data()[output] / divisors.data()[output % count];
  });
  return result;
}
