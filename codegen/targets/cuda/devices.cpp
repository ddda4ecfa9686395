// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/targets/cuda/cuda_target.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

constexpr int kKiB = 1024;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kRegisters = 65536;  // per multiprocessor, on every architecture here
// The system reserves 1 KiB of shared memory for each block.
constexpr int kSmall = 100 * kKiB, kSmallBlock = 99 * kKiB;
constexpr int kMiddle = 164 * kKiB, kMiddleBlock = 163 * kKiB;
constexpr int kLarge = 228 * kKiB, kLargeBlock = 227 * kKiB;
constexpr int kMostCluster = 16;  // 8 is the portable limit; 16 needs a kernel attribute
constexpr int kPortableCluster = 8;

/// "sm_90" gives 90; 0 for an invalid name.
int number_of(const std::string& architecture) {
  constexpr std::size_t kPrefix = 3;  // "sm_"
  int number = 0;
  const char* const end = architecture.data() + architecture.size();
  if (!architecture.starts_with("sm_") ||
      std::from_chars(architecture.data() + kPrefix, end, number).ptr != end)
    return 0;
  return number;
}

constexpr std::string_view kReference = "sm_90";

/// Sets `fitted`, which lives as long as the process: a device's own numbers, or the reference's,
/// scaled.
std::vector<DeviceModel> with_fitted_numbers(std::vector<DeviceModel> devices) {
  static std::vector<FittedNumbers> numbers(devices.size());
  const DeviceModel& reference =
      *std::ranges::find(devices, kReference, &DeviceModel::architecture);
  const FittedNumbers of_reference = fitted_numbers(reference.device).value();
  const auto of_one = [](const DeviceModel& model) {
    return model.tensor_flops / model.multiprocessors;
  };
  for (std::size_t i = 0; i < devices.size(); ++i) {
    DeviceModel& device = devices[i];
    const RelativeRates rates = {device.clock / reference.clock,
                                 device.memory_bandwidth / reference.memory_bandwidth,
                                 of_one(device) / of_one(reference)};
    const std::optional<FittedNumbers> own = fitted_numbers(device.device);
    numbers[i] = own ? *own : scaled(of_reference, rates);
    device.fitted = &numbers[i];
  }
  return devices;
}

}  // namespace

// Limits: CUDA C++ Programming Guide 13.0, "Compute Capabilities". Rates: NVIDIA's data sheets of
// the devices. Fields: see DeviceModel.
const std::vector<DeviceModel>& cuda_devices() {
  static const std::vector<DeviceModel> devices = with_fitted_numbers({
      {"sm_80", "A100", 108, 2048, 32, kRegisters, kMiddle, kMiddleBlock, 1, 108, false, 40 * kMiB,
       2.04e12, 312e12, 624e12, 0, 1.41e9, 19.5e12, 156e12},
      {"sm_86", "A10", 72, 1536, 16, kRegisters, kSmall, kSmallBlock, 1, 72, false, 6 * kMiB,
       0.6e12, 125e12, 250e12, 0, 1.7e9, 31.2e12, 62.5e12},
      {"sm_89", "L40S", 142, 1536, 24, kRegisters, kSmall, kSmallBlock, 1, 142, false, 96 * kMiB,
       0.86e12, 362e12, 733e12, 733e12, 2.52e9, 91.6e12, 183e12},
      {"sm_90", "H200", 132, 2048, 32, kRegisters, kLarge, kLargeBlock, kMostCluster, 120, true,
       50 * kMiB, 4.8e12, 989e12, 1979e12, 1979e12, 1.98e9, 67e12, 494e12},
      {"sm_100", "B200", 148, 2048, 32, kRegisters, kLarge, kLargeBlock, kMostCluster, 132, false,
       126 * kMiB, 8e12, 2250e12, 4500e12, 4500e12, 1.96e9, 75e12, 1125e12},
      {"sm_120", "RTX 5090", 170, 1536, 24, kRegisters, kSmall, kSmallBlock, kPortableCluster, 152,
       false, 96 * kMiB, 1.79e12, 210e12, 838e12, 419e12, 2.41e9, 104.8e12, 104.8e12},
  });
  return devices;
}

const DeviceModel& cuda_device(const std::string& architecture) {
  const int number = number_of(architecture);
  const DeviceModel* newest = nullptr;
  for (const DeviceModel& device : cuda_devices())
    if (number_of(device.architecture) <= number) newest = &device;
  if (newest == nullptr)
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' is no architecture that Sinter compiles for: {} and later",
                            architecture, cuda_devices().front().architecture));
  return *newest;
}

const DeviceModel& reference_device() {
  static const DeviceModel& device = cuda_device(std::string(kReference));
  return device;
}

}  // namespace sinter::codegen
