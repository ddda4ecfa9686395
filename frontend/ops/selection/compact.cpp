// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/selection/compact.h"

namespace sinter::frontend {

Places places_of(NodeContext& node, const Term& flags, const std::string& suffix,
                 const std::optional<Dim>& most) {
  const Dim length = flags.shape()[0];
  const Term ones = flags.cast(DType::kInt64);
  const Term count = reduce("ReduceSum", ones, 0);
  const Dim size = node.size_from_data(count.value(), most.value_or(length), suffix);
  // Stream compaction: a flag's position is the number of flags before it. Other elements get
  // positions after all flags, so that positions are unique and the scatter's order does not
  // matter.
  const Term before(node, node.add("Scan", {ones.value()},
                                   {{"axis", std::int64_t{0}},
                                    {"combine", std::string("sum")},
                                    {"exclusive", std::int64_t{1}},
                                    {"reverse", std::int64_t{0}}}));
  const Term numbers = iota(node, length, 0, 1);
  const Term target = select(flags, before, numbers - before + count);
  const ValueId all = node.add(
      "Scatter",
      {node.expand(node.constant(DType::kInt64, 0), {length}), numbers.value(), target.value()},
      {{"combine", std::string("none")}});
  return {size,
          {node, node.add("Slice", {all},
                          {{"starts", std::vector<Dim>{Dim(0)}},
                           {"steps", Ints{1}},
                           {"shape", std::vector<Dim>{size}}})}};
}

std::vector<Term> unravelled(const Term& places, const Shape& shape) {
  NodeContext& node = places.node();
  std::vector<Term> result;
  Dim inner = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    Term number = places;
    if (inner != Dim(1)) number = number / size_of_dim(node, inner);
    if (d > 0) number = number.with("Mod", size_of_dim(node, shape[d]));
    result.insert(result.begin(), number);
    inner = inner * shape[d];
  }
  return result;
}

}  // namespace sinter::frontend
