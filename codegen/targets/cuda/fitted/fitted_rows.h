// SPDX-License-Identifier: Apache-2.0
// Fitted numbers by name.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {

/// A row of a device's file.
struct FittedRow {
  std::string_view table;  // "warp_tile"
  std::string_view sets;   // "dense, windows"; empty if there is only one
  std::string_view name;   // "latency"
  std::string_view scale;  // "kTime"
  FittedScale scaling = FittedScale::kNone;
};

/// "warp_tile.dense.latency", for set number `set` of the row.
std::string full_name(const FittedRow& row, std::size_t set);

template <typename Type, typename... Others>
std::array<Type*, 1 + sizeof...(Others)> fitted_sets(Type& first, Others&... others) {
  return {&first, &others...};
}

/// Calls visit(row, numbers) for each row, in the order of the file; `numbers`: pointers to the
/// number of each set, an array.
template <typename Visit>
void visit_fitted_rows(FittedNumbers& all, const Visit& visit) {
#define FITTED_ONE(Type, member)                             \
  {                                                          \
    constexpr std::string_view kTable = #member, kSets = ""; \
    const auto sets = fitted_sets(all.member);
#define FITTED_SETS(Type, member, ...)                                 \
  {                                                                    \
    constexpr std::string_view kTable = #member, kSets = #__VA_ARGS__; \
    auto& [__VA_ARGS__] = all.member;                                  \
    const auto sets = fitted_sets(__VA_ARGS__);
#define FITTED(name, scale, ...)                                                         \
  {                                                                                      \
    std::array<double*, sets.size()> numbers{};                                          \
    for (std::size_t set = 0; set < sets.size(); ++set) numbers[set] = &sets[set]->name; \
    visit(FittedRow{kTable, kSets, #name, #scale, FittedScale::scale}, numbers);         \
  }
#define FITTED_END }
#include "codegen/targets/cuda/fitted/h200.inc"
}

}  // namespace sinter::codegen
