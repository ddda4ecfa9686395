#include "codegen/program/loop_lowering.h"

#include <algorithm>
#include <map>
#include <set>

#include <sinter/error.h>

#include "codegen/program/region_lowering.h"
#include "codegen/program/region_space.h"

namespace sinter::codegen {
namespace {

using ir::Graph;
using ir::Node;

/// `cuts`, if given, receives the cuts of the first attempt, whose loops are the whole dimensions.
plan::fb::LoopProgramT lower_over(const Graph& body, std::span<const std::uint32_t> inputs,
                                  std::span<const std::uint32_t> outputs, ExprTable& exprs,
                                  LoopSpace space,
                                  std::map<std::size_t, std::set<std::int64_t>>* cuts = nullptr) {
  if (inputs.size() != body.inputs().size() || outputs.size() != body.outputs().size())
    throw Error(ErrorCode::kInternal, "buffers do not match the body of a fused region");
  // Every split removes a division; the bound only guards against expressions that never become
  // linear, which stay non-affine.
  constexpr int kMostSplits = 32;
  for (int attempt = 0;; ++attempt) {
    RegionLowering region(body, inputs, outputs, space, exprs);
    if (cuts && attempt == 0) *cuts = region.cuts();
    const auto& wanted = region.builder().wanted_split();
    if (!wanted || attempt == kMostSplits) {
      if (region.refusal()) throw Error(ErrorCode::kUnsupported, *region.refusal());
      return region.builder().finish();
    }
    space.split(*wanted);
  }
}

}  // namespace

ScatteredValues scattered_values(const Graph& body) {
  const Node* node = scatter_of(body);
  const auto& inputs = body.inputs();
  const auto& outputs = body.outputs();
  if (node) {
    const auto data = std::find(inputs.begin(), inputs.end(), node->inputs[0]);
    const auto result = std::find(outputs.begin(), outputs.end(), node->outputs[0]);
    if (data != inputs.end() && result != outputs.end())
      return {static_cast<std::size_t>(data - inputs.begin()),
              static_cast<std::size_t>(result - outputs.begin())};
  }
  throw Error(ErrorCode::kUnsupported,
              "a region that scatters must get its data from memory and store its result");
}

plan::fb::LoopProgramT lower_region(const Graph& body, std::span<const std::uint32_t> inputs,
                                    std::span<const std::uint32_t> outputs, ExprTable& exprs) {
  return lower_over(body, inputs, outputs, exprs, space_of(body, exprs));
}

std::vector<plan::fb::LoopProgramT> lower_region_parts(const Graph& body,
                                                       std::span<const std::uint32_t> inputs,
                                                       std::span<const std::uint32_t> outputs,
                                                       ExprTable& exprs) {
  // More parts than this cost more in steps than their conditions did.
  constexpr std::size_t kMostParts = 16;
  const LoopSpace space = space_of(body, exprs);
  std::map<std::size_t, std::set<std::int64_t>> cuts;
  std::vector<plan::fb::LoopProgramT> programs;
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

plan::fb::LoopProgramT lower_region_over(const Graph& body, std::span<const std::uint32_t> inputs,
                                         std::span<const std::uint32_t> outputs, ExprTable& exprs,
                                         const ir::Shape& space, const std::vector<bool>& inner) {
  return lower_over(body, inputs, outputs, exprs, LoopSpace(space, inner, exprs.ranges()));
}

}  // namespace sinter::codegen
