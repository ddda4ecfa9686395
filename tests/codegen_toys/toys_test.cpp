// SPDX-License-Identifier: Apache-2.0
// A kernel family and a target that this folder adds when the build is configured. Nothing outside
// of their folders names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/compile.h"
#include "codegen/families/registry.h"
#include "codegen/targets/registry.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"

namespace sinter {
namespace {

using testing::HasSubstr;

codegen::CompiledPlan compile(const char* text, const char* target) {
  codegen::CompileOptions options;
  options.target = &codegen::target_named(target);
  if (options.target->traits().generates_kernels) options.architectures = {"sm_90"};
  fusion::Context context;
  context.target = options.target->traits();
  return codegen::compile(fusion::run_pipeline(ir::parse_graph(text), context).graph, options);
}

std::string sources_of(const codegen::CompiledPlan& plan) {
  std::string text;
  for (const auto& part : plan.parts.sources) {
    const auto bytes = part.read().bytes;
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return text;
}

constexpr const char* kNegate = "graph @g(%x: f32[n, 8]) {\n  %y = Neg(%x)\n  return %y\n}\n";
constexpr const char* kExp = "graph @g(%x: f32[n, 8]) {\n  %y = Exp(%x)\n  return %y\n}\n";

TEST(Toys, AFamilyTakesItsRegionsAndLeavesTheOthers) {
  EXPECT_THAT(sources_of(compile(kNegate, "cuda")), HasSubstr("y[i] = negated(x[i]);"));
  EXPECT_THAT(sources_of(compile(kExp, "cuda")), HasSubstr("// schedule: pointwise"));
  EXPECT_EQ(compile(kNegate, "cpu").parts.meta.modules.size(), 0u);
  EXPECT_NO_THROW(codegen::check_schedule("negate"));
}

TEST(Toys, ATargetHasPlansOfItsOwn) {
  const codegen::CompiledPlan plan = compile(kExp, "abacus");
  EXPECT_EQ(plan.parts.meta.target, "abacus");
  EXPECT_EQ(plan.parts.meta.steps.size(), 1u);
  EXPECT_EQ(codegen::target_names(), "abacus, cpu, cuda");
}

}  // namespace
}  // namespace sinter
