// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/cuda/fitted/fitted_rows.h"

#include <iterator>

namespace sinter::codegen {
namespace {

// A row sets its number in each set of its table.
#define FITTED_ONE(Type, member) \
  {                              \
    const auto sets = fitted_sets(numbers.member);
#define FITTED_SETS(Type, member, ...)    \
  {                                       \
    auto& [__VA_ARGS__] = numbers.member; \
    const auto sets = fitted_sets(__VA_ARGS__);
#define FITTED(name, scale, ...)                                                        \
  {                                                                                     \
    constexpr double kValues[] = {__VA_ARGS__};                                         \
    static_assert(std::size(kValues) == sets.size(), "a value for each set: " #name);   \
    for (std::size_t set = 0; set < sets.size(); ++set) sets[set]->name = kValues[set]; \
  }
#define FITTED_END }

FittedNumbers h200() {
  FittedNumbers numbers;
#include "codegen/targets/cuda/fitted/h200.inc"
  return numbers;
}

}  // namespace

std::optional<FittedNumbers> fitted_numbers(std::string_view device) {
  if (device == "H200") return h200();
  return std::nullopt;
}

FittedNumbers scaled(FittedNumbers numbers, const RelativeRates& rates) {
  visit_fitted_rows(numbers, [&](const FittedRow& row, const auto& sets) {
    for (double* number : sets) switch (row.scaling) {
        case FittedScale::kNone: break;
        case FittedScale::kTime: *number /= rates.clock; break;
        case FittedScale::kClockRate: *number *= rates.clock; break;
        case FittedScale::kMemoryRate: *number *= rates.memory; break;
        case FittedScale::kTensorRate: *number *= rates.tensor; break;
      }
  });
  return numbers;
}

std::string full_name(const FittedRow& row, std::size_t set) {
  std::string text(row.table);
  std::string_view sets = row.sets;
  for (std::size_t i = 0; !sets.empty(); ++i) {
    const std::size_t end = sets.find(", ");
    if (i == set) text += "." + std::string(sets.substr(0, end));
    sets = end == sets.npos ? "" : sets.substr(end + 2);
  }
  return text + "." + std::string(row.name);
}

}  // namespace sinter::codegen
