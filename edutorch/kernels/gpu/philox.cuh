// Philox4x32-10: which seed makes which number, as backends/philox.py defines it for all devices.
// Each element can be computed alone: element i of a draw takes the words of block i / 4 (float32,
// one word each) or i / 2 (float64, two words each), counted from the generator's offset.
#pragma once
#include "common.cuh"

struct Words { uint32 at[4]; };

// The four words of a counter. `key` is a seed, its lower half first.
__device__ inline Words philox4x32(Words counter, uint64 key) {
    uint32 c0 = counter.at[0], c1 = counter.at[1], c2 = counter.at[2], c3 = counter.at[3];
    uint32 k0 = (uint32)key, k1 = (uint32)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        uint64 first = (uint64)0xD2511F53u * c0, second = (uint64)0xCD9E8D57u * c2;
        c0 = (uint32)(second >> 32) ^ c1 ^ k0;
        c1 = (uint32)second;
        c2 = (uint32)(first >> 32) ^ c3 ^ k1;
        c3 = (uint32)first;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

// A generator's state in memory: kernels of one stream read it one after the other.
struct Generator {
    uint64 seed, offset;
    uint64 finished;  // how many blocks of threads of the running kernel have read it
};

// The words of block `index` of a draw, in the given attempt (the first one is 0).
__device__ inline Words draw_block(const Generator &from, uint64 index, uint32 attempt = 0) {
    uint64 block = from.offset + index;
    return philox4x32({{(uint32)block, (uint32)(block >> 32), attempt, 0u}}, from.seed);
}

// Read the generator. All threads of a block call it once, before `finish_draw`.
__device__ inline Generator read_generator(const Generator *memory) {
    return {memory->seed, memory->offset, 0};
}

// Hand out `blocks` blocks: the last block of threads that has read the generator moves it on.
// All threads of a block call it, behind their `read_generator`.
__device__ inline void finish_draw(Generator *memory, uint64 offset, uint64 blocks) {
    __syncthreads();  // all threads of this block have read it
    if (threadIdx.x == 0) {
        __threadfence();
        uint64 others = (uint64)gridDim.x - 1;
        if (atomicAdd(&memory->finished, (uint64)1) == others) {
            memory->offset = offset + blocks;
            memory->finished = 0;
        }
    }
}

// Words as numbers --------------------------------------------------------------------------------

__device__ inline float uniform_float(uint32 word) { return (word >> 8) * 5.9604644775390625e-08f; }

// The word of element `position`, out of its block. (An index would need memory for the words.)
__device__ inline uint32 word_of(const Words &w, uint64 position) {
    uint32 low = position & 1 ? w.at[1] : w.at[0], high = position & 1 ? w.at[3] : w.at[2];
    return position & 2 ? high : low;
}

__device__ inline uint64 joined(uint32 low, uint32 high) { return low | (uint64)high << 32; }

__device__ inline double uniform_double(uint32 low, uint32 high) {
    return (joined(low, high) >> 11) * 1.1102230246251565404e-16;
}

// Sums, products, quotients and roots as IEEE 754 rounds them, never fused: the same bits as the
// CPU's. (On a GPU the compiler fuses `a * b + c` where nothing forbids it.)
#ifdef __CUDA_ARCH__
__device__ inline float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double divide(double a, double b) { return __ddiv_rn(a, b); }
__device__ inline double root(double a) { return __dsqrt_rn(a); }
#else
inline float mul(float a, float b) { return a * b; }
inline float add(float a, float b) { return a + b; }
inline float divide(float a, float b) { return a / b; }
inline double mul(double a, double b) { return a * b; }
inline double add(double a, double b) { return a + b; }
inline double divide(double a, double b) { return a / b; }
inline double root(double a) { return sqrt(a); }
#endif
__device__ inline float root(float a) { return __fsqrt_rn(a); }

// c[n-1] xⁿ⁻¹ + … + c[0], by Horner's scheme.
template <typename T, int N>
__device__ inline T series(T x, const T (&c)[N]) {
    T y = c[N - 1];
#pragma unroll
    for (int k = N - 2; k >= 0; --k) y = add(mul(y, x), c[k]);
    return y;
}

template <typename T>
struct Pair { T at[2]; };

// The rest of a pair of normal numbers, which both precisions share. With u = (1 + x) 2ᵏ:
// radius √(-2 log u), its sign, and an angle from -π/4 to π/4.
template <typename T, int L, int S, int C>
__device__ inline Pair<T> box_muller(
    T x, T k, T ln2_high, T ln2_low, const T (&log)[L], bool is_negative,
    T angle, const T (&sine_of)[S], const T (&cosine_of)[C], bool is_swapped) {
    T s = divide(x, add(x, (T)2)), z = mul(s, s);
    T half_square = mul(mul(x, x), (T)0.5);
    T tail = add(mul(s, add(half_square, mul(z, series(z, log)))), mul(k, ln2_low));
    T minus_log = add(add(add(half_square, -tail), -x), -mul(k, ln2_high));
    T radius = root(mul(minus_log, (T)2));
    if (is_negative) radius = -radius;
    z = mul(angle, angle);
    T sine = add(angle, mul(mul(angle, z), series(z, sine_of)));
    T cosine = add(add(mul(mul(z, z), series(z, cosine_of)), -mul(z, (T)0.5)), (T)1);
    T first = mul(radius, is_swapped ? sine : cosine);
    T second = mul(radius, is_swapped ? cosine : sine);
    return {{first, second}};
}

// Two independent normal numbers of two words.
__device__ inline Pair<float> normal_pair(uint32 a, uint32 b) {
    const float log[] = {0.66666662693f, 0.40000972152f, 0.28498786688f, 0.24279078841f};
    const float sine[] = {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
    const float cosine[] = {
        4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f};
    float u = add(mul((float)a, 2.3283064365386962890625e-10f), 1.16415321826934814453125e-10f);
    int bits = (int)__float_as_uint(u), k = (bits - 0x3F3504F3) >> 23;
    float x = add(__uint_as_float((uint32)(bits - k * (1 << 23))), -1.0f);
    float angle = mul((float)((int)(b & 0x3FFFFFFFu) - (1 << 29)), 1.4629180792671596e-09f);
    return box_muller(x, (float)k, 6.9313812256e-01f, 9.0580006145e-06f, log, (b >> 31) != 0,
                      angle, sine, cosine, (b >> 30 & 1) != 0);
}

// Two independent normal numbers of four words, joined to two.
__device__ inline Pair<double> normal_pair(uint64 a, uint64 b) {
    const double log[] = {
        6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
        2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
        1.479819860511658591e-01};
    const double sine[] = {
        -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10};
    const double cosine[] = {
        4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11};
    double u = add(mul((double)(a >> 11), 1.1102230246251565404e-16), 5.5511151231257827021e-17);
    int64 bits = __double_as_longlong(u), k = (bits - 0x3FE6A09E667F3BCDll) >> 52;
    double x = add(__longlong_as_double(bits - k * (1ll << 52)), -1.0);
    double angle = mul((double)((int64)(b & 0x3FFFFFFFFFFFFFFFull) - (1ll << 61)),
                       3.4061215800865545e-19);
    return box_muller(x, (double)k, 6.93147180369123816490e-01, 1.90821492927058770002e-10, log,
                      (b >> 63) != 0, angle, sine, cosine, (b >> 62 & 1) != 0);
}
