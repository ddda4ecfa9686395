// SPDX-License-Identifier: Apache-2.0
// Many small regions as one kernel: its table, its text, and what it computes on the emulator.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/horizontal/emit_horizontal.h"
#include "codegen/plan/plan_buffers.h"
#include "ir/op_def.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compare_buffers.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/codegen/emulation/region_check.h"
#include "tests/codegen/program/random_body.h"

namespace sinter::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A region that reduces input number `k`: `reduction` of its float32 values along `axis`.
std::string member(std::size_t k, const std::string& result, const std::string& reduction,
                   int axis) {
  return fmt::format(
      "  %r{0} = Fused(%x{0}) {{kind = \"reduction\"}} : {1} body @body(%in0) {{\n"
      "    %0 = Cast(%in0) {{to = f32}}\n"
      "    %1 = {2}(%0) {{axes = [{3}], keepdims = 0}}\n"
      "    return out0 = %1\n  }}\n",
      k, result, reduction, axis);
}

struct HorizontalEmitted {
  std::string source;
  bool packed = false;
};

/// Runs the body's kernel on random inputs; what differs from the reference, or nothing.
std::string difference(const ir::Graph& body, const ir::Bindings& symbols = {},
                       HorizontalEmitted* emitted = nullptr, std::uint64_t seed = 3) {
  std::vector<std::uint32_t> inputs, outputs;
  for (std::uint32_t b = 0; b < body.inputs().size(); ++b) inputs.push_back(b);
  for (std::uint32_t b = 0; b < body.outputs().size(); ++b)
    outputs.push_back(static_cast<std::uint32_t>(inputs.size()) + b);
  const codegen::HorizontalProgram program = codegen::lower_horizontal(body, inputs, outputs);
  codegen::ExprTable exprs{body.ranges()};
  codegen::KernelRequest request{nullptr, "many", {}, {}};
  request.programmatic_launch = true;
  const codegen::EmittedKernel kernel = codegen::emit_horizontal(program, request, exprs);
  if (emitted) *emitted = {kernel.source, kernel.step.packed};

  const std::vector<ir::Tensor> values = random_inputs(body, symbols, seed);
  const std::vector<ir::Tensor> expected = ir::evaluate(body, values);
  Memory memory;
  for (const ir::Tensor& value : values)
    memory.emplace_back(value.bytes().begin(), value.bytes().end());
  for (const ir::Tensor& value : expected)
    memory.emplace_back(value.bytes().size(), std::byte{0xa5});
  ir::Node node;
  node.op = &ir::get_op("Fused");
  node.attrs.set("kind", std::string("horizontal"));
  node.body = std::make_shared<const ir::Graph>(body);
  for (const codegen::ScatterRegion& region : codegen::scatter_regions(node))
    memory[outputs[region.result]] = memory[inputs[region.data]];  // it changes a copy
  plan::fb::PlanT plan;
  exprs.write(plan);
  std::vector<std::int64_t> sizes;
  for (const auto& symbol : plan.symbols) sizes.push_back(symbols.at(symbol->name));
  const auto expressions = plan::evaluate_expressions(plan, sizes);
  EmulatedKernels(std::span(&kernel, 1)).run(kernel.step, 0, expressions, memory);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    const double rounding = size_of(expected[k].dtype()) == 2 ? 1e-3 : 2e-5;
    const std::string found =
        first_difference(expected[k].dtype(), memory[outputs[k]], expected[k].bytes(), {rounding});
    if (!found.empty()) return fmt::format("output {} {}", k, found);
  }
  return "";
}
std::string difference(const std::string& text, HorizontalEmitted* emitted = nullptr) {
  return difference(ir::parse_graph(text), {}, emitted);
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
      "  %c = Fused(%s4, %s0, %s3) {kind = \"pointwise\"} : f32[3] body @body(%a, %b, %c) {\n"
      "    %0 = Concat(%b, %c, %a) {axis = 0}\n    return out0 = %0\n  }\n"
      "  %all = Fused(%s1, %c, %s5) {kind = \"pointwise\"} : f32[5] body @body(%a, %b, %c) {\n"
      "    %0 = Concat(%b, %a, %c) {axis = 0}\n    return out0 = %0\n  }\n"
      "  return y = %all, z = %r2\n}\n";
  HorizontalEmitted kernel;
  EXPECT_EQ(difference(text, &kernel), "");
  EXPECT_THAT(kernel.source, HasSubstr("many_0("));
  EXPECT_THAT(kernel.source, Not(HasSubstr("many_1(")));
  // Few parts are in the text, the longest first.
  EXPECT_FALSE(kernel.packed);
  EXPECT_THAT(kernel.source, HasSubstr("many_part part = {u32(0), {625, 5001"));
}

