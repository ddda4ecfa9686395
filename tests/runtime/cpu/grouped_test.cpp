// SPDX-License-Identifier: Apache-2.0
// Grouped matmuls on the CPU against sums in float64: groups of none, few and many rows, each type,
// weights that are constant and that are not, quantized ones.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/profile.h>
#include <sinter/sinter.h>

#include "runtime/plan/panels/quant_panels.h"
#include "runtime/plan/plan_data.h"
#include "tests/runtime/library_check.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing::grouped {
namespace {

using Offsets = std::vector<std::int32_t>;

struct Case {
  std::int64_t rows = 9, k = 40, n = 70;
  Offsets offsets = {0, 4, 4, 9};
  DType type = DType::kFloat32;
  bool transposed = false, constant = true;
  int bits = 0;  // 4 or 8: quantized
  std::int64_t depth = 16;
  bool zeros = false;
  DType scales = DType::kFloat32;
  std::int64_t block = 0;  // of rows rounded to 8 bits

  std::int64_t groups() const { return std::ssize(offsets) - 1; }
  std::string text() const {
    return std::string(to_string(type)) + " rows " + std::to_string(rows) + " k " +
           std::to_string(k) + " n " + std::to_string(n) + " bits " + std::to_string(bits) +
           " block " + std::to_string(block) + (transposed ? " transposed" : "") +
           (constant ? "" : " fed");
  }
};

/// What each row is to be: rows of no group are zero. `weight(g, i, c)`: of k i and column c.
template <typename Weight>
Bytes expected(const Case& c, const Bytes& x, const Weight& weight) {
  Bytes y(static_cast<std::size_t>(c.rows * c.n) * size_of(c.type), std::byte{0});
  for (std::int64_t g = 0; g < c.groups(); ++g)
    for (std::int64_t r = c.offsets[static_cast<std::size_t>(g)];
         r < c.offsets[static_cast<std::size_t>(g) + 1]; ++r)
      for (std::int64_t column = 0; column < c.n; ++column) {
        double sum = 0;
        for (std::int64_t i = 0; i < c.k; ++i)
          sum += element(c.type, x, r * c.k + i) * weight(g, i, column);
        set_element(c.type, y, r * c.n + column, sum);
      }
  return y;
}

void run(PlanBuilder& b, const Case& c, const Bytes& x, const Bytes* weights, const Bytes& y) {
  const Plan plan = b.build();
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(c.text() + " on " + std::to_string(threads));
    SessionOptions options;
    options.threads = threads;
    Session session(plan, options);
    session.set_input("x", TensorView{c.type, {c.rows, c.k}, x.data(), Memory::kHost});
    session.set_input(
        "offsets",
        TensorView{DType::kInt32, {std::ssize(c.offsets)}, c.offsets.data(), Memory::kHost});
    if (weights != nullptr)
      session.set_input("w",
                        TensorView{c.type,
                                   {c.groups(), c.transposed ? c.n : c.k, c.transposed ? c.k : c.n},
                                   weights->data(),
                                   Memory::kHost});
    for (int again = 0; again < 2; ++again) {
      session.run();
      expect_close(c.type, y, session.output("y"));
    }
    if (c.offsets == Offsets{0, 4, 4, 9} && c.n > 0 && c.k > 0) {
      EXPECT_EQ(profile_steps(session).at(0).how,
                "9 rows in 2 of 3 groups, most 5 in group 2: 1.7 times an even share");
    }
  }
}

