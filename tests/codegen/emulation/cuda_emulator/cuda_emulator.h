// SPDX-License-Identifier: Apache-2.0
// Generated kernels as host code: what codegen/device/*.cuh and a kernel need of CUDA, so that
// tests check numbers without a GPU. The threads of a cluster are fibers of one system thread;
// barriers and shuffles switch between them. A barrier that some threads never reach is reported,
// not waited for.
#pragma once

#include <chrono>
#include <deque>
#include <vector>

#include <math.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// Several ranks run at once, each on a system thread of its own.
#ifdef SINTER_EMULATED_RANKS
#define SINTER_EMULATED thread_local
#else
#define SINTER_EMULATED
#endif
#define __shared__ static SINTER_EMULATED

struct EmulatedIndex {
  unsigned x = 0, y = 0, z = 0;
};
inline SINTER_EMULATED EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};

namespace emulator {

enum class State {
  kReady,
  kAtClusterBarrier,
  kAtBlockBarrier,
  kAtWarpBarrier,
  kAtOtherBlocks,
  kDone
};

/// A copy to shared memory that is under way: it lands when its thread waits for it, no sooner.
struct PendingCopy {
  void* to;
  int bytes;
  char data[16];
};

struct Fiber {
  ucontext_t start;  // where it begins
  bool began = false;
  void* resume[5] = {};  // where it waits
  std::vector<char> stack;
  EmulatedIndex index, block;
  State state = State::kReady;
  const void* shown = nullptr;                  // what the other lanes of the warp may read
  std::deque<std::vector<PendingCopy>> copies;  // groups, oldest first
  std::vector<PendingCopy> uncommitted;
};

constexpr unsigned kStackBytes = 256 * 1024;
inline SINTER_EMULATED std::vector<Fiber> fibers;
inline SINTER_EMULATED std::vector<unsigned long long>
    slots;                                       // values on their way through a shuffle
inline SINTER_EMULATED void* scheduler[5] = {};  // where it waits for a fiber
inline SINTER_EMULATED unsigned current = 0;
inline SINTER_EMULATED const char* error = nullptr;
// Dynamic shared memory of each block of a cluster. Static shared memory is one for all of them: a
// kernel for clusters must not use it.
constexpr unsigned kMostBlocks = 16, kSharedBytes = 227 * 1024;
alignas(128) inline SINTER_EMULATED unsigned char shared_memory[kMostBlocks][kSharedBytes];
inline SINTER_EMULATED unsigned threads_of_block = 1, blocks_of_cluster = 1;
inline SINTER_EMULATED void (*kernel)(const long* arguments) = nullptr;
inline SINTER_EMULATED const long* arguments = nullptr;

[[noreturn]] __attribute__((noinline)) inline void jump(void** to) { __builtin_longjmp(to, 1); }

/// swapcontext, but without its two system calls for the signal mask, which were most of the time.
__attribute__((noinline)) inline void leave_fiber(Fiber& fiber) {
  if (__builtin_setjmp(fiber.resume) == 0) jump(scheduler);
}
__attribute__((noinline)) inline void enter_fiber(Fiber& fiber) {
  if (__builtin_setjmp(scheduler) != 0) return;
  if (fiber.began) jump(fiber.resume);
  fiber.began = true;
  setcontext(&fiber.start);
}

inline void wait(State state) {
  Fiber& fiber = fibers[current];
  fiber.state = state;
  leave_fiber(fiber);
}

/// Lets other threads run until something holds, which some thread has to see to.
template <class Test>
void wait_until(Test holds) {
  for (long turns = 0; !holds(); ++turns) {
    if (turns > 1000000) {
      error = "a thread waits for what does not happen";
      return;
    }
    wait(State::kReady);
  }
}

/// Lets other blocks of the grid run until something holds, which one of them has to see to. A
/// block holds nothing in static shared memory here, which is one for all.
template <class Test>
void wait_for_blocks(Test holds) {
  for (long turns = 0; !holds(); ++turns) {
    if (turns > 100000) {
      error = "a block waits for what does not happen";
      return;
    }
    wait(State::kAtOtherBlocks);
  }
}

/// The hardware's numbered barriers: some threads wait until `threads` have come, others only come.
struct NumberedBarrier {
  unsigned came = 0, turn = 0;
};
constexpr unsigned kBarriers = 16;
inline SINTER_EMULATED NumberedBarrier barriers[kMostBlocks][kBarriers];

inline void come_to_barrier(int number, unsigned threads, bool waits) {
  NumberedBarrier& barrier = barriers[current / threads_of_block][number];
  const unsigned turn = barrier.turn;
  if (++barrier.came == threads) {
    barrier.came = 0;
    ++barrier.turn;
  } else if (waits) {
    wait_until([&] { return barrier.turn != turn; });
  }
}

inline void run_fiber() {
  kernel(arguments);
  fibers[current].state = State::kDone;
  jump(scheduler);
}

/// The running thread's block's dynamic shared memory.
inline unsigned char* dynamic_shared() { return shared_memory[current / threads_of_block]; }
inline bool has_ended(unsigned block) {
  for (unsigned t = block * threads_of_block; t < (block + 1) * threads_of_block; ++t)
    if (fibers[t].state != State::kDone) return false;
  return true;
}
template <class T>
T* of_block(T* shared, unsigned rank) {
  auto* bytes = reinterpret_cast<const unsigned char*>(shared);
  const long offset = bytes - dynamic_shared();
  if (offset < 0 || offset >= static_cast<long>(kSharedBytes) || rank >= blocks_of_cluster)
    error = "an address in another block's shared memory is not in shared memory";
  else if (has_ended(rank))
    error = "shared memory of a block that has ended";
  return reinterpret_cast<T*>(shared_memory[rank] + offset);
}

/// Releases the threads [first, last) if all that are not done wait in `state`; reports a barrier
/// that threads have left for good. Of a cluster, whole blocks may have ended.
inline bool release(unsigned first, unsigned last, State state) {
  bool waits = false, done = false;  // of a block
  bool any_waits = false, left = false;
  for (unsigned t = first; t < last; ++t) {
    if (t % threads_of_block == 0) waits = done = false;
    if (fibers[t].state == State::kDone)
      done = true;
    else if (fibers[t].state == state)
      waits = any_waits = true;
    else
      return false;
    left = left || (done && waits);
  }
  if (!any_waits) return false;
  if (left && state != State::kAtWarpBarrier) error = "threads left before a barrier";
  for (unsigned t = first; t < last; ++t)
    if (fibers[t].state == state) fibers[t].state = State::kReady;
  return true;
}

/// Runs threads [first, last), which are whole blocks, until none of them can go on.
inline bool run_threads(unsigned first, unsigned last) {
  bool any = false;
  for (bool ran = true; ran; any = any || ran) {
    ran = false;
    for (unsigned t = first; t < last; ++t) {
      if (fibers[t].state != State::kReady) continue;
      current = t;
      threadIdx = fibers[t].index;
      blockIdx = fibers[t].block;
      enter_fiber(fibers[t]);
      ran = true;
    }
    for (unsigned b = first; b < last; b += threads_of_block) {
      const unsigned end = b + threads_of_block;
      for (unsigned warp = b; warp < end; warp += 32)
        ran = release(warp, warp + 32 < end ? warp + 32 : end, State::kAtWarpBarrier) || ran;
      ran = release(b, end, State::kAtBlockBarrier) || ran;
    }
    ran = release(first, last, State::kAtClusterBarrier) || ran;
  }
  return any;
}

/// Runs the blocks of a cluster from number `first` on. `in_turn`: each until it waits for others.
inline void run_cluster(unsigned first, bool in_turn) {
  threads_of_block = blockDim.x * blockDim.y * blockDim.z;
  const unsigned threads = threads_of_block * blocks_of_cluster;
  if (fibers.size() < threads) fibers.resize(threads);
  slots.assign(threads, 0);
  // What is read before it is written shows: these bits are no number.
  for (unsigned b = 0; b < blocks_of_cluster; ++b) {
    memset(shared_memory[b], 0xff, kSharedBytes);
    for (NumberedBarrier& barrier : barriers[b]) barrier = {};
  }
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = fibers[t];
    const unsigned at = t % threads_of_block, block = first + t / threads_of_block;
    fiber.stack.resize(kStackBytes);
    fiber.index = {at % blockDim.x, at / blockDim.x % blockDim.y, at / blockDim.x / blockDim.y};
    fiber.block = {block % gridDim.x, block / gridDim.x % gridDim.y, block / gridDim.x / gridDim.y};
    fiber.state = State::kReady;
    fiber.copies.clear();
    fiber.uncommitted.clear();
    fiber.began = false;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.data();
    fiber.start.uc_stack.ss_size = fiber.stack.size();
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, run_fiber, 0);
  }
  for (;;) {
    bool ran = false;
    if (!in_turn) {
      run_threads(0, threads);
    } else {
      for (unsigned b = 0; b < threads; b += threads_of_block) {
        for (unsigned t = b; t < b + threads_of_block; ++t)
          if (fibers[t].state == State::kAtOtherBlocks) fibers[t].state = State::kReady;
        ran = run_threads(b, b + threads_of_block) || ran;
      }
    }
    if (ran && error == nullptr) continue;
    for (unsigned t = 0; t < threads; ++t)
      if (fibers[t].state != State::kDone) error = "threads wait for each other";
    return;
  }
}

