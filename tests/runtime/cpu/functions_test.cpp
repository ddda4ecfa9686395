// SPDX-License-Identifier: Apache-2.0
// The CPU's functions on float32: what they give for special values, how far they are from exact,
// and chains of them against one after the other.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "instruction_sets.h"
#include "runtime/cpu/ops/chain_ops.h"
#include "runtime/cpu/ops/tile_ops.h"

namespace sinter::testing {
namespace {

using runtime::cpu::ChainArgs;
using runtime::cpu::ChainLink;
using runtime::cpu::ChainSide;
using runtime::cpu::OpArgs;
using runtime::cpu::View;

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Function {
  ScalarOp op;
  double (*exact)(double);
  double bound;  // relative, or absolute below `floor`
  double floor;
  double from, to;
};

/// Bounds as vector_math-inl.h and runtime/cpu/README.md state them.
const Function kFunctions[] = {
    {ScalarOp::kExp, [](double x) { return std::exp(x); }, 2e-7, 1e-37, -87, 88.7},
    {ScalarOp::kLog, [](double x) { return std::log(x); }, 2e-7, 1e-6, 1e-38, 3e38},
    {ScalarOp::kLog1p, [](double x) { return std::log1p(x); }, 3e-7, 1e-37, -0.99, 3e38},
    {ScalarOp::kErf, [](double x) { return std::erf(x); }, 4e-7, 1e-37, -10, 10},
    {ScalarOp::kTanh, [](double x) { return std::tanh(x); }, 4e-7, 1e-37, -20, 20},
    {ScalarOp::kAtan, [](double x) { return std::atan(x); }, 4e-7, 1e-37, -3e38, 3e38},
    {ScalarOp::kSin, [](double x) { return std::sin(x); }, 2e-7, 1, -1e5, 1e5},
    {ScalarOp::kCos, [](double x) { return std::cos(x); }, 2e-7, 1, -1e5, 1e5},
    {ScalarOp::kSqrt, [](double x) { return std::sqrt(x); }, 1e-7, 0, 0, 3e38},
    {ScalarOp::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 2e-7, 0, 1e-37, 3e38},
    {ScalarOp::kReciprocal, [](double x) { return 1 / x; }, 1e-7, 0, 1e-37, 1e37},
};

std::vector<float> values_of(ScalarOp op, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const auto kernel = runtime::cpu::find_op_kernel(op, DType::kFloat32, DType::kFloat32);
  OpArgs args{1, static_cast<std::int64_t>(x.size()), y.data(), 0, {{x.data(), 0, true}, {}, {}}};
  kernel(args);
  return y;
}

/// Comparisons of every length, of columns and of a row's value, with the flags that C++ finds.
template <typename T>
void check_comparisons(DType type, const std::vector<T>& values) {
  const std::pair<ScalarOp, bool (*)(T, T)> tests[] = {
      {ScalarOp::kEqual, [](T a, T b) { return a == b; }},
      {ScalarOp::kNotEqual, [](T a, T b) { return a != b; }},
      {ScalarOp::kLess, [](T a, T b) { return a < b; }},
      {ScalarOp::kLessEqual, [](T a, T b) { return a <= b; }},
      {ScalarOp::kGreater, [](T a, T b) { return a > b; }},
      {ScalarOp::kGreaterEqual, [](T a, T b) { return a >= b; }}};
  std::mt19937 generator(3);
  const auto drawn = [&](std::size_t count) {
    std::vector<T> result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(values[generator() % values.size()]);
    return result;
  };
  for (const auto& [op, expected] : tests)
    for (std::int64_t cols = 1; cols < 70; cols += cols < 20 ? 1 : 7)
      for (int form = 0; form < 4; ++form) {
        const bool columns[] = {(form & 1) != 0, (form & 2) != 0};
        const auto size = static_cast<std::size_t>(2 * cols);
        const std::vector<T> a = drawn(size), b = drawn(size);
        std::vector<std::uint8_t> flags(size + 1, 9);
        OpArgs args{2,
                    cols,
                    flags.data(),
                    cols,
                    {{a.data(), cols, columns[0]}, {b.data(), cols, columns[1]}, {}}};
        runtime::cpu::find_op_kernel(op, type, DType::kBool)(args);
        for (std::size_t i = 0; i < size; ++i) {
          const std::size_t first = i - i % static_cast<std::size_t>(cols);
          ASSERT_EQ(flags[i],
                    expected(a[columns[0] ? i : first], b[columns[1] ? i : first]) ? 1 : 0)
              << to_string(op) << " of " << to_string(type) << ", " << cols << " columns, form "
              << form << ", element " << i;
        }
        EXPECT_EQ(flags[size], 9);
      }
}

TEST(CpuFunctions, ComparisonsGiveCppsFlags) {
  for_each_instruction_set([] {
    check_comparisons<float>(
        DType::kFloat32, {kNan, kFloatInfinity, -kFloatInfinity, 0.0f, -0.0f, 1.0f, -1.0f, 1e-45f});
    check_comparisons<double>(
        DType::kFloat64, {kNan, kFloatInfinity, -kFloatInfinity, 0.0, -0.0, 1.0, -1.0, 1e-310});
    check_comparisons<std::int32_t>(DType::kInt32, {INT32_MIN, INT32_MAX, 0, 1, -1});
    check_comparisons<std::int64_t>(
        DType::kInt64,
        {INT64_MIN, INT64_MAX, 0, 1, -1, std::int64_t{1} << 32, -(std::int64_t{1} << 32)});
  });
}

TEST(CpuFunctions, KindsOfFloats) {
  for_each_instruction_set([] {
    const std::vector<float> x = {kNan, -kNan, kFloatInfinity, -kFloatInfinity, 0, 3e38f, 1e-45f};
    std::vector<std::uint8_t> flags(x.size());
    OpArgs args{1, std::ssize(x), flags.data(), 0, {{x.data(), 0, true}, {}, {}}};
    runtime::cpu::find_op_kernel(ScalarOp::kIsNan, DType::kFloat32, DType::kBool)(args);
    EXPECT_EQ(flags, (std::vector<std::uint8_t>{1, 1, 0, 0, 0, 0, 0}));
    runtime::cpu::find_op_kernel(ScalarOp::kIsInf, DType::kFloat32, DType::kBool)(args);
    EXPECT_EQ(flags, (std::vector<std::uint8_t>{0, 0, 1, 1, 0, 0, 0}));
  });
}

/// Casts truncate and saturate, NaN becomes 0.
TEST(CpuFunctions, IntegersOfFloats) {
  for_each_instruction_set([] {
    const auto check = [](auto kind, DType from) {
      using T = decltype(kind);
      const std::vector<T> special = {static_cast<T>(kNan),
                                      static_cast<T>(kFloatInfinity),
                                      static_cast<T>(-kFloatInfinity),
                                      T{0},
                                      T{-0.0},
                                      T{0.9},
                                      T{-0.9},
                                      T{1.5},
                                      T{-2.5},
                                      T{9.2e18},
                                      T{-9.2e18},
                                      T{9.3e18},
                                      T{-9.3e18},
                                      T{9223372036854775808.0},
                                      T{-9223372036854775808.0},
                                      T{3e9},
                                      T{-3e9}};
      constexpr std::int64_t kMost = INT64_MAX, kLeast = INT64_MIN;
      for (std::size_t cols = 1; cols < 40; ++cols)
        for (const bool row : {false, true}) {
          std::vector<T> x;
          for (std::size_t c = 0; c < cols; ++c) x.push_back(special[(c + cols) % special.size()]);
          std::vector<std::int64_t> y(cols, 7);
          OpArgs args{
              1, static_cast<std::int64_t>(cols), y.data(), 0, {{x.data(), 0, !row}, {}, {}}};
          runtime::cpu::find_op_kernel(ScalarOp::kCast, from, DType::kInt64)(args);
          for (std::size_t c = 0; c < cols; ++c) {
            const double value = x[row ? 0 : c];
            const std::int64_t expected = std::isnan(value)  ? 0
                                          : value >= 0x1p63  ? kMost
                                          : value <= -0x1p63 ? kLeast
                                                             : static_cast<std::int64_t>(value);
            ASSERT_EQ(y[c], expected) << value;
          }
        }
    };
    check(float{}, DType::kFloat32);
    check(double{}, DType::kFloat64);
  });
}

/// float64's functions and float32's powers, special values among others.
TEST(CpuFunctions, ComputedInFloat64) {
  for_each_instruction_set([] {
    std::mt19937 generator(5);
    std::uniform_real_distribution<double> evenly(-720, 720), small(-30, 30);
    const std::vector<double> special = {
        kNan, kFloatInfinity, -kFloatInfinity, 0.0, -0.0, 710, -746, 1, 2, -1, -2, 0.5, 3, 1e-40};
    const auto one_of = [&](auto& otherwise) {
      return generator() % 4 == 0 ? special[generator() % special.size()] : otherwise(generator);
    };
    const auto expect_near = [](double found, double exact, double bound) {
      if (std::isnan(exact) || std::isinf(exact))
        EXPECT_TRUE(std::isnan(exact) ? std::isnan(found) : found == exact) << exact;
      else
        EXPECT_LE(std::abs(found - exact), bound * std::abs(exact)) << found << " for " << exact;
    };
    for (std::int64_t cols = 1; cols < 60; ++cols) {
      std::vector<double> x, y(static_cast<std::size_t>(cols));
      for (std::int64_t c = 0; c < cols; ++c) x.push_back(one_of(evenly));
      OpArgs args{1, cols, y.data(), 0, {{x.data(), 0, true}, {}, {}}};
      runtime::cpu::find_op_kernel(ScalarOp::kExp, DType::kFloat64, DType::kFloat64)(args);
      for (std::size_t i = 0; i < x.size(); ++i) expect_near(y[i], std::exp(x[i]), 1e-15);
      runtime::cpu::find_op_kernel(ScalarOp::kSqrt, DType::kFloat64, DType::kFloat64)(args);
      for (std::size_t i = 0; i < x.size(); ++i) expect_near(y[i], std::sqrt(x[i]), 0);
      for (const bool row : {false, true}) {
        std::vector<float> a, b, power(static_cast<std::size_t>(cols));
        for (std::int64_t c = 0; c < cols; ++c) {
          a.push_back(static_cast<float>(one_of(small)));
          b.push_back(static_cast<float>(one_of(small)));
        }
        OpArgs powers{1, cols, power.data(), 0, {{a.data(), 0, true}, {b.data(), 0, !row}, {}}};
        runtime::cpu::find_op_kernel(ScalarOp::kPow, DType::kFloat32, DType::kFloat32)(powers);
        for (std::size_t i = 0; i < a.size(); ++i)
          expect_near(power[i], std::pow(a[i], b[row ? 0 : i]), 2e-7);
      }
    }
  });
}

/// Every function at points spread over its range by value and, where it has many, by exponent.
TEST(CpuFunctions, AreWithinTheirBounds) {
  std::mt19937 generator(1);
  for (const Function& f : kFunctions) {
    std::vector<float> x;
    std::uniform_real_distribution<double> evenly(f.from, f.to);
    const double least = std::max(std::abs(f.from) < std::abs(f.to) ? f.from : 0.0, 1e-38);
    std::uniform_real_distribution<double> powers(std::log(least), std::log(std::abs(f.to)));
    for (int i = 0; i < 200000; ++i) {
      x.push_back(static_cast<float>(evenly(generator)));
      const double magnitude = std::exp(powers(generator));
      x.push_back(static_cast<float>(f.from < 0 && i % 2 != 0 && magnitude < -f.from ? -magnitude
                                                                                     : magnitude));
    }
    const std::vector<float> y = values_of(f.op, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = f.exact(x[i]);
      ASSERT_LE(std::abs(y[i] - exact), f.bound * std::max(std::abs(exact), f.floor))
          << to_string(f.op) << " of " << x[i] << " is " << y[i];
    }
  }
}

TEST(CpuFunctions, HaveTheirLimitsAtSpecialValues) {
  const std::vector<float> special = {
      kNan,    -kNan,  kFloatInfinity, -kFloatInfinity, 0.0f,   -0.0f,   1e-45f,
      -1e-45f, 1e-39f, 3.4e38f,        -3.4e38f,        100.0f, -100.0f, -1.0f};
  for (const Function& f : kFunctions)
    for (const std::size_t size : {1u, 3u, 16u, 37u, 64u}) {  // whole vectors and parts of one
      for (const float value : special) {
        const std::vector<float> y = values_of(f.op, std::vector<float>(size, value));
        const auto exact = static_cast<float>(f.exact(value));
        for (const float found : y) {
          SCOPED_TRACE(std::string(to_string(f.op)) + " of " + std::to_string(value));
          if (std::isnan(exact)) {
            EXPECT_TRUE(std::isnan(found)) << found;
          } else if (std::isinf(exact)) {
            EXPECT_EQ(found, exact);
          } else {
            EXPECT_NEAR(found, exact, 1e-6 * std::max(1.0f, std::abs(exact)));
          }
        }
      }
    }
}

/// Operators of one and two operands, and which side a chain comes in on.
struct Step {
  ScalarOp op;
  ChainSide side;
  bool row;  // the other operand is one for the row
};

class Chains : public ::testing::TestWithParam<int> {};

/// Chains give the bits that their operators give one after the other.
TEST_P(Chains, AgreeWithSingleOperators) {
  std::mt19937 generator(static_cast<unsigned>(GetParam()));
  const auto below = [&](std::size_t n) { return generator() % n; };
  const ScalarOp unary[] = {
      ScalarOp::kNeg,        ScalarOp::kAbs,  ScalarOp::kSign,  ScalarOp::kFloor, ScalarOp::kCeil,
      ScalarOp::kRound,      ScalarOp::kSqrt, ScalarOp::kRsqrt, ScalarOp::kExp,   ScalarOp::kLog,
      ScalarOp::kErf,        ScalarOp::kTanh, ScalarOp::kSin,   ScalarOp::kCos,   ScalarOp::kLog1p,
      ScalarOp::kReciprocal, ScalarOp::kAtan};
  const ScalarOp binary[] = {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul,     ScalarOp::kDiv,
                             ScalarOp::kMin, ScalarOp::kMax, ScalarOp::kQuotient};
  const auto rows = static_cast<std::int64_t>(1 + below(3));
  const auto cols = static_cast<std::int64_t>(1 + below(300));
  const auto stride = cols + static_cast<std::int64_t>(below(5));
  std::normal_distribution<float> normal;
  const auto numbers = [&] {
    std::vector<float> values(static_cast<std::size_t>(rows * stride));
    for (float& value : values)
      value = below(50) == 0 ? std::vector{kNan, kFloatInfinity, -0.0f, 1e-40f}[below(4)]
                             : normal(generator);
    return values;
  };
  std::vector<std::vector<float>> others;
  std::vector<ChainLink> links;
  std::vector<float> expected = numbers(), start = expected;
  const std::size_t length = 1 + below(runtime::cpu::kMaxChain);
  for (std::size_t k = 0; k < length; ++k) {
    const bool one = below(2) == 0;
    const Step step = {
        one ? unary[below(std::size(unary))] : binary[below(std::size(binary))],
        one ? ChainSide::kOnly
            : std::vector{ChainSide::kLeft, ChainSide::kRight, ChainSide::kBoth}[below(3)],
        below(2) == 0};
    others.push_back(numbers());
    const View other{others.back().data(), stride, !step.row};
    const View own{expected.data(), stride, true};
    OpArgs args{rows, cols, nullptr, stride, {own, {}, {}}};
    if (step.side == ChainSide::kLeft) args.args[1] = other;
    if (step.side == ChainSide::kBoth) args.args[1] = own;
    if (step.side == ChainSide::kRight) {
      args.args[0] = other;
      args.args[1] = own;
    }
    std::vector<float> result(expected.size());
    args.result = result.data();
    runtime::cpu::find_op_kernel(step.op, DType::kFloat32, DType::kFloat32)(args);
    expected = result;
    const bool has_other = step.side == ChainSide::kLeft || step.side == ChainSide::kRight;
    links.push_back({runtime::cpu::find_chain_kernels(step.op, DType::kFloat32, step.side, false),
                     has_other ? other : View{}});
    ASSERT_NE(links.back().kernels.columns, nullptr) << to_string(step.op);
  }
  std::vector<float> found(expected.size());
  runtime::cpu::run_chain({rows,
                           cols,
                           found.data(),
                           stride,
                           {start.data(), stride, true},
                           DType::kFloat32,
                           DType::kFloat32,
                           links});
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(found[i])) << i;
    else
      EXPECT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << found[i] << " instead of " << expected[i] << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Random, Chains, ::testing::Range(0, 200));

}  // namespace
}  // namespace sinter::testing