void check_plain(const Case& c) {
  const Bytes x = random_bytes(c.type, c.rows * c.k, 1),
              w = random_bytes(c.type, c.groups() * c.k * c.n, 2);
  PlanBuilder b;
  const Id rows = b.constant(c.rows), k = b.constant(c.k), n = b.constant(c.n),
           groups = b.constant(c.groups());
  const std::vector<Id> shape = {groups, c.transposed ? n : k, c.transposed ? k : n};
  const PlanBuilder::Tensor weights =
      c.constant ? PlanBuilder::Tensor{b.weight(c.type, w), shape} : b.input_of("w", c.type, shape);
  b.call("grouped_matmul",
         {b.input_of("x", c.type, {rows, k}), weights,
          b.input_of("offsets", DType::kInt32, {b.constant(std::ssize(c.offsets))})},
         {b.output_of("y", c.type, {rows, n})}, {{"transposed", std::int64_t{c.transposed}}});
  run(b, c, x, c.constant ? nullptr : &w, expected(c, x, [&](auto g, auto i, auto column) {
        const auto at = c.transposed ? column * c.k + i : i * c.n + column;
        return element(c.type, w, g * c.k * c.n + at);
      }));
}

/// `x` as the processor multiplies it: rounded to 8 bits by blocks.
Bytes rounded(const Case& c, const Bytes& x) {
  Bytes result(x.size());
  for (std::int64_t first = 0; first < c.rows * c.k;) {
    const std::int64_t in_row = first % c.k, end = first - in_row + std::min(in_row + c.block, c.k);
    float most = 0;
    for (std::int64_t i = first; i < end; ++i)
      most = std::max(most, std::abs(static_cast<float>(element(c.type, x, i))));
    const float factor = most > 0 ? 127.0F / most : 0;
    for (; first < end; ++first)
      set_element(
          c.type, result, first,
          std::nearbyint(static_cast<float>(element(c.type, x, first)) * factor) * (most / 127.0F));
  }
  return result;
}

/// Numbers [groups, n, blocks] as panels of each group.
template <typename T>
std::vector<T> in_panels(const plan::QuantPanelShape& shape, const std::vector<T>& plain) {
  const auto groups = std::ssize(plain) / (shape.n * shape.groups());
  std::vector<T> made(static_cast<std::size_t>(groups * shape.group_count()));
  for (std::int64_t g = 0; g < groups; ++g)
    plan::write_group_panels(shape, plain.data() + g * shape.n * shape.groups(),
                             made.data() + g * shape.group_count());
  return made;
}

void check_quantized(const Case& c) {
  const plan::QuantPanelShape shape{c.bits, c.n, c.k, std::min(c.depth, c.k)};
  const std::int64_t blocks = shape.groups(), pitch = shape.pitch(), count = c.groups() * c.n;
  const Bytes x = random_bytes(c.type, c.rows * c.k, 1);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * pitch)),
      values(static_cast<std::size_t>(c.groups() * shape.value_bytes()));
  std::vector<std::int8_t> zeros(static_cast<std::size_t>(count * blocks));
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(i * 37 + i / 7);
  for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<std::int8_t>(i % 13) - 6;
  for (std::int64_t g = 0; g < c.groups(); ++g)
    for (std::int64_t panel = 0; panel < shape.panels(); ++panel)
      plan::write_value_panel(shape, panel,
                              reinterpret_cast<const std::byte*>(codes.data()) + g * c.n * pitch,
                              reinterpret_cast<std::byte*>(values.data()) +
                                  g * shape.value_bytes() + panel * shape.panel_bytes());
  const Bytes scales = random_bytes(c.scales, count * blocks, 3);
  PlanBuilder b;
  const Id rows = b.constant(c.rows), k = b.constant(c.k), n = b.constant(c.n),
           none = b.constant(0), panels = b.constant(c.groups() * shape.panels());
  const std::vector<Id> of_scales = {panels, b.constant(blocks), b.constant(16)};
  const auto weight = [&](DType type, const auto& numbers) {
    const auto made = in_panels(shape, numbers);
    return b.weight_bytes(type, reinterpret_cast<const std::byte*>(made.data()),
                          made.size() * size_of(type));
  };
  std::vector<std::uint16_t> halves(scales.size() / 2);
  std::vector<float> words(scales.size() / 4);
  std::memcpy(halves.data(), scales.data(), scales.size());
  std::memcpy(words.data(), scales.data(), scales.size());
  const Id scale = c.scales == DType::kFloat16 ? weight(c.scales, halves) : weight(c.scales, words);
  const PlanBuilder::Tensor absent = {scale, {none, none, none}};
  b.call("grouped_matmul_quantized",
         {b.input_of("x", c.type, {rows, k}),
          {b.weight(DType::kUInt8, values), {panels, b.constant(shape.units()), b.constant(64)}},
          b.input_of("offsets", DType::kInt32, {b.constant(std::ssize(c.offsets))}),
          {scale, of_scales},
          c.zeros ? PlanBuilder::Tensor{weight(DType::kInt8, zeros), of_scales} : absent,
          absent},
         {b.output_of("y", c.type, {rows, n})},
         {{"groups", c.groups()},
          {"bits", std::int64_t{c.bits}},
          {"depth", c.depth},
          {"low", std::int64_t{0}},
          {"high", std::int64_t{0}},
          {"zero", std::int64_t{0}},
          {"block", c.block}});
  const Bytes left = c.block == 0 ? x : rounded(c, x);
  run(b, c, x, nullptr, expected(c, left, [&](auto g, auto i, auto column) {
        const auto row = g * c.n + column;
        const auto byte = codes[static_cast<std::size_t>(row * pitch + (c.bits == 8 ? i : i / 2))];
        const int code =
            c.bits == 8 ? static_cast<std::int8_t>(byte) : (i % 2 == 0 ? byte & 15 : byte >> 4) - 8;
        const auto at = row * blocks + i / c.depth;
        const int zero = c.zeros ? zeros[static_cast<std::size_t>(at)] : 0;
        return (code - zero) * element(c.scales, scales, at);
      }));
}

