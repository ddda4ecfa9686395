// SPDX-License-Identifier: Apache-2.0
// Hyperbolic functions and their inverses as kernels, over float32 of every exponent: finite where
// the result is, although what they are made of overflows, and as exact as elsewhere.
#ifdef SINTER_WITH_CUDA
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/families/loops/emit_loops.h"
#include "cuda_programs.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct Function {
  const char* name;
  double (*exact)(double);
};
const Function kFunctions[] = {
    {"Sinh", [](double x) { return std::sinh(x); }},
    {"Cosh", [](double x) { return std::cosh(x); }},
    {"Asinh", [](double x) { return std::asinh(x); }},
    {"Acosh", [](double x) { return std::acosh(x); }},
    {"Atanh", [](double x) { return std::atanh(x); }},
};

/// Every exponent and sign with 64 mantissas each, and what lies next to a pole or an end.
std::vector<float> arguments() {
  std::vector<float> result = {1, -1, 0x1.fffffep-1F, -0x1.fffffep-1F, 0x1.000002p0F};
  for (const float x : {88.0F, 88.7F, 88.73F, 88.8F, 89.0F, 89.41F, 89.42F, 90.0F})
    result.insert(result.end(), {x, -x});
  for (std::uint32_t i = 0; i < 1U << 15; ++i)
    result.push_back(std::bit_cast<float>(i << 17 | i % 63 << 9));
  return result;
}

TEST(Hyperbolic, AreFiniteWhereTheirResultIs) {
  const std::vector<float> x = arguments();
  std::string body, outputs;
  for (const Function& function : kFunctions) {
    body += fmt::format("  %{0}_y = {0}(%x)\n", function.name);
    outputs +=
        fmt::format("{}{} = %{}_y", outputs.empty() ? "" : ", ", function.name, function.name);
  }
  codegen::ExprTable exprs{ir::Ranges{}};
  const ProgramBuilder program = lowered_program(
      exprs, ir::parse_graph(fmt::format("graph @functions(%x: f32[{}]) {{\n{}  return {}\n}}\n",
                                         x.size(), body, outputs)));
  const codegen::EmittedKernel kernel = codegen::emit_loops(program.request("functions"), exprs);
  plan::fb::PlanT plan;
  exprs.write(plan);
  Memory memory(1 + std::size(kFunctions), std::vector<std::byte>(x.size() * sizeof(float)));
  std::memcpy(memory[0].data(), x.data(), memory[0].size());
  EmulatedKernels(std::span(&kernel, 1))
      .run(kernel.step, 0, plan::evaluate_expressions(plan, {}), memory);
  for (std::size_t f = 0; f < std::size(kFunctions); ++f)
    for (std::size_t i = 0; i < x.size(); ++i) {
      float found = 0;
      std::memcpy(&found, memory[f + 1].data() + i * sizeof(float), sizeof(float));
      const double exact = kFunctions[f].exact(x[i]);
      const auto rounded = static_cast<float>(exact);
      if (std::isnan(rounded)) {
        ASSERT_TRUE(std::isnan(found)) << kFunctions[f].name << " of " << x[i];
      } else if (std::isinf(rounded) || rounded == 0) {
        ASSERT_EQ(found, rounded) << kFunctions[f].name << " of " << x[i];
      } else {
        ASSERT_NEAR(found, exact, std::max(std::abs(exact) * 1e-6, 0x1p-126))
            << kFunctions[f].name << " of " << x[i];
      }
    }
}

}  // namespace
}  // namespace sinter::test
#endif
