// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/split.h"

#include <fmt/format.h>

namespace sinter::fusion {

std::string to_string(Split split) {
  switch (split.kind) {
    case Split::Kind::kWhole: return "whole";
    case Split::Kind::kPartial: return "partial";
    case Split::Kind::kOwned: return "owned";
    case Split::Kind::kAxis:
      return fmt::format("{}by {}", split.is_shared ? "shared " : "", split.axis);
    case Split::Kind::kJoined: return fmt::format("joined by {}", split.axis);
  }
  return {};
}

std::optional<Dim> part_of(const Dim& dim, std::int64_t parts) {
  if (dim == Dim(0)) return std::nullopt;
  return ir::divide_exactly(dim, Dim(parts));
}

TensorType part_of(TensorType type, Split split, Ranks ranks) {
  const auto divide = [&](std::size_t axis, std::int64_t parts) {
    Dim& dim = type.shape.at(axis);
    dim = part_of(dim, parts).value();
  };
  if (split.kind == Split::Kind::kAxis) divide(split.at(), ranks.parts(split));
  if (split.kind == Split::Kind::kJoined) {
    divide(split.at(), ranks.shared);
    divide(split.at() + 1, ranks.sharing());
  }
  return type;
}

}  // namespace sinter::fusion
