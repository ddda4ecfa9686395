// SPDX-License-Identifier: Apache-2.0
// For run_task_chains.py: a chain of products of one row. One warp copies the weights of all steps
// ahead of the warps that multiply them; the rows between steps travel through memory.
typedef unsigned int u32;
typedef unsigned long long u64;

struct Chain {
  const unsigned char* weights;
  const u64* offsets;    // of each step, in bytes
  const u32* bytes;      // of each step, for each block: multiples of 512
  const u32* lengths;    // of each step: elements of its row, powers of two
  u32* counters;         // of each step
  u32* epoch;            // [0] how often it has run, [1] blocks that have ended
  unsigned short* rows;  // for each step and one more: kRow pairs, of which flags take half
  u32 steps;
  u32 most;  // chunks under way
  u32 sync;  // 0 counters, 1 flags, 3 nothing waits
};

constexpr u32 kRow = 32768, kWarps = 16, kChunk = kWarps * 512, kSlots = 20;
constexpr u32 kMostPolls = 1u << 22;

__device__ static u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
__device__ static void start(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}
__device__ static void arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ static void wait(u64* barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra AGAIN;\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ static void copy(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
__device__ static uint4 fetch(const void* p) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
/// The warps that multiply.
__device__ static void meet() { asm volatile("bar.sync 1, %0;" ::"n"(32 * kWarps) : "memory"); }

/// Copies the chunks of all steps, at most x.most at a time.
__device__ static void copy_all(const Chain& x, unsigned char* ring, u64* full, u64* empty) {
  u32 issued = 0;
  for (u32 step = 0; step < x.steps; ++step) {
    const u32 bytes = x.bytes[step];
    const unsigned char* from = x.weights + x.offsets[step] + static_cast<u64>(blockIdx.x) * bytes;
    for (u32 at = 0; at < bytes; at += kChunk, ++issued) {
      const u32 slot = issued % kSlots, ahead = issued - x.most;
      wait(empty + slot, (issued / kSlots & 1) ^ 1);
      if (issued >= x.most) wait(full + ahead % kSlots, ahead / kSlots & 1);
      copy(ring + slot * kChunk, from + at, bytes - at < kChunk ? bytes - at : kChunk, full + slot);
    }
  }
}

/// Brings the step's row to shared memory when it is complete.
__device__ static void bring_row(const Chain& x, u32 step, u32 epoch, unsigned short* row) {
  const u32 length = x.lengths[step], thread = threadIdx.x;
  const unsigned short* from = x.rows + static_cast<u64>(step) * kRow * 2;
  if (step > 0 && x.sync == 1) {
    const u32 flag = epoch * x.steps + step;
    for (u32 i = thread; i < length / 4; i += 32 * kWarps) {
      uint4 v = fetch(from + i * 8);
      for (u32 polls = 0; v.y != flag || v.w != flag; v = fetch(from + i * 8))
        if (++polls > kMostPolls) __trap();
      reinterpret_cast<u32*>(row)[i * 2] = v.x;
      reinterpret_cast<u32*>(row)[i * 2 + 1] = v.z;
    }
  } else {
    if (step > 0 && x.sync == 0) {
      u32 found = 0;
      for (u32 polls = 0; thread == 0 && found - epoch * gridDim.x < gridDim.x; ++polls) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(found)
                     : "l"(x.counters + step - 1)
                     : "memory");
        if (polls > kMostPolls) __trap();
      }
      meet();
    }
    for (u32 i = thread; i < length / 8; i += 32 * kWarps)
      reinterpret_cast<uint4*>(row)[i] = fetch(from + i * 8);
  }
  meet();
}

