// SPDX-License-Identifier: Apache-2.0
// Operators that a library computes: what plans have of them, on every target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/compile.h"
#include "codegen/targets/registry.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string graph_of(const std::string& values) {
  return R"(
graph @main(%x: f16[n, 8]) ranges {n: 1..64} {
  %y = Fused(%x) {kind = "host"} body (%x) {  # from Mine
    %s, %unused = HostOperator(%x, %x) {operator = "com.example::RowSum", library = "librows", values = ")" +
         values + R"("} body (%x, %z) {
      %r = ReduceSum(%x) {axes = [1], keepdims = 0}
      return r = %r, z = %z
    }
    return s = %s
  }
  return y = %y
})";
}

codegen::CompiledPlan compile(const std::string& text, const std::string& target) {
  codegen::CompileOptions options;
  for (const codegen::Target* known : codegen::targets())
    if (known->name() == target) options.target = known;
  if (target == "cuda") options.architectures = {"sm_90"};
  return codegen::compile(ir::parse_graph(text), options);
}

TEST(HostOperator, IsACallOfItsTensorsAndAttributes) {
  for (const codegen::Target* target : codegen::targets()) {
    const auto compiled =
        compile(graph_of("int axis -3\\nfloat limit 2.5\\n"), std::string(target->name()));
    const plan::fb::PlanT& meta = compiled.parts.meta;
    ASSERT_EQ(meta.steps.size(), 1u);
    const plan::fb::StepT& step = *meta.steps[0];
    EXPECT_EQ(step.name, "custom_rowsum_0");
    const auto* call = step.work.AsHostStep();
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(call->operator_name, "com.example::RowSum");
    EXPECT_EQ(call->library, "librows");
    ASSERT_EQ(call->inputs.size(), 2u);
    EXPECT_EQ(call->inputs[0]->buffer, meta.inputs[0]->buffer);
    EXPECT_EQ(call->inputs[1]->buffer, meta.inputs[0]->buffer);
    ASSERT_EQ(call->outputs.size(), 2u);
    EXPECT_EQ(call->outputs[0]->buffer, meta.outputs[0]->buffer);
    EXPECT_EQ(call->outputs[0]->shape.size(), 1u);
    // Nobody reads the other, which is written all the same.
    EXPECT_EQ(call->outputs[1]->shape.size(), 2u);
    EXPECT_THAT(step.writes, ElementsAre(call->outputs[0]->buffer, call->outputs[1]->buffer));
    ASSERT_EQ(call->attributes.size(), 2u);
    EXPECT_EQ(call->attributes[0]->name, "axis");
    EXPECT_EQ(call->attributes[0]->integer, -3);
    EXPECT_TRUE(call->attributes[1]->is_float);
    EXPECT_EQ(call->attributes[1]->real, 2.5);
    ASSERT_EQ(meta.custom_code.size(), 1u);
    EXPECT_EQ(meta.custom_code[0]->name, "com.example::RowSum");
    EXPECT_EQ(meta.custom_code[0]->kind, plan::fb::CodeKind::Host);
  }
}

TEST(HostOperator, ValuesThatAreNoneAreRefused) {
  for (const char* values : {"int axis", "int axis x", "double axis 2", "int axis 2 3", "int"}) {
    try {
      compile(graph_of(values), "cpu");
      ADD_FAILURE() << values;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("is no attribute")) << values;
    }
  }
}

}  // namespace
}  // namespace sinter::test
