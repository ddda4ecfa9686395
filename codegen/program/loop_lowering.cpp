// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/loop_lowering.h"

#include <algorithm>

#include <sinter/error.h>

#include "codegen/program/region_lowering.h"
#include "codegen/program/region_space.h"

namespace sinter::codegen {

std::vector<ScatteredValues> scattered_values(const Graph& body) {
  const auto& outputs = body.outputs();
  std::vector<ScatteredValues> all;
  for (const Node& node : body.nodes()) {
    if (!node.op->scatter()) continue;
    const auto data = body.input_number(node.inputs[0]);
    const auto result = std::ranges::find(outputs, node.outputs[0]);
    if (!data || result == outputs.end())
      throw Error(ErrorCode::kUnsupported,
                  "a region that scatters must get its data from memory and store its result");
    all.push_back({*data, static_cast<std::size_t>(result - outputs.begin())});
  }
  return all;
}

namespace {

/// A step costs as much as some hundred elements that select among sources. The limit on steps
/// keeps plans small.
bool is_worth_cutting(const LoopSpace& space, const Cuts& cuts) {
  constexpr std::size_t kMostParts = 128;
  constexpr std::int64_t kLeastElements = 256;  // of a part
  std::size_t parts = 1;
  for (const auto& [dim, ends] : cuts) parts *= ends.size() + 1;
  const Dim elements = ir::element_count(space.shape());
  return parts <= kMostParts &&
         !(elements.is_constant() &&
           elements.value() < kLeastElements * static_cast<std::int64_t>(parts));
}

}  // namespace

LoopProgramT lower_region(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs) {
  return lower_over(body, inputs, outputs, exprs, space_of(body, exprs));
}

std::vector<LoopProgramT> lower_region_parts(const Graph& body, Buffers inputs, Buffers outputs,
                                             ExprTable& exprs) {
  const LoopSpace space = space_of(body, exprs);
  Cuts cuts;
  std::vector<LoopProgramT> programs;
  programs.push_back(lower_over(body, inputs, outputs, exprs, space, &cuts));
  if (scatter_of(body) || cuts.empty() || !is_worth_cutting(space, cuts)) return programs;
  // The parts are the cross product of the ranges along all dimensions.
  std::vector<LoopSpace> parts{space};
  for (auto& [dim, ends] : cuts) {
    ends.insert(space.shape()[dim].value());
    std::vector<LoopSpace> finer;
    for (const LoopSpace& part : parts) {
      std::int64_t start = 0;
      for (const std::int64_t end : ends) {
        finer.push_back(part);
        finer.back().restrict(dim, start, end - start);
        start = end;
      }
    }
    parts = std::move(finer);
  }
  programs.clear();
  for (const LoopSpace& part : parts)
    programs.push_back(lower_over(body, inputs, outputs, exprs, part));
  return programs;
}

LoopProgramT lower_region_over(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                               const Shape& space, const std::vector<bool>& inner) {
  return lower_over(body, inputs, outputs, exprs, LoopSpace(space, inner, exprs.ranges()));
}

}  // namespace sinter::codegen
