// broadcast: the common shape of two: sizes of 1, and missing axes, are repeated.
inline Shape broadcast(const Shape& a, const Shape& b) {
  Shape result;
  const Index rank = std::max(a.rank, b.rank);
  for (Index axis = 0; axis < rank; ++axis) {
    const Index in_a = axis - (rank - a.rank), in_b = axis - (rank - b.rank);
    const Index m = in_a < 0 ? 1 : a[in_a], n = in_b < 0 ? 1 : b[in_b];
    if (m != n && m != 1 && n != 1) {
      throw std::invalid_argument("shapes that do not fit: " + text(a) + " and " + text(b));
    }
    result.push(m == 1 ? n : m);
  }
  return result;
}

// shape_of: the shape of a tensor; that of a number has no axes.
template <class T>
Shape shape_of(const Tensor<T>& tensor) {
  return tensor.shape;
}
template <class T>
std::enable_if_t<std::is_arithmetic_v<T>, Shape> shape_of(const T&) {
  return {};
}

// Operand: reads a tensor, or a number, row by row of a larger shape.
template <class T>
struct Operand {
  const T* start = nullptr;
  const T* row = nullptr;
  Index step = 0;
  Shape steps;

  Operand(const Tensor<T>& tensor, const Shape& shape) : start(tensor.data()), row(start) {
    const Index missing = shape.rank - tensor.shape.rank;
    for (Index axis = 0; axis < shape.rank; ++axis) {
      const bool repeats = axis < missing || tensor.shape[axis - missing] == 1;
      steps.push(repeats ? 0 : tensor.shape.strides_from(axis - missing));
    }
    if (shape.rank > 0) step = steps[shape.rank - 1];
  }
  Operand(const T& number, const Shape& shape) : start(&number), row(start) {
    for (Index axis = 0; axis < shape.rank; ++axis) steps.push(0);
  }
  void move_to(const Shape& position) {
    row = start;
    for (Index axis = 0; axis + 1 < steps.rank; ++axis) row += position[axis] * steps[axis];
  }
};

// element_type: the type of the elements of a tensor, or of a number.
template <class T>
struct element_type {
  using type = T;
};
template <class T>
struct element_type<Tensor<T>> {
  using type = T;
};

// next_row: moves a position to the next row of a shape.
inline void next_row(Shape& position, const Shape& shape) {
  for (Index axis = shape.rank - 2; axis >= 0; --axis) {
    if (++position[axis] < shape[axis]) return;
    position[axis] = 0;
  }
}

// map_rows: a function of each element of some operands, row by row.
template <class R, class C, class F, class... T>
void map_rows(F function, Tensor<R>& result, Operand<T>... operands) {
  const Shape& shape = result.shape;
  const Index width = shape.rank == 0 ? 1 : shape[shape.rank - 1];
  const Index rows = width == 0 ? 0 : result.count() / width;
  Shape position = shape;
  position.sizes.fill(0);
  R* out = result.data();
  const bool is_dense = (... && (operands.step == 1));
  for (Index row = 0; row < rows; ++row, out += width, next_row(position, shape)) {
    (operands.move_to(position), ...);
    if (is_dense) {
      for (Index i = 0; i < width; ++i) {
        out[i] = static_cast<R>(function(static_cast<C>(operands.row[i])...));
      }
    } else {
      for (Index i = 0; i < width; ++i) {
        out[i] = static_cast<R>(function(static_cast<C>(operands.row[i * operands.step])...));
      }
    }
  }
}

// map: a function of each element, computed in the type C, as a tensor of the type R.
template <class R, class C, class F, class... A>
Tensor<R> map(F function, const A&... inputs) {
  Shape shape;
  ((shape = broadcast(shape, shape_of(inputs))), ...);
  Tensor<R> result(shape);
  map_rows<R, C>(function, result, Operand<typename element_type<A>::type>(inputs, shape)...);
  return result;
}

// convert: the elements in another type.
template <class R, class T>
Tensor<R> convert(const Tensor<T>& x) {
  return map<R, T>([](T value) { return value; }, x);
}

// expand: sizes of 1 repeated; -1 keeps a size.
template <class T>
Tensor<T> expand(const Tensor<T>& x, Shape shape) {
  for (Index axis = 0; axis < shape.rank; ++axis) {
    const Index own = axis - (shape.rank - x.shape.rank);
    if (shape[axis] == -1 && own >= 0) shape[axis] = x.shape[own];
  }
  Tensor<T> result(shape);
  map_rows<T, T>([](T value) { return value; }, result, Operand<T>(x, shape));
  return result;
}

// floor_mod: the rest of a division that rounds down.
template <class T>
T floor_mod(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T rest = std::fmod(a, b);
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
  } else {
    const auto rest = a % b;
    return static_cast<T>(rest != 0 && std::is_signed_v<T> && (rest ^ b) < 0 ? rest + b : rest);
  }
}
