// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits in generated kernels.
#ifdef SINTER_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/families/loops/emit_loops.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_check.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kTypes[] = {"f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"};
const std::vector<std::string> kArchitectures = {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120"};

std::string with_type(std::string text, const std::string& type) {
  for (std::size_t at = 0; (at = text.find("FP8", at)) != std::string::npos;)
    text.replace(at, 3, type);
  return text;
}

/// Casts in both directions, of numbers that fit and that do not, in vectors and one by one.
constexpr const char* kPrograms[] = {
    R"(graph @quantize(%x: f32[8, 64]) {
  %k = const f32[] {40000}
  %v = Mul(%x, %k)
  %q = Cast(%v) {to = FP8}
  %u = CastUnsaturated(%v) {to = FP8}
  %d = Cast(%q) {to = f16}
  %e = Cast(%u) {to = f32}
  return q = %q, u = %u, d = %d, e = %e
})",
    R"(graph @odd(%x: f64[63]) {
  %k = const f64[] {300}
  %v = Mul(%x, %k)
  %q = Cast(%v) {to = FP8}
  %u = CastUnsaturated(%v) {to = FP8}
  return q = %q, u = %u
})",
    R"(graph @small(%x: bf16[16, 64]) {
  %k = const bf16[] {0.001}
  %v = Mul(%x, %k)
  %q = Cast(%v) {to = FP8}
  %d = Cast(%q) {to = f32}
  return q = %q, d = %d
})",
    R"(graph @dequantize(%x: FP8[4, 160], %s: f32[4, 1]) {
  %w = Cast(%x) {to = f32}
  %y = Mul(%w, %s)
  %h = Cast(%y) {to = f16}
  return h = %h
})",
    R"(graph @moved(%x: FP8[48, 36]) {
  %t = Transpose(%x) {perm = [1, 0]}
  return t = %t
})",
    R"(graph @padded(%x: FP8[3, 20], %c: bool[3, 26]) {
  %p = Pad(%x) {begins = [0, 2], ends = [0, 4], fill = 1.5}
  %n = const FP8[] {-2}
  %y = Where(%c, %p, %n)
  return y = %y
})",
    R"(graph @integers(%x: i32[100], %b: bool[100]) {
  %q = Cast(%x) {to = FP8}
  %o = Cast(%b) {to = FP8}
  %i = Cast(%q) {to = i8}
  return q = %q, o = %o, i = %i
})",
    // Errors of two roundings, of which one is taken.
    R"(graph @errors(%x: f16[6, 256]) {
  %w = Cast(%x) {to = f32}
  %q = Cast(%w) {to = FP8}
  %r = Cast(%q) {to = f32}
  %d = Sub(%r, %w)
  %a = ReduceSumSquare(%d) {axes = [1], keepdims = 1}
  %k = const f32[] {0.93}
  %n = Mul(%w, %k)
  %p = CastUnsaturated(%n) {to = FP8}
  %t = Cast(%p) {to = f32}
  %e = Sub(%t, %n)
  %b = ReduceSumSquare(%e) {axes = [1], keepdims = 1}
  %l = Less(%a, %b)
  %y = Where(%l, %w, %n)
  %z = Cast(%y) {to = FP8}
  %v = Cast(%z) {to = f32}
  return a = %a, b = %b, v = %v
})",
    R"(graph @norm(%x: f16[6, 256], %s: f16[256]) {
  %w = Cast(%x) {to = f32}
  %a = Square(%w)
  %m = ReduceMean(%a) {axes = [1], keepdims = 1}
  %r = Rsqrt(%m)
  %n = Mul(%w, %r)
  %g = Cast(%s) {to = f32}
  %y = Mul(%n, %g)
  %k = const f32[] {0.0371}
  %z = Quotient(%y, %k)
  %q = Cast(%z) {to = FP8}
  return q = %q
})",
    // A scale for each row, which every element is divided by.
    R"(graph @rows(%x: f16[6, 256]) {
  %w = Cast(%x) {to = f32}
  %a = Abs(%w)
  %m = ReduceMax(%a) {axes = [1], keepdims = 1}
  %k = const f32[] {0.0371}
  %l = const f32[] {7.888609e-31}
  %n = Mul(%m, %k)
  %s = Max(%n, %l)
  %z = Quotient(%w, %s)
  %q = Cast(%z) {to = FP8}
  return q = %q, s = %s
})"};

