// Many small regions as one kernel: its table, its text, and what it computes on the emulator.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/cuda/emit_horizontal.h"
#include "cuda_emulation.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "region_check.h"

namespace sinter::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A region that reduces input number `k`: `reduction` of its float32 values along `axis`.
std::string member(std::size_t k, const std::string& result, const std::string& reduction,
                   int axis) {
  return fmt::format(
      "  %r{0} = Fused(%x{0}) {{family = \"reduction\"}} : {1} body @body(%in0) {{\n"
      "    %0 = Cast(%in0) {{to = f32}}\n"
      "    %1 = {2}(%0) {{axes = [{3}], keepdims = 0}}\n"
      "    return out0 = %1\n  }}\n",
      k, result, reduction, axis);
}

/// Runs the body's kernel on random inputs; what differs from the reference, or nothing.
std::string difference(const std::string& text, std::string* source = nullptr) {
  const ir::Graph body = ir::parse_graph(text);
  std::vector<std::uint32_t> inputs, outputs;
  for (std::uint32_t b = 0; b < body.inputs().size(); ++b) inputs.push_back(b);
  for (std::uint32_t b = 0; b < body.outputs().size(); ++b)
    outputs.push_back(static_cast<std::uint32_t>(inputs.size()) + b);
  const codegen::HorizontalProgram program = codegen::lower_horizontal(body, inputs, outputs);
  codegen::ExprTable exprs{ir::Ranges{}};
  codegen::KernelRequest request{nullptr, "many", {}, {}};
  request.early = true;
  const codegen::EmittedKernel kernel = codegen::emit_horizontal(program, request, exprs);
  if (source) *source = kernel.source;
  EXPECT_TRUE(kernel.step.packed);

  const std::vector<ir::Tensor> values = random_inputs(body, {}, 3);
  const std::vector<ir::Tensor> expected = ir::evaluate(body, values);
  Memory memory;
  for (const ir::Tensor& value : values)
    memory.emplace_back(value.bytes().begin(), value.bytes().end());
  for (const ir::Tensor& value : expected)
    memory.emplace_back(value.bytes().size(), std::byte{0xa5});
  plan::fb::PlanT plan;
  exprs.write(plan);
  const auto expressions = plan::evaluate_expressions(plan, {});
  EmulatedKernels(std::span(&kernel, 1)).run(kernel.step, 0, expressions, memory);
  for (std::size_t k = 0; k < expected.size(); ++k)
    for (std::int64_t i = 0; i < expected[k].element_count(); ++i) {
      const double actual = ir::load_as_double(
          expected[k].dtype(), memory[outputs[k]].data() + static_cast<std::size_t>(i) * 4);
      if (std::abs(actual - expected[k].at(i)) > 2e-5 * (1 + std::abs(expected[k].at(i))))
        return fmt::format("output {} [{}] is {}, not {}", k, i, actual, expected[k].at(i));
    }
  return "";
}

TEST(Horizontal, PartsOfManySizesShareOneFunction) {
  const std::size_t sizes[] = {300, 257, 4096, 129, 5001, 8};
  std::string text = "graph @body(";
  for (std::size_t k = 0; k < std::size(sizes); ++k)
    text += fmt::format("{}%x{}: f16[{}]", k > 0 ? ", " : "", k, sizes[k]);
  text += ") {\n";
  for (std::size_t k = 0; k < std::size(sizes); ++k) text += member(k, "f32[]", "ReduceMean", 0);
  for (std::size_t k = 0; k < std::size(sizes); ++k)
    text += fmt::format("  %s{0} = Reshape(%r{0}) {{shape = [1]}}\n", k);
  // Concatenated in another order, in two steps, and one that is an output itself.
  text +=
      "  %c = Fused(%s4, %s0, %s3) {family = \"pointwise\"} : f32[3] body @body(%a, %b, %c) {\n"
      "    %0 = Concat(%b, %c, %a) {axis = 0}\n    return out0 = %0\n  }\n"
      "  %all = Fused(%s1, %c, %s5) {family = \"pointwise\"} : f32[5] body @body(%a, %b, %c) {\n"
      "    %0 = Concat(%b, %a, %c) {axis = 0}\n    return out0 = %0\n  }\n"
      "  return y = %all, z = %r2\n}\n";
  std::string source;
  EXPECT_EQ(difference(text, &source), "");
  EXPECT_THAT(source, HasSubstr("many_0("));
  EXPECT_THAT(source, Not(HasSubstr("many_1(")));
  // The longest first.
  EXPECT_THAT(source, HasSubstr("many_parts[6] = {\n    {0, 0, {625, 5001"));
}

TEST(Horizontal, SeveralKindsAndRows) {
  std::string text =
      "graph @body(%x0: f32[1000], %x1: f32[3, 130], %x2: f32[40, 2], %x3: f32[7]) {\n";
  text += member(0, "f32[]", "ReduceMax", 0) + member(1, "f32[3]", "ReduceSum", 1) +
          member(2, "f32[2]", "ReduceSum", 0) + member(3, "f32[]", "ReduceMax", 0) +
          "  return a = %r0, b = %r1, c = %r2, d = %r3\n}\n";
  std::string source;
  EXPECT_EQ(difference(text, &source), "");
  EXPECT_THAT(source, HasSubstr("many_part_of["));
  EXPECT_THAT(source, HasSubstr("if (part.kind == 2)"));
}

/// Sizes in attributes cannot be symbols: such regions are kinds of their own.
TEST(Horizontal, SizesInAttributes) {
  std::string text = "graph @body(";
  for (const std::size_t k : {0, 1})
    text += fmt::format("{}%x{}: f32[{}]", k > 0 ? ", " : "", k, 60 + 20 * k);
  text += ") {\n";
  for (const std::size_t k : {0, 1})
    text += fmt::format(
        "  %r{0} = Fused(%x{0}) {{family = \"reduction\"}} : f32[4] body @body(%in0) {{\n"
        "    %0 = Reshape(%in0) {{shape = [4, {1}]}}\n"
        "    %1 = ReduceSum(%0) {{axes = [1], keepdims = 0}}\n"
        "    return out0 = %1\n  }}\n",
        k, 15 + 5 * k);
  EXPECT_EQ(difference(text + "  return a = %r0, b = %r1\n}\n"), "");
}

TEST(Horizontal, WhatIsNoRegionIsRefused) {
  const ir::Graph body =
      ir::parse_graph("graph @body(%x: f32[4]) {\n  %y = Exp(%x)\n  return y = %y\n}\n");
  const std::uint32_t input = 0, output = 1;
  EXPECT_THROW(codegen::lower_horizontal(body, {&input, 1}, {&output, 1}), Error);
}

}  // namespace
}  // namespace sinter::test
#endif
