// SPDX-License-Identifier: Apache-2.0
// Products with quantized weights: on the CPU against their definition, and plans that are damaged.
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "tests/runtime/cpu/quant_gemm.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

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

/// With the instructions that Highway picks, then without the best of them, and so on.
void expect_with_each_instruction_set(const std::vector<QuantCase>& cases) {
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

TEST(CpuQuantGemm, FloatsOf16BitsInPanels) {
  std::vector<QuantCase> cases;
  for (const DType halves : {DType::kFloat16, DType::kBFloat16})
    for (const DType type : {DType::kFloat32, DType::kFloat16})
      for (const std::int64_t m : {1, 6, 7, 70})
        for (const std::int64_t k : {1, 128, 297}) {
          QuantCase c;
          c.m = m;
          c.n = 37;
          c.k = k;
          c.group = k;
          c.bits = 16;
          c.halves = halves;
          c.type = type;
          c.panels = true;
          c.epilogue = m == 7;
          cases.push_back(c);
        }
  expect_with_each_instruction_set(cases);
}

TEST(CpuQuantGemm, RowsRoundedByBlocks) {
  constexpr std::int64_t kBlocks[] = {16, 32};
  expect_with_each_instruction_set(cases_in_panels(kBlocks));
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
      {"floats in no panels", [](auto&, auto& step) { step.quantization->bits = 16; },
       "weights have 16 bits, and are in no panels"},
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
