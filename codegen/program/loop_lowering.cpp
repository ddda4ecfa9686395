#include "codegen/program/loop_lowering.h"

#include <algorithm>

#include <sinter/error.h>

#include "codegen/program/region_lowering.h"
#include "codegen/program/region_space.h"

namespace sinter::codegen {

ScatteredValues scattered_values(const Graph& body) {
  const auto& outputs = body.outputs();
  if (const Node* node = scatter_of(body)) {
    const auto data = body.input_number(node->inputs[0]);
    const auto result = std::ranges::find(outputs, node->outputs[0]);
    if (data && result != outputs.end())
      return {*data, static_cast<std::size_t>(result - outputs.begin())};
  }
  throw Error(ErrorCode::kUnsupported,
              "a region that scatters must get its data from memory and store its result");
}

LoopProgramT lower_region(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs) {
  return lower_over(body, inputs, outputs, exprs, space_of(body, exprs));
}

std::vector<LoopProgramT> lower_region_parts(const Graph& body, Buffers inputs, Buffers outputs,
                                             ExprTable& exprs) {
  // More parts than this cost more in steps than their conditions did.
  constexpr std::size_t kMostParts = 16;
  const LoopSpace space = space_of(body, exprs);
  Cuts cuts;
  std::vector<LoopProgramT> programs;
  programs.push_back(lower_over(body, inputs, outputs, exprs, space, &cuts));
  if (scatter_of(body) || cuts.size() != 1 || cuts.begin()->second.size() >= kMostParts)
    return programs;
  programs.clear();
  auto& [dim, places] = *cuts.begin();
  places.insert(space.shape()[dim].value());
  std::int64_t start = 0;
  for (const std::int64_t end : places) {
    LoopSpace part = space;
    part.restrict(dim, start, end - start);
    programs.push_back(lower_over(body, inputs, outputs, exprs, part));
    start = end;
  }
  return programs;
}

LoopProgramT lower_region_over(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                               const Shape& space, const std::vector<bool>& inner) {
  return lower_over(body, inputs, outputs, exprs, LoopSpace(space, inner, exprs.ranges()));
}

}  // namespace sinter::codegen
