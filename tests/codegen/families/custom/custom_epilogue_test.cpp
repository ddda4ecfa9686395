// SPDX-License-Identifier: Apache-2.0
// What follows users' kernels and is computed as they store: passes, NVRTC, and the kernels on the
// emulator against the reference.
#ifdef SINTER_WITH_CUDA

#include <bit>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compare_buffers.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/support/random_inputs.h"

namespace sinter::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct EpilogueCase {
  std::string name;
  std::string kernel;   // the CustomKernel
  std::string inputs;   // the graph's
  std::string after;    // nodes behind, and the return
  std::size_t kernels;  // in the plan
  double tolerance = 1e-6;
  bool assign_layouts = true;  // else what follows is stored through its transpose

  friend std::ostream& operator<<(std::ostream& stream, const EpilogueCase& test) {
    return stream << test.name;
  }
};

/// A kernel of one thread for each of the x.size elements of x, which are doubled.
std::string twice(const std::string& more = "") {
  return R"(
  %y = CustomKernel(%x) {operator = "com.example::Twice", source = "
__device__ void twice(const types::x* x, const epilogues::y& y, long long count) {
  const long long i = blockIdx.x * 32LL + threadIdx.x;
  if (i < count) y.store(i, widen(x[i]) + widen(x[i]));
}", names = "x,y", launches = "twice grid=0 block=32 cluster=1 args=in0,out0,dim1",
    dims = [floordiv(8*n + 31, 32), 8*n], epilogues = [0]} body (%x) {
    %two = Add(%x, %x)
    return y = %two
  })" + more;
}

std::vector<EpilogueCase> epilogue_cases() {
  return {
      {"alone", twice(), "%x: f32[n, 8]", "return y = %y", 1},
      {"bias_residual_and_activation", twice(), "%x: f32[n, 8], %r: f32[n, 8], %b: f32[8]",
       "%s = Add(%y, %r)\n%t = Add(%s, %b)\n%u = Tanh(%t)\nreturn u = %u", 1},
      {"stored_too", twice(), "%x: f32[n, 8]", "%t = Exp(%y)\nreturn t = %t, y = %y", 1},
      {"read_by_a_reduction_too", twice(), "%x: f32[n, 8]",
       "%t = Exp(%y)\n%m = ReduceMax(%y) {axes = [0], keepdims = 0}\nreturn t = %t, m = %m", 2},
      {"of_halves", twice(), "%x: f16[n, 8], %r: f16[n, 1]",
       "%s = Mul(%y, %r)\n%t = Sigmoid(%s)\nreturn t = %t", 1, 2e-3},
      {"into_another_type", twice(), "%x: f16[n, 8]",
       "%c = Cast(%y) {to = f32}\n%t = Exp(%c)\nreturn t = %t", 1, 2e-3},
      {"of_integers", twice(), "%x: i64[n, 8], %o: i64[n, 8]",
       "%s = Sub(%y, %o)\n%c = Less(%s, %o)\nreturn c = %c, s = %s", 1},
      {"transposed", twice(), "%x: f32[n, 8]",
       "%t = Neg(%y)\n%p = Transpose(%t) {perm = [1, 0]}\nreturn p = %p", 1},
      {"reshaped_and_transposed", twice(), "%x: f32[n, 8], %b: f32[2, 1]",
       "%h = Reshape(%y) {shape = [n, 2, 4]}\n%t = Mul(%h, %b)\n%p = Transpose(%t) {perm = [1, 0, "
       "2]}\nreturn p = %p, y = %y",
       1, 1e-6, false},
      {"gathered_beside", twice(), "%x: f32[n, 8], %table: f32[5, 8], %at: i64[n]",
       "%g = Gather(%table, %at) {axis = 0}\n%s = Add(%y, %g)\nreturn s = %s", 1},
      {"nothing_reads_it", twice(), "%x: f32[n, 8]", "%z = Neg(%x)\nreturn z = %z", 1},
      {"two_launches_workspace_and_numbers",
       R"(
  %p, %q = CustomKernel(%x) {operator = "com.example::Parts", source = "
extern \"C\" __global__ void sums(const types::x* x, float* parts, types::p* p) {
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[blockIdx.x * 8 + i];
  parts[blockIdx.x] = sum;
  p[blockIdx.x] = sum;
}
__device__ void scaled(float* parts, epilogues::q q, long long n, int columns, float scale, void* none) {
  if (blockIdx.x < n && threadIdx.x < columns && none == nullptr)
    q.store(blockIdx.x * columns + threadIdx.x, scale * parts[blockIdx.x]);
}", names = "x,p,q", launches = "sums grid=0 block=1 cluster=1 args=in0,work0,out0
scaled grid=0 block=32 cluster=1 args=work0,out1,dim0,int1,float2,dim3",
    dims = [n, 8, )" +
           std::to_string(std::bit_cast<std::int32_t>(1.5F)) +
           R"(, 0], workspace = [4*n], epilogues = [1]} body (%x) {
    %s = ReduceSum(%x) {axes = [1], keepdims = 1}
    %h = const f32[] {1.5}
    %m = Mul(%s, %h)
    %o = Sub(%x, %x)
    %q = Add(%o, %m)
    %p = Reshape(%s) {shape = [n]}
    return p = %p, q = %q
  })",
       "%x: f32[n, 8], %r: f32[n, 8]", "%t = Add(%q, %r)\nreturn t = %t, p = %p", 1},
      {"two_epilogues", R"(
  %p, %q = CustomKernel(%x) {operator = "com.example::Both", source = "
template <class P, class Q>
__device__ void both(const types::x* x, P p, Q q) {
  const int i = blockIdx.x * 8 + threadIdx.x;
  p.store(i, x[i] + 1);
  q.store(i, x[i] * x[i]);
}", names = "x,p,q", launches = "both grid=0 block=8 cluster=1 args=in0,out0,out1",
    dims = [n], epilogues = [0, 1]} body (%x) {
    %one = const f32[] {1}
    %p = Add(%x, %one)
    %q = Mul(%x, %x)
    return p = %p, q = %q
  })",
       "%x: f32[n, 8], %r: f32[n, 8]",
       "%s = Add(%p, %r)\n%t = Sqrt(%q)\n%u = Transpose(%t) {perm = [1, 0]}\nreturn s = %s, u = %u",
       1},
  };
}

