// SPDX-License-Identifier: Apache-2.0
// Grouped matmuls on the CPU against sums in float64: groups of none, few and many rows, each type,
// weights that are constant and that are not, quantized ones.
#include <algorithm>
#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>

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

  std::int64_t groups() const { return std::ssize(offsets) - 1; }
  std::string text() const {
    return std::string(to_string(type)) + " rows " + std::to_string(rows) + " k " +
           std::to_string(k) + " n " + std::to_string(n) + " bits " + std::to_string(bits) +
           (transposed ? " transposed" : "") + (constant ? "" : " fed");
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

void check_quantized(const Case& c) {
  const std::int64_t blocks = (c.k + c.depth - 1) / c.depth,
                     pitch = c.bits == 8 ? c.k : (c.k + 1) / 2, count = c.groups() * c.n;
  const Bytes x = random_bytes(c.type, c.rows * c.k, 1);
  std::vector<std::int8_t> codes(static_cast<std::size_t>(count * pitch)),
      zeros(static_cast<std::size_t>(count * blocks));
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::int8_t>(i * 37 + i / 7);
  for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<std::int8_t>(i % 13) - 6;
  const Bytes scales = random_bytes(DType::kFloat32, count * blocks, 3);
  PlanBuilder b;
  const Id rows = b.constant(c.rows), k = b.constant(c.k), n = b.constant(c.n),
           groups = b.constant(c.groups()), none = b.constant(0), of_k = b.constant(blocks);
  const Id scale = b.weight(DType::kFloat32, scales);
  const PlanBuilder::Tensor absent = {scale, {none, none, none}};
  const DType stored = c.bits == 8 ? DType::kInt8 : DType::kUInt8;
  b.call("grouped_matmul_quantized",
         {b.input_of("x", c.type, {rows, k}),
          {b.weight(stored, codes), {groups, n, b.constant(pitch)}},
          b.input_of("offsets", DType::kInt32, {b.constant(std::ssize(c.offsets))}),
          {scale, {groups, n, of_k}},
          c.zeros ? PlanBuilder::Tensor{b.weight(DType::kInt8, zeros), {groups, n, of_k}} : absent,
          absent,
          absent},
         {b.output_of("y", c.type, {rows, n})},
         {{"bits", std::int64_t{c.bits}},
          {"depth", c.depth},
          {"low", std::int64_t{0}},
          {"high", std::int64_t{0}},
          {"unit", 1.0}});
  run(b, c, x, nullptr, expected(c, x, [&](auto g, auto i, auto column) {
        const auto row = g * c.n + column;
        const auto byte = static_cast<std::uint8_t>(
            codes[static_cast<std::size_t>(row * pitch + (c.bits == 8 ? i : i / 2))]);
        const int code =
            c.bits == 8 ? static_cast<std::int8_t>(byte) : (i % 2 == 0 ? byte & 15 : byte >> 4) - 8;
        const auto block = row * blocks + i / c.depth;
        const int zero = c.zeros ? zeros[static_cast<std::size_t>(block)] : 0;
        return (code - zero) * element(DType::kFloat32, scales, block);
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

TEST(CpuGrouped, PlansThatDoNotFitAreRefused) {
  const auto error = [](std::int64_t bounds, std::int64_t depth) -> std::string {
    PlanBuilder b;
    const Id rows = b.constant(2), k = b.constant(8), n = b.constant(4), one = b.constant(1),
             none = b.constant(0);
    const std::vector<std::int8_t> codes(4 * 8);
    const Id scale = b.weight(DType::kFloat32, std::vector<float>(4));
    const PlanBuilder::Tensor absent = {scale, {none, none, none}};
    b.call("grouped_matmul_quantized",
           {b.input_of("x", DType::kFloat32, {rows, k}),
            {b.weight(DType::kInt8, codes), {one, n, k}},
            b.input_of("offsets", DType::kInt32, {b.constant(bounds)}),
            {scale, {one, n, one}},
            absent,
            absent,
            absent},
           {b.output_of("y", DType::kFloat32, {rows, n})},
           {{"bits", std::int64_t{8}},
            {"depth", depth},
            {"low", std::int64_t{0}},
            {"high", std::int64_t{0}},
            {"unit", 1.0}});
    try {
      Session session(b.build());
      const std::vector<float> x(16);
      const std::vector<std::int32_t> offsets(static_cast<std::size_t>(bounds));
      session.set_input("x", TensorView{DType::kFloat32, {2, 8}, x.data(), Memory::kHost});
      session.set_input("offsets",
                        TensorView{DType::kInt32, {bounds}, offsets.data(), Memory::kHost});
      session.run();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error(2, 8), "");
  EXPECT_THAT(error(1, 8), ::testing::HasSubstr("offsets are not one more"));
  EXPECT_THAT(error(2, 4), ::testing::HasSubstr("scales are not one for each group of k"));
}

}  // namespace
}  // namespace sinter::testing::grouped
