#include "runtime/cpu/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include <dnnl.h>
#include <fmt/format.h>

#include "runtime/cpu/host_buffer.h"
#include "runtime/cpu/parallel.h"

namespace sinter::runtime::cpu {
namespace {

/// Together larger than the last-level caches of common CPUs.
constexpr std::size_t kCopyBytes = std::size_t{192} << 20;
/// Rows, columns and depth of the products.
constexpr dnnl_dim_t kSize = 768;

/// Least microseconds of a call, after one that is not counted: what the machine can do, even while
/// others use it too.
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
  return least_time(5, [&] {
    run_team(threads, [&](int me, int team) {
      constexpr std::size_t kPage = 4096;
      const std::size_t slice = kCopyBytes / kPage / static_cast<std::size_t>(team) * kPage;
      const std::size_t first = static_cast<std::size_t>(me) * slice;
      std::memcpy(target.data() + first, source.data() + first,
                  me + 1 == team ? kCopyBytes - first : slice);
    });
  });
}

double single_product_time() {
  const std::vector<float> a(kSize * kSize, 0.5F), b(kSize * kSize, 0.25F);
  std::vector<float> c(kSize * kSize);
  return least_time(5, [&] {
    dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0F, a.data(), kSize, b.data(), kSize, 0.0F,
               c.data(), kSize);
  });
}

double int8_product_time() {
  const std::vector<std::uint8_t> a(kSize * kSize, 3);
  const std::vector<std::int8_t> b(kSize * kSize, 2);
  std::vector<std::int32_t> c(kSize * kSize);
  const std::int32_t zero = 0;
  return least_time(5, [&] {
    dnnl_gemm_u8s8s32('N', 'N', 'F', kSize, kSize, kSize, 1.0F, a.data(), kSize, 0, b.data(), kSize,
                      0, 0.0F, c.data(), kSize, &zero);
  });
}

}  // namespace

MachineRates measure_machine(int threads) {
  const ThreadCount count(threads);
  MachineRates rates;
  rates.machine = fmt::format("{} thread{} of a processor", threads, threads == 1 ? "" : "s");
  rates.copy_bytes = 2 * kCopyBytes;
  rates.copy_bytes_per_second = static_cast<double>(rates.copy_bytes) / copy_time(threads) * 1e6;
  rates.empty_step_microseconds = least_time(101, [&] { run_team(threads, [](int, int) {}); });
  constexpr double kOperations = 2.0 * kSize * kSize * kSize;
  const double single = kOperations / single_product_time() * 1e6;
  // Operators compute 16-bit floats as float32; one operation is half of what a product counts.
  rates.operations_per_second = {{"Single", single},
                                 {"Half", single},
                                 {"Scalar", single / 2},
                                 {"Double", single / 2},
                                 {"Int8", kOperations / int8_product_time() * 1e6}};
  rates.operations_from = fmt::format(
      "measured: oneDNN's products of {0}x{0}x{0}; single operations at half of that", kSize);
  rates.timing = "wall time of each step, caches cold before the first";
  return rates;
}

}  // namespace sinter::runtime::cpu
