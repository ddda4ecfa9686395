// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of integers of 8 bits: exact sums of any layout, by all instructions
// that this CPU has. ctest runs these as CPUs without VNNI do as well (`narrow_without_vnni_*`).
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "tests/runtime/cpu/conv_case.h"
#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {
namespace {

using Conv = sinter::testing::ConvCase;

constexpr DType kBytes[] = {DType::kInt8, DType::kUInt8};

/// Random bytes, and what they stand for.
struct Integers {
  std::vector<std::byte> bytes;
  std::vector<float> values;

  Integers(DType type, std::int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<std::uint8_t>(random() >> 8);
      bytes.push_back(std::byte{byte});
      values.push_back(type == DType::kInt8 ? static_cast<std::int8_t>(byte) : byte);
    }
  }
};

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

/// Calls `body` with the instructions that Highway picks, then without the best of them, and so on.
template <typename Body>
void with_each_target(const Body& body) {
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    hwy::SetSupportedTargetsForTest(left);
    hwy::GetChosenTarget().DeInit();
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().DeInit();
}

/// `expected` are integers of less than 2^24.
void expect_sums(const std::vector<float>& expected, const TensorView& found) {
  ASSERT_EQ(found.element_count(), std::ssize(expected));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    wrong += found.as<std::int32_t>()[i] != static_cast<std::int32_t>(expected[i]);
  EXPECT_EQ(wrong, 0U) << "of " << expected.size();
}

/// Weights of the plan, or an input of it.
Id right_side(PlanBuilder& p, DType type, const Integers& w, bool constant) {
  if (constant) return p.weight_bytes(type, w.bytes.data(), w.bytes.size());
  return p.input("w", type, {p.constant(static_cast<std::int64_t>(w.bytes.size()))});
}

void run(Session& session, DType x_type, const Integers& x, DType w_type, const Integers& w,
         bool constant) {
  const auto count = [](const Integers& of) { return static_cast<std::int64_t>(of.bytes.size()); };
  session.set_input("x", {x_type, {count(x)}, x.bytes.data()});
  if (!constant) session.set_input("w", {w_type, {count(w)}, w.bytes.data()});
  session.run();
}

void check_conv(const Conv& c, DType x_type, DType w_type, bool constant, int threads) {
  SCOPED_TRACE(fmt::format("{}: {} and {}, {}, {} threads", c.name, to_string(x_type),
                           to_string(w_type), constant ? "weights" : "computed", threads));
  const Integers x(x_type, count_of(c.input_shape()), 1), w(w_type, count_of(c.weight_shape()), 2);
  PlanBuilder p;
  fb::ConvStepT work = c.step(p);
  work.input = p.input("x", x_type, {p.constant(static_cast<std::int64_t>(x.bytes.size()))});
  work.weight = right_side(p, w_type, w, constant);
  work.output = p.output("y", DType::kInt32, {p.constant(count_of(c.output_shape()))});
  p.conv("conv", std::move(work));
  SessionOptions options;
  options.threads = threads;
  Session session(p.build(), options);
  run(session, x_type, x, w_type, w, constant);
  expect_sums(c.expected(x.values, w.values, {}, {}), session.output("y"));
}