// Of `const __restrict__` the assembler moves loads in front of the wait otherwise.
TEST(Horizontal, ReadsWhatOtherStepsWriteBehindTheWait) {
  HorizontalEmitted kernel;
  EXPECT_EQ(difference("graph @body(%x0: f32[300], %x1: f32[500]) {\n" +
                           member(0, "f32[]", "ReduceMax", 0) + member(1, "f32[]", "ReduceMax", 0) +
                           "  return a = %r0, b = %r1\n}\n",
                       &kernel),
            "");
  EXPECT_THAT(kernel.source, HasSubstr("  grid_dependency_wait();\n  x0 = after_grid_wait(x0);\n"));
}

TEST(Horizontal, SeveralKindsAndRows) {
  std::string text =
      "graph @body(%x0: f32[1000], %x1: f32[3, 130], %x2: f32[40, 2], %x3: f32[7]) {\n";
  text += member(0, "f32[]", "ReduceMax", 0) + member(1, "f32[3]", "ReduceSum", 1) +
          member(2, "f32[2]", "ReduceSum", 0) + member(3, "f32[]", "ReduceMax", 0) +
          "  return a = %r0, b = %r1, c = %r2, d = %r3\n}\n";
  HorizontalEmitted kernel;
  EXPECT_EQ(difference(text, &kernel), "");
  EXPECT_THAT(kernel.source, HasSubstr("many_3("));
  EXPECT_THAT(kernel.source, HasSubstr("else if (blockIdx.x < u32("));
}

/// Parts that are too many for the text stand in a table; their blocks are found in a list, or, if
/// there are many, by halving.
TEST(Horizontal, ManyPartsAreATable) {
  for (const std::int64_t rows : {1, 5, 9000}) {
    std::string text = "graph @body(", members, results;
    for (std::size_t k = 0; k < 20; ++k) {
      const std::int64_t length = 2 + static_cast<std::int64_t>(k) % 3;
      text += fmt::format("{}%x{}: f32[{}, {}]", k > 0 ? ", " : "", k, rows, length);
      members += member(k, fmt::format("f32[{}]", rows), k % 2 ? "ReduceMax" : "ReduceSum", 1);
      results += fmt::format("{}y{} = %r{}", k > 0 ? ", " : "", k, k);
    }
    HorizontalEmitted kernel;
    EXPECT_EQ(difference(text + ") {\n" + members + "  return " + results + "\n}\n", &kernel), "");
    EXPECT_TRUE(kernel.packed);
    EXPECT_THAT(kernel.source, HasSubstr("many_parts[20] = {"));
    EXPECT_THAT(kernel.source, rows == 5 ? HasSubstr("(part.function == 5)") : HasSubstr("block"));
  }
}

/// The norms of queries and keys: rows of equal length, more of one than of the other.
constexpr const char* kNorms =
    "graph @body(%q: f16[batch, seq, 8, 64], %k: f16[batch, seq, 2, 64], %a: f16[64], %b: f16[64]) "
    "ranges {batch: 1..8, seq: 1..4096} {\n"
    "  %0 = Fused(%q, %a) {kind = \"reduction\"} : f16[batch, seq, 8, 64] body @body(%x, %s) "
    "ranges {batch: 1..8, seq: 1..4096} {\n"
    "    %0 = Cast(%x) {to = f32}\n    %1 = Square(%0)\n"
    "    %2 = ReduceMean(%1) {axes = [3], keepdims = 1}\n    %3 = Rsqrt(%2)\n"
    "    %4 = Mul(%0, %3)\n    %5 = Cast(%s) {to = f32}\n    %6 = Mul(%4, %5)\n"
    "    %7 = Cast(%6) {to = f16}\n    return y = %7\n  }\n"
    "  %1 = Fused(%k, %b) {kind = \"reduction\"} : f16[batch, seq, 2, 64] body @body(%x, %s) "
    "ranges {batch: 1..8, seq: 1..4096} {\n"
    "    %0 = Cast(%x) {to = f32}\n    %1 = Square(%0)\n"
    "    %2 = ReduceMean(%1) {axes = [3], keepdims = 1}\n    %3 = Rsqrt(%2)\n"
    "    %4 = Mul(%0, %3)\n    %5 = Cast(%s) {to = f32}\n    %6 = Mul(%4, %5)\n"
    "    %7 = Cast(%6) {to = f16}\n    return y = %7\n  }\n"
    "  return q = %0, k = %1\n}\n";

