// Sums and maxima over the lanes of a warp, and over the threads of a block.
#pragma once
#include "common.cuh"

#define WARP 32
#define ALL_LANES 0xffffffffu

struct Sum {
    template <typename T>
    __device__ static T of(T a, T b) { return a + b; }
};

struct Max {  // NaN stays
    template <typename T>
    __device__ static T of(T a, T b) { return a >= b || a != a ? a : b; }
};

// Every lane gets the result. All lanes of the warp have to call it.
template <typename Op, typename T>
__device__ inline T warp_reduce(T x) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x = Op::of(x, __shfl_xor_sync(ALL_LANES, x, distance));
    return x;
}

// Every thread gets the result. All threads of the block have to call it; a block has whole warps.
// `scratch` has an element for each warp, in shared memory; `empty` is the result of nothing.
template <typename Op, typename T>
__device__ inline T block_reduce(T x, T *scratch, T empty) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_reduce<Op>(x);
    __syncthreads();  // `scratch` may still be read by the reduction before
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    // Each warp reduces the results of all warps: no second round has to hand out the result.
    return warp_reduce<Op>(lane < warps ? scratch[lane] : empty);
}
