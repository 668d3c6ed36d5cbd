// Types and conversions that the kernels here share. NVRTC compiles this without any other header;
// on the CPU, tests/gpu/cuda_on_cpu.h comes before it.
#pragma once

typedef long long int64;
typedef unsigned int uint32;
typedef unsigned long long uint64;

#define INF __uint_as_float(0x7f800000u)
#define NOT_A_NUMBER __uint_as_float(0x7fc00000u)

// 16-bit floats, as memory has them. Arithmetic is done in float: widen, compute, narrow.
struct float16 { unsigned short bits; };
struct bfloat16 { unsigned short bits; };

__device__ inline float widen(float16 x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#else
    uint32 sign = (x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
    if (rest >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | rest << 13);  // inf, NaN
    if (rest >= 0x400u) return __uint_as_float(sign | ((rest << 13) + 0x38000000u));
    float subnormal = rest * 5.9604644775390625e-08f;  // in steps of 2^-24
    return sign ? -subnormal : subnormal;
#endif
}

__device__ inline float widen(bfloat16 x) { return __uint_as_float((uint32)x.bits << 16); }

// What is computed with as it is.
__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline bool widen(bool x) { return x; }
__device__ inline int widen(int x) { return x; }
__device__ inline int64 widen(int64 x) { return x; }
__device__ inline unsigned char widen(unsigned char x) { return x; }
__device__ inline signed char widen(signed char x) { return x; }
__device__ inline short widen(short x) { return x; }

// narrow<T>(x): x as an element of memory of type T, rounded to the nearest, ties to even.
template <typename T>
struct Narrow {
    template <typename Wide>
    __device__ static T from(Wide x) { return (T)x; }
};

template <>
struct Narrow<float16> {
    __device__ static float16 from(float x) {
        float16 y;
#ifdef __CUDA_ARCH__
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
        uint32 all = __float_as_uint(x), sign = (all >> 16) & 0x8000u, rest = all & 0x7fffffffu;
        if (rest > 0x7f800000u) rest = 0x7fffu;           // NaN, as the GPU writes it
        else if (rest >= 0x477ff000u) rest = 0x7c00u;      // from 65520 on: infinity
        else if (rest < 0x38800000u)                       // subnormal: 0.5 has steps of 2^-24
            rest = __float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3f000000u;
        else rest = (rest + 0xc8000fffu + ((rest >> 13) & 1)) >> 13;
        y.bits = (unsigned short)(rest == 0x7fffu ? rest : sign | rest);
#endif
        return y;
    }
};

template <>
struct Narrow<bfloat16> {
    __device__ static bfloat16 from(float x) {
        bfloat16 y;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
        uint32 all = __float_as_uint(x);
        bool is_nan = (all & 0x7fffffffu) > 0x7f800000u;
        y.bits = is_nan ? 0x7fffu : (unsigned short)((all + 0x7fffu + ((all >> 16) & 1)) >> 16);
#endif
        return y;
    }
};

template <typename T, typename Wide>
__device__ inline T narrow(Wide x) { return Narrow<T>::from(x); }

// N elements that are read or written by one instruction: 16 bytes at an address divisible by 16.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack { T at[N]; };

__device__ inline int64 global_index() { return (int64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline int64 global_size() { return (int64)gridDim.x * blockDim.x; }

// Functions of one number that formulas name.
template <typename T>
__device__ inline T absolute(T x) { return x < 0 ? -x : x == 0 ? (T)0 : x; }

template <typename T>
__device__ inline T sign_of(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x; }

template <typename T>
__device__ inline T normal_cdf(T x) { return (T)0.5 * erfc(-x * (T)0.70710678118654752); }

template <typename T>
__device__ inline T logaddexp(T a, T b) {
    if (a != a || b != b) return a + b;  // NaN
    T low = a < b ? a : b, high = a < b ? b : a;
    return low == high ? low + log((T)2) : high + log1p(exp(low - high));  // inf - inf is NaN
}