TEST(Horizontal, NormsOfSymbolicSizeAreOneFunction) {
  const ir::Graph body = ir::parse_graph(kNorms);
  HorizontalEmitted kernel;
  EXPECT_EQ(difference(body, {{"batch", 2}, {"seq", 5}}, &kernel), "");
  EXPECT_EQ(difference(body, {{"batch", 1}, {"seq", 1}}), "");
  EXPECT_FALSE(kernel.packed);
  EXPECT_THAT(kernel.source, Not(HasSubstr("many_1(")));
  // Rows are as long as ever, so that threads hold them in registers.
  EXPECT_THAT(kernel.source, HasSubstr("// schedule: row vector=8 unroll="));
}

TEST(Horizontal, UpdatesOfManySizes) {
  std::string text = "graph @body(", members, results;
  for (std::size_t k = 0; k < 24; ++k) {
    const std::size_t size = k % 2 ? 8 * (k + 60) : k == 4 ? 3 : 1020 + k;
    text += fmt::format("{0}%p{1}: f32[{2}], %g{1}: f32[{2}]", k > 0 ? ", " : "", k, size);
    members += fmt::format(
        "  %u{0} = Fused(%p{0}, %g{0}) {{kind = \"pointwise\"}} : f32[{1}] body @body(%p, %g) "
        "{{\n"
        "    %0 = const f32[] {{0.01}}\n    %1 = Mul(%g, %0)\n    %2 = Sub(%p, %1)\n"
        "    return y = %2\n  }}\n",
        k, size);
    results += fmt::format("{}y{} = %u{}", k > 0 ? ", " : "", k, k);
  }
  HorizontalEmitted kernel;
  EXPECT_EQ(difference(text + ") {\n" + members + "  return " + results + "\n}\n", &kernel), "");
  // What is left behind whole vectors goes element by element.
  EXPECT_THAT(kernel.source,
              HasSubstr("// schedule: pointwise vector=4 unroll=1 threads=256x1 tail"));
  EXPECT_THAT(kernel.source, Not(HasSubstr("// schedule: pointwise vector=1")));
}

/// A region that puts the inputs side by side is one among others; one that does so with results is
/// made by their stores.
// Rows that one region reduces and scatters, next to another region that is pointwise.
TEST(Horizontal, ReducedRowsAreScattered) {
  const auto rows = [](const char* rows, const char* cache, const char* scales) {
    return fmt::format(R"(
  %{0}_next, %{1}_next = Fused(%{2}, %at, %{0}, %{1}) {{kind = "scatter"}} body (%x, %at, %cache, %scales) {{
    %wide = Cast(%x) {{to = f32}}
    %magnitude = Abs(%wide)
    %scale = ReduceMax(%magnitude) {{axes = [2], keepdims = 1}}
    %number = Quotient(%wide, %scale)
    %row = Cast(%number) {{to = f16}}
    %b = Iota() {{shape = [3, 1, 1]}}
    %t = Iota() {{shape = [1, 6, 1], axis = 1}}
    %places = Add(%at, %t)
    %d = Iota() {{shape = [1, 1, 64], axis = 2}}
    %one = Iota() {{shape = [1, 1, 1], axis = 2}}
    %z = Scatter(%cache, %row, %b, %places, %d)
    %s = Scatter(%scales, %scale, %b, %places, %one)
    return z = %z, s = %s
  }})",
                       cache, scales, rows);
  };
  const std::string text =
      "graph @body(%q: f16[3, 6, 64], %k: f16[3, 6, 64], %v: f16[3, 6, 64], %at: i64[1, 1, 1], "
      "%keys: f16[3, 11, 64], %key_scales: f32[3, 11, 1], %values: f16[3, 11, 64], "
      "%value_scales: f32[3, 11, 1]) {\n  %y = Fused(%q) {kind = \"pointwise\"} body (%q) {\n"
      "    %0 = Neg(%q)\n    return y = %0\n  }" +
      rows("k", "keys", "key_scales") + rows("v", "values", "value_scales") +
      "\n  return y = %y, a = %keys_next, b = %key_scales_next, c = %values_next, d = "
      "%value_scales_next\n}\n";
  HorizontalEmitted kernel;
  EXPECT_EQ(difference(text, &kernel), "");
  EXPECT_THAT(kernel.source, HasSubstr("schedule: row "));
}

