// SPDX-License-Identifier: Apache-2.0
// Numbers of estimates and rules, fitted to timings on a device. Each measured device has a file of
// rows here; h200.inc also declares them.
#pragma once

#include <limits>
#include <optional>
#include <string_view>

namespace sinter::codegen {

/// How a number scales to a device without a file of its own: by the ratio of the devices' clocks,
/// memory bandwidths, or tensor core rates of a multiprocessor.
enum class FittedScale {
  kNone,
  kTime,  // inversely by clock: latencies, barriers, instructions
  kClockRate,
  kMemoryRate,
  kTensorRate,
};

/// A rate or a bound that limits nothing.
inline constexpr double kFree = 1e9;

#define FITTED_ONE(Type, member) struct Type {
#define FITTED_SETS(Type, member, ...) struct Type {
#define FITTED(name, scale, ...) double name = std::numeric_limits<double>::quiet_NaN();
#define FITTED_END \
  }                \
  ;
#include "codegen/targets/cuda/fitted/h200.inc"

/// `tma.latency`; with several sets, `warp_tile.dense.latency`.
struct FittedNumbers {
#define FITTED_ONE(Type, member) Type member;
#define FITTED_SETS(Type, member, ...) \
  struct {                             \
    Type __VA_ARGS__;                  \
  } member;
#define FITTED(name, scale, ...)
#define FITTED_END
#include "codegen/targets/cuda/fitted/h200.inc"
};

/// The numbers of a device with a file of its own ("H200"); nothing for others.
std::optional<FittedNumbers> fitted_numbers(std::string_view device);

/// Speed of a device relative to the one on which numbers were fitted.
struct RelativeRates {
  double clock = 1;   // latencies, barriers and on-chip data movement
  double memory = 1;  // the device's bandwidth
  double tensor = 1;  // tensor core operations of one multiprocessor
};
FittedNumbers scaled(FittedNumbers numbers, const RelativeRates& rates);

}  // namespace sinter::codegen
