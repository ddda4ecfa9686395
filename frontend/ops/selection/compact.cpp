// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/selection/compact.h"

namespace sinter::frontend {
namespace {

constexpr std::int64_t kTile = 4096;  // flags that are selected together

/// `flags` in rows of a tile; what is missing in the last is false.
Term in_tiles(const Term& flags) {
  NodeContext& node = flags.node();
  const Dim length = flags.shape()[0];
  const bool is_short = length.is_constant() && length.value() <= kTile;
  const Dim tile = is_short ? std::max<std::int64_t>(length.value(), 1) : kTile;
  const Dim tiles = is_short ? Dim(1) : ir::ceil_div(length, tile, node.builder().ranges());
  const Dim missing = tiles * tile - length;
  if (missing == Dim(0)) return flags.reshape({tiles, tile});
  return Term(node, node.add("Pad", {flags.value()},
                             {{"begins", std::vector<Dim>{Dim(0)}},
                              {"ends", std::vector<Dim>{missing}},
                              {"fill", 0.0}}))
      .reshape({tiles, tile});
}

}  // namespace

Places places_of(NodeContext& node, const Term& flags, const std::string& suffix,
                 const std::optional<Dim>& most) {
  const Term tiles = in_tiles(flags);
  // Counted where flags are computed; a tile's count needs no 64 bits.
  const Term counts = reduce("ReduceSum", tiles.cast(DType::kInt32), 1).cast(DType::kInt64);
  const Term count = reduce("ReduceSum", counts, 0);
  const Dim size = node.size_from_data(count.value(), most.value_or(flags.shape()[0]), suffix);
  const Term before(node, node.add("Scan", {counts.value()},
                                   {{"axis", std::int64_t{0}},
                                    {"combine", std::string("sum")},
                                    {"exclusive", std::int64_t{1}},
                                    {"reverse", std::int64_t{0}}}));
  return {size,
          {node, node.add("SelectIndices", {tiles.value(), before.value()},
                          {{"count", std::vector<Dim>{size}}})}};
}

std::vector<Term> unravelled(const Term& places, const Shape& shape) {
  NodeContext& node = places.node();
  std::vector<Term> result;
  Term rest = places;
  for (std::size_t d = shape.size(); d-- > 0;) {
    // One division for each dimension: a remainder would be another.
    const Term above = d > 0 ? rest / size_of_dim(node, shape[d]) : rest;
    result.insert(result.begin(), d > 0 ? rest - above * size_of_dim(node, shape[d]) : rest);
    rest = above;
  }
  return result;
}

}  // namespace sinter::frontend
