// reshape: the same elements in another shape; -1 stands for what is left.
template <class T>
[[gnu::noinline]] Tensor<T> reshape(const Tensor<T>& x, Shape shape) {
  Index open = -1, known = 1;
  for (Index axis = 0; axis < shape.rank; ++axis) {
    if (shape[axis] == -1) open = axis;
    else known *= shape[axis];
  }
  if (open >= 0) shape[open] = known == 0 ? 0 : x.count() / known;
  if (shape.count() != x.count()) {
    throw std::invalid_argument("reshape: " + text(x.shape) + " does not fit into " + text(shape));
  }
  return Tensor<T>(shape, x.elements);
}

// strided: the elements at offset + Σ position · stride.
template <class T>
[[gnu::noinline]] Tensor<T> strided(const Tensor<T>& x, Index offset, const Shape& shape, const Shape& strides) {
  Tensor<T> result(shape);
  const Index width = shape.rank == 0 ? 1 : shape[shape.rank - 1];
  const Index step = shape.rank == 0 ? 0 : strides[shape.rank - 1];
  const Index rows = width == 0 ? 0 : result.count() / width;
  Shape position = shape;
  position.sizes.fill(0);
  T* out = result.data();
  for (Index row = 0; row < rows; ++row, out += width, next_row(position, shape)) {
    const T* from = x.data() + offset;
    for (Index axis = 0; axis + 1 < shape.rank; ++axis) from += position[axis] * strides[axis];
    for (Index i = 0; i < width; ++i) out[i] = from[i * step];
  }
  return result;
}

// strides_of: how far one step along each axis goes.
inline Shape strides_of(const Shape& shape) {
  Shape result;
  for (Index axis = 0; axis < shape.rank; ++axis) result.push(shape.strides_from(axis));
  return result;
}

// permute: the axes in another order.
template <class T>
Tensor<T> permute(const Tensor<T>& x, const Shape& order) {
  Shape shape, strides;
  for (Index axis = 0; axis < order.rank; ++axis) {
    const Index from = in_order(order[axis], x.shape.rank);
    shape.push(x.shape[from]);
    strides.push(x.shape.strides_from(from));
  }
  return strided(x, 0, shape, strides);
}

// transpose: two axes swapped.
template <class T>
Tensor<T> transpose(const Tensor<T>& x, Index first, Index second) {
  Shape order;
  for (Index axis = 0; axis < x.shape.rank; ++axis) order.push(axis);
  if (x.shape.rank > 0) {
    std::swap(order[in_order(first, x.shape.rank)], order[in_order(second, x.shape.rank)]);
  }
  return permute(x, order);
}

// slice: a range of an axis, with a step; ends are counted and cut as in Python.
template <class T>
Tensor<T> slice(const Tensor<T>& x, Index dim, Index start, Index end, Index step) {
  const Index axis = in_order(dim, x.shape.rank), size = x.shape[axis];
  start = std::clamp<Index>(start < 0 ? start + size : start, 0, size);
  end = std::clamp<Index>(end < 0 ? end + size : end, start, size);
  Shape shape = x.shape, strides = strides_of(x.shape);
  shape[axis] = (end - start + step - 1) / step;
  const Index offset = start * strides[axis];
  strides[axis] *= step;
  return strided(x, offset, shape, strides);
}

// narrow: `length` elements of an axis, from `start` on.
template <class T>
Tensor<T> narrow(const Tensor<T>& x, Index dim, Index start, Index length) {
  const Index size = x.shape[in_order(dim, x.shape.rank)];
  if (start < 0) start += size;
  return slice(x, dim, start, start + length, 1);
}

// select: one element of an axis, which is gone then.
template <class T>
Tensor<T> select(const Tensor<T>& x, Index dim, Index index) {
  const Index axis = in_order(dim, x.shape.rank), size = x.shape[axis];
  if (index < -size || index >= size) {
    throw std::out_of_range("index " + std::to_string(index) + " on an axis of size " +
                            std::to_string(size));
  }
  Shape shape, strides;
  for (Index other = 0; other < x.shape.rank; ++other) {
    if (other == axis) continue;
    shape.push(x.shape[other]);
    strides.push(x.shape.strides_from(other));
  }
  return strided(x, in_order(index, size) * x.shape.strides_from(axis), shape, strides);
}

// flip: an axis in reverse.
template <class T>
Tensor<T> flip(const Tensor<T>& x, Index dim) {
  const Index axis = in_order(dim, x.shape.rank);
  Shape strides = strides_of(x.shape);
  const Index offset = std::max<Index>(x.shape[axis] - 1, 0) * strides[axis];
  strides[axis] = -strides[axis];
  return strided(x, offset, x.shape, strides);
}

// unsqueeze: a further axis of size 1.
template <class T>
Tensor<T> unsqueeze(const Tensor<T>& x, Index dim) {
  const Index place = in_order(dim, x.shape.rank + 1);
  Shape shape;
  for (Index axis = 0; axis <= x.shape.rank; ++axis) {
    if (axis == place) shape.push(1);
    if (axis < x.shape.rank) shape.push(x.shape[axis]);
  }
  return reshape(x, shape);
}

// cat: tensors joined along an axis.
template <class T>
Tensor<T> cat(const std::vector<Tensor<T>>& parts, Index dim) {
  Shape shape = parts.front().shape;
  const Index axis = in_order(dim, shape.rank);
  shape[axis] = 0;
  for (const Tensor<T>& part : parts) shape[axis] += part.shape[axis];
  Tensor<T> result(shape);
  const Index inner = shape.strides_from(axis), width = shape[axis] * inner;
  const Index outer = width == 0 ? 0 : result.count() / width;
  Index start = 0;
  for (const Tensor<T>& part : parts) {
    const Index length = part.shape[axis] * inner;
    for (Index row = 0; row < outer; ++row) {
      std::copy_n(part.data() + row * length, length, result.data() + row * width + start);
    }
    start += length;
  }
  return result;
}

