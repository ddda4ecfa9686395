// SPDX-License-Identifier: Apache-2.0
// Products with quantized weights: on the CPU against their definition, and plans that are damaged.
#include <cmath>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/plan/plan_data.h"
#include "tests/runtime/library_check.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

enum class Zeros { kNone, kIntegers, kFloats };

struct QuantCase {
  std::int64_t m = 1, n = 5, k = 64, group = 64;
  int bits = 8;
  Zeros zeros = Zeros::kNone;
  DType type = DType::kFloat32, scales = DType::kFloat32;
  bool epilogue = false, transposed = false;
  std::int64_t batch = 1;
  double scale = 0.1;
  fb::Activation activation = fb::Activation::GeluErf;  // of the epilogue
  bool special = false;  // NaN among the elements of a and of the residual
  bool floats = false;   // codes of 4 bits are floats; scales of f8e4m3fn have factors, u8 are e8m0
  bool uneven = false;   // codes of 4 bits stand for integers of a table
  std::optional<DType> offsets = std::nullopt;
};

constexpr double kFloats4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};

constexpr double kUneven4[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

/// Weights, the plan that multiplies by them, and what it is to give.
class QuantGemm {
 public:
  explicit QuantGemm(const QuantCase& c) : case_(c), random_(7) {
    groups_ = (c.k + c.group - 1) / c.group;
    pitch_ = c.bits == 8 ? c.k : (c.k + 1) / 2;
    values_.resize(static_cast<std::size_t>(c.n * pitch_));
    for (auto& byte : values_) byte = static_cast<std::uint8_t>(random_());
    if (size_of(c.scales) == 1) {
      const unsigned least = c.scales == DType::kUInt8 ? 110 : 1;
      for (std::int64_t i = 0; i < c.n * groups_; ++i)
        scales_.push_back(static_cast<std::byte>(least + random_() % 20));
      for (std::int64_t i = 0; i < c.n; ++i) factors_.push_back(0.1F + static_cast<float>(i));
    } else {
      scales_ = random_bytes(c.scales, c.n * groups_, 2);
      for (std::int64_t i = 0; i < c.n * groups_; ++i)
        set_element(c.scales, scales_, i, element(c.scales, scales_, i) * c.scale);
    }
    for (std::int64_t i = 0; i < c.n * groups_; ++i) {
      integers_.push_back(static_cast<std::int8_t>(c.bits == 8 ? int(random_() % 256) - 128
                                                               : int(random_() % 16) - 8));
      floats_.push_back(static_cast<float>(integers_.back()) + 0.3F);
    }
    if (c.offsets) offsets_ = random_bytes(*c.offsets, c.n * groups_, 6);
    a_ = random_bytes(c.type, c.batch * c.m * c.k, 3);
    bias_ = random_bytes(c.type, c.n, 4);
    residual_ = random_bytes(c.type, c.batch * c.m * c.n, 5);
    if (!c.special) return;
    for (Bytes* bytes : {&a_, &residual_}) add_special(c.type, *bytes, fb::Activation::GeluErf);
  }

  PlanBuilder plan() {
    const QuantCase& c = case_;
    PlanBuilder p;
    const Id one = p.constant(1);
    const auto dense = [&](Id buffer, std::int64_t rows, std::int64_t cols, bool transposed) {
      std::vector<Id> strides;
      if (c.batch > 1) strides.push_back(p.constant(rows * cols));
      return transposed ? p.matrix(buffer, one, p.constant(rows), strides)
                        : p.matrix(buffer, p.constant(cols), one, strides);
    };
    fb::MatmulStepT work;
    work.m = p.constant(c.m);
    work.n = p.constant(c.n);
    work.k = p.constant(c.k);
    if (c.batch > 1) work.batch.push_back(p.constant(c.batch));
    work.a = dense(p.input("a", c.type, {p.constant(c.batch * c.m * c.k)}), c.m, c.k, c.transposed);
    work.b = p.matrix(p.weight(c.bits == 8 ? DType::kInt8 : DType::kUInt8, values_), one,
                      p.constant(c.bits == 8 ? pitch_ : 2 * pitch_));
    if (c.batch > 1) work.b->batch_strides.push_back(p.constant(0));
    work.d =
        dense(p.output("d", c.type, {p.constant(c.batch * c.m * c.n)}), c.m, c.n, c.transposed);
    work.quantization = std::make_unique<fb::QuantizationT>();
    work.quantization->bits = static_cast<std::uint8_t>(c.bits);
    work.quantization->group = static_cast<std::uint64_t>(c.group);
    work.quantization->scales = p.weight_bytes(c.scales, scales_.data(), scales_.size());
    if (c.floats)
      for (const double number : kFloats4)
        work.quantization->numbers.push_back(static_cast<std::int8_t>(2 * number));
    if (c.uneven) {
      work.quantization->numbers.assign(std::begin(kUneven4), std::end(kUneven4));
      work.quantization->unit = 1;
    }
    if (c.offsets)
      work.quantization->offsets =
          static_cast<int>(p.weight_bytes(*c.offsets, offsets_.data(), offsets_.size()));
    if (c.scales == DType::kFloat8E4M3FN)
      work.quantization->factors = static_cast<int>(p.weight(DType::kFloat32, factors_));
    if (c.zeros != Zeros::kNone)
      work.quantization->zero_points =
          static_cast<int>(c.zeros == Zeros::kFloats ? p.weight(DType::kFloat32, floats_)
                                                     : p.weight(DType::kInt8, integers_));
    if (c.epilogue) {
      work.alpha = 0.5F;
      work.bias = static_cast<int>(p.weight_bytes(c.type, bias_.data(), bias_.size()));
      work.residual =
          dense(p.input("r", c.type, {p.constant(c.batch * c.m * c.n)}), c.m, c.n, false);
      work.activation = c.activation;
    }
    p.matmul("product", std::move(work));
    return p;
  }

  void expect_defined_result() {
    const QuantCase& c = case_;
    const Plan built = plan().build();
    for (const int threads : {1, 2}) {
      SessionOptions options;
      options.threads = threads;
      Session session(built, options);
      session.set_input("a", {c.type, {c.batch * c.m * c.k}, a_.data()});
      if (c.epilogue) session.set_input("r", {c.type, {c.batch * c.m * c.n}, residual_.data()});
      session.run();
      expect_close(c.type, expected(), session.output("d"));
    }
  }

 private:
  double weight(std::int64_t n, std::int64_t k) const {
    const auto at = static_cast<std::size_t>(n * groups_ + k / case_.group);
    double q = 0;
    if (case_.bits == 8) {
      q = static_cast<std::int8_t>(values_[static_cast<std::size_t>(n * pitch_ + k)]);
    } else {
      const int both = values_[static_cast<std::size_t>(n * pitch_ + k / 2)];
      const int code = k % 2 == 0 ? both & 15 : both >> 4;
      q = case_.floats ? kFloats4[code] : case_.uneven ? kUneven4[code] : code - 8;
    }
    const double zero = case_.zeros == Zeros::kIntegers ? integers_[at]
                        : case_.zeros == Zeros::kFloats ? static_cast<double>(floats_[at])
                                                        : 0;
    const double factor = case_.scales == DType::kFloat8E4M3FN
                              ? static_cast<double>(factors_[static_cast<std::size_t>(n)])
                              : 1;
    const double offset =
        case_.offsets ? element(*case_.offsets, offsets_, static_cast<std::int64_t>(at)) : 0;
    return (q - zero) * scale(static_cast<std::int64_t>(at)) * factor + offset;
  }
  double scale(std::int64_t at) const {
    const double stored = element(case_.scales, scales_, at);
    return case_.scales == DType::kUInt8 ? std::exp2(stored - 127) : stored;
  }

  Bytes expected() const {
    const QuantCase& c = case_;
    Bytes result(residual_.size());
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t m = 0; m < c.m; ++m) {
        for (std::int64_t n = 0; n < c.n; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < c.k; ++k)
            sum += element(c.type, a_, b * c.m * c.k + (c.transposed ? k * c.m + m : m * c.k + k)) *
                   weight(n, k);
          if (c.epilogue)
            sum = activate(c.activation, 0.5 * sum + element(c.type, bias_, n) +
                                             element(c.type, residual_, (b * c.m + m) * c.n + n));
          set_element(c.type, result, b * c.m * c.n + (c.transposed ? n * c.m + m : m * c.n + n),
                      sum);
        }
      }
    }
    return result;
  }

  QuantCase case_;
  std::mt19937 random_;
  std::int64_t groups_ = 1, pitch_ = 1;
  std::vector<std::uint8_t> values_;
  std::vector<std::int8_t> integers_;
  std::vector<float> floats_, factors_;
  Bytes scales_, offsets_, a_, bias_, residual_;
};

