// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/exact_products.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace sinter::tools {
namespace {

constexpr double kReached = 0.7;  // of a peak rate

std::vector<std::int64_t> typical_symbols(const plan::fb::PlanT& plan) {
  constexpr std::int64_t kMost = 512;
  std::vector<std::int64_t> values;
  for (const auto& symbol : plan.symbols)
    values.push_back(
        std::max(symbol->min, symbol->max == INT64_MAX ? 1 : std::min(symbol->max, kMost)));
  return values;
}

double least_us(double bytes, double bandwidth, double operations, double rate) {
  return std::max(bytes / bandwidth, operations / (kReached * rate)) * 1e6;
}

std::string time_text(double microseconds) {
  return microseconds < 1000 ? fmt::format("{:.0f} us", microseconds)
                             : fmt::format("{:.1f} ms", microseconds / 1000);
}

}  // namespace

ExactProducts exact_products(const plan::fb::PlanT& plan, const codegen::DeviceModel& device) {
  ExactProducts result;
  std::vector<std::int64_t> values;
  for (const auto& step : plan.steps) {
    if (step->arithmetic != plan::fb::Arithmetic::Single) continue;
    if (values.empty()) values = plan::evaluate_expressions(plan, typical_symbols(plan));
    const auto value = [&](std::uint32_t expression) {
      return static_cast<double>(values[expression]);
    };
    const double bytes = value(step->bytes_read) + value(step->bytes_written),
                 operations = value(step->flops);
    ++result.steps;
    result.exact_us += least_us(bytes, device.memory_bandwidth, operations, device.float32_flops);
    result.rounded_us += least_us(bytes, device.memory_bandwidth, operations, device.tf32_flops);
  }
  return result;
}

ExactProducts exact_products(const ProfileReport& report) {
  ExactProducts result;
  const MachineRates& rates = report.rates;
  const auto tf32 = rates.operations_per_second.find("Tf32");
  if (tf32 == rates.operations_per_second.end() || tf32->second <= 0) return result;
  for (const StepProfile& step : report.steps) {
    if (step.time.arithmetic != "Single") continue;
    ++result.steps;
    result.exact_us += step.time.microseconds;
    const double least =
        std::max({least_us(static_cast<double>(step.time.bytes),
                           rates.copy_bytes_per_second > 0 ? kReached * rates.copy_bytes_per_second
                                                           : INFINITY,
                           static_cast<double>(step.time.flops), tf32->second),
                  step.launch_us});
    result.rounded_us += std::min(step.time.microseconds, least);
  }
  return result;
}

std::optional<std::string> describe(const ExactProducts& products, const std::string& source) {
  if (products.steps == 0) return std::nullopt;
  return fmt::format(
      "{} float32 product{} {} exact ({} {}); --precision tf32, the default of PyTorch's "
      "convolutions, of TensorRT and of ONNX Runtime, would save about {}",
      products.steps, products.steps == 1 ? "" : "s", products.steps == 1 ? "is" : "are",
      time_text(products.exact_us), source, time_text(products.exact_us - products.rounded_us));
}

}  // namespace sinter::tools
