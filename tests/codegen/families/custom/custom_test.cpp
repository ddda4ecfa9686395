// Regions of users' kernels: what plans have of them, and text that NVRTC does not take.
#ifdef SINTER_WITH_CUDA

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string graph_of(const std::string& source, const std::string& launches) {
  return R"(
graph @main(%x: f16[n, 8]) ranges {n: 1..64} {
  %y = Fused(%x) {kind = "custom"} body (%x) {  # from Mine
    %s = CustomKernel(%x) {operator = "com.example::RowSum", source = ")" +
         source + R"(", names = "x,y", launches = ")" + launches +
         R"(", dims = [n, 8], workspace = [16*n]} body (%x) {
      %r = ReduceSum(%x) {axes = [1], keepdims = 0}
      return r = %r
    }
    return s = %s
  }
  return y = %y
})";
}

constexpr const char* kSource =
    "extern \\\"C\\\" __global__ void first(const types::x* x, float* parts) {}"
    "extern \\\"C\\\" __global__ void second(float* parts, types::y* y, long long n) {"
    " y[blockIdx.x] = narrow<types::y>(parts[0]); }";
constexpr const char* kLaunches =
    "first grid=0 block=32 cluster=1 args=in0,work0\\n"
    "second grid=0,1 block=32,2 cluster=1 args=work0,out0,dim0";

codegen::CompiledPlan compile(const std::string& text) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_80", "sm_90"};
  return codegen::compile(ir::parse_graph(text), options);
}

TEST(CustomKernel, IsLaunchedAsItsDefinitionSays) {
  const auto compiled = compile(graph_of(kSource, kLaunches));
  const plan::fb::PlanT& meta = compiled.parts.meta;
  ASSERT_EQ(meta.steps.size(), 1u);
  const auto* choice = meta.steps[0]->work.AsTacticStep();
  ASSERT_NE(choice, nullptr);
  ASSERT_EQ(choice->tactics[0]->parts.size(), 2u);
  const auto* first = choice->tactics[0]->parts[0]->work.AsKernelStep();
  const auto* second = choice->tactics[0]->parts[1]->work.AsKernelStep();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->variants[0]->function, "first");
  EXPECT_EQ(second->variants[0]->function, "second");
  EXPECT_THAT(second->variants[0]->block, ElementsAre(32, 2, 1));
  ASSERT_EQ(second->args.size(), 3u);
  EXPECT_EQ(second->args[0].index(), first->args[1].index());
  EXPECT_EQ(second->args[1].index(), meta.outputs[0]->buffer);
  EXPECT_EQ(second->args[2].kind(), plan::fb::ArgKind::Int64);
  EXPECT_THAT(meta.steps[0]->writes, testing::Contains(first->args[1].index()));
  ASSERT_EQ(meta.custom_code.size(), 1u);
  EXPECT_EQ(meta.custom_code[0]->name, "com.example::RowSum");
  EXPECT_EQ(meta.modules.size(), 2u);
}

TEST(CustomKernel, MistakesInItsTextAreTheUsers) {
  const auto refusal = [](const std::string& source, const std::string& launches) {
    try {
      compile(graph_of(source, launches));
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.what();
    }
    return std::string();
  };
  EXPECT_THAT(refusal("extern \\\"C\\\" __global__ void first() { oops; }",
                      "first grid=0 block=32 cluster=1 args="),
              AllOf(HasSubstr("unsupported: for sm_80"), HasSubstr("com.example::RowSum"),
                    HasSubstr("Mine"), HasSubstr("oops")));
  EXPECT_THAT(refusal("__global__ void first() {}", "first grid=0 block=32 cluster=1 args="),
              HasSubstr("has no kernel extern \"C\" __global__ 'first'"));
  for (const char* launches :
       {"first grid=2 block=32 cluster=1 args=", "first grid=0 block=2048 cluster=1 args=",
        "first grid=0 block=32 cluster=1 args=in1", "first grid=0 block=32 cluster=1 args=what",
        "first grid=0 block=32 cluster=0 args=", "first grid=0 block=32 cluster=1 shared=0 args=",
        "",
        "first grid=0,0,0,0 block=32 cluster=1 args=", "first grid=-1 block=32 cluster=1 args="})
    EXPECT_THAT(refusal(kSource, launches), HasSubstr("invalid_model")) << launches;
}

}  // namespace
}  // namespace sinter::test

#endif
