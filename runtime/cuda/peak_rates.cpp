// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/peak_rates.h"

#include <array>

namespace sinter::runtime {
namespace {

/// Operations per clock of a multiprocessor.
struct Row {
  int major, minor;
  double scalar, single, tf32, half, int8, float8, fp64;
};

// An architecture that is not listed uses the row before it.
constexpr std::array<Row, 6> kRows{{{8, 0, 64, 128, 1024, 2048, 4096, 0, 128},
                                    {8, 6, 128, 256, 256, 512, 2048, 0, 4},
                                    {8, 9, 128, 256, 256, 512, 2048, 1024, 4},
                                    {9, 0, 128, 256, 2048, 4096, 8192, 8192, 256},
                                    {10, 0, 128, 256, 4096, 8192, 16384, 16384, 128},
                                    {12, 0, 128, 256, 256, 512, 2048, 1024, 4}}};

}  // namespace

std::map<std::string, double> peak_rates(const graphs::DeviceProperties& gpu) {
  const Row* found = nullptr;
  for (const Row& row : kRows)
    if (row.major < gpu.major || (row.major == gpu.major && row.minor <= gpu.minor)) found = &row;
  if (!found) return {};
  const double clocks = gpu.multiprocessors * gpu.clock_hz;
  return {{"Scalar", found->scalar * clocks}, {"Single", found->single * clocks},
          {"Tf32", found->tf32 * clocks},     {"Half", found->half * clocks},
          {"Int8", found->int8 * clocks},     {"Float8", found->float8 * clocks},
          {"Double", found->fp64 * clocks}};
}

}  // namespace sinter::runtime