// stack: tensors joined along a new axis.
template <class T>
Tensor<T> stack(const std::vector<Tensor<T>>& parts, Index dim) {
  std::vector<Tensor<T>> wider;
  for (const Tensor<T>& part : parts) wider.push_back(unsqueeze(part, dim));
  return cat(wider, dim);
}

// repeat: a tensor repeated along its axes, of which it may get more in front.
template <class T>
Tensor<T> repeat(const Tensor<T>& x, const Shape& repeats) {
  Tensor<T> result = x;
  while (result.shape.rank < repeats.rank) result = unsqueeze(result, 0);
  for (Index axis = 0; axis < repeats.rank; ++axis) {
    const std::vector<Tensor<T>> parts(static_cast<std::size_t>(repeats[axis]), result);
    result = parts.empty() ? slice(result, axis, 0, 0, 1) : cat(parts, axis);
  }
  return result;
}

// index_select: elements of an axis by their numbers.
template <class T, class I>
Tensor<T> index_select(const Tensor<T>& x, Index dim, const Tensor<I>& index) {
  const Index axis = in_order(dim, x.shape.rank), size = x.shape[axis];
  const Index inner = x.shape.strides_from(axis), picks = index.count();
  Shape shape;  // the axis makes room for those of the index
  for (Index other = 0; other < axis; ++other) shape.push(x.shape[other]);
  const Index outer = shape.count();
  for (Index other = 0; other < index.shape.rank; ++other) shape.push(index.shape[other]);
  for (Index other = axis + 1; other < x.shape.rank; ++other) shape.push(x.shape[other]);
  Tensor<T> result(shape);
  T* out = result.data();
  for (Index row = 0; row < outer; ++row) {
    for (Index pick = 0; pick < picks; ++pick, out += inner) {
      const Index number = static_cast<Index>(index.data()[pick]);
      if (number < -size || number >= size) {
        throw std::out_of_range("index " + std::to_string(number) + " on an axis of size " +
                                std::to_string(size));
      }
      std::copy_n(x.data() + (row * size + in_order(number, size)) * inner, inner, out);
    }
  }
  return result;
}

// gather: an element for each number, along an axis.
template <class T, class I>
Tensor<T> gather(const Tensor<T>& x, Index dim, const Tensor<I>& index) {
  const Index axis = in_order(dim, x.shape.rank), size = x.shape[axis];
  Tensor<T> result(index.shape);
  Shape position = index.shape;
  position.sizes.fill(0);
  for (Index i = 0; i < result.count(); ++i) {
    const Index number = static_cast<Index>(index.data()[i]);
    if (number < -size || number >= size) {
      throw std::out_of_range("index " + std::to_string(number) + " on an axis of size " +
                              std::to_string(size));
    }
    Index place = 0;
    for (Index other = 0; other < x.shape.rank; ++other) {
      const Index at = other == axis ? in_order(number, size) : position[other];
      place += at * x.shape.strides_from(other);
    }
    result.data()[i] = x.data()[place];
    for (Index other = x.shape.rank - 1; other >= 0; --other) {
      if (++position[other] < index.shape[other]) break;
      position[other] = 0;
    }
  }
  return result;
}

// full: one number everywhere.
template <class T>
Tensor<T> full(const Shape& shape, T value) {
  Tensor<T> result(shape);
  std::fill_n(result.data(), result.count(), value);
  return result;
}

// arange: numbers in equal steps.
template <class T, class N>
Tensor<T> arange(N start, N end, N step) {
  const double steps = std::ceil(static_cast<double>(end - start) / static_cast<double>(step));
  Tensor<T> result(Shape{std::max<Index>(static_cast<Index>(steps), 0)});
  for (Index i = 0; i < result.count(); ++i) {
    result.data()[i] = static_cast<T>(start + static_cast<N>(i) * step);
  }
  return result;
}

// triangle: a triangle of each matrix, zeros elsewhere.
template <class T>
Tensor<T> triangle(const Tensor<T>& x, Index diagonal, bool upper) {
  Tensor<T> result(x.shape);
  const Index columns = x.shape[x.shape.rank - 1], rows = x.shape[x.shape.rank - 2];
  for (Index i = 0; i < x.count(); ++i) {
    const Index offset = i % columns - i / columns % rows;
    if (upper ? offset >= diagonal : offset <= diagonal) result.data()[i] = x.data()[i];
  }
  return result;
}

// constant_pad: a border of one number around the last axes; negative pads cut.
template <class T>
Tensor<T> constant_pad(const Tensor<T>& x, const Shape& before, const Shape& after, T value) {
  Shape shape = x.shape;
  for (Index axis = 0; axis < shape.rank; ++axis) shape[axis] += before[axis] + after[axis];
  Tensor<T> result = full<T>(shape, value);
  Shape position = shape;
  position.sizes.fill(0);
  for (Index i = 0; i < result.count(); ++i) {
    Index place = 0;
    bool inside = true;
    for (Index axis = 0; axis < shape.rank; ++axis) {
      const Index at = position[axis] - before[axis];
      inside = inside && at >= 0 && at < x.shape[axis];
      place += at * x.shape.strides_from(axis);
    }
    if (inside) result.data()[i] = x.data()[place];
    for (Index axis = shape.rank - 1; axis >= 0; --axis) {
      if (++position[axis] < shape[axis]) break;
      position[axis] = 0;
    }
  }
  return result;
}
