// SPDX-License-Identifier: Apache-2.0
// Integers of 8 bits made by rounding and clamping, in generated kernels.
#ifdef SINTER_WITH_CUDA
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/families/loops/emit_loops.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/cuda_check.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Case {
  const char *name, *text, *function;  // that does it; null: as it is written
};
/// Inputs of a few halves: ties, and what lies beyond both ends.
constexpr Case kCases[] = {{"bytes", R"(graph @bytes(%x: f32[300]) {
  %k = const f32[] {200}
  %v = Mul(%x, %k)
  %h = const f32[] {2}
  %d = Mul(%v, %h)
  %t = Round(%d)
  %e = const f32[] {0.5}
  %w = Mul(%t, %e)
  %r = Round(%w)
  %l = const f32[] {-128}
  %u = const f32[] {127}
  %m = Max(%r, %l)
  %n = Min(%m, %u)
  %q = Cast(%n) {to = i8}
  return q = %q
})",
                            "rounded_to_i8("},
                           {"zero_point", R"(graph @zero_point(%x: f16[8, 64], %s: f32[64]) {
  %f = Cast(%x) {to = f32}
  %v = Mul(%f, %s)
  %k = const f32[] {400}
  %w = Mul(%v, %k)
  %r = Round(%w)
  %z = const f32[] {113}
  %a = Add(%r, %z)
  %u = const f32[] {255}
  %l = const f32[] {0}
  %m = Min(%a, %u)
  %n = Max(%l, %m)
  %q = Cast(%n) {to = u8}
  return q = %q
})",
                            "rounded_to_u8("},
                           // Half of these are ties, and the zero point is odd.
                           {"converted", R"(graph @converted(%x: f32[300]) {
  %k = const f32[] {100}
  %v = Mul(%x, %k)
  %n = Round(%v)
  %e = const f32[] {0.4375}
  %w = Mul(%n, %e)
  %s = const f32[] {0.875}
  %d = Quotient(%w, %s)
  %r = Round(%d)
  %z = const f32[] {-5}
  %a = Add(%r, %z)
  %q = Cast(%a) {to = i8}
  return q = %q
})",
                            "rounded_to_i8("},
                           {"one_scale", R"(graph @one_scale(%x: f32[300]) {
  %s = const f32[] {0.013}
  %d = Quotient(%x, %s)
  %r = Round(%d)
  %q = Cast(%r) {to = u8}
  return q = %q
})",
                            "rounded_to_u8("},
                           // Of negative numbers, NaN.
                           {"not_a_number", R"(graph @not_a_number(%x: f32[300]) {
  %v = Sqrt(%x)
  %k = const f32[] {200}
  %w = Mul(%v, %k)
  %r = Round(%w)
  %q = Cast(%r) {to = i8}
  return q = %q
})",
                            "rounded_to_i8("},
                           // Truncated, or clamped to other numbers.
                           {"truncated", R"(graph @truncated(%x: f32[300]) {
  %k = const f32[] {100}
  %v = Mul(%x, %k)
  %l = const f32[] {-128}
  %u = const f32[] {127}
  %m = Max(%v, %l)
  %n = Min(%m, %u)
  %q = Cast(%n) {to = i8}
  return q = %q
})",
                            nullptr},
                           {"fraction", R"(graph @fraction(%x: f32[300]) {
  %k = const f32[] {100}
  %v = Mul(%x, %k)
  %r = Round(%v)
  %z = const f32[] {0.25}
  %a = Add(%r, %z)
  %l = const f32[] {-128}
  %u = const f32[] {127}
  %m = Max(%a, %l)
  %n = Min(%m, %u)
  %q = Cast(%n) {to = i8}
  return q = %q
})",
                            nullptr}};

TEST(CudaEmulation, QuantizedToIntegersOfEightBits) {
  CudaCheck check;
  for (const Case& test : kCases)
    check.add(test.name, lowered_program(check.exprs, ir::parse_graph(test.text)));
  EXPECT_EQ(check.run(), "");
  const auto sources = check.sources();
  for (std::size_t i = 0; i < std::size(kCases); ++i) {
    if (kCases[i].function != nullptr) {
      EXPECT_THAT(sources[i], HasSubstr(kCases[i].function));
      EXPECT_THAT(sources[i], Not(HasSubstr("minimum(")));
    } else {
      EXPECT_THAT(sources[i], Not(HasSubstr("rounded_to_")));
    }
  }
}

}  // namespace
}  // namespace sinter::test
#endif