TEST(Horizontal, ConcatenationOfInputsIsAMember) {
  EXPECT_EQ(
      difference("graph @body(%a: f32[3], %b: f32[4], %c: f32[7]) {\n"
                 "  %0 = Fused(%a, %b) {kind = \"pointwise\"} : f32[7] body @body(%a, %b) {\n"
                 "    %0 = Concat(%b, %a) {axis = 0}\n    return y = %0\n  }\n"
                 "  %1 = Fused(%c) {kind = \"pointwise\"} : f32[7] body @body(%c) {\n"
                 "    %0 = Exp(%c)\n    return y = %0\n  }\n"
                 "  %2 = Fused(%1, %0) {kind = \"pointwise\"} : f32[14] body @body(%a, %b) {\n"
                 "    %0 = Concat(%b, %a) {axis = 0}\n    return y = %0\n  }\n"
                 "  return y = %2\n}\n"),
      "");
}

/// Poolings in both layouts next to an activation and a norm of the same image.
TEST(Horizontal, Branches) {
  const auto pool = [](const char* layout, const char* shape, const char* windows, const char* axes,
                       const char* reduction) {
    return fmt::format(
        "Fused(%{0}) {{kind = \"reduction\"}} : f16[{1}] body @body(%x) {{\n"
        "    %0 = Cast(%x) {{to = f32}}\n"
        "    %1 = Unfold(%0) {{channels_last = {2}, dilations = [1, 1], kernel = [3, 3], "
        "pads_begin = "
        "[1, 1], pads_end = [1, 1], strides = [1, 1]}} : f32[{3}]\n"
        "    %2 = {5}(%1) {{axes = [{4}], keepdims = 0}}\n    %3 = Cast(%2) {{to = f16}}\n"
        "    return y = %3\n  }}\n",
        layout, shape, layout[0] == 'l' ? 1 : 0, windows, axes, reduction);
  };
  std::string text =
      "graph @body(%first: f16[1, 8, 6, 10], %last: f16[1, 6, 10, 8], %flat: f16[8, 60], %scale: "
      "f16[60]) {\n  %0 = ";
  text += pool("first", "1, 8, 6, 10", "1, 8, 3, 3, 6, 10", "2, 3", "ReduceMean") +
          "  %1 = " + pool("last", "1, 6, 10, 8", "1, 3, 3, 6, 10, 8", "1, 2", "ReduceMax");
  text +=
      "  %2 = Fused(%last) {kind = \"pointwise\"} : f16[1, 6, 10, 8] body @body(%x) {\n"
      "    %0 = Sigmoid(%x)\n    return y = %0\n  }\n"
      "  %3 = Fused(%flat, %scale) {kind = \"reduction\"} : f16[8, 60] body @body(%x, %s) {\n"
      "    %0 = Cast(%x) {to = f32}\n    %1 = ReduceMean(%0) {axes = [1], keepdims = 1}\n"
      "    %2 = Sub(%0, %1)\n    %3 = Cast(%s) {to = f32}\n    %4 = Mul(%2, %3)\n"
      "    %5 = Cast(%4) {to = f16}\n    return y = %5\n  }\n"
      "  return a = %0, b = %1, c = %2, d = %3\n}\n";
  HorizontalEmitted kernel;
  EXPECT_EQ(difference(text, &kernel), "");
  EXPECT_THAT(kernel.source, HasSubstr("// schedule: window "));
}

