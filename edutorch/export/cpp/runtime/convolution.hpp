// Window: a kernel that moves over the last axes of an image.
struct Window {
  Shape kernel, stride, before, after, dilation;

  Shape outputs(const Shape& image) const {  // how often it fits into each axis
    Shape result;
    for (Index axis = 0; axis < kernel.rank; ++axis) {
      const Index size = image[image.rank - kernel.rank + axis] + before[axis] + after[axis];
      const Index reach = dilation[axis] * (kernel[axis] - 1) + 1;
      result.push(size < reach ? 0 : (size - reach) / stride[axis] + 1);
    }
    return result;
  }
};

// each_tap: calls a function for every element of the kernel and every row of outputs, with the
// range of the row that lies inside of the image: visit(tap, row, from, to, first, step), where
// `first` is the position in the image that output `from` reads.
template <class F>
void each_tap(const Window& window, const Shape& image, const Shape& outputs, F visit) {
  const Index rank = window.kernel.rank, last = rank - 1, taps = window.kernel.count();
  const Index width = outputs[last], rows = width == 0 ? 0 : outputs.count() / width;
  for (Index tap = 0; tap < taps; ++tap) {
    Shape at = window.kernel;
    for (Index axis = last, rest = tap; axis >= 0; --axis) {
      at[axis] = rest % window.kernel[axis] * window.dilation[axis] - window.before[axis];
      rest /= window.kernel[axis];
    }
    const Index step = window.stride[last];  // the row inside of the image: 0 <= at + i step < size
    const Index from = at[last] >= 0 ? 0 : (-at[last] + step - 1) / step;
    const Index room = image[last] - at[last];
    const Index to = room <= 0 ? 0 : std::min(width, (room + step - 1) / step);
    for (Index row = 0; row < rows; ++row) {
      Index place = 0, unit = 1, rest = row;
      bool inside = true;
      for (Index axis = last; axis >= 0; --axis) {
        if (axis < last) {
          const Index position = rest % outputs[axis] * window.stride[axis] + at[axis];
          rest /= outputs[axis];
          inside = inside && position >= 0 && position < image[axis];
          place += position * unit;
        }
        unit *= image[axis];
      }
      const bool is_empty = !inside || from >= to;
      visit(tap, row, is_empty ? width : from, is_empty ? width : to,
            place + at[last] + from * step, step);
    }
  }
}

// last_sizes: the sizes of the last axes.
inline Shape last_sizes(const Shape& shape, Index count) {
  Shape result;
  for (Index axis = shape.rank - count; axis < shape.rank; ++axis) result.push(shape[axis]);
  return result;
}

// columns: the windows of some channels as a matrix: (channels · taps, outputs).
template <class T>
void columns(const T* x, Index channels, const Shape& image, const Window& window,
             const Shape& outputs, T* result) {
  const Index size = image.count(), taps = window.kernel.count(), count = outputs.count();
  const Index width = outputs[outputs.rank - 1];
  each_tap(window, image, outputs, [&](Index tap, Index row, Index from, Index to, Index first,
                                       Index step) {
    for (Index channel = 0; channel < channels; ++channel) {
      T* out = result + (channel * taps + tap) * count + row * width;
      const T* in = x + channel * size;
      std::fill(out, out + std::min(from, width), T(0));
      for (Index i = from; i < to; ++i) out[i] = in[first + (i - from) * step];
      std::fill(out + to, out + width, T(0));
    }
  });
}

// add_columns: the transpose of `columns`: each window is added to where it was.
template <class T>
void add_columns(const T* source, Index channels, const Shape& image, const Window& window,
                 const Shape& outputs, T* result) {
  const Index size = image.count(), taps = window.kernel.count(), count = outputs.count();
  const Index width = outputs[outputs.rank - 1];
  each_tap(window, image, outputs, [&](Index tap, Index row, Index from, Index to, Index first,
                                       Index step) {
    for (Index channel = 0; channel < channels; ++channel) {
      const T* in = source + (channel * taps + tap) * count + row * width;
      T* out = result + channel * size;
      for (Index i = from; i < to; ++i) out[first + (i - from) * step] += in[i];
    }
  });
}

