// CUDA on a CPU: what our kernels use of CUDA C++, for g++, so that they run without a GPU.
//
// The threads of a block are fibers of one thread of the machine: each runs until it waits (at a
// barrier, in a shuffle or a vote) or ends, then the next one runs. A barrier that is missing is
// therefore a wrong result, not a rare one: the first thread runs past it before the others have
// written. Blocks and threads take turns forward, backward or shuffled, see `launch`.
//
// What CUDA leaves undefined is an error here: threads that wait at different barriers, that have
// ended when others wait, lanes that differ in the mask, a mask without the caller. Shared memory,
// and what is read from a lane that takes no part, is filled with 0xff: NaN, or -1.
#pragma once
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#ifdef CUDA_ON_CPU_CHECK_ADDRESSES  // AddressSanitizer puts its zones only between plain variables
#define __shared__ static
#else
#define __shared__ static __attribute__((section("cuda_shared")))
#endif

// Types -------------------------------------------------------------------------------------------

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define CUDA_ON_CPU_VECTORS(type, name)                                                       \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                    \
  struct name##3 { type x, y, z; };                                                           \
  struct alignas(sizeof(type) == 8 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; };     \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                 \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define uint3 cuda_uint3  // the one above is that of `threadIdx`
CUDA_ON_CPU_VECTORS(float, float)
CUDA_ON_CPU_VECTORS(double, double)
CUDA_ON_CPU_VECTORS(int, int)
CUDA_ON_CPU_VECTORS(unsigned, uint)
CUDA_ON_CPU_VECTORS(short, short)
CUDA_ON_CPU_VECTORS(unsigned short, ushort)
CUDA_ON_CPU_VECTORS(long long, longlong)
#undef uint3

template <class To, class From> inline To cuda_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "bits of another size");
  To bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline int __float_as_int(float x) { return cuda_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return cuda_bits<unsigned>(x); }
inline float __int_as_float(int x) { return cuda_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return cuda_bits<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cuda_bits<double>(x); }

