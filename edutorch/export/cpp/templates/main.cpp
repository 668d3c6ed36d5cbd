// Runs the program on the example: main FOLDER COUNT, where FOLDER has the weights and the example.
#include <chrono>
#include <iomanip>
#include <iostream>

#include "@NAME@.hpp"

namespace {

using @NAME@::edu::Tensor;

@REPORT@
}  // namespace

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const long count = argc > 2 ? std::stol(argv[2]) : 1;
  @NAME@::Program program(folder + "/weights.safetensors");
  const @NAME@::edu::Weights example(folder + "/example.safetensors");
@EXAMPLE@
@BODY@
  return 0;
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 1;
}