TEST(CudaEmulation, FloatsOfEightBits) {
  CudaCheck check;
  for (const char* type : kTypes)
    for (const char* text : kPrograms) {
      const ir::Graph graph = ir::parse_graph(with_type(text, type));
      check.add(graph.name() + "_" + type, lowered_program(check.exprs, graph));
    }
  EXPECT_EQ(check.run(), "");
}

TEST(Nvrtc, FloatsOfEightBitsCompileForEveryArchitecture) {
  codegen::ExprTable exprs{ir::Ranges{}};
  std::vector<std::string> sources;
  for (const char* type : kTypes)
    for (const char* text : kPrograms) {
      const ir::Graph graph = ir::parse_graph(with_type(text, type));
      const ProgramBuilder program = lowered_program(exprs, graph);
      sources.push_back(
          codegen::emit_loops(program.request(graph.name() + "_" + type), exprs).source);
    }
  for (const auto& kernels : codegen::compile_cuda(sources, kArchitectures))
    for (const auto& kernel : kernels) EXPECT_GT(kernel.code.size(), 100u);
}

std::string source_of(const char* text, const std::string& type) {
  const ir::Graph graph = ir::parse_graph(with_type(text, type));
  codegen::ExprTable exprs(graph.ranges());
  const ProgramBuilder program = lowered_program(exprs, graph);
  return codegen::emit_loops(program.request(graph.name()), exprs).source;
}

/// One conversion of a vector, which saturates by itself: neither clamps nor rounding in front.
TEST(CudaText, AStoreOfEightBitsRoundsAndSaturates) {
  const std::string text = source_of(R"(graph @g(%x: f16[64, 1024]) {
  %q = Cast(%x) {to = FP8}
  return q = %q
})",
                                     "f8e4m3fn");
  EXPECT_THAT(text, HasSubstr("store_saturated("));
  EXPECT_THAT(text, Not(HasSubstr("minimum")));
  EXPECT_THAT(text, Not(HasSubstr("round_to_e4m3fn")));
}

/// The quotient by what is the same for many elements: by its reciprocal, found once.
TEST(CudaText, AScaleIsInvertedOnce) {
  const std::string rows = source_of(std::end(kPrograms)[-1], "f8e4m3fn");
  EXPECT_THAT(rows, HasSubstr("= reciprocal_to_nearest("));
  EXPECT_THAT(rows, testing::ContainsRegex("quotient_to_nearest\\([^,]*, v[0-9]+, d[0-9]+\\)"));
  // A norm's result is approximate: one more rounding is nothing.
  EXPECT_THAT(source_of(std::end(kPrograms)[-2], "f8e4m3fn"), HasSubstr(" * 26.95"));
  const auto divided_by = [](const std::string& scale) {
    return source_of(("graph @g(%x: f32[64, 1024]) {\n  %k = const f32[] {" + scale +
                      "}\n  %y = Quotient(%x, %k)\n  return y = %y\n}")
                         .c_str(),
                     "");
  };
  EXPECT_THAT(divided_by("0.1"), testing::ContainsRegex("quotient_to_nearest\\(.*, 10.0f\\)"));
  EXPECT_THAT(divided_by("0.125"), HasSubstr(" * 8.0f"));
  EXPECT_THAT(divided_by("1e-38"),
              testing::ContainsRegex("quotient_to_nearest\\([^,]*, [^,]*\\);"));
}

/// What a kernel computes with has gone through 8 bits, too: two elements at a time.
TEST(CudaText, WhatIsReadOfACastIsRounded) {
  const std::string text = source_of(R"(graph @g(%x: f32[64, 1024]) {
  %q = Cast(%x) {to = FP8}
  %y = Cast(%q) {to = f32}
  return y = %y
})",
                                     "f8e5m2");
  EXPECT_THAT(text, HasSubstr("round_element_saturated<e5m2>(v0, j)"));
  const std::string odd = source_of(R"(graph @g(%x: f32[63]) {
  %q = Cast(%x) {to = FP8}
  %y = Cast(%q) {to = f32}
  return y = %y
})",
                                    "f8e5m2");
  EXPECT_THAT(odd, HasSubstr("round_to_e5m2_saturated("));
}

}  // namespace
}  // namespace sinter::test
#endif
