// The program as functions of C: see @NAME@.h.
#include "@NAME@.h"

#include "@NAME@.hpp"

struct @NAME@_program {
  @NAME@::Program program;
  @RESULT@ results;
};

namespace {

using @NAME@::edu::Index;
using @NAME@::edu::Shape;
using @NAME@::edu::Tensor;

thread_local std::string last_error;

template <class T>
Tensor<T> tensor_of(const @NAME@_array& array) {
  if (array.rank < 0 || array.rank > 8) throw std::invalid_argument("an array has 0 to 8 axes");
  Shape shape;
  for (Index axis = 0; axis < array.rank; ++axis) shape.push(array.shape[axis]);
  Tensor<T> tensor(shape);
  std::copy_n(static_cast<const T*>(array.data), tensor.count(), tensor.data());
  return tensor;
}

template <class T>
void show(Tensor<T>& tensor, @NAME@_array& array) {
  array.data = tensor.data();
  array.rank = tensor.shape.rank;
  for (Index axis = 0; axis < array.rank; ++axis) array.shape[axis] = tensor.shape[axis];
}

}  // namespace

extern "C" {

@NAME@_program* @NAME@_load(const char* weights) try {
  return new @NAME@_program{@NAME@::Program(std::string(weights)), {}};
} catch (const std::exception& error) {
  last_error = error.what();
  return nullptr;
}

int @NAME@_run(@NAME@_program* program, const @NAME@_array* inputs, @NAME@_array* outputs) try {
  program->results = program->program(@ARGUMENTS@);
@SHOWS@
  return 0;
} catch (const std::exception& error) {
  last_error = error.what();
  return 1;
}

const char* @NAME@_error(void) { return last_error.c_str(); }

void @NAME@_free(@NAME@_program* program) { delete program; }

}  // extern "C"
