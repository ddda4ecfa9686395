// SPDX-License-Identifier: Apache-2.0
// How the ranks share one value.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "fusion/context.h"

namespace sinter::fusion {

struct Split {
  enum class Kind : std::uint8_t {
    kWhole,    // every rank has it
    kPartial,  // each rank has a summand of it
    kOwned,    // each rank's experts decide which rows it has; others hold anything
    kAxis,    // rank r has part r of dimension `axis`; with "shared", consecutive ranks share parts
    kJoined,  // as kAxis of dimensions `axis` and `axis` + 1 joined, where fewer parts than ranks
              // make the former
  };
  Kind kind = Kind::kWhole;
  bool is_shared = false;  // of kAxis: there are Ranks::shared parts
  int axis = 0;            // of kAxis and kJoined

  static Split along(std::size_t axis) { return {Kind::kAxis, false, static_cast<int>(axis)}; }
  static Split shared(std::size_t axis) { return {Kind::kAxis, true, static_cast<int>(axis)}; }
  static Split joined(std::size_t axis) { return {Kind::kJoined, false, static_cast<int>(axis)}; }
  /// A part of one dimension for each rank.
  bool is_along() const { return kind == Kind::kAxis && !is_shared; }
  bool is_part() const { return kind == Kind::kAxis || kind == Kind::kJoined; }
  std::size_t at() const { return static_cast<std::size_t>(axis); }
  friend auto operator<=>(const Split&, const Split&) = default;
};
inline constexpr Split kWhole{}, kPartial{Split::Kind::kPartial, false, 0},
    kOwned{Split::Kind::kOwned, false, 0};

/// "whole", "partial", "owned", "by 2", "shared by 1", "joined by 1".
std::string to_string(Split split);

struct Ranks {
  std::int64_t count = 1;
  /// The number of heads of keys and values where it is less than the number of ranks and divides
  /// it: such values have `shared` parts, and count / shared consecutive ranks hold each. 0: none.
  std::int64_t shared = 0;

  std::int64_t parts(Split split) const { return split.is_shared ? shared : count; }
  /// The ranks that share a part.
  std::int64_t sharing() const { return shared == 0 ? 1 : count / shared; }
};

/// `dim` divided by `parts`; nothing if it may leave a remainder.
std::optional<Dim> part_of(const Dim& dim, std::int64_t parts);
/// What each rank has of a value of `type`, whose dimensions must be divided.
TensorType part_of(TensorType type, Split split, Ranks ranks);

}  // namespace sinter::fusion
