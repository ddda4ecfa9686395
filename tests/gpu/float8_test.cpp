// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits on a GPU: every code and a dense sample of numbers, in both directions, as the
// definition of the types has them.
#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <sinter/float8.h>

#include "ir/text/text.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat8E4M3FNUZ,
                            DType::kFloat8E5M2FNUZ};

std::string with_type(std::string text, DType type) {
  for (std::size_t at = 0; (at = text.find("FP8", at)) != std::string::npos;)
    text.replace(at, 3, to_string(type));
  return text;
}

ir::Tensor all_codes(DType type) {
  std::vector<std::uint8_t> codes;
  for (int code = 0; code < 256; ++code) codes.push_back(static_cast<std::uint8_t>(code));
  return ir::Tensor::of(type, {256}, codes);
}

/// Float32 numbers of every exponent that matters, the types' numbers, the middles between two and
/// their neighbours, and what no type holds. A multiple of 16.
std::vector<float> sample() {
  std::vector<float> numbers;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const DType type : kTypes)
    for (int code = 0; code < 255; ++code) {
      const double a = decode_float8(type, static_cast<std::uint8_t>(code));
      const double b = decode_float8(type, static_cast<std::uint8_t>(code + 1));
      const auto middle = static_cast<float>((a + b) / 2);
      for (const float x : {static_cast<float>(a), middle}) {
        if (!std::isfinite(x)) continue;
        numbers.insert(numbers.end(),
                       {x, std::nextafter(x, infinity), std::nextafter(x, -infinity)});
      }
    }
  numbers.insert(numbers.end(), {0.0F, -0.0F, infinity, -infinity, std::nanf(""), 1e-40F, -1e-40F,
                                 448.0F, 464.0F, 464.1F, 61439.0F, 61440.0F, 1e30F, -1e30F});
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-22, 18);
  while (numbers.size() < (1U << 18))
    numbers.push_back(normal(random) * std::exp2(exponent(random)));
  return numbers;
}

/// NaN has several codes, of which kernels write one.
void expect_codes(const ir::Tensor& found, const std::vector<float>& numbers, bool saturate) {
  const DType type = found.dtype();
  const double largest = largest_float8(type);
  const auto codes = found.as<std::uint8_t>();
  ASSERT_EQ(codes.size(), numbers.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double x = numbers[i];
    if (saturate && !std::isnan(x)) x = std::clamp(x, -largest, largest);
    const std::uint8_t expected = encode_float8(type, x);
    if (codes[i] == expected) continue;
    if (wrong++ < 5)
      ADD_FAILURE() << to_string(type) << (saturate ? " saturated: " : ": ") << numbers[i]
                    << " became " << int{codes[i]} << " instead of " << int{expected};
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(Float8, EveryCodeIsItsNumber) {
  for (const DType type : kTypes)
    for (const std::int64_t count : {256, 255}) {  // in vectors and one by one
      const ir::Graph graph =
          ir::parse_graph(with_type("graph @main(%x: FP8[" + std::to_string(count) + R"(]) {
  %y = Cast(%x) {to = f32}
  %h = Cast(%x) {to = f16}
  return y = %y, h = %h
})",
                                    type));
      const ir::Tensor codes(type, {count},
                             ir::Buffer::copy_of(all_codes(type).bytes().subspan(
                                 256 - static_cast<std::size_t>(count))));
      Session session(compile(graph, true));
      for (const ir::Tensor& found : run(session, graph, {codes}))
        for (std::int64_t i = 0; i < count; ++i) {
          const double a = found.at(i), b = codes.at(i);
          EXPECT_TRUE((a == b && std::signbit(a) == std::signbit(b)) ||
                      (std::isnan(a) && std::isnan(b)))
              << to_string(type) << " code " << i + 256 - count << ": " << a;
        }
    }
}

TEST(Float8, NumbersRoundToTheNearest) {
  const std::vector<float> all = sample();
  for (const DType type : kTypes)
    for (const std::size_t count : {all.size(), all.size() - 1}) {
      const std::vector<float> numbers(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
      const auto size = static_cast<std::int64_t>(count);
      const ir::Graph graph =
          ir::parse_graph(with_type("graph @main(%x: f32[" + std::to_string(size) + R"(]) {
  %s = Cast(%x) {to = FP8}
  %u = CastUnsaturated(%x) {to = FP8}
  %r = Cast(%u) {to = f32}
  return s = %s, u = %u, r = %r
})",
                                    type));
      Session session(compile(graph, true));
      const auto found = run(session, graph, {ir::Tensor::of(DType::kFloat32, {size}, numbers)});
      expect_codes(found[0], numbers, true);
      expect_codes(found[1], numbers, false);
      // What is computed with is what is stored.
      for (std::int64_t i = 0; i < size; ++i) {
        const double a = found[2].at(i), b = found[1].at(i);
        ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << to_string(type) << " " << i;
      }
    }
}

/// Conversions to integers saturate, and NaN gives zero.
TEST(Float8, FloatsToIntegers) {
  for (const char* type : {"i8", "u8", "i16", "u16", "i32", "u32"}) {
    std::string text = R"(graph @main(%x: f32[4096]) {
  %k = const f32[] {700}
  %v = Mul(%x, %k)
  %t = Cast(%v) {to = INT}
  %o = Round(%v)
  %r = Cast(%o) {to = INT}
  return t = %t, r = %r
})";
    for (std::size_t at = 0; (at = text.find("INT", at)) != std::string::npos;)
      text.replace(at, 3, type);
    const ir::Graph graph = ir::parse_graph(text);
    std::vector<ir::Tensor> inputs = random_inputs(graph, {});
    std::vector<double> values = inputs[0].to_doubles();
    values[3] = std::numeric_limits<double>::quiet_NaN();
    values[5] = std::numeric_limits<double>::infinity();
    values[6] = -1e20;
    values[7] = 0.5 / 700;
    inputs[0] = ir::Tensor::from_doubles(DType::kFloat32, {4096}, values);
    Session session(compile(graph, true));
    expect_reference(graph, inputs, run(session, graph, inputs), 0);
  }
}

}  // namespace
}  // namespace sinter::gpu_test
