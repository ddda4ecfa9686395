// Generated kernels as host code: what codegen/device/*.cuh and a kernel need of CUDA, so that
// tests check numbers without a GPU. The threads of a block are fibers of one system thread;
// barriers and shuffles switch between them. A barrier that some threads never reach is reported,
// not waited for.
#pragma once

#include <vector>

#include <math.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

struct EmulatedIndex {
  unsigned x = 0, y = 0, z = 0;
};
inline EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};

namespace emulator {

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  EmulatedIndex index;
  State state = State::kReady;
};

constexpr unsigned kStackBytes = 256 * 1024;
inline std::vector<Fiber> fibers;
inline std::vector<unsigned long long> slots;  // values on their way through a shuffle
inline ucontext_t scheduler;
inline unsigned current = 0;
inline const char* error = nullptr;
inline void (*kernel)(const long* arguments) = nullptr;
inline const long* arguments = nullptr;

inline void wait(State state) {
  Fiber& fiber = fibers[current];
  fiber.state = state;
  swapcontext(&fiber.context, &scheduler);
}

inline void run_fiber() {
  kernel(arguments);
  fibers[current].state = State::kDone;
}

/// Releases the threads [first, last) if all that are not done wait in `state`; reports a barrier
/// that threads have left for good.
inline bool release(unsigned first, unsigned last, State state) {
  bool waits = false, done = false;
  for (unsigned t = first; t < last; ++t) {
    if (fibers[t].state == State::kDone)
      done = true;
    else if (fibers[t].state == state)
      waits = true;
    else
      return false;
  }
  if (!waits) return false;
  if (done && state == State::kAtBlockBarrier) error = "threads left before a barrier";
  for (unsigned t = first; t < last; ++t)
    if (fibers[t].state == state) fibers[t].state = State::kReady;
  return true;
}

inline void run_block() {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  if (fibers.size() < threads) fibers.resize(threads);
  slots.assign(threads, 0);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = fibers[t];
    fiber.stack.resize(kStackBytes);
    fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
    fiber.state = State::kReady;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (;;) {
    bool ran = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (fibers[t].state != State::kReady) continue;
      current = t;
      threadIdx = fibers[t].index;
      swapcontext(&scheduler, &fibers[t].context);
      ran = true;
    }
    for (unsigned warp = 0; warp < threads; warp += 32)
      ran = release(warp, warp + 32 < threads ? warp + 32 : threads, State::kAtWarpBarrier) || ran;
    ran = release(0, threads, State::kAtBlockBarrier) || ran;
    if (ran) continue;
    for (unsigned t = 0; t < threads; ++t)
      if (fibers[t].state != State::kDone) error = "threads wait for each other";
    return;
  }
}

/// Runs a whole grid; returns what went wrong, or null.
inline const char* launch(void (*code)(const long*), const unsigned grid[3],
                          const unsigned block[3], const long* values) {
  kernel = code;
  arguments = values;
  error = nullptr;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  for (unsigned x = 0; x < grid[0] && error == nullptr; ++x) {
    blockIdx = {x, 0, 0};
    run_block();
  }
  return error;
}

template <class T>
T shuffle(T value, unsigned partner) {
  static_assert(sizeof(T) <= 8);
  memcpy(&slots[current], &value, sizeof(T));
  wait(State::kAtWarpBarrier);
  if (partner >= slots.size() || fibers[partner].state == State::kDone)
    error = "a shuffle reads from a lane that is not there";
  else
    memcpy(&value, &slots[partner], sizeof(T));
  wait(State::kAtWarpBarrier);
  return value;
}

inline float bits_to_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned float_to_bits(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float half_to_float(unsigned short half) {
  const unsigned sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
  const unsigned fraction = half & 0x3ffu;
  if (exponent == 31) return bits_to_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

inline unsigned short float_to_half(float value) {
  const unsigned bits = float_to_bits(value);
  const unsigned short sign = static_cast<unsigned short>(bits >> 16 & 0x8000u);
  const float magnitude = fabsf(value);
  if (value != value) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  // In units of the last place of the result, rounded to even by the addition of 1.5 * 2^23.
  int exponent = 0;
  frexpf(magnitude, &exponent);
  const int unit = exponent - 11 < -24 ? -24 : exponent - 11;
  const unsigned count = static_cast<unsigned>(nearbyintf(ldexpf(magnitude, -unit)));
  if (count < 1024) return sign | static_cast<unsigned short>(count);
  return sign | static_cast<unsigned short>(((unit + 24) << 10) + count);
}

inline unsigned short float_to_bfloat(float value) {
  const unsigned bits = float_to_bits(value);
  if (value != value) return static_cast<unsigned short>(bits >> 16 | 0x40u);
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace emulator

inline void __syncthreads() { emulator::wait(emulator::State::kAtBlockBarrier); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulator::shuffle(value, emulator::current ^ static_cast<unsigned>(mask));
}