std::vector<Conv> conv_cases() {
  Conv line, image, pointwise, deep, grouped, depthwise, multiple, volume, flat;
  line = {"one dimension", true, 2, 5, 7, 1, {31}, {4}, {2}, {3}, {5}, {1}};
  image = {"a first layer", true, 2, 3, 20, 1, {17, 19}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}};
  pointwise = {"pointwise", true, 1, 33, 70, 1, {9, 8}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  deep = {"deep and wide", true, 1, 130, 600, 1, {5, 4}, {2, 3}, {1, 1}, {1, 1}, {1, 0}, {0, 2}};
  grouped = {"groups", true, 2, 12, 20, 4, {9, 7}, {3, 3}, {1, 2}, {2, 1}, {2, 0}, {1, 2}};
  depthwise = {"depthwise", true, 2, 37, 37, 37, {13, 9}, {5, 3}, {2, 1}, {1, 2}, {2, 2}, {2, 2}};
  multiple = {
      "two of each channel", true, 1, 6, 12, 6, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  volume = {"three dimensions", true,      1,         4,         10,        2,
            {5, 6, 7},          {3, 2, 3}, {2, 1, 1}, {1, 2, 1}, {1, 1, 0}, {0, 1, 2}};
  flat = {"many windows", true, 3, 8, 16, 1, {32, 33}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  return {line, image, pointwise, deep, grouped, depthwise, multiple, volume, flat};
}

TEST(NarrowConvStep, SumsExactly) {
  for (Conv c : conv_cases())
    for (const bool channels_last : {true, false})
      for (const DType x : kBytes)
        for (const bool constant : {true, false}) {
          c.channels_last = channels_last;
          check_conv(c, x, DType::kInt8, constant, 2);
          // oneDNN has none of these weights.
          check_conv(c, x, DType::kUInt8, constant, 1);
        }
}

TEST(NarrowConvStep, SumsExactlyByAllInstructions) {
  with_each_target([] {
    for (const Conv& c : conv_cases())
      for (const DType x : kBytes) check_conv(c, x, DType::kUInt8, true, 2);
  });
}

struct NarrowMatmul {
  std::int64_t batch = 1, m = 1, k = 1, n = 1;
  bool shared = false;  // one matrix b for all of the batch
  bool x_transposed = false, w_transposed = false, d_transposed = false;
};

void check_matmul(const NarrowMatmul& c, DType x_type, DType w_type, bool constant, int threads) {
  SCOPED_TRACE(fmt::format("{} of {} x {} x {}: {} and {}, {}, {} threads", c.batch, c.m, c.k, c.n,
                           to_string(x_type), to_string(w_type), constant ? "weights" : "computed",
                           threads));
  const Integers x(x_type, c.batch * c.m * c.k, 1),
      w(w_type, (c.shared ? 1 : c.batch) * c.k * c.n, 2);
  PlanBuilder p;
  const auto matrix = [&](Id buffer, std::int64_t rows, std::int64_t columns, bool transposed,
                          bool repeated) {
    const Id one = p.constant(1);
    const std::vector<Id> batch{p.constant(repeated ? 0 : rows * columns)};
    return transposed ? p.matrix(buffer, one, p.constant(rows), batch)
                      : p.matrix(buffer, p.constant(columns), one, batch);
  };
  fb::MatmulStepT work;
  work.batch = {p.constant(c.batch)};
  work.m = p.constant(c.m);
  work.k = p.constant(c.k);
  work.n = p.constant(c.n);
  work.a = matrix(p.input("x", x_type, {p.constant(c.batch * c.m * c.k)}), c.m, c.k, c.x_transposed,
                  false);
  work.b = matrix(right_side(p, w_type, w, constant), c.k, c.n, c.w_transposed, c.shared);
  work.d = matrix(p.output("y", DType::kInt32, {p.constant(c.batch * c.m * c.n)}), c.m, c.n,
                  c.d_transposed, false);
  p.matmul("product", std::move(work));
  SessionOptions options;
  options.threads = threads;
  Session session(p.build(), options);
  run(session, x_type, x, w_type, w, constant);
  std::vector<float> expected(static_cast<std::size_t>(c.batch * c.m * c.n));
  const auto at = [](std::int64_t i, std::int64_t row, std::int64_t column, std::int64_t rows,
                     std::int64_t columns, bool transposed) {
    return static_cast<std::size_t>(i * rows * columns +
                                    (transposed ? column * rows + row : row * columns + column));
  };
  for (std::int64_t i = 0; i < c.batch; ++i)
    for (std::int64_t row = 0; row < c.m; ++row)
      for (std::int64_t column = 0; column < c.n; ++column) {
        float sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k)
          sum += x.values[at(i, row, k, c.m, c.k, c.x_transposed)] *
                 w.values[at(c.shared ? 0 : i, k, column, c.k, c.n, c.w_transposed)];
        expected[at(i, row, column, c.m, c.n, c.d_transposed)] = sum;
      }
  expect_sums(expected, session.output("y"));
}

const NarrowMatmul kMatmuls[] = {
    {.m = 1, .k = 129, .n = 700},
    {.m = 50, .k = 63, .n = 17, .x_transposed = true},
    {.m = 9, .k = 701, .n = 80, .w_transposed = true, .d_transposed = true},
    {.batch = 3, .m = 7, .k = 20, .n = 66},
    {.batch = 5, .m = 30, .k = 33, .n = 5, .shared = true, .w_transposed = true},
    {.m = 800, .k = 8, .n = 530},
};

TEST(NarrowMatmulStep, SumsExactly) {
  for (const NarrowMatmul& c : kMatmuls)
    for (const DType x : kBytes)
      for (const DType w : kBytes)
        for (const bool constant : {true, false}) check_matmul(c, x, w, constant, 2);
}

TEST(NarrowMatmulStep, SumsExactlyByAllInstructions) {
  with_each_target([] {
    for (const NarrowMatmul& c : kMatmuls)
      for (const DType x : kBytes) check_matmul(c, x, DType::kUInt8, true, 1);
  });
}

/// The greatest magnitudes, whose sums in pairs do not fit 16 bits.
TEST(NarrowMatmulStep, SumsExtremes) {
  const std::int64_t k = 300;
  for (const DType type : kBytes) {
    const std::vector<std::uint8_t> x(static_cast<std::size_t>(k),
                                      type == DType::kInt8 ? 0x80 : 255),
        w(static_cast<std::size_t>(k), 0x80);
    PlanBuilder p;
    const Id one = p.constant(1);
    fb::MatmulStepT work;
    work.m = work.n = one;
    work.k = p.constant(k);
    work.a = p.matrix(p.input("x", type, {p.constant(k)}), p.constant(k), one);
    work.b = p.matrix(p.weight_bytes(DType::kInt8, w.data(), w.size()), one, one);
    work.d = p.matrix(p.output("y", DType::kInt32, {one}), one, one);
    p.matmul("product", std::move(work));
    Session session(p.build());
    session.set_input("x", {type, {k}, x.data()});
    session.run();
    EXPECT_EQ(session.output("y").as<std::int32_t>()[0],
              k * (type == DType::kInt8 ? 16384 : -32640));
  }
}

}  // namespace
}  // namespace sinter::testing