// conv: a convolution over the axes behind (batch, channels), in groups of channels.
template <class T>
[[gnu::noinline]] Tensor<T> conv(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias,
               const Window& window, Index groups) {
  const Shape image = last_sizes(x.shape, window.kernel.rank), outputs = window.outputs(x.shape);
  const Index batch = x.size(0), channels = x.size(1) / groups, filters = weight.size(0) / groups;
  const Index size = channels * window.kernel.count(), count = outputs.count();
  if (x.size(1) != weight.size(1) * groups) {
    throw std::invalid_argument("conv: " + text(x.shape) + " and filters " + text(weight.shape));
  }
  Shape shape{batch, weight.size(0)};
  for (Index axis = 0; axis < outputs.rank; ++axis) shape.push(outputs[axis]);
  Tensor<T> result(shape), matrix(Shape{size, count});
  for (Index part = 0; part < batch * groups; ++part) {  // a group of one image
    const Index group = part % groups;
    T* out = result.data() + part * filters * count;
    if (bias) {
      for (Index o = 0; o < filters; ++o) {
        std::fill_n(out + o * count, count, bias.data()[group * filters + o]);
      }
    }
    columns(x.data() + part * channels * image.count(), channels, image, window, outputs,
            matrix.data());
    product(weight.data() + group * filters * size, matrix.data(), out, filters, size, count);
  }
  return result;
}

// conv_transpose: the gradient of `conv` by its input, whose last axes have the sizes `image`.
template <class T>
[[gnu::noinline]] Tensor<T> conv_transpose(const Tensor<T>& x, const Tensor<T>& weight, const Shape& image,
                         const Window& window, Index groups) {
  const Shape outputs = last_sizes(x.shape, window.kernel.rank);
  const Index batch = x.size(0), filters = weight.size(0) / groups, channels = weight.size(1);
  const Index size = channels * window.kernel.count(), count = outputs.count();
  Shape shape{batch, channels * groups};
  for (Index axis = 0; axis < image.rank; ++axis) shape.push(image[axis]);
  Tensor<T> result(shape);
  for (Index group = 0; group < groups; ++group) {
    const std::vector<T> turned =
        transposed(weight.data() + group * filters * size, filters, size);
    for (Index sample = 0; sample < batch; ++sample) {
      const Index part = sample * groups + group;
      Tensor<T> matrix(Shape{size, count});
      product(turned.data(), x.data() + part * filters * count, matrix.data(), size, filters,
              count);
      add_columns(matrix.data(), channels, image, window, outputs,
                  result.data() + part * channels * image.count());
    }
  }
  return result;
}

// conv_weight_grad: the gradient of `conv` by its filters, from that of its result.
template <class T>
[[gnu::noinline]] Tensor<T> conv_weight_grad(const Tensor<T>& x, const Tensor<T>& g, const Window& window,
                           Index groups) {
  const Shape image = last_sizes(x.shape, window.kernel.rank);
  const Shape outputs = last_sizes(g.shape, window.kernel.rank);
  const Index batch = x.size(0), channels = x.size(1) / groups, filters = g.size(1) / groups;
  const Index size = channels * window.kernel.count(), count = outputs.count();
  Shape shape{g.size(1), channels};
  for (Index axis = 0; axis < window.kernel.rank; ++axis) shape.push(window.kernel[axis]);
  Tensor<T> result(shape), matrix(Shape{size, count});
  for (Index part = 0; part < batch * groups; ++part) {
    columns(x.data() + part * channels * image.count(), channels, image, window, outputs,
            matrix.data());
    product(g.data() + part * filters * count, transposed(matrix.data(), size, count).data(),
            result.data() + part % groups * filters * size, filters, count, size);
  }
  return result;
}
