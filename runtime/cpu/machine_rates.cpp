// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/host_buffer.h"
#include "runtime/threads/openmp.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

/// Source and target together exceed the last-level caches of common CPUs.
constexpr std::size_t kCopyBytes = std::size_t{192} << 20;
/// m, n and k of the GEMMs.
constexpr dnnl_dim_t kSize = 768;

/// Minimum microseconds of a call, after a warm-up: the machine's capability even if others use it.
template <typename Body>
double least_time(int repeats, const Body& body) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    if (i > 0) least = std::min(least, time.count());
  }
  return least;
}

double copy_time(int threads) {
  HostBuffer source, target;
  source.reserve(kCopyBytes, "measuring a copy");
  target.reserve(kCopyBytes, "measuring a copy");
  constexpr std::size_t kPart = std::size_t{1} << 20;
  return least_time(5, [&] {
    threads::run_parts(kCopyBytes / kPart, threads, [&](threads::Member& member) {
      while (const auto part = member.next()) {
        const std::size_t first = static_cast<std::size_t>(*part) * kPart;
        std::memcpy(target.data() + first, source.data() + first, kPart);
      }
    });
  });
}

/// GEMMs per second that `multiply` computes into memory `c`, on all threads at once.
template <typename T, typename Multiply>
double products_per_second(int threads, const Multiply& multiply) {
  std::vector<std::vector<T>> results(static_cast<std::size_t>(threads),
                                      std::vector<T>(kSize * kSize));
  const std::int64_t count = threads * 4;
  return static_cast<double>(count) * 1e6 / least_time(5, [&] {
           threads::run_parts(count, threads, [&](threads::Member& member) {
             while (member.next()) multiply(results[static_cast<std::size_t>(member.me())].data());
           });
         });
}

double single_products(int threads) {
  dnnl_engine();  // opens oneDNN and keeps it from starting threads
  const std::vector<float> a(kSize * kSize, 0.5F), b(kSize * kSize, 0.25F);
  return products_per_second<float>(threads, [&](float* c) {
    threads::keep_openmp_out();
    dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0F, a.data(), kSize, b.data(), kSize, 0.0F, c,
               kSize);
  });
}

double int8_products(int threads) {
  const std::vector<std::uint8_t> a(kSize * kSize, 3);
  const std::vector<std::int8_t> b(kSize * kSize, 2);
  return products_per_second<std::int32_t>(threads, [&](std::int32_t* c) {
    threads::keep_openmp_out();
    const std::int32_t zero = 0;
    dnnl_gemm_u8s8s32('N', 'N', 'F', kSize, kSize, kSize, 1.0F, a.data(), kSize, 0, b.data(), kSize,
                      0, 0.0F, c, kSize, &zero);
  });
}

}  // namespace

MachineRates measure_machine(int threads) {
  MachineRates rates;
  rates.machine = fmt::format("{} thread{} of a processor", threads, threads == 1 ? "" : "s");
  rates.copy_bytes = 2 * kCopyBytes;
  rates.copy_bytes_per_second = static_cast<double>(rates.copy_bytes) / copy_time(threads) * 1e6;
  rates.empty_step_microseconds = least_time(101, [&] {
    threads::run_parts(threads, threads, [](threads::Member& member) {
      while (member.next()) continue;
    });
  });
  constexpr double kOperations = 2.0 * kSize * kSize * kSize;
  const double single = kOperations * single_products(threads);
  // Operators compute 16-bit floats in float32. A multiply-add counts as two operations, a single
  // operation as one.
  rates.operations_per_second = {{"Single", single},
                                 {"Half", single},
                                 {"Scalar", single / 2},
                                 {"Double", single / 2},
                                 {"Int8", kOperations * int8_products(threads)}};
  rates.operations_from = fmt::format(
      "measured: oneDNN's products of {0}x{0}x{0}; single operations at half of that", kSize);
  rates.timing = "wall time of each step, caches cold before the first";
  return rates;
}

}  // namespace sinter::runtime::cpu