/// One MMA for each fragment of a lane's 16 bytes; several kinds widen four bits in between.
template <u32 kMmas>
__device__ static void multiply(float (&sums)[4][4], const uint4& weights, u32 unit,
                                const unsigned short* row, u32 length) {
#pragma unroll
  for (u32 m = 0; m < kMmas; ++m) {
    const u32 k = (unit * kMmas + m) * 16 & (length - 1);
    const uint4 x = reinterpret_cast<const uint4*>(row)[k / 32 * 4 + threadIdx.x % 4];
    u32 a[4] = {weights.x, weights.y, weights.z, weights.w};
    if (kMmas > 1) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        asm("lop3.b32 %0, %1, 0x000f000f, 0x64006400, 0xea;" : "=r"(a[j]) : "r"(a[j] >> (4 * m)));
        asm("sub.f16x2 %0, %1, %2;" : "=r"(a[j]) : "r"(a[j]), "r"(0x64086408));
      }
    }
    float(&d)[4] = sums[m];
    const bool odd = k / 16 % 2 != 0;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(odd ? x.z : x.x), "r"(odd ? x.w : x.y));
  }
}

template <u32 kMmas>
__device__ static void run(const Chain& x) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ u64 full[kSlots], empty[kSlots];
  __shared__ float parts[kWarps][16];
  unsigned short* row = reinterpret_cast<unsigned short*>(ring + kSlots * kChunk);
  const u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32, blocks = gridDim.x;
  if (thread < kSlots) {
    start(full + thread, 1);
    start(empty + thread, kWarps);
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  if (warp == kWarps) {
    if (lane == 0) copy_all(x, ring, full, empty);
    return;
  }
  const u32 epoch = *const_cast<volatile u32*>(x.epoch);
  u32 used = 0;
  for (u32 step = 0; step < x.steps; ++step) {
    bring_row(x, step, epoch, row);
    float sums[4][4] = {};
    const u32 bytes = x.bytes[step], chunks = (bytes + kChunk - 1) / kChunk;
    for (u32 c = 0; c < chunks; ++c) {  // each warp takes 512 bytes of each chunk
      const u32 slot = (used + c) % kSlots;
      wait(full + slot, (used + c) / kSlots & 1);
      const uint4 unit = reinterpret_cast<const uint4*>(ring + slot * kChunk)[thread];
      __syncwarp();
      if (lane == 0) arrive(empty + slot);
      if (c * kChunk + warp * 512 < bytes)
        multiply<kMmas>(sums, unit, c * kWarps + warp, row, x.lengths[step]);
    }
    used += chunks;
    if (lane % 4 == 0) {
      parts[warp][lane / 4] = sums[0][0] + sums[1][0] + sums[2][0] + sums[3][0];
      parts[warp][lane / 4 + 8] = sums[0][2] + sums[1][2] + sums[2][2] + sums[3][2];
    }
    meet();
    const u32 next = step + 1 < x.steps ? x.lengths[step + 1] : 2048;
    const u32 each = (next / 2 + blocks - 1) / blocks;
    u32* to = reinterpret_cast<u32*>(x.rows) + static_cast<u64>(step + 1) * kRow;
    for (u32 i = thread; i < each && blockIdx.x * each + i < next / 2; i += 32 * kWarps) {
      const u32 pair = blockIdx.x * each + i;
      float sum = 0;
#pragma unroll
      for (u32 w = 0; w < kWarps; ++w) sum += parts[w][i % 16];
      const u32 value = __float_as_uint(sum) & 0x00010001;
      if (x.sync == 1)
        asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(to + pair * 2),
                     "r"(value), "r"(epoch * x.steps + step + 1)
                     : "memory");
      else
        to[pair] = value;
    }
    meet();
    if (x.sync == 0 && thread == 0)
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(x.counters + step) : "memory");
  }
  meet();
  if (thread != 0) return;
  __threadfence();
  if (atomicAdd(x.epoch + 1, 1) != blocks - 1) return;
  x.epoch[1] = 0;
  __threadfence();
  x.epoch[0] = epoch + 1;
}

#define CHAIN(mmas)                                                                                \
  extern "C" __global__ void __launch_bounds__(32 * (kWarps + 1), 1) chain_##mmas(const Chain x) { \
    run<mmas>(x);                                                                                  \
  }
CHAIN(1)
CHAIN(2)
CHAIN(4)