/// Strings of Graph text are on one line.
std::string with_escaped_lines(const std::string& text) {
  std::string result;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      result += text[i++];
    else if (text[i] == '"')
      is_quoted = !is_quoted;
    if (text[i] == '\n' && is_quoted)
      result += "\\n";
    else
      result += text[i];
  }
  return result;
}

ir::Graph graph_of(const EpilogueCase& test) {
  return ir::parse_graph(fmt::format("graph @main({}) ranges {{n: 1..64}} {{{}\n{}\n}}",
                                     test.inputs, with_escaped_lines(test.kernel), test.after));
}

ir::Graph passes(const EpilogueCase& test, bool fuse) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  context.fuse = fuse;
  fusion::PipelineOptions options;
  if (!test.assign_layouts) options.disabled = {"assign_layouts"};
  return fusion::run_pipeline(graph_of(test), context, options).graph;
}

codegen::CompiledPlan compile(const ir::Graph& fused,
                              const std::vector<std::string>& architectures) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = architectures;
  return codegen::compile(fused, options);
}

/// Kernels of a plan, in the order of its steps.
struct Kernels {
  std::vector<codegen::EmittedKernel> all;

  explicit Kernels(const codegen::CompiledPlan& compiled) {
    for (const auto& step : compiled.parts.meta.steps) add(step->work, compiled);
  }

 private:
  template <typename Work>
  void add(const Work& work, const codegen::CompiledPlan& compiled) {
    if (const auto* kernel = work.AsKernelStep()) {
      const auto& module = *compiled.parts.meta.modules[kernel->variants[0]->module_];
      codegen::EmittedKernel& emitted = all.emplace_back();
      emitted.step = *kernel;
      for (const auto& source : compiled.parts.sources)
        if (source.offset == module.source_offset) {
          const auto text = source.read();
          emitted.source.assign(reinterpret_cast<const char*>(text.bytes.data()), source.size);
        }
      // Launches of one text.
      for (std::size_t k = 0; k + 1 < all.size(); ++k)
        if (all[k].source == emitted.source) emitted.source.clear();
      return;
    }
    const auto* choice = work.AsTacticStep();
    ASSERT_NE(choice, nullptr);
    for (const auto& part : choice->tactics[0]->parts) add(part->work, compiled);
  }
};

class CustomEpilogues : public testing::TestWithParam<EpilogueCase> {};