void expect_all(const std::vector<QuantCase>& cases) {
  for (const QuantCase& c : cases) {
    SCOPED_TRACE(fmt::format("m {} n {} k {} group {} bits {} zeros {} type {}", c.m, c.n, c.k,
                             c.group, c.bits, static_cast<int>(c.zeros), to_string(c.type)));
    QuantGemm(c).expect_defined_result();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CpuQuantGemm, NanStaysBehindActivations) {
  std::vector<QuantCase> cases;
  for (const int bits : {4, 8})
    for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBFloat16})
      for (const std::int64_t m : {1, 6, 7, 33})
        for (const auto activation :
             {fb::Activation::Relu, fb::Activation::GeluErf, fb::Activation::GeluTanh}) {
          QuantCase c;
          c.m = m;
          c.n = 37;
          c.k = 96;
          c.group = 32;
          c.bits = bits;
          c.type = type;
          c.epilogue = c.special = true;
          c.activation = activation;
          cases.push_back(c);
        }
  expect_all(cases);
}

TEST(CpuQuantGemm, EveryNumberOfRowsAndSizeOfGroups) {
  std::vector<QuantCase> cases;
  for (const int bits : {4, 8})
    for (const Zeros zeros : {Zeros::kNone, Zeros::kIntegers, Zeros::kFloats})
      for (const std::int64_t m : {1, 2, 3, 4, 5, 33})
        for (const std::int64_t group : {1, 16, 20, 32, 33, 64, 96}) {
          QuantCase c;
          c.m = m;
          c.n = 37;
          c.k = 96;
          c.group = group;
          c.bits = bits;
          c.zeros = zeros;
          cases.push_back(c);
        }
  expect_all(cases);
}