// 16-bit floats: arithmetic is in float32, and each result is rounded to the nearest, ties to even.
namespace cuda_on_cpu {
inline float half_to_float(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023u;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * std::ldexp((float)mantissa, -24);
  return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
}
inline unsigned short float_to_half(float x) {
  const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return sign | 0x7e00u;  // NaN
  if (size >= 0x477ff000u) return sign | 0x7c00u;  // 65,520 and more round to infinity
  if (size < 0x38800000u)  // a subnormal: a multiple of 2⁻²⁴
    return sign | (unsigned)std::nearbyint(std::ldexp(__uint_as_float(size), 24));
  const unsigned odd = size >> 13 & 1;
  return sign | ((size - 0x38000000u + 0xfffu + odd) >> 13);
}
inline float bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
inline unsigned short float_to_bfloat16(float x) {
  const unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_SHORT_FLOAT(name, widen, narrow)                             \
  struct name {                                                                  \
    unsigned short bits;                                                         \
    name() = default;                                                            \
    name(float x) : bits(cuda_on_cpu::narrow(x)) {}                              \
    operator float() const { return cuda_on_cpu::widen(bits); }                  \
    name& operator+=(name other) { return *this = name((float)*this + (float)other); } \
  };
CUDA_ON_CPU_SHORT_FLOAT(__half, half_to_float, float_to_half)
CUDA_ON_CPU_SHORT_FLOAT(__nv_bfloat16, bfloat16_to_float, float_to_bfloat16)
using half = __half;
using nv_bfloat16 = __nv_bfloat16;
struct alignas(4) __half2 { __half x, y; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
inline float __half2float(__half x) { return x; }
inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half __ushort_as_half(unsigned short x) { return cuda_bits<__half>(x); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return cuda_bits<__nv_bfloat16>(x); }

// Functions ---------------------------------------------------------------------------------------

// <cmath> has expf, erff, fmaf and the like under CUDA's names.
using std::isfinite;
using std::isinf;
using std::isnan;
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678118654752f); }
inline float sinpif(float x) { return (float)std::sin(3.14159265358979323846 * x); }
inline float cospif(float x) { return (float)std::cos(3.14159265358979323846 * x); }
inline double sinpi(double x) { return std::sin(3.14159265358979323846 * x); }
inline double cospi(double x) { return std::cos(3.14159265358979323846 * x); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }
inline void sincospi(double x, double* sine, double* cosine) { *sine = sinpi(x), *cosine = cospi(x); }
inline int min(int x, int y) { return x < y ? x : y; }
inline int max(int x, int y) { return x > y ? x : y; }
inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
inline unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }
inline long long min(long long x, long long y) { return x < y ? x : y; }
inline long long max(long long x, long long y) { return x > y ? x : y; }
inline float min(float x, float y) { return std::fmin(x, y); }
inline float max(float x, float y) { return std::fmax(x, y); }
inline double min(double x, double y) { return std::fmin(x, y); }
inline double max(double x, double y) { return std::fmax(x, y); }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((uint64_t)x * y >> 32); }
inline int __mulhi(int x, int y) { return (int)((int64_t)x * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
template <class T> inline T __ldg(const T* address) { return *address; }
template <class T> inline T __ldcs(const T* address) { return *address; }
template <class T> inline void __stcs(T* address, T value) { *address = value; }
inline void __threadfence() {}
inline void __threadfence_block() {}

// A thread is interrupted only where it waits, so plain statements are atomic.
template <class T> struct cuda_same { using type = T; };
#define CUDA_ON_CPU_ATOMIC(name, result)                                              \
  template <class T> inline T name(T* address, typename cuda_same<T>::type value) {  \
    const T old = *address;                                                          \
    *address = result;                                                               \
    return old;                                                                      \
  }
CUDA_ON_CPU_ATOMIC(atomicAdd, old + value)
CUDA_ON_CPU_ATOMIC(atomicSub, old - value)
CUDA_ON_CPU_ATOMIC(atomicMax, old > value ? old : value)
CUDA_ON_CPU_ATOMIC(atomicMin, old < value ? old : value)
CUDA_ON_CPU_ATOMIC(atomicOr, old | value)
CUDA_ON_CPU_ATOMIC(atomicAnd, old & value)
CUDA_ON_CPU_ATOMIC(atomicXor, old ^ value)
CUDA_ON_CPU_ATOMIC(atomicExch, value)
template <class T>
inline T atomicCAS(T* address, typename cuda_same<T>::type compare, typename cuda_same<T>::type value) {
  const T old = *address;
  if (old == compare) *address = value;
  return old;
}

// Fibers ------------------------------------------------------------------------------------------

static dim3 blockIdx, blockDim, gridDim;
static uint3 threadIdx;
static const int warpSize = 32;
static unsigned char* cuda_dynamic_shared;  // `extern __shared__ T x[];` becomes a pointer to it

#ifndef CUDA_ON_CPU_CHECK_ADDRESSES
// The linker knows where the section of the shared variables begins and ends.
extern "C" unsigned char __start_cuda_shared[] __attribute__((weak, visibility("hidden")));
extern "C" unsigned char __stop_cuda_shared[] __attribute__((weak, visibility("hidden")));
#endif

namespace cuda_on_cpu {

const unsigned MAX_THREADS = 1024, MAX_SHARED = 232448, GUARD = 256;
const size_t STACK = 1 << 18;

enum State { READY, AT_BARRIER, IN_WARP, DONE };
enum Operation { SYNC, INDEX, UP, DOWN, XOR, BALLOT, ANY, ALL, MATCH, ADD, LEAST, MOST };

// What a lane brings to an operation of its warp, or a thread to a barrier with a predicate.
struct Request {
  Operation operation;
  int line;
  unsigned mask;
  int argument, width;
  unsigned long long value, result;
};

struct Fiber {
  ucontext_t context;
  jmp_buf place;
  bool is_started;
  State state;
  uint3 index;
  Request request;
};

static Fiber fibers[MAX_THREADS];
static unsigned char* stacks;
static ucontext_t scheduler_context;
static jmp_buf scheduler_place;
static Fiber* current;
static void (*body)();
static char problem[512];

#define CUDA_ON_CPU_FAIL(...) \
  do { if (!problem[0]) std::snprintf(problem, sizeof problem, __VA_ARGS__); } while (0)

// Give the turn back to the scheduler. A swap of contexts asks the system for the signal mask each
// time, a jump does not; but AddressSanitizer takes a jump to another stack for an error.
inline void pause_fiber() {
#ifdef CUDA_ON_CPU_CHECK_ADDRESSES
  Fiber* fiber = current;
  swapcontext(&fiber->context, &scheduler_context);
#else
  if (!_setjmp(current->place)) _longjmp(scheduler_place, 1);
#endif
}

// A fiber lives on from block to block: it takes up the next one where it ended the last.
static void run_fiber() {
  for (;;) {
    body();
    current->state = DONE;
    pause_fiber();
  }
}

static void resume_fiber(unsigned number) {
  Fiber& fiber = fibers[number];
  current = &fiber;
  threadIdx = fiber.index;
  if (!fiber.is_started) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks + number * STACK;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
    fiber.is_started = true;
#ifndef CUDA_ON_CPU_CHECK_ADDRESSES
    if (!_setjmp(scheduler_place)) setcontext(&fiber.context);
    return;
#endif
  }
#ifdef CUDA_ON_CPU_CHECK_ADDRESSES
  swapcontext(&scheduler_context, &fiber.context);
#else
  if (!_setjmp(scheduler_place)) _longjmp(fiber.place, 1);
#endif
}

inline unsigned thread_number() { return (unsigned)(current - fibers); }

// Barriers of the block -----------------------------------------------------------------------

inline unsigned long long wait_at_barrier(int line, unsigned long long value = 0) {
  current->request = {SYNC, line, 0, 0, 0, value, 0};
  current->state = AT_BARRIER;
  pause_fiber();
  return current->request.result;
}

// Let all threads go on if all wait at the same barrier.
static bool release_barrier(unsigned threads) {
  unsigned long long count = 0;
  for (unsigned i = 0; i < threads; i++) {
    if (fibers[i].state != AT_BARRIER || fibers[i].request.line != fibers[0].request.line) return false;
    count += fibers[i].request.value != 0;
  }
  for (unsigned i = 0; i < threads; i++) fibers[i].request.result = count, fibers[i].state = READY;
  return true;
}

// Operations of a warp --------------------------------------------------------------------------

static int source_lane(const Request& request, int lane) {
  const int first = lane & ~(request.width - 1), end = first + request.width;
  int source = lane;
  if (request.operation == INDEX) source = first | (request.argument & (request.width - 1));
  if (request.operation == UP) source = lane - request.argument < first ? lane : lane - request.argument;
  if (request.operation == DOWN) source = lane + request.argument >= end ? lane : lane + request.argument;
  if (request.operation == XOR) source = (lane ^ request.argument) >= end ? lane : lane ^ request.argument;
  return source & 31;
}

static void compute_warp(Fiber* warp, unsigned lanes) {
  unsigned votes = 0, matches;
  unsigned long long sum = 0, least = ~0ull, most = 0;
  for (int i = 0; i < 32; i++) {
    if (!(lanes >> i & 1)) continue;
    const unsigned long long value = warp[i].request.value;
    votes |= (unsigned)(value != 0) << i;
    sum += value, least = value < least ? value : least, most = value > most ? value : most;
  }
  for (int i = 0; i < 32; i++) {
    if (!(lanes >> i & 1)) continue;
    Request& request = warp[i].request;
    const int source = source_lane(request, i);
    switch (request.operation) {
      case SYNC: break;
      case BALLOT: request.result = votes; break;
      case ANY: request.result = votes != 0; break;
      case ALL: request.result = votes == lanes; break;
      case ADD: request.result = sum; break;
      case LEAST: request.result = least; break;
      case MOST: request.result = most; break;
      case MATCH:
        matches = 0;
        for (int j = 0; j < 32; j++)
          if (lanes >> j & 1 && warp[j].request.value == request.value) matches |= 1u << j;
        request.result = matches;
        break;
      default: request.result = lanes >> source & 1 ? warp[source].request.value : ~0ull;
    }
  }
}

// Compute the operation of a warp and let its lanes go on, if all lanes of the mask have come.
static void release_warp(unsigned number, unsigned threads) {
  Fiber* warp = fibers + (number & ~31u);
  const Request& asked = fibers[number].request;
  unsigned lanes = 0;
  for (unsigned i = 0; i < 32; i++) {
    if (!(asked.mask >> i & 1) || (number & ~31u) + i >= threads || warp[i].state == DONE) continue;
    const Request& other = warp[i].request;
    if (warp[i].state != IN_WARP || other.line != asked.line || other.mask != asked.mask) return;
    lanes |= 1u << i;
  }
  compute_warp(warp, lanes);
  for (unsigned i = 0; i < 32; i++)
    if (lanes >> i & 1) warp[i].state = READY;
}

inline unsigned long long ask_warp(Operation operation, int line, unsigned mask,
                                   unsigned long long value, int argument = 0, int width = 32) {
  if (!(mask >> (thread_number() & 31) & 1))
    CUDA_ON_CPU_FAIL("line %d: the mask %#x does not name the lane that calls", line, mask);
  if (width < 1 || width > 32 || (width & (width - 1)))
    CUDA_ON_CPU_FAIL("line %d: a width of %d lanes", line, width);
  current->request = {operation, line, mask, argument, width, value, 0};
  current->state = IN_WARP;
  pause_fiber();
  return current->request.result;
}

template <class T>
inline T shuffle(Operation operation, int line, unsigned mask, T value, int argument, int width = 32) {
  static_assert(sizeof(T) <= 8, "a shuffle of more than 8 bytes");
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = ask_warp(operation, line, mask, bits, argument, width);
  std::memcpy((void*)&value, &bits, sizeof value);
  return value;
}

// The launch ----------------------------------------------------------------------------------------

static void shuffle_order(unsigned* order, unsigned count, int how, unsigned seed) {
  for (unsigned i = 0; i < count; i++) order[i] = how == 1 ? count - 1 - i : i;
  if (how < 2) return;
  uint64_t state = seed * 2654435761u + 88172645463325252ull;
  for (unsigned i = count; i > 1; i--) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    std::swap(order[i - 1], order[state % i]);
  }
}

// The order of the threads of a block: warp by warp.
static void shuffle_threads(unsigned* order, unsigned threads, int how, unsigned seed) {
  unsigned warps[MAX_THREADS / 32], lanes[32], count = 0;
  shuffle_order(warps, (threads + 31) / 32, how, seed);
  for (unsigned i = 0; i < (threads + 31) / 32; i++) {
    const unsigned first = 32 * warps[i], size = threads - first < 32 ? threads - first : 32;
    shuffle_order(lanes, size, how, seed + i);
    for (unsigned j = 0; j < size; j++) order[count++] = first + lanes[j];
  }
}

static void describe_stuck(unsigned threads) {
  for (unsigned i = 0; i < threads; i++)
    for (unsigned j = 0; j < i; j++) {
      const Fiber &one = fibers[j], &other = fibers[i];
      if (one.state == other.state && one.request.line == other.request.line) continue;
      const char* words[] = {"is ready", "waits at the barrier", "waits for its warp", "has ended after"};
      CUDA_ON_CPU_FAIL("threads wait for each other: thread %u %s of line %d, thread %u %s of line %d",
                       j, words[one.state], one.request.line, i, words[other.state], other.request.line);
    }
  CUDA_ON_CPU_FAIL("threads wait for each other, with different masks");
}

static void run_block(const unsigned* order, unsigned threads, unsigned shared_bytes) {
#ifndef CUDA_ON_CPU_CHECK_ADDRESSES
  if (__start_cuda_shared) std::memset(__start_cuda_shared, 0xff, __stop_cuda_shared - __start_cuda_shared);
#endif
  std::memset(cuda_dynamic_shared, 0xff, shared_bytes + GUARD);
  for (unsigned i = 0; i < threads; i++) {
    fibers[i].state = READY;
    fibers[i].request.line = 0;
    fibers[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  }
  for (unsigned done = 0; done < threads && !problem[0];) {
    bool has_moved = false;
    // A warp runs as far as it can before the next one does: so it overtakes the others wherever
    // no barrier holds it back. Its lanes stand side by side in `order`.
    for (unsigned k = 0; k < threads && !problem[0];) {
      const unsigned warp = order[k] / 32;
      unsigned end = k;
      bool is_ready = false;
      for (; end < threads && order[end] / 32 == warp && !problem[0]; end++) {
        const unsigned i = order[end];
        if (fibers[i].state != READY) continue;
        is_ready = has_moved = true;
        resume_fiber(i);
        if (fibers[i].state == DONE) done++;
        if (fibers[i].state == IN_WARP) release_warp(i, threads);
      }
      if (!is_ready) k = end;
    }
    // A lane that has ended is no longer waited for: ask again for those that wait.
    if (!has_moved && !release_barrier(threads)) {
      bool is_released = false;
      for (unsigned i = 0; i < threads && !is_released; i++)
        if (fibers[i].state == IN_WARP) release_warp(i, threads), is_released = fibers[i].state == READY;
      if (!is_released && done < threads) describe_stuck(threads);
    }
  }
  for (unsigned i = 0; i < GUARD; i++)
    if (cuda_dynamic_shared[shared_bytes + i] != 0xff)
      CUDA_ON_CPU_FAIL("byte %u behind the dynamic shared memory was written", i);
}

template <class Kernel> struct Call;
template <class... P> struct Call<void (*)(P...)> {
  static void (*kernel)(P...);
  static void** arguments;
  template <size_t... I> static void spread(std::index_sequence<I...>) {
    kernel(*(typename std::remove_cv<P>::type*)arguments[I]...);
  }
  static void run() { spread(std::index_sequence_for<P...>()); }
};
template <class... P> void (*Call<void (*)(P...)>::kernel)(P...);
template <class... P> void** Call<void (*)(P...)>::arguments;

// Run all blocks in an order (0: forward, 1: backward, 2: shuffled); return what was wrong, or null.
template <class... P>
const char* launch(void (*kernel)(P...), void** arguments, const unsigned* grid, const unsigned* block,
                   unsigned shared_bytes, int order, unsigned seed) {
  problem[0] = 0;
  const unsigned threads = block[0] * block[1] * block[2], blocks = grid[0] * grid[1] * grid[2];
  if (!threads || threads > MAX_THREADS) CUDA_ON_CPU_FAIL("%u threads in a block", threads);
  if (!blocks || grid[1] > 65535 || grid[2] > 65535) CUDA_ON_CPU_FAIL("a grid of %u blocks", blocks);
  if (shared_bytes > MAX_SHARED) CUDA_ON_CPU_FAIL("%u bytes of shared memory", shared_bytes);
  if (problem[0]) return problem;
  if (!stacks)
    stacks = (unsigned char*)mmap(nullptr, MAX_THREADS * STACK, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  static unsigned char* memory = new unsigned char[MAX_SHARED + GUARD + 128];
  cuda_dynamic_shared = (unsigned char*)(((uintptr_t)memory + 127) & ~(uintptr_t)127);
  Call<void (*)(P...)>::kernel = kernel;
  Call<void (*)(P...)>::arguments = arguments;
  body = Call<void (*)(P...)>::run;
  gridDim = dim3(grid[0], grid[1], grid[2]);
  blockDim = dim3(block[0], block[1], block[2]);
  unsigned thread_order[MAX_THREADS], *block_order = new unsigned[blocks];
  shuffle_order(block_order, blocks, order, seed);
  for (unsigned i = 0; i < blocks && !problem[0]; i++) {
    const unsigned b = block_order[i];
    blockIdx = dim3(b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]);
    shuffle_threads(thread_order, threads, order, seed + b + 1);
    run_block(thread_order, threads, shared_bytes);
  }
  delete[] block_order;
  // Fibers that stopped in the middle of a block start anew.
  if (problem[0])
    for (Fiber& fiber : fibers) fiber.is_started = false;
  return problem[0] ? problem : nullptr;
}

// The types of a kernel's parameters, as NumPy's letters: "*f4 i4", "*?" for a pointer to anything.
template <class T> const char* letter() {
  using U = typename std::remove_cv<T>::type;
  if (std::is_same<U, __half>::value) return "f2";
  if (std::is_same<U, __nv_bfloat16>::value) return "b2";
  if (std::is_same<U, bool>::value) return "?1";
  if (std::is_floating_point<U>::value) return sizeof(T) == 4 ? "f4" : "f8";
  if (!std::is_integral<U>::value) {  // `float16` and `bfloat16` of common.cuh
    if (std::strstr(__PRETTY_FUNCTION__, "bfloat16;") || std::strstr(__PRETTY_FUNCTION__, "bfloat16]")) return "b2";
    return std::strstr(__PRETTY_FUNCTION__, "float16;") || std::strstr(__PRETTY_FUNCTION__, "float16]") ? "f2" : "??";
  }
  const char* names[] = {"u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"};
  const int power = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return names[2 * power + std::is_signed<U>::value];
}
template <> inline const char* letter<void>() { return "??"; }
template <> inline const char* letter<const void>() { return "??"; }
template <class... P> const char* signature(void (*)(P...)) {
  static char text[1024];
  text[0] = 0;
  const char* stars[] = {(std::is_pointer<P>::value ? "*" : "")..., ""};
  const char* letters[] = {letter<typename std::remove_pointer<P>::type>()..., ""};
  for (size_t i = 0; i < sizeof...(P); i++)
    std::strcat(std::strcat(std::strcat(text, i ? " " : ""), stars[i]), letters[i]);
  return text;
}
}  // namespace cuda_on_cpu

// The names of CUDA, each with the line that it stands in.
#define __syncthreads() cuda_on_cpu::wait_at_barrier(__LINE__)
#define __syncthreads_count(p) ((int)cuda_on_cpu::wait_at_barrier(__LINE__, !!(p)))
#define __syncthreads_or(p) ((int)(cuda_on_cpu::wait_at_barrier(__LINE__, !!(p)) != 0))
#define __syncthreads_and(p) ((int)(cuda_on_cpu::wait_at_barrier(__LINE__, !(p)) == 0))
inline unsigned cuda_mask(unsigned mask = 0xffffffffu) { return mask; }
#define __syncwarp(...) cuda_on_cpu::ask_warp(cuda_on_cpu::SYNC, __LINE__, cuda_mask(__VA_ARGS__), 0)
#define __shfl_sync(mask, ...) cuda_on_cpu::shuffle(cuda_on_cpu::INDEX, __LINE__, mask, __VA_ARGS__)
#define __shfl_up_sync(mask, ...) cuda_on_cpu::shuffle(cuda_on_cpu::UP, __LINE__, mask, __VA_ARGS__)
#define __shfl_down_sync(mask, ...) cuda_on_cpu::shuffle(cuda_on_cpu::DOWN, __LINE__, mask, __VA_ARGS__)
#define __shfl_xor_sync(mask, ...) cuda_on_cpu::shuffle(cuda_on_cpu::XOR, __LINE__, mask, __VA_ARGS__)
#define CUDA_ON_CPU_ASK(operation, mask, value) \
  cuda_on_cpu::ask_warp(cuda_on_cpu::operation, __LINE__, mask, value)
#define __ballot_sync(mask, p) ((unsigned)CUDA_ON_CPU_ASK(BALLOT, mask, !!(p)))
#define __any_sync(mask, p) ((int)CUDA_ON_CPU_ASK(ANY, mask, !!(p)))
#define __all_sync(mask, p) ((int)CUDA_ON_CPU_ASK(ALL, mask, !!(p)))
#define __match_any_sync(mask, value) ((unsigned)CUDA_ON_CPU_ASK(MATCH, mask, (unsigned long long)(value)))
#define __reduce_add_sync(mask, value) ((unsigned)CUDA_ON_CPU_ASK(ADD, mask, (unsigned)(value)))
#define __reduce_min_sync(mask, value) ((unsigned)CUDA_ON_CPU_ASK(LEAST, mask, (unsigned)(value)))
#define __reduce_max_sync(mask, value) ((unsigned)CUDA_ON_CPU_ASK(MOST, mask, (unsigned)(value)))