TEST(CpuGrouped, TypesAndLayouts) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64})
    for (const bool transposed : {false, true})
      for (const bool constant : {false, true}) {
        Case c;
        c.type = type;
        c.transposed = transposed;
        c.constant = constant;
        check_plain(c);
      }
}

TEST(CpuGrouped, SizesOfGroups) {
  for (const Offsets& offsets :
       {Offsets{0, 700}, {0, 0, 0}, {0, 0, 700, 700}, {3, 5, 12, 19, 300}, {0, 1, 2, 3, 4, 5, 6}})
    for (const std::int64_t k : {1, 300}) {
      Case c;
      c.rows = 700;
      c.k = k;
      c.n = 33;
      c.offsets = offsets;
      check_plain(c);
      for (const int bits : {4, 8}) {
        c.bits = bits;
        check_quantized(c);
      }
    }
  Case none;
  none.rows = 0;
  none.offsets = {0, 0};
  check_plain(none);
}

TEST(CpuGrouped, QuantizedWeights) {
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBFloat16})
    for (const int bits : {4, 8})
      for (const bool zeros : {false, true})
        for (const std::int64_t n : {5, 64, 130}) {
          Case c;
          c.type = type;
          c.bits = bits;
          c.zeros = zeros;
          c.n = n;
          c.rows = 20;
          c.offsets = {0, 1, 1, 8, 19};
          check_quantized(c);
        }
}

/// Rows rounded to 8 bits, which many threads round; scales of 16 bits.
TEST(CpuGrouped, RoundedRows) {
  for (const int bits : {4, 8})
    for (const bool zeros : {false, true})
      for (const std::int64_t block : {16, 32})
        for (const std::int64_t k : {64, 72, 512}) {
          Case c;
          c.bits = bits;
          c.zeros = zeros;
          c.block = block;
          c.k = k;
          c.depth = 32;
          c.n = 70;
          c.rows = 300;
          c.offsets = {2, 3, 3, 9, 290};
          c.scales = k == 64 ? DType::kFloat16 : DType::kFloat32;
          check_quantized(c);
        }
}