TEST(CpuQuantGemm, OffsetsOfGroups) {
  std::vector<QuantCase> cases;
  for (const int bits : {4, 8})
    for (const Zeros zeros : {Zeros::kNone, Zeros::kIntegers})
      for (const DType offsets : {DType::kFloat32, DType::kFloat16})
        for (const std::int64_t m : {1, 2, 3, 4, 5, 33})
          for (const std::int64_t k : {64, 288, 289})
            for (const std::int64_t group : {16, 32, 256}) {
              QuantCase c;
              c.m = m;
              c.n = 37;
              c.k = k;
              c.group = group;
              c.bits = bits;
              c.zeros = zeros;
              c.offsets = offsets;
              cases.push_back(c);
            }
  expect_all(cases);
}

TEST(CpuQuantGemm, NumbersOfATable) {
  std::vector<QuantCase> cases;
  for (const bool offsets : {false, true})
    for (const std::int64_t m : {1, 2, 3, 4, 5, 33})
      for (const std::int64_t k : {64, 97}) {
        QuantCase c;
        c.m = m;
        c.n = 37;
        c.k = k;
        c.group = 32;
        c.bits = 4;
        c.uneven = true;
        if (offsets) c.offsets = DType::kFloat32;
        cases.push_back(c);
      }
  expect_all(cases);
}

TEST(CpuQuantGemm, FloatsOfFourBits) {
  std::vector<QuantCase> cases;
  for (const DType scales : {DType::kFloat8E4M3FN, DType::kUInt8, DType::kFloat16})
    for (const std::int64_t m : {1, 2, 3, 4, 5, 33})
      for (const std::int64_t k : {64, 97}) {
        QuantCase c;
        c.m = m;
        c.n = 37;
        c.k = k;
        c.group = scales == DType::kUInt8 ? 32 : 16;
        c.bits = 4;
        c.scales = scales;
        c.floats = true;
        cases.push_back(c);
      }
  expect_all(cases);
}

TEST(CpuQuantGemm, OddSizes) {
  std::vector<QuantCase> cases;
  for (const int bits : {4, 8})
    for (const std::int64_t m : {1, 6})
      for (const std::int64_t n : {1, 3, 65})
        for (const std::int64_t k : {1, 2, 7, 31, 1037})
          for (const std::int64_t group : {16, 5000}) {
            QuantCase c;
            c.m = m;
            c.n = n;
            c.k = k;
            c.group = group;
            c.bits = bits;
            c.zeros = Zeros::kIntegers;
            cases.push_back(c);
          }
  expect_all(cases);
}

TEST(CpuQuantGemm, TypesEpiloguesAndStrides) {
  std::vector<QuantCase> cases;
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kBFloat16})
    for (const DType scales : {DType::kFloat32, DType::kFloat16, DType::kBFloat16})
      for (const std::int64_t m : {1, 9})
        for (const bool transposed : {false, true}) {
          QuantCase c;
          c.m = m;
          c.type = type;
          c.scales = scales;
          c.bits = transposed ? 4 : 8;
          c.group = 32;
          c.epilogue = true;
          c.transposed = transposed;
          c.batch = 3;
          cases.push_back(c);
        }
  expect_all(cases);
}

TEST(CpuQuantGemm, ExtremeScales) {
  for (const double scale : {0.0, 1e-30, 1e30}) {
    QuantCase c;
    c.scale = scale;
    c.group = 16;
    expect_all({c});
    c.m = 7;
    expect_all({c});
  }
}

