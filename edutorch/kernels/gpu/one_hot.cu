// One-hot vectors of classes: one thread for each element.
#include "common.cuh"

// y[i, c] = 1 where c is classes[i], else 0. y has `size` elements, n for each class.
extern "C" __global__ void one_hot_elements(const int64 *classes, int64 *y, int64 size, int64 n) {
    int64 at = global_index();
    // A class that is out of range has a row of zeros; `check_later` reports it, or clamps it.
    if (at < size) y[at] = classes[at / n] == at % n;
}