TEST(CpuGrouped, AnyOffsetsAreSafe) {
  Case c;
  c.constant = false;
  const Bytes x = random_bytes(c.type, c.rows * c.k, 1),
              w = random_bytes(c.type, c.groups() * c.k * c.n, 2);
  PlanBuilder b;
  const Id rows = b.constant(c.rows), k = b.constant(c.k), n = b.constant(c.n);
  b.call("grouped_matmul",
         {b.input_of("x", c.type, {rows, k}), b.input_of("w", c.type, {b.constant(3), k, n}),
          b.input_of("offsets", DType::kInt32, {b.constant(4)})},
         {b.output_of("y", c.type, {rows, n})}, {{"transposed", std::int64_t{0}}});
  Session session(b.build());
  session.set_input("x", TensorView{c.type, {c.rows, c.k}, x.data(), Memory::kHost});
  session.set_input("w", TensorView{c.type, {3, c.k, c.n}, w.data(), Memory::kHost});
  for (const std::array<std::int32_t, 4>& offsets :
       {std::array<std::int32_t, 4>{7, 2, 100, -5}, {-1, -1, -1, -1}, {INT32_MAX, 0, 4, 4}}) {
    session.set_input("offsets", TensorView{DType::kInt32, {4}, offsets.data(), Memory::kHost});
    EXPECT_NO_THROW(session.run());
  }
}

struct Misfit {
  std::int64_t bounds = 2, depth = 64, panels = 1, bits = 8, zero = 0, block = 0;
};

TEST(CpuGrouped, PlansThatDoNotFitAreRefused) {
  constexpr std::int64_t kK = 64;
  const auto error = [](const Misfit& c) -> std::string {
    PlanBuilder b;
    const Id rows = b.constant(2), k = b.constant(kK), n = b.constant(4), one = b.constant(1),
             none = b.constant(0), panels = b.constant(c.panels), of_panel = b.constant(16);
    const std::vector<std::uint8_t> codes(static_cast<std::size_t>(c.panels * 16 * 64));
    const Id scale =
        b.weight(DType::kFloat32, std::vector<float>(static_cast<std::size_t>(c.panels * 16)));
    const PlanBuilder::Tensor absent = {scale, {none, none, none}};
    b.call("grouped_matmul_quantized",
           {b.input_of("x", DType::kFloat32, {rows, k}),
            {b.weight(DType::kUInt8, codes), {panels, of_panel, b.constant(64)}},
            b.input_of("offsets", DType::kInt32, {b.constant(c.bounds)}),
            {scale, {panels, one, of_panel}},
            absent,
            absent},
           {b.output_of("y", DType::kFloat32, {rows, n})},
           {{"groups", std::int64_t{1}},
            {"bits", c.bits},
            {"depth", c.depth},
            {"low", std::int64_t{0}},
            {"high", std::int64_t{0}},
            {"zero", c.zero},
            {"block", c.block}});
    try {
      Session session(b.build());
      const std::vector<float> x(2 * kK);
      const std::vector<std::int32_t> offsets(static_cast<std::size_t>(c.bounds));
      session.set_input("x", TensorView{DType::kFloat32, {2, kK}, x.data(), Memory::kHost});
      session.set_input("offsets",
                        TensorView{DType::kInt32, {c.bounds}, offsets.data(), Memory::kHost});
      session.run();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(error({}), "");
  EXPECT_EQ(error({.block = 32}), "");
  EXPECT_THAT(error({.bounds = 1}), HasSubstr("offsets are not one more"));
  EXPECT_THAT(error({.depth = 32}), HasSubstr("scales are not one for each group of k"));
  EXPECT_THAT(error({.panels = 2}), HasSubstr("weights are not the panels"));
  EXPECT_THAT(error({.bits = 4}), HasSubstr("weights are not the panels"));
  EXPECT_THAT(error({.bits = 5}), HasSubstr("neither 4 nor 8 bits"));
  EXPECT_THAT(error({.zero = 3}), HasSubstr("neither numbers nor one zero point"));
  EXPECT_THAT(error({.block = 8}), HasSubstr("rounded by blocks"));
}

}  // namespace
}  // namespace sinter::testing::grouped
