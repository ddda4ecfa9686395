// SPDX-License-Identifier: Apache-2.0
// Products with quantized weights: on the CPU against their definition, and plans that are damaged.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "runtime/plan/panels/quant_panels.h"
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
  bool panels = false;     // the plan has weights in panels
  std::int64_t block = 0;  // of rows rounded to 8 bits
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
    if (c.panels) put_in_panels(p, work);
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

  const Bytes& left_operand() const { return a_; }

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
  /// As codegen does: f16 scales stay, others become float32 with their factors and unit.
  void put_in_panels(PlanBuilder& p, fb::MatmulStepT& work) const {
    const QuantCase& c = case_;
    fb::QuantizationT& own = *work.quantization;
    const plan::QuantPanelShape shape{c.bits, c.n, c.k,
                                      std::min(c.group, std::max<std::int64_t>(c.k, 1))};
    std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.value_bytes()));
    for (std::int64_t panel = 0; panel < shape.panels(); ++panel)
      plan::write_value_panel(
          shape, panel, reinterpret_cast<const std::byte*>(values_.data()),
          reinterpret_cast<std::byte*>(values.data()) + panel * shape.panel_bytes());
    work.b->buffer = p.weight(DType::kUInt8, values);
    work.b->dtype = static_cast<std::uint8_t>(DType::kUInt8);
    const auto in_panels = [&](const auto& plain) {
      auto made = plain;
      made.resize(static_cast<std::size_t>(shape.group_count()));
      plan::write_group_panels(shape, plain.data(), made.data());
      return made;
    };
    const auto floats = [&](DType type, const auto& number) {
      if (type == DType::kFloat16) {
        std::vector<std::uint16_t> halves(static_cast<std::size_t>(c.n * groups_));
        Bytes bytes(2 * halves.size());
        for (std::int64_t i = 0; i < c.n * groups_; ++i) set_element(type, bytes, i, number(i));
        std::memcpy(halves.data(), bytes.data(), bytes.size());
        halves = in_panels(halves);
        return p.weight_bytes(type, reinterpret_cast<const std::byte*>(halves.data()),
                              2 * halves.size());
      }
      std::vector<float> all;
      for (std::int64_t i = 0; i < c.n * groups_; ++i) all.push_back(static_cast<float>(number(i)));
      return p.weight(DType::kFloat32, in_panels(all));
    };
    const double unit = own.numbers.empty() ? 1 : static_cast<double>(own.unit);
    const bool is_half = c.scales == DType::kFloat16 && unit == 1;
    own.scales = floats(is_half ? DType::kFloat16 : DType::kFloat32, [&](std::int64_t i) {
      const bool has_factors = c.scales == DType::kFloat8E4M3FN;
      return scale(i) * unit *
             (has_factors ? static_cast<double>(factors_[static_cast<std::size_t>(i / groups_)])
                          : 1.0);
    });
    own.factors = -1;
    own.unit = 1;
    if (c.offsets)
      own.offsets = static_cast<int>(
          floats(*c.offsets, [&](std::int64_t i) { return element(*c.offsets, offsets_, i); }));
    if (c.zeros == Zeros::kIntegers)
      own.zero_points = static_cast<int>(p.weight(DType::kInt8, in_panels(integers_)));
    if (c.zeros == Zeros::kFloats)
      own.zero_points = static_cast<int>(p.weight(DType::kFloat32, in_panels(floats_)));
    own.panels = true;
    if (c.block == 0) return;
    own.activations = 8;
    own.block = static_cast<std::uint8_t>(c.block);
  }

  /// Element `k` of row `row` of a, as the plan multiplies it.
  double left(std::int64_t batch, std::int64_t m, std::int64_t k) const {
    const QuantCase& c = case_;
    const auto at = [&](std::int64_t i) {
      return element(c.type, a_, batch * c.m * c.k + (c.transposed ? i * c.m + m : m * c.k + i));
    };
    if (c.block == 0) return at(k);
    double most = 0;
    for (std::int64_t i = k / c.block * c.block; i < std::min(c.k, (k / c.block + 1) * c.block);
         ++i)
      most = std::max(most, std::abs(at(i)));
    // As the processor: float32, to the nearest.
    const float factor = most > 0 ? 127.0F / static_cast<float>(most) : 0;
    return std::nearbyint(static_cast<float>(at(k)) * factor) * (static_cast<float>(most) / 127.0F);
  }

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
          for (std::int64_t k = 0; k < c.k; ++k) sum += left(b, m, k) * weight(n, k);
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