TEST(CpuQuantGemm, NothingToSumUpOrToStore) {
  QuantCase c;
  c.k = 0;
  c.epilogue = true;
  QuantCase none;
  none.m = 0;
  expect_all({c, none});
}

struct QuantDamage {
  const char* name;
  std::function<void(fb::PlanT&, fb::MatmulStepT&)> damage;
  const char* expected;
};

TEST(QuantizedPlan, DamageIsRefusedByName) {
  const QuantDamage damages[] = {
      {"bits", [](auto&, auto& step) { step.quantization->bits = 3; }, "weights have 3 bits"},
      {"group", [](auto&, auto& step) { step.quantization->group = 0; }, "groups of 0"},
      {"huge group", [](auto&, auto& step) { step.quantization->group = UINT64_MAX; },
       "groups of 18446744073709551615"},
      {"scales", [](auto&, auto& step) { step.quantization->scales = 99; }, "its scales is 99"},
      {"scales' type",
       [](auto& plan, auto& step) {
         plan.buffers[step.quantization->scales]->dtype = static_cast<std::uint8_t>(DType::kInt32);
       },
       "its scales are of type i32"},
      {"zero points", [](auto&, auto& step) { step.quantization->zero_points = -2; },
       "its zero points are buffer -2"},
      {"zero points' type",
       [](auto& plan, auto& step) {
         plan.buffers[static_cast<std::size_t>(step.quantization->zero_points)]->dtype =
             static_cast<std::uint8_t>(DType::kInt16);
       },
       "its zero points are of type i16"},
      {"factors", [](auto&, auto& step) { step.quantization->factors = -2; },
       "its factors are buffer -2"},
      {"factors' type",
       [](auto&, auto& step) { step.quantization->factors = step.quantization->zero_points; },
       "its factors are of type i8"},
      {"offsets", [](auto&, auto& step) { step.quantization->offsets = -2; },
       "its offsets are buffer -2"},
      {"offsets' type",
       [](auto&, auto& step) { step.quantization->offsets = step.quantization->zero_points; },
       "its offsets are of type i8"},
      {"offsets that nothing loads",
       [](auto&, auto& step) { step.quantization->offsets = static_cast<int>(step.a->buffer); },
       "its offsets are in buffer 0, which is an Input"},
      {"unit", [](auto&, auto& step) { step.quantization->unit = NAN; }, "unit of its numbers is"},
      {"numbers of bytes", [](auto&, auto& step) { step.quantization->numbers.assign(16, 1); },
       "its codes of 8 bits stand for 16 numbers"},
      {"weights' type", [](auto&, auto& step) { step.quantization->bits = 4; },
       "no plain matrix of 4-bit weights"},
      {"x's type",
       [](auto& plan, auto& step) {
         step.a->dtype = static_cast<std::uint8_t>(DType::kFloat64);
         plan.buffers[step.a->buffer]->dtype = step.a->dtype;
         plan.inputs[0]->dtype = step.a->dtype;
       },
       "a product of f64 with quantized weights"},
      {"weights' stride", [](auto&, auto& step) { step.b->col_stride = step.n; },
       "no plain matrix of 8-bit weights"},
      {"huge k",
       [](auto& plan, auto& step) {
         step.quantization->bits = 4;
         step.k = static_cast<Id>(plan.expressions.size());
         plan.expressions.emplace_back(fb::ExprOp::Constant, 0, 0, INT64_MAX);
       },
       "no plain matrix of 4-bit weights"},
      {"no weights", [](auto&, auto& step) { step.quantization->scales = step.a->buffer; },
       "its scales are in buffer 0, which is an Input"},
      {"no quantization", [](auto&, auto& step) { step.quantization.reset(); },
       "its operands are of types f32 and i8"},
      {"too few scales", [](auto&, auto& step) { step.quantization->group = 1; },
       "the scales reaches element"},
  };
  for (const QuantDamage& damage : damages) {
    SCOPED_TRACE(damage.name);
    QuantCase c;
    c.group = 16;
    c.zeros = Zeros::kIntegers;
    PlanBuilder p = QuantGemm(c).plan();
    plan::PlanParts parts = p.parts();
    damage.damage(parts.meta, *parts.meta.steps[0]->work.AsMatmulStep());
    std::string message = "accepted";
    try {
      Session session(Plan::from_memory(plan::serialize_plan(parts)));
      const std::vector<float> a(64);
      session.set_input("a", {DType::kFloat32, {64}, a.data()});
      session.run();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr(damage.expected));
  }
}

}  // namespace
}  // namespace sinter::testing