/// Runs a whole grid in clusters of `cluster` blocks along x, or all blocks at once, if it is 0;
/// returns what went wrong, or null.
inline const char* launch(void (*code)(const long*), const unsigned grid[3],
                          const unsigned block[3], unsigned cluster, const long* values) {
  kernel = code;
  arguments = values;
  error = nullptr;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  const unsigned blocks = grid[0] * grid[1] * grid[2];
  const bool at_once = cluster == 0;
  if (at_once) cluster = blocks;
  blocks_of_cluster = cluster;
  if (cluster > kMostBlocks || grid[0] % cluster != 0) return "the grid is not made of clusters";
  for (unsigned b = 0; b < blocks && error == nullptr; b += cluster) run_cluster(b, at_once);
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

/// Every lane of a warp shows a value to the others, for as long as all of them hold the exchange.
template <class T>
class WarpExchange {
 public:
  explicit WarpExchange(const T& mine) : mine_(mine) {
    fibers[current].shown = &mine_;
    wait(State::kAtWarpBarrier);
  }
  ~WarpExchange() { wait(State::kAtWarpBarrier); }
  WarpExchange(const WarpExchange&) = delete;
  WarpExchange& operator=(const WarpExchange&) = delete;

  const T& operator[](int lane) const {
    const unsigned thread = current / 32 * 32 + static_cast<unsigned>(lane);
    if (thread >= slots.size() || fibers[thread].state == State::kDone) {
      error = "a warp's operation reads from a lane that is not there";
      return mine_;
    }
    return *static_cast<const T*>(fibers[thread].shown);
  }

 private:
  T mine_;
};

/// What an instruction of a warpgroup leaves in a thread's registers: columns 0 and 1 of each of
/// kTiles tiles, of two rows; `column(tile, i, k)` is an element of b.
template <class Sum, int kTiles, int kDepth, class Column>
void add_products(Sum (&d)[kTiles][4], const Sum (&rows)[2][kDepth], bool add,
                  const Column& column) {
  for (int j = 0; j < kTiles; ++j)
    for (int i = 0; i < 2; ++i) {
      Sum sums[2] = {add ? d[j][i] : 0, add ? d[j][2 + i] : 0};
      for (int k = 0; k < kDepth; ++k) {
        const Sum value = column(j, i, k);
        for (int row = 0; row < 2; ++row) sums[row] += rows[row][k] * value;
      }
      for (int row = 0; row < 2; ++row) d[j][row * 2 + i] = sums[row];
    }
}

/// `from` null: zeros.
inline void cp_async(void* to, const void* from, int bytes) {
  PendingCopy copy{to, bytes, {}};
  const auto unaligned = [&](const void* p) {
    return reinterpret_cast<unsigned long>(p) % static_cast<unsigned long>(bytes) != 0;
  };
  if (unaligned(to) || unaligned(from)) error = "an asynchronous copy is not aligned";
  if (from != nullptr) memcpy(copy.data, from, static_cast<unsigned long>(bytes));
  fibers[current].uncommitted.push_back(copy);
}
inline void cp_async_commit() {
  Fiber& fiber = fibers[current];
  fiber.copies.push_back(std::move(fiber.uncommitted));
  fiber.uncommitted.clear();
}
inline void wait_for_copies(unsigned groups) {
  Fiber& fiber = fibers[current];
  for (; fiber.copies.size() > groups; fiber.copies.pop_front())
    for (const PendingCopy& copy : fiber.copies.front())
      memcpy(copy.to, copy.data, static_cast<unsigned long>(copy.bytes));
}

inline unsigned long long nanoseconds() {
  return static_cast<unsigned long long>(
      std::chrono::steady_clock::now().time_since_epoch().count());
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

inline float compute_float_of_half(unsigned short half) {
  const unsigned sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
  const unsigned fraction = half & 0x3ffu;
  if (exponent == 31) return bits_to_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

inline float half_to_float(unsigned short half) {
  static const std::vector<float> all = [] {
    std::vector<float> values(0x10000);
    for (unsigned i = 0; i < values.size(); ++i)
      values[i] = compute_float_of_half(static_cast<unsigned short>(i));
    return values;
  }();
  return all[half];
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

/// Threads take turns, so that nothing comes between.
template <class T>
T atomicAdd(T* place, T value) {
  const T before = *place;
  *place += value;
  return before;
}
template <class T>
T atomicMax(T* place, T value) {
  const T before = *place;
  if (value > before) *place = value;
  return before;
}
template <class T>
T atomicOr(T* place, T value) {
  const T before = *place;
  *place |= value;
  return before;
}
inline void __syncwarp() { emulator::wait(emulator::State::kAtWarpBarrier); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __ballot_sync(unsigned, bool value) {
  const emulator::WarpExchange<bool> lanes(value);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(lanes[lane]) << lane;
  return bits;
}
inline unsigned __match_any_sync(unsigned, unsigned value) {
  const emulator::WarpExchange<unsigned> lanes(value);
  unsigned alike = 0;
  for (int lane = 0; lane < 32; ++lane)
    alike |= static_cast<unsigned>(lanes[lane] == value) << lane;
  return alike;
}
inline void __syncthreads() { emulator::wait(emulator::State::kAtBlockBarrier); }
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = emulator::current % 32;
  return emulator::shuffle(value, emulator::current - (lane >= distance ? distance : 0));
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return emulator::shuffle(value, emulator::current / 32 * 32 + static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulator::shuffle(value, emulator::current ^ static_cast<unsigned>(mask));
}