/// Weights of all kinds in panels of the plan; rows as they are, and rounded by blocks.
std::vector<QuantCase> cases_in_panels(std::span<const std::int64_t> blocks) {
  std::vector<QuantCase> cases;
  for (const std::int64_t block : blocks)
    for (const int bits : {4, 8})
      for (const Zeros zeros : {Zeros::kNone, Zeros::kIntegers, Zeros::kFloats})
        for (const auto offsets : {std::optional<DType>(), std::optional(DType::kFloat16)})
          for (const DType scales : {DType::kFloat32, DType::kFloat16})
            for (const std::int64_t m : {1, 7, 33})
              for (const std::int64_t k : {96, 297}) {
                QuantCase c;
                c.m = m;
                c.n = 37;
                c.k = k;
                c.group = block == 16 ? 16 : 32;
                c.bits = bits;
                c.zeros = zeros;
                c.offsets = offsets;
                c.scales = scales;
                c.panels = true;
                c.block = block;
                cases.push_back(c);
              }
  for (const std::int64_t block : blocks)
    for (const int table : {0, 1, 2}) {
      QuantCase c;
      c.m = 5;
      c.n = 50;
      c.k = 192;
      c.group = 32;
      c.bits = 4;
      c.uneven = table == 0;
      c.floats = table > 0;
      c.scales = table == 0 ? DType::kFloat16 : table == 1 ? DType::kUInt8 : DType::kFloat8E4M3FN;
      c.panels = true;
      c.block = block;
      c.epilogue = true;
      cases.push_back(c);
    }
  return cases;
}

TEST(CpuQuantGemm, WeightsInPanelsOfThePlan) {
  constexpr std::int64_t kNone[] = {0};
  expect_all(cases_in_panels(kNone));
  std::vector<QuantCase> odd;
  for (const int bits : {4, 8})
    for (const std::int64_t group : {1, 5, 33, 5000})
      for (const std::int64_t m : {1, 6}) {
        QuantCase c;
        c.m = m;
        c.k = 107;
        c.group = group;
        c.bits = bits;
        c.panels = true;
        odd.push_back(c);
      }
  expect_all(odd);
}

/// With the instructions that Highway picks, then without the best of them, and so on.
TEST(CpuQuantGemm, RowsRoundedByBlocks) {
  constexpr std::int64_t kBlocks[] = {16, 32};
  const std::vector<QuantCase> cases = cases_in_panels(kBlocks);
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    hwy::SetSupportedTargetsForTest(left);
    hwy::GetChosenTarget().DeInit();
    expect_all(cases);
    hwy::SetSupportedTargetsForTest(0);
    if (::testing::Test::HasFailure()) break;
  }
  hwy::GetChosenTarget().DeInit();
}

TEST(CpuQuantGemm, RoundedRowsKeepNanAndZeros) {
  for (const bool special : {false, true}) {
    QuantCase c;
    c.m = 9;
    c.k = 64;
    c.group = 32;
    c.panels = true;
    c.block = 32;
    c.epilogue = true;
    c.special = special;
    c.activation = fb::Activation::Relu;
    if (special) {
      // A block with NaN makes its row's results NaN: what the definition of rounding says.
      Session session(QuantGemm(c).plan().build());
      const Bytes a = QuantGemm(c).left_operand();
      const Bytes r = random_bytes(c.type, c.m * c.n, 5);
      session.set_input("a", {c.type, {c.m * c.k}, a.data()});
      session.set_input("r", {c.type, {c.m * c.n}, r.data()});
      session.run();
      for (std::int64_t m = 0; m < c.m; ++m) {
        bool has_nan = false;
        for (std::int64_t k = 0; k < c.k; ++k)
          has_nan |= !std::isfinite(element(c.type, a, m * c.k + k));
        for (std::int64_t n = 0; n < c.n; ++n)
          EXPECT_EQ(std::isnan(session.output("d").as<float>()[m * c.n + n]), has_nan);
      }
    } else {
      expect_all({c});
    }
  }
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
      {"panels of plain weights", [](auto&, auto& step) { step.quantization->panels = true; },
       "no plain matrix in panels of 8-bit weights"},
      {"a zero point of all", [](auto&, auto& step) { step.quantization->zero = 1; },
       "weights have a zero point of 1"},
      {"rounded rows", [](auto&, auto& step) { step.quantization->activations = 8; },
       "its rows are rounded to 8 bits by blocks of 0"},
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
