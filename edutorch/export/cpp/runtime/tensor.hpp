// Index: sizes and positions.
using Index = std::int64_t;

// Shape: up to eight sizes.
struct Shape {
  Index rank = 0;
  std::array<Index, 8> sizes{};

  Shape() = default;
  Shape(std::initializer_list<Index> list) {
    for (const Index size : list) push(size);
  }
  Index& operator[](Index axis) { return sizes[static_cast<std::size_t>(axis)]; }
  Index operator[](Index axis) const { return sizes[static_cast<std::size_t>(axis)]; }
  void push(Index size) {
    if (rank == 8) throw std::invalid_argument("a shape has at most 8 axes");
    (*this)[rank++] = size;
  }
  Index count() const {
    Index total = 1;
    for (Index axis = 0; axis < rank; ++axis) total *= (*this)[axis];
    return total;
  }
  Index strides_from(Index axis) const {  // the elements in one step of an axis
    Index total = 1;
    for (Index next = axis + 1; next < rank; ++next) total *= (*this)[next];
    return total;
  }
  bool operator==(const Shape& other) const {
    if (rank != other.rank) return false;
    for (Index axis = 0; axis < rank; ++axis) {
      if ((*this)[axis] != other[axis]) return false;
    }
    return true;
  }
};

// text: a shape as text, such as (8, 10).
inline std::string text(const Shape& shape) {
  std::string result = "(";
  for (Index axis = 0; axis < shape.rank; ++axis) {
    result += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  }
  return result + ")";
}

// Tensor: the elements of an array, row by row. Copies of a tensor share their elements.
template <class T>
struct Tensor {
  using Element = T;
  Shape shape{0};
  std::shared_ptr<T[]> elements;

  Tensor() = default;
  explicit Tensor(const Shape& sizes)
      : shape(sizes), elements(new T[static_cast<std::size_t>(sizes.count())]()) {}
  Tensor(const Shape& sizes, std::shared_ptr<T[]> shared)
      : shape(sizes), elements(std::move(shared)) {}
  T* data() { return elements.get(); }
  const T* data() const { return elements.get(); }
  Index count() const { return shape.count(); }
  Index size(Index axis) const { return shape[axis]; }
  explicit operator bool() const { return elements != nullptr; }
};

// check_shape: an input has the fixed sizes of the program; -1 stands for any.
inline void check_shape(const char* name, const Shape& shape, const Shape& wanted,
                        const char* wanted_text) {
  bool fits = shape.rank == wanted.rank;
  for (Index axis = 0; fits && axis < wanted.rank; ++axis) {
    fits = wanted[axis] == -1 || wanted[axis] == shape[axis];
  }
  if (!fits) {
    throw std::invalid_argument(std::string(name) + " has the shape " + text(shape) +
                                ", and the program takes " + wanted_text);
  }
}

// check_range: a size lies in the range that the program was exported for.
inline void check_range(const char* name, Index axis, Index size, const char* symbol, Index low,
                        Index high) {
  if (size < low || size > high) {
    throw std::invalid_argument(std::string(name) + " has size " + std::to_string(size) +
                                " on axis " + std::to_string(axis) + ", and " + symbol +
                                " goes from " + std::to_string(low) + " to " +
                                std::to_string(high));
  }
}

// check_same: a size is what the sizes of other inputs make it.
inline void check_same(const char* name, Index axis, Index size, const char* formula,
                       Index wanted) {
  if (size != wanted) {
    throw std::invalid_argument(std::string(name) + " has size " + std::to_string(size) +
                                " on axis " + std::to_string(axis) + ", and " + formula +
                                " is " + std::to_string(wanted));
  }
}

// in_order: an axis that may be counted from the end.
inline Index in_order(Index axis, Index rank) { return axis < 0 ? axis + rank : axis; }

// quotient: a quotient of sizes, rounded down as in Python.
inline Index quotient(Index a, Index b) {
  const Index rounded = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? rounded - 1 : rounded;
}
