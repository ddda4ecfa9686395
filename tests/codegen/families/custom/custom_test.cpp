// SPDX-License-Identifier: Apache-2.0
// Regions of users' kernels: what plans have of them, and text that NVRTC does not take.
#ifdef SINTER_WITH_CUDA

#include <span>

#include <fmt/format.h>
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

std::string graph_of(const std::string& source, const std::string& launches,
                     const std::string& cubins = "") {
  return R"(
graph @main(%x: f16[n, 8]) ranges {n: 1..64} {
  %y = Fused(%x) {kind = "custom"} body (%x) {  # from Mine
    %s = CustomKernel(%x) {operator = "com.example::RowSum", source = ")" +
         source + R"(", cubins = ")" + cubins + R"(", names = "x,y", launches = ")" + launches +
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

codegen::CompiledPlan compile(const std::string& text,
                              const std::vector<std::string>& architectures = {"sm_80", "sm_90"}) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = architectures;
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

std::string refusal_of(const std::string& graph,
                       const std::vector<std::string>& architectures = {"sm_80", "sm_90"}) {
  try {
    compile(graph, architectures);
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "";
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

/// The code of kSource for sm_80 and sm_90, as a graph has it.
std::vector<std::pair<std::string, std::string>> cubins_of_source() {
  const auto compiled = compile(graph_of(kSource, kLaunches));
  std::vector<std::pair<std::string, std::string>> result;
  for (std::size_t i = 0; i < compiled.parts.modules.size(); ++i)
    result.emplace_back(compiled.parts.meta.modules[i]->target,
                        hexadecimal(compiled.parts.modules[i].read().bytes));
  return result;
}

TEST(CustomKernel, TakesCodeThatWasCompiledBefore) {
  std::string cubins;
  const auto code = cubins_of_source();
  for (const auto& [architecture, bytes] : code) cubins += architecture + " " + bytes + "\\n";
  // Code for sm_80 runs on sm_89, too.
  const auto compiled = compile(graph_of("", kLaunches, cubins), {"sm_80", "sm_89", "sm_90"});
  const plan::fb::PlanT& meta = compiled.parts.meta;
  ASSERT_EQ(meta.modules.size(), 3u);
  EXPECT_EQ(hexadecimal(compiled.parts.modules[0].read().bytes), code[0].second);
  EXPECT_EQ(hexadecimal(compiled.parts.modules[1].read().bytes), code[0].second);
  EXPECT_EQ(hexadecimal(compiled.parts.modules[2].read().bytes), code[1].second);
  ASSERT_EQ(meta.custom_code.size(), 1u);
  EXPECT_EQ(meta.custom_code[0]->kind, plan::fb::CodeKind::Binary);
  EXPECT_NE(meta.custom_code[0]->hash, 0u);
  EXPECT_EQ(meta.cuda_version, 0u);

  EXPECT_THAT(refusal_of(graph_of("", kLaunches, cubins), {"sm_90", "sm_100"}),
              AllOf(HasSubstr("unsupported: for sm_100"), HasSubstr("com.example::RowSum"),
                    HasSubstr("is missing: there are cubins for sm_80, sm_90"),
                    HasSubstr("--target=cuda:sm_80,sm_90")));
}

TEST(CustomKernel, CodeThatDoesNotFitIsRefused) {
  const auto code = cubins_of_source();
  const std::string sm_90 = "sm_90 " + code[1].second;
  const auto refusal = [](const std::string& launches, const std::string& cubins) {
    return refusal_of(graph_of("", launches, cubins), {"sm_90"});
  };
  EXPECT_EQ(refusal(kLaunches, sm_90), "");
  EXPECT_THAT(refusal(kLaunches, "sm_90 " + code[0].second), HasSubstr("it is code for sm_80"));
  EXPECT_THAT(refusal("third grid=0 block=32 cluster=1 args=", sm_90),
              HasSubstr("it has no kernel extern \"C\" __global__ 'third'; it has first, second"));
  EXPECT_THAT(refusal("first grid=0 block=32 cluster=1 args=in0", sm_90),
              AllOf(HasSubstr("kernel 'first' has 2 parameters, and 'arguments' has 1"),
                    HasSubstr("\"null\"")));
  EXPECT_THAT(refusal("second grid=0 block=32 cluster=1 args=work0,out0,int0", sm_90),
              HasSubstr("parameter 2 of kernel 'second' has 8 bytes, and its argument 4"));
  EXPECT_THAT(refusal(kLaunches, "sm_90 " + hexadecimal(std::as_bytes(std::span("not code")))),
              HasSubstr("it is no cubin: it does not begin as an ELF file does"));
  EXPECT_THAT(refusal(kLaunches, sm_90.substr(0, 6 + 2 * 500)),
              HasSubstr("it is shorter than it says, or damaged"));
  std::string foreign = sm_90;
  foreign.replace(6 + 2 * 18, 4, "3e00");  // e_machine: x86-64
  EXPECT_THAT(refusal(kLaunches, foreign), HasSubstr("an ELF file for machine 62"));
  for (const char* cubins : {"sm_90", "sm_90 7f4", "sm_90 7g", "sm_90 7f 45"})
    EXPECT_THAT(refusal(kLaunches, cubins), HasSubstr("invalid_model")) << cubins;
}

TEST(CustomKernel, DamagedCodeIsReadWithoutHarm) {
  const auto code = cubins_of_source();
  // Every byte of the headers in turn.
  for (std::size_t at = 0; at < 64; ++at) {
    std::string changed = code[1].second;
    changed.replace(2 * at, 2, changed.substr(2 * at, 2) == "ff" ? "00" : "ff");
    (void)refusal_of(graph_of("", kLaunches, "sm_90 " + changed), {"sm_90"});
  }
  for (std::size_t size = 0; size < code[1].second.size(); size += 2 * 97)
    EXPECT_NE(
        refusal_of(graph_of("", kLaunches, "sm_90 7f" + code[1].second.substr(2, size)), {"sm_90"}),
        "");
}

TEST(CustomKernel, NumbersOf32BitsArePassedAsSuch) {
  const std::string source =
      "extern \\\"C\\\" __global__ void first(const types::x* x, int n, float f, void* none) {}";
  const auto compiled =
      compile(graph_of(source, "first grid=0 block=32 cluster=1 args=in0,int0,int1,dim0"));
  const auto* step = compiled.parts.meta.steps[0]->work.AsKernelStep();
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->args[1].kind(), plan::fb::ArgKind::Int32);
  EXPECT_EQ(step->args[2].kind(), plan::fb::ArgKind::Int32);
  EXPECT_EQ(step->args[3].kind(), plan::fb::ArgKind::Int64);
}

TEST(CustomKernel, MistakesInItsTextAreTheUsers) {
  const auto refusal = [](const std::string& source, const std::string& launches) {
    return refusal_of(graph_of(source, launches));
  };
  EXPECT_THAT(refusal("extern \\\"C\\\" __global__ void first() { oops; }",
                      "first grid=0 block=32 cluster=1 args="),
              AllOf(HasSubstr("unsupported: for sm_80"), HasSubstr("com.example::RowSum"),
                    HasSubstr("Mine"), HasSubstr("oops")));
  EXPECT_THAT(refusal("__global__ void first() {}", "first grid=0 block=32 cluster=1 args="),
              HasSubstr("it has no kernel extern \"C\" __global__ 'first'"));
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
