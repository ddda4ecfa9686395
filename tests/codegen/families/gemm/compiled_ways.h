// SPDX-License-Identifier: Apache-2.0
// The ways that the one step of a compiled graph has.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::test {

struct Way {
  std::string name;
  std::vector<plan::fb::Work> parts;
  bool limited = false;  // to some sizes
};

/// `requested`: CompileOptions::gemm.
inline std::vector<Way> ways_of(const ir::Graph& graph, const std::string& architecture,
                                const std::string& requested = {}) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {architecture};
  options.gemm = requested;
  const auto compiled = codegen::compile(graph, options);
  const auto parsed = plan::parse_plan(plan::serialize_plan(compiled.parts));  // verifies
  EXPECT_EQ(parsed->meta.steps.size(), 1u);
  std::vector<Way> ways;
  for (const auto& tactic : parsed->meta.steps[0]->work.AsTacticStep()->tactics) {
    Way way{tactic->name, {}, !tactic->conditions.empty()};
    for (const auto& part : tactic->parts) way.parts.push_back(part->work.type);
    ways.push_back(std::move(way));
  }
  return ways;
}

inline std::vector<std::string> names_of(const std::vector<Way>& ways) {
  std::vector<std::string> names;
  for (const Way& way : ways) names.push_back(way.name);
  return names;
}

}  // namespace sinter::test
