// Random numbers, written once and read by nobody here: each thread makes whole blocks of words.
#include "philox.cuh"

// Write `count` of N numbers at `y`; all of them by one instruction.
template <typename T, int N>
__device__ inline void write(T *y, const Pack<T, N> &numbers, int64 count) {
    if (count >= N) *(Pack<T, N> *)y = numbers;
    else for (int i = 0; i < count; ++i) y[i] = numbers.at[i];
}

struct UniformFloat {
    __device__ static Pack<float, 4> of(const Words &w) {
        return {{uniform_float(w.at[0]), uniform_float(w.at[1]),
                 uniform_float(w.at[2]), uniform_float(w.at[3])}};
    }
};

struct UniformDouble {
    __device__ static Pack<double, 2> of(const Words &w) {
        return {{uniform_double(w.at[0], w.at[1]), uniform_double(w.at[2], w.at[3])}};
    }
};

struct NormalFloat {
    __device__ static Pack<float, 4> of(const Words &w) {
        Pair<float> one = normal_pair(w.at[0], w.at[1]), two = normal_pair(w.at[2], w.at[3]);
        return {{one.at[0], one.at[1], two.at[0], two.at[1]}};
    }
};

struct NormalDouble {
    __device__ static Pack<double, 2> of(const Words &w) {
        Pair<double> one = normal_pair(joined(w.at[0], w.at[1]), joined(w.at[2], w.at[3]));
        return {{one.at[0], one.at[1]}};
    }
};

// Fill y[0 … size) with the numbers that `Of` makes of a block of words, N at a time.
template <typename Of, int N, typename T>
__device__ inline void fill(Generator *memory, uint64 blocks, T *y, int64 size) {
    Generator from = read_generator(memory);
    finish_draw(memory, from.offset, blocks);
    for (int64 i = global_index(); i * N < size; i += global_size())
        write(y + i * N, Of::of(draw_block(from, i)), size - i * N);
}

// Hand out the blocks of a draw whose numbers other kernels compute.
extern "C" __global__ void place_draw(Generator *memory, uint64 blocks, uint64 *place) {
    place[0] = memory->seed;
    place[1] = memory->offset;
    memory->offset += blocks;
}

// y[i] = element i of a draw that has its place.
extern "C" __global__ void fill_uniform_at(const uint64 *place, float *y, int64 size) {
    Generator draw = {place[0], place[1], 0};
    for (int64 i = global_index(); i < size; i += global_size())
        y[i] = uniform_float(word_of(draw_block(draw, i / 4), i));
}

extern "C" __global__ void fill_uniform_float(
    Generator *memory, uint64 blocks, float *y, int64 size) {
    fill<UniformFloat, 4>(memory, blocks, y, size);
}

extern "C" __global__ void fill_uniform_double(
    Generator *memory, uint64 blocks, double *y, int64 size) {
    fill<UniformDouble, 2>(memory, blocks, y, size);
}

extern "C" __global__ void fill_normal_float(
    Generator *memory, uint64 blocks, float *y, int64 size) {
    fill<NormalFloat, 4>(memory, blocks, y, size);
}

extern "C" __global__ void fill_normal_double(
    Generator *memory, uint64 blocks, double *y, int64 size) {
    fill<NormalDouble, 2>(memory, blocks, y, size);
}

// y[i] = low + an integer below `values`, of at most 2³² ones, each exactly as likely.
extern "C" __global__ void fill_integers(
    Generator *memory, uint64 blocks, int64 *y, int64 size, int64 low, uint64 values) {
    Generator from = read_generator(memory);
    finish_draw(memory, from.offset, blocks);
    uint32 refused_below = (uint32)((1ull << 32) % values);
    for (int64 i = global_index(); i < size; i += global_size()) {
        uint64 product;
        uint32 attempt = 0;
        do product = draw_block(from, i / 4, attempt++).at[i % 4] * values;
        while ((uint32)product < refused_below);
        y[i] = low + (int64)(product >> 32);
    }
}

// The same for more values: the bits of `mask` of two words, until they are in the range.
extern "C" __global__ void fill_wide_integers(
    Generator *memory, uint64 blocks, int64 *y, int64 size, int64 low, uint64 mask, uint64 last) {
    Generator from = read_generator(memory);
    finish_draw(memory, from.offset, blocks);
    for (int64 i = global_index(); i < size; i += global_size()) {
        uint64 value;
        uint32 attempt = 0;
        do {
            Words w = draw_block(from, i / 2, attempt++);
            value = (i % 2 ? joined(w.at[2], w.at[3]) : joined(w.at[0], w.at[1])) & mask;
        } while (value > last);
        y[i] = (int64)((uint64)low + value);
    }
}

// y[i] = 64 random bits, the low ones of `mask` replaced by i: sorted, they are a permutation.
extern "C" __global__ void fill_sort_keys(
    Generator *memory, uint64 blocks, uint64 *y, int64 size, uint64 mask) {
    Generator from = read_generator(memory);
    finish_draw(memory, from.offset, blocks);
    for (int64 i = global_index(); i * 2 < size; i += global_size()) {
        Words w = draw_block(from, i);
        y[i * 2] = (joined(w.at[0], w.at[1]) & ~mask) | (uint64)(i * 2);
        if (i * 2 + 1 < size)
            y[i * 2 + 1] = (joined(w.at[2], w.at[3]) & ~mask) | (uint64)(i * 2 + 1);
    }
}

// y[i] = `kept` where a uniform number is not below `probability`, else 0: the mask of dropout.
template <typename T, typename Wide>
__device__ inline void fill_mask(
    Generator *memory, uint64 blocks, T *y, int64 size, float probability, Wide kept) {
    Generator from = read_generator(memory);
    finish_draw(memory, from.offset, blocks);
    T zero = narrow<T>((Wide)0), scale = narrow<T>(kept);
    for (int64 i = global_index(); i * 4 < size; i += global_size()) {
        Words w = draw_block(from, i);
        Pack<T, 4> mask;
        for (int j = 0; j < 4; ++j)
            mask.at[j] = uniform_float(w.at[j]) >= probability ? scale : zero;
        write(y + i * 4, mask, size - i * 4);
    }
}

extern "C" __global__ void fill_mask_float16(
    Generator *memory, uint64 blocks, float16 *y, int64 size, float probability, double kept) {
    fill_mask(memory, blocks, y, size, probability, (float)kept);
}

extern "C" __global__ void fill_mask_bfloat16(
    Generator *memory, uint64 blocks, bfloat16 *y, int64 size, float probability, double kept) {
    fill_mask(memory, blocks, y, size, probability, (float)kept);
}

extern "C" __global__ void fill_mask_float(
    Generator *memory, uint64 blocks, float *y, int64 size, float probability, double kept) {
    fill_mask(memory, blocks, y, size, probability, (float)kept);
}

extern "C" __global__ void fill_mask_double(
    Generator *memory, uint64 blocks, double *y, int64 size, float probability, double kept) {
    fill_mask(memory, blocks, y, size, probability, kept);
}