/// Some bodies of all kinds, each over inputs of its own, as one region.
ir::Graph random_horizontal(std::uint64_t seed, bool constant) {
  ir::GraphBuilder builder("body");
  if (!constant) {
    builder.range("batch", {1, 8, nullptr});
    builder.range("seq", {1, 8, nullptr});
  }
  const std::size_t count = constant ? 2 + 3 * (seed % 7) : 2 + seed % 5;
  for (std::size_t m = 0; m < count; ++m) {
    // Some bodies twice.
    const std::uint64_t own = seed * 100 + (m % 4 == 3 ? m - 1 : m);
    const bool reduces = own % 2 == 0;
    auto body = std::make_shared<const ir::Graph>(reduces ? RandomBody(own, constant).reduction()
                                                          : RandomBody(own, constant).pointwise());
    std::vector<ir::ValueId> inputs;
    for (const ir::ValueId input : body->inputs())
      inputs.push_back(builder.input(fmt::format("x{}_{}", m, inputs.size()), body->type(input)));
    const auto results = builder.add_multi(
        "Fused", inputs, {{"kind", std::string(reduces ? "reduction" : "pointwise")}}, body);
    for (std::size_t k = 0; k < results.size(); ++k)
      builder.output(fmt::format("y{}_{}", m, k), results[k]);
  }
  return builder.finish();
}

TEST(Horizontal, RandomRegions) {
  for (std::uint64_t seed = 0; seed < 8 && !HasFailure(); ++seed) {
    const bool constant = seed % 2 == 0;
    const ir::Graph body = random_horizontal(seed, constant);
    const ir::Bindings symbols = constant ? ir::Bindings() : ir::Bindings{{"batch", 2}, {"seq", 3}};
    std::string found;
    try {
      found = difference(body, symbols, nullptr, seed);
    } catch (const std::exception& error) {
      found = error.what();
    }
    EXPECT_EQ(found, "") << "seed " << seed << "\n" << ir::print(body);
  }
}

/// Sizes in attributes cannot be symbols: such regions are kinds of their own.
TEST(Horizontal, SizesInAttributes) {
  std::string text = "graph @body(";
  for (const std::size_t k : {0, 1})
    text += fmt::format("{}%x{}: f32[{}]", k > 0 ? ", " : "", k, 60 + 20 * k);
  text += ") {\n";
  for (const std::size_t k : {0, 1})
    text += fmt::format(
        "  %r{0} = Fused(%x{0}) {{kind = \"reduction\"}} : f32[4] body @body(%in0) {{\n"
        "    %0 = Reshape(%in0) {{shape = [4, {1}]}}\n"
        "    %1 = ReduceSum(%0) {{axes = [1], keepdims = 0}}\n"
        "    return out0 = %1\n  }}\n",
        k, 15 + 5 * k);
  EXPECT_EQ(difference(text + "  return a = %r0, b = %r1\n}\n"), "");
}

/// What one kernel can do for several steps is the same text.
TEST(Horizontal, TextTellsBuffersApartButNotWhichTheyAre) {
  const auto text = [](const char* sizes, std::vector<std::uint32_t> inputs) {
    std::string body = fmt::format("graph @body({}) {{\n", fmt::format(fmt::runtime(sizes), 0, 1));
    body += member(0, "f32[]", "ReduceMax", 0) + member(1, "f32[]", "ReduceMax", 0) +
            "  return a = %r0, b = %r1\n}\n";
    const std::uint32_t outputs[] = {8, 9};
    return codegen::print_horizontal(
        codegen::lower_horizontal(ir::parse_graph(body), inputs, outputs));
  };
  const char* sizes = "%x{}: f32[300], %x{}: f32[400]";
  EXPECT_EQ(text(sizes, {0, 1}), text(sizes, {5, 2}));
  EXPECT_NE(text(sizes, {0, 1}), text(sizes, {5, 5}));
  EXPECT_NE(text(sizes, {0, 1}), text("%x{}: f32[300], %x{}: f32[500]", {0, 1}));
}

TEST(Horizontal, TooManySymbolicPartsAreRefused) {
  std::string text = "graph @body(", members, results;
  for (std::size_t k = 0; k < 17; ++k) {
    text += fmt::format("{}%x{}: f32[n]", k > 0 ? ", " : "", k);
    members += member(k, "f32[]", "ReduceMax", 0);
    results += fmt::format("{}y{} = %r{}", k > 0 ? ", " : "", k, k);
  }
  const ir::Graph body =
      ir::parse_graph(text + ") {\n" + members + "  return " + results + "\n}\n");
  try {
    difference(body, {{"n", 5}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("17 parts, more than the 16 that may be of symbolic size"));
  }
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
