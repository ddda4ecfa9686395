// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tactics/operand_samples.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>

namespace sinter::runtime {
namespace {

constexpr std::uint64_t kPatternBytes = 1u << 18;

/// float16 values of either sign from 0.5 to 2; read as bfloat16 or float32, from 2^-15 to 2. No
/// byte has all exponent and fraction bits of a float8 set, which would be a NaN.
std::vector<std::uint16_t> sample_halves() {
  constexpr std::uint32_t kSignAndFraction = 0x83f7, kLeastExponent = 0x3800;
  std::vector<std::uint16_t> halves(kPatternBytes / sizeof(std::uint16_t));
  std::mt19937 draw;  // NOLINT(cert-msc51-cpp): the same in each run
  for (std::uint16_t& half : halves) {
    const std::uint32_t bits = draw();
    const std::uint32_t exponent = kLeastExponent + ((bits >> 16 & 1) << 10);
    half = static_cast<std::uint16_t>((bits & kSignAndFraction) | exponent);
  }
  return halves;
}

void fill_ascending(const graphs::Driver& driver, const OperandSamples::Operand& operand,
                    CUstream stream) {
  const std::size_t count = operand.bytes / operand.index_bytes;
  std::vector<std::byte> values(count * operand.index_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const double share = count < 2 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    const auto value = static_cast<std::int64_t>(share * static_cast<double>(operand.last));
    std::memcpy(&values[i * operand.index_bytes], &value, operand.index_bytes);  // little-endian
  }
  driver.memcpy_htod_async(operand.address, values.data(), values.size(), stream);
  driver.stream_synchronize(stream);
}

}  // namespace

void OperandSamples::fill(CUstream stream) {
  const graphs::Driver& driver = context_->driver();
  for (const Operand& operand : std::exchange(operands_, {})) {
    if (operand.bytes == 0) continue;
    if (operand.index_bytes != 0) {
      fill_ascending(driver, operand, stream);
      continue;
    }
    if (!operand.is_number) {
      driver.memset_d8_async(operand.address, 0, operand.bytes, stream);
      continue;
    }
    if (!pattern_.address()) {
      pattern_ = graphs::DeviceMemory(context_, kPatternBytes);
      const std::vector<std::uint16_t> halves = sample_halves();
      driver.memcpy_htod_async(pattern_.address(), halves.data(), kPatternBytes, stream);
      driver.stream_synchronize(stream);
    }
    std::uint64_t done = std::min(operand.bytes, kPatternBytes);
    driver.memcpy_dtod_async(operand.address, pattern_.address(), done, stream);
    while (done < operand.bytes) {
      const std::uint64_t more = std::min(done, operand.bytes - done);
      driver.memcpy_dtod_async(operand.address + done, operand.address, more, stream);
      done += more;
    }
  }
}

}  // namespace sinter::runtime
