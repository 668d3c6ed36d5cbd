// What stands before the source of an extension: arrays that come from tensors and become tensors.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>

namespace nb = nanobind;

// A dense array of one type, row by row: x.data(), x.size(), x.ndim(), x.shape(0).
template <class T>
using ArrayOf = nb::ndarray<nb::numpy, T, nb::c_contig, nb::device::cpu>;

// An array of floats.
using Array = ArrayOf<float>;

// Returns a new array of zeros.
template <class T = float>
ArrayOf<T> zeros(const std::vector<size_t>& shape) {
  size_t count = 1;
  for (const size_t size : shape) count *= size;
  T* elements = new T[count]();
  nb::capsule owner(elements, [](void* pointer) noexcept { delete[] static_cast<T*>(pointer); });
  return ArrayOf<T>(elements, shape.size(), shape.data(), owner);
}

// Returns a new array of zeros with the shape of another.
template <class T>
ArrayOf<T> zeros_like(const ArrayOf<T>& other) {
  std::vector<size_t> shape;
  for (size_t axis = 0; axis < other.ndim(); ++axis) shape.push_back(other.shape(axis));
  return zeros<T>(shape);
}