void expect_reference(const EpilogueCase& test, bool fuse) {
  const ir::Graph graph = graph_of(test);
  const auto compiled = compile(passes(test, fuse), {"sm_80"});
  const plan::fb::PlanT& meta = compiled.parts.meta;
  if (fuse) {
    EXPECT_EQ(meta.steps.size(), test.kernels);
  }
  const Kernels kernels(compiled);
  const EmulatedKernels library(kernels.all);
  for (const std::int64_t n : {1, 5, 32}) {
    const auto inputs = random_inputs(graph, {{"n", n}}, 3);
    const auto expected = ir::evaluate(graph, inputs);
    const std::vector<std::int64_t> symbols(meta.symbols.size(), n);
    const auto expressions = plan::evaluate_expressions(meta, symbols);
    Memory memory(meta.buffers.size());
    constexpr std::size_t kMost = 64 * 64 * 8;  // scratch
    for (std::size_t b = 0; b < memory.size(); ++b) memory[b].assign(kMost, std::byte{0xa5});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      memory[meta.inputs[i]->buffer].assign(inputs[i].bytes().begin(), inputs[i].bytes().end());
    for (std::size_t i = 0; i < expected.size(); ++i)
      memory[meta.outputs[i]->buffer].assign(expected[i].bytes().size(), std::byte{0xa5});
    for (const codegen::EmittedKernel& kernel : kernels.all) {
      const auto& variants = kernel.step.variants;
      std::size_t v = 0;
      while (!may_run(*variants[v], expressions)) ++v;
      library.run(kernel.step, v, expressions, memory);
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(first_difference(expected[i].dtype(), memory[meta.outputs[i]->buffer],
                                 expected[i].bytes(), {test.tolerance, 1}),
                "")
          << "output " << i << ", n = " << n;
  }
}

TEST_P(CustomEpilogues, GiveWhatTheReferenceGives) { expect_reference(GetParam(), true); }

TEST_P(CustomEpilogues, AloneEachStays) { expect_reference(GetParam(), false); }

TEST_P(CustomEpilogues, CompileForEachArchitecture) {
  const auto compiled = compile(passes(GetParam(), true), {"sm_80", "sm_90", "sm_100"});
  EXPECT_EQ(compiled.parts.meta.modules.size() % 3, 0u);
  EXPECT_FALSE(compiled.parts.meta.modules.empty());
}

INSTANTIATE_TEST_SUITE_P(Cases, CustomEpilogues, testing::ValuesIn(epilogue_cases()),
                         [](const auto& info) { return info.param.name; });

std::string refusal_of(const EpilogueCase& test) {
  try {
    compile(passes(test, true), {"sm_80"});
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "";
}

std::string changed(std::string text, const std::string& what, const std::string& to) {
  text.replace(text.find(what), what.size(), to);
  return text;
}

TEST(CustomEpilogue, AFunctionThatWantsThePointerIsTheUsersMistake) {
  const auto refusal = [](const std::string& what, const std::string& to) {
    return refusal_of({"", changed(twice(), what, to), "%x: f32[n, 8]", "return y = %y", 1});
  };
  EXPECT_THAT(
      refusal("const epilogues::y& y", "types::y* y"),
      AllOf(HasSubstr("unsupported"), HasSubstr("com.example::Twice"), HasSubstr("epilogues::y")));
  EXPECT_THAT(refusal("y.store(i, widen(x[i]) + widen(x[i]))", "y[i] = widen(x[i])"),
              AllOf(HasSubstr("unsupported"), HasSubstr("com.example::Twice")));
  EXPECT_THAT(refusal("out0,dim1", "out0,out0,dim1"),
              AllOf(HasSubstr("invalid_model"), HasSubstr("twice")));
  EXPECT_THAT(refusal("epilogues = [0]", "epilogues = [1]"), HasSubstr("invalid_model"));
  EXPECT_THAT(refusal("epilogues = [0]", "epilogues = [-1]"), HasSubstr("invalid_model"));
  EXPECT_THAT(refusal("args=in0,out0", "args=in0"), HasSubstr("0 launches write output 0"));
  EXPECT_THAT(refusal("names =", "cubins = \"sm_80 00\", names ="),
              HasSubstr("compiled before can have no epilogue"));
}

TEST(CustomEpilogue, IsPartOfWhatTheKernelIs) {
  const EpilogueCase test{"", twice(), "%x: f32[n, 8], %r: f32[n, 8]",
                          "%s = Add(%y, %r)\nreturn s = %s", 1};
  const auto compiled = compile(passes(test, true), {"sm_80"});
  const plan::fb::PlanT& meta = compiled.parts.meta;
  ASSERT_EQ(meta.steps.size(), 1u);
  EXPECT_EQ(meta.steps[0]->reads.size(), 2u);
  EXPECT_EQ(meta.steps[0]->writes.size(), 1u);
  ASSERT_EQ(meta.custom_code.size(), 1u);
  const std::string source = Kernels(compiled).all[0].source;
  EXPECT_THAT(source, AllOf(HasSubstr("store_y("), HasSubstr("twice_with_epilogue("),
                            HasSubstr("__launch_bounds__(32)")));
  EXPECT_THAT(source, Not(HasSubstr("blockIdx.y")));
}

}  // namespace
}  // namespace sinter::test

#endif
