// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "sinter/engine.h"

namespace sinter {
namespace {

template <typename T>
constexpr SamplingRow with(SamplingRow row, const char* name, double standard,
                           double (*get)(const SamplingParameters&),
                           void (*set)(SamplingParameters&, double)) {
  row.name = name;
  row.standard = standard;
  row.is_whole = std::is_integral_v<T>;
  row.get = get;
  row.set = set;
  return row;
}

#define SINTER_SAMPLING(type, member, standard, ...)                             \
  with<type>(                                                                    \
      SamplingRow{__VA_ARGS__}, #member, standard,                               \
      [](const SamplingParameters& p) { return static_cast<double>(p.member); }, \
      [](SamplingParameters& p, double value) { p.member = static_cast<type>(value); }),
#define SINTER_SAMPLING_ADDED SINTER_SAMPLING
constexpr SamplingRow kRows[] = {
#include <sinter/sampling_rows.inc>
};

}  // namespace

std::span<const SamplingRow> sampling_rows() { return kRows; }

bool SamplingRow::takes(double value) const {
  return (above_least ? value > least : value >= least) && value <= most;
}

}  // namespace sinter
