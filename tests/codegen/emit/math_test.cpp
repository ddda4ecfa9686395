// SPDX-License-Identifier: Apache-2.0
// Value ranges, and the cheaper forms of functions that follow from them: chosen where they may be,
// and as exact as codegen/emit/approximations.h says, over all float16 and bfloat16 values.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/float8.h>

#include "codegen/emit/approximations.h"
#include "codegen/families/loops/emit_loops.h"
#include "cuda_programs.h"
#include "ir/tensor.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

using plan::fb::Precision;
using ::testing::HasSubstr;
using ::testing::Not;

Precision precision_of(DType type) {
  return type == DType::kFloat16 ? Precision::Float16 : Precision::BFloat16;
}

double value_of(DType type, std::size_t bits) {
  const auto half = static_cast<std::uint16_t>(bits);
  return ir::load_as_double(type, reinterpret_cast<const std::byte*>(&half));
}

struct Form {
  const char* name;
  const char* function;  // that the source must call
  double bound;          // relative, as approximate.cuh states it; a chain's errors add up
  std::uint32_t (*chain)(ProgramBuilder&, std::uint32_t);
  double (*exact)(double);
};

std::uint32_t one_plus(ProgramBuilder& p, ScalarOp op, std::uint32_t x) {
  return p.op(ScalarOp::kAdd, {p.constant(DType::kFloat32, 1), p.op(op, {x})});
}

std::uint32_t gelu(ProgramBuilder& p, std::uint32_t x) {
  const auto half = p.op(ScalarOp::kMul, {x, p.constant(DType::kFloat32, 0.5)});
  const auto root = p.constant(DType::kFloat32, 0.7071067811865476);
  const auto scaled = p.op(ScalarOp::kMul, {x, root});
  return p.op(ScalarOp::kMul, {half, one_plus(p, ScalarOp::kErf, scaled)});
}

double exact_gelu(double x) {
  return std::isinf(x) ? std::max(x, 0.0) : x / 2 * std::erfc(-x / std::sqrt(2.0));
}

const Form kForms[] = {
    {"sin", "short_sine(", 0x1p-17, [](auto& p, auto x) { return p.op(ScalarOp::kSin, {x}); },
     [](double x) { return std::sin(x); }},
    {"cos", "short_cosine(", 0x1.2p-17, [](auto& p, auto x) { return p.op(ScalarOp::kCos, {x}); },
     [](double x) { return std::cos(x); }},
    {"exp", "short_exponential(", 0x1p-17,
     [](auto& p, auto x) { return p.op(ScalarOp::kExp, {x}); },
     [](double x) { return std::exp(x); }},
    {"tanh", "short_hyperbolic_tangent(", 0x1.53p-16,
     [](auto& p, auto x) { return p.op(ScalarOp::kTanh, {x}); },
     [](double x) { return std::tanh(x); }},
    {"erf", "short_error_function(", 0x1p-18,
     [](auto& p, auto x) { return p.op(ScalarOp::kErf, {x}); },
     [](double x) { return std::erf(x); }},
    {"one plus erf", "short_one_plus_error_function(", 0x1p-17,
     [](auto& p, auto x) { return one_plus(p, ScalarOp::kErf, x); },
     [](double x) { return std::erfc(-x); }},
    {"gelu", "short_gelu(", 0x1p-16, gelu, exact_gelu},
    {"one plus tanh", "short_one_plus_hyperbolic_tangent(", 0x1p-20,
     [](auto& p, auto x) { return one_plus(p, ScalarOp::kTanh, x); },
     [](double x) { return 2 / (1 + std::exp(-2 * x)); }},
    {"sigmoid", "divide_by_normal(", 0x1p-17,
     [](auto& p, auto x) {
       const auto e = p.op(ScalarOp::kExp, {p.op(ScalarOp::kNeg, {x})});
       const auto one = p.constant(DType::kFloat32, 1);
       return p.op(ScalarOp::kDiv, {one, p.op(ScalarOp::kAdd, {one, e})});
     },
     [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"sin of sin", "short_sine_within_one(", 0x1p-16,
     [](auto& p, auto x) { return p.op(ScalarOp::kSin, {p.op(ScalarOp::kSin, {x})}); },
     [](double x) { return std::sin(std::sin(x)); }},
    {"four sines", "short_sine_within_one(", 0x1p-15,
     [](auto& p, auto x) {
       for (int i = 0; i < 4; ++i) x = p.op(ScalarOp::kSin, {x});
       return x;
     },
     [](double x) { return std::sin(std::sin(std::sin(std::sin(x)))); }},
    {"cos of tanh", "cosine_within_one(", 0x1.1p-15,
     [](auto& p, auto x) { return p.op(ScalarOp::kCos, {p.op(ScalarOp::kTanh, {x})}); },
     [](double x) { return std::cos(std::tanh(x)); }},
};

/// The forms as kernels from every value of a 16-bit type to float32: made and compiled at once.
class FormsOfAllValues {
 public:
  static constexpr std::int64_t kValues = 65536;

  explicit FormsOfAllValues(DType type) : exprs_(ir::Ranges{}), input_(kValues * 2) {
    for (std::int64_t i = 0; i < kValues; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(input_.data() + i * 2, &bits, 2);
    }
    for (const Form& form : kForms) {
      ProgramBuilder p(exprs_, {kValues}, 0);
      const auto x = p.load(p.dense(type, {0}));
      p.store(p.dense(DType::kFloat32, {0}), form.chain(p, x));
      for (auto& instr : p.program.instrs)
        if (instr->kind == plan::fb::InstrKind::Op) instr->precision = precision_of(type);
      kernels_.push_back(
          codegen::emit_loops(p.request(fmt::format("chain_{}", kernels_.size())), exprs_));
    }
    library_.emplace(kernels_);
  }

  const std::string& source(std::size_t form) const { return kernels_[form].source; }

  std::vector<float> run(std::size_t form) const {
    plan::fb::PlanT plan;
    exprs_.write(plan);
    Memory memory = {input_, std::vector<std::byte>(kValues * 4)};
    library_->run(kernels_[form].step, 0, plan::evaluate_expressions(plan, {}), memory);
    std::vector<float> result(kValues);
    std::memcpy(result.data(), memory[1].data(), memory[1].size());
    return result;
  }

 private:
  codegen::ExprTable exprs_;
  std::vector<std::byte> input_;
  std::vector<codegen::EmittedKernel> kernels_;
  std::optional<EmulatedKernels> library_;
};

/// The bounds of approximate.cuh, and with them the promise of approximations.h.
TEST(Approximations, AreExactEnoughForAllValuesOf16Bits) {
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    const FormsOfAllValues forms(type);
    for (std::size_t f = 0; f < std::size(kForms); ++f) {
      const Form& form = kForms[f];
      const std::vector<float> result = forms.run(f);
      // A bfloat16 may be too large for the turns of a sine.
      if (type == DType::kFloat16) {
        EXPECT_THAT(forms.source(f), HasSubstr(form.function)) << form.name;
      }
      const double bound = form.bound;
      double worst = 0, worst_at = 0;
      for (std::size_t i = 0; i < result.size(); ++i) {
        const double x = value_of(type, i), exact = form.exact(x);
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(result[i])) << form.name << " of " << x;
          continue;
        }
        if (std::isinf(exact) || std::abs(exact) > 3.4e38) {
          EXPECT_TRUE(std::isinf(result[i])) << form.name << " of " << x;
          continue;
        }
        // What is far below the least float16 has nothing to be relative to.
        const double error = std::abs(static_cast<double>(result[i]) - exact) /
                             std::max(std::abs(exact), 1e-8 / bound * 0.01);
        if (error > worst) {
          worst = error;
          worst_at = x;
        }
      }
      EXPECT_LT(worst, bound) << form.name << " of a " << to_string(type) << " " << worst_at;
    }
  }
}

TEST(Approximations, AreNotForWiderResultsNorForPreciseMathematics) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const auto source = [&](DType type, Precision precision, bool precise) {
    ProgramBuilder p(exprs, {64}, 0);
    auto value = p.load(p.dense(type, {0}));
    for (const ScalarOp op : {ScalarOp::kSin, ScalarOp::kSin, ScalarOp::kTanh, ScalarOp::kExp})
      value = p.op(op, {value});
    p.store(p.dense(type, {0}), value);
    for (auto& instr : p.program.instrs) instr->precision = precision;
    codegen::KernelRequest request = p.request("k");
    request.precise = precise;
    return codegen::emit_loops(request, exprs).source;
  };
  const std::string wide = source(DType::kFloat32, Precision::Full, false);
  EXPECT_THAT(wide, Not(HasSubstr("short_")));
  EXPECT_THAT(wide, HasSubstr("sine_within_one("));  // as precise, by its argument's range
  const std::string precise = source(DType::kFloat16, Precision::Float16, true);
  EXPECT_THAT(precise, Not(HasSubstr("short_")));
  EXPECT_THAT(precise, Not(HasSubstr("within_one")));
  EXPECT_THAT(source(DType::kFloat16, Precision::Float16, false), HasSubstr("short_sine("));
}

/// gelu, times `factor`, rounded to e4m3 behind a clamp, of every float16.
struct RoundedGelu {
  explicit RoundedGelu(double factor, bool also_stored = false) {
    constexpr std::int64_t kValues = 65536;
    codegen::ExprTable exprs{ir::Ranges{}};
    ProgramBuilder p(exprs, {kValues}, 0);
    const auto constant = [&](double value) { return p.constant(DType::kFloat32, value); };
    const auto y = gelu(p, p.load(p.dense(DType::kFloat16, {0})));
    const auto scaled = p.op(ScalarOp::kMul, {y, constant(factor)});
    const auto above = p.op(ScalarOp::kMax, {scaled, constant(-448)});
    const auto clamped = p.op(ScalarOp::kMin, {above, constant(448)});
    p.store(p.dense(DType::kFloat32, {0}), p.op(ScalarOp::kToE4M3FN, {clamped}));
    if (also_stored) p.store(p.dense(DType::kFloat16, {0}), y);
    for (auto& instr : p.program.instrs)
      if (instr->kind == plan::fb::InstrKind::Op) instr->precision = Precision::Float16;
    const codegen::EmittedKernel kernel = codegen::emit_loops(p.request("rounded"), exprs);
    source = kernel.source;
    plan::fb::PlanT plan;
    exprs.write(plan);
    Memory memory = {std::vector<std::byte>(kValues * 2), std::vector<std::byte>(kValues * 4)};
    if (also_stored) memory.emplace_back(kValues * 2);
    for (std::int64_t i = 0; i < kValues; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(memory[0].data() + i * 2, &bits, 2);
    }
    EmulatedKernels(std::span(&kernel, 1))
        .run(kernel.step, 0, plan::evaluate_expressions(plan, {}), memory);
    result.resize(kValues);
    std::memcpy(result.data(), memory[1].data(), memory[1].size());
  }
  std::string source;
  std::vector<float> result;
};

double rounded(double x) {
  return round_to_float8(DType::kFloat8E4M3FN, std::clamp(x, -448.0, 448.0));
}

/// A result is the number next to the exact one, and another than the exact one's nearest only
/// where that lies within the function's bound of the middle between two.
TEST(Approximations, GeluForFloat8IsRoundedAsTheExactOneOrItsNeighbour) {
  for (const double factor : {1.0, 60.0}) {
    const RoundedGelu gelu(factor);
    EXPECT_THAT(gelu.source, HasSubstr("gelu_for_float8("));
    for (std::size_t i = 0; i < gelu.result.size(); ++i) {
      const double x = value_of(DType::kFloat16, i);
      if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(gelu.result[i])) << x;
        continue;
      }
      const double exact = exact_gelu(x) * factor;
      const double error =
          std::isinf(x) ? 0 : std::abs(exact) * 0x1p-8 + (x < -4 ? 2e-4 * factor : 0.0);
      EXPECT_GE(gelu.result[i], rounded(exact - error)) << x;
      EXPECT_LE(gelu.result[i], rounded(exact + error)) << x;
    }
  }
  EXPECT_THAT(RoundedGelu(1.0, true).source, HasSubstr("short_gelu("));
}

/// The functions for full precision on a known range, for float32 of every exponent.
TEST(Approximations, WithinOneAreAsExactAsTheGeneralForms) {
  constexpr std::int64_t kValues = 1 << 18;
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {kValues}, 0);
  const auto one = p.constant(DType::kFloat32, 1), low = p.constant(DType::kFloat32, -1);
  const auto x = p.load(p.dense(DType::kFloat32, {0}));
  const auto clipped = p.op(ScalarOp::kMin, {p.op(ScalarOp::kMax, {x, low}), one});
  p.store(p.dense(DType::kFloat32, {0}), p.op(ScalarOp::kSin, {clipped}));
  p.store(p.dense(DType::kFloat32, {0}), p.op(ScalarOp::kCos, {clipped}));
  const codegen::EmittedKernel kernel = codegen::emit_loops(p.request("within"), exprs);
  EXPECT_THAT(kernel.source, HasSubstr(" sine_within_one("));
  EXPECT_THAT(kernel.source, HasSubstr(" cosine_within_one("));
  plan::fb::PlanT plan;
  exprs.write(plan);
  const auto values = plan::evaluate_expressions(plan, {});
  Memory memory(3, std::vector<std::byte>(kValues * sizeof(float)));
  std::vector<float> inputs(kValues);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i << 14 | (i * 40503 & 0x3fff)));
    if (std::isnan(inputs[i])) inputs[i] = 0.5f;
  }
  std::memcpy(memory[0].data(), inputs.data(), memory[0].size());
  EmulatedKernels(std::span(&kernel, 1)).run(kernel.step, 0, values, memory);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    float sine = 0, cosine = 0;
    std::memcpy(&sine, memory[1].data() + i * sizeof(float), sizeof(float));
    std::memcpy(&cosine, memory[2].data() + i * sizeof(float), sizeof(float));
    const double argument = std::clamp(static_cast<double>(inputs[i]), -1.0, 1.0);
    const double exact = std::sin(argument);
    // Products of the least denormal numbers round to zero.
    EXPECT_NEAR(sine, exact, 2e-7 * std::abs(exact) + 1e-44) << argument;
    EXPECT_NEAR(cosine, std::cos(argument), 5e-7) << argument;
  }
}

/// As one operation with the product, x - max(x) is not zero for the greatest x.
TEST(Approximations, ProductsAreNotContractedWithTheirGreatest) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {4, 16}, 1);
  const auto x = p.load(p.dense(DType::kFloat32, {0, 1}));
  const auto scaled = p.op(ScalarOp::kMul, {x, p.load(p.dense(DType::kFloat32, {0}))});
  const auto below = p.op(ScalarOp::kSub, {scaled, p.reduce(Combine::kMax, scaled)});
  p.store(p.dense(DType::kFloat32, {0, 1}), p.op(ScalarOp::kExp, {below}));
  EXPECT_THAT(codegen::emit_loops(p.request("softmax"), exprs).source, HasSubstr("difference("));
}

TEST(ValueRanges, FollowOperators) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {4, 16}, 1);
  const auto x = p.load(p.dense(DType::kFloat16, {0, 1}));
  const auto flags = p.load(p.dense(DType::kBool, {0, 1}));
  const auto number = [&](double value) { return p.constant(DType::kFloat32, value); };
  const auto sine = p.op(ScalarOp::kSin, {x});
  const auto scaled = p.op(ScalarOp::kMul, {sine, number(-3)});
  const auto relu = p.op(ScalarOp::kMax, {x, number(0)});
  const auto square = p.op(ScalarOp::kMul, {x, x});
  const auto greatest = p.reduce(Combine::kMax, x);
  const auto below = p.op(ScalarOp::kSub, {x, greatest});
  const auto exponential = p.op(ScalarOp::kExp, {below});
  const auto sum = p.reduce(Combine::kSum, exponential);
  const auto flag = p.op(ScalarOp::kCast, DType::kFloat32, {flags});
  const auto shifted = p.op(ScalarOp::kAdd, {flag, number(1)});
  const auto inverse = p.op(ScalarOp::kReciprocal, {shifted});
  const auto quotient = p.op(ScalarOp::kDiv, {x, x});
  auto all = quotient;
  for (const auto value : {scaled, relu, square, exponential, inverse, sum})
    all = p.op(ScalarOp::kAdd, {all, value});
  p.store(p.dense(DType::kFloat32, {0, 1}), all);
  const codegen::KernelRequest request = p.request("ranges");
  const codegen::ProgramAnalysis analysis(request, exprs);
  const auto ranges = codegen::find_value_ranges(analysis);
  const auto expect = [&](std::uint32_t value, double low, double high) {
    EXPECT_NEAR(ranges[value].low, low, 0.01) << "instruction " << value;
    EXPECT_NEAR(ranges[value].high, high, 0.01) << "instruction " << value;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(ranges[x].finite_within(65504));
  EXPECT_EQ(ranges[x].high, infinity);
  expect(sine, -1, 1);
  expect(scaled, -3, 3);
  EXPECT_EQ(ranges[relu].low, 0);
  EXPECT_EQ(ranges[square].low, 0);
  EXPECT_EQ(ranges[below].high, 0);
  expect(exponential, 0, 1);
  EXPECT_EQ(ranges[sum].low, 0);
  expect(inverse, 0.5, 1);
  EXPECT_EQ(ranges[quotient].low, -infinity);
}

/// By a constant's reciprocal, over every exponent and sign; of small numbers the last place may
/// differ.
TEST(CudaEmulation, QuotientsByConstantsAreRoundedToNearest) {
  std::vector<float> inputs = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f};
  for (std::uint32_t i = 0; i < 1 << 19; ++i)
    inputs.push_back(std::bit_cast<float>(i << 13 | (i * 40503 & 0x1fff)));
  const float divisors[] = {0.0371f, 3.0f, 0x1.fffffep0f, 1.0f / 448, 5e-30f, 1e30f, 0.25f, -0.3f};
  const auto count = static_cast<std::int64_t>(inputs.size());
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder p(exprs, {count}, 0);
  const auto x = p.load(p.dense(DType::kFloat32, {0}));
  for (const float divisor : divisors)
    p.store(p.dense(DType::kFloat32, {0}),
            p.op(ScalarOp::kQuotient, {x, p.constant(DType::kFloat32, divisor)}));
  const codegen::EmittedKernel kernel = codegen::emit_loops(p.request("quotients"), exprs);
  EXPECT_THAT(kernel.source, HasSubstr("quotient_to_nearest("));
  plan::fb::PlanT plan;
  exprs.write(plan);
  Memory memory(1 + std::size(divisors), std::vector<std::byte>(inputs.size() * sizeof(float)));
  std::memcpy(memory[0].data(), inputs.data(), memory[0].size());
  EmulatedKernels(std::span(&kernel, 1))
      .run(kernel.step, 0, plan::evaluate_expressions(plan, {}), memory);
  for (std::size_t d = 0; d < std::size(divisors); ++d)
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      float actual = 0;
      std::memcpy(&actual, memory[d + 1].data() + i * sizeof(float), sizeof(float));
      const float exact = inputs[i] / divisors[d];
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(actual)) << inputs[i] << " / " << divisors[d];
      } else if (std::min(std::abs(exact), std::abs(inputs[i])) < 0x1p-100f) {
        ASSERT_NEAR(actual, exact, std::max(std::abs(exact) * 0x1p-23f, 0x1p-149f))
            << inputs[i] << " / " << divisors[d];
      } else {
        ASSERT_EQ(actual, exact) << inputs[i] << " / " << divisors[d];
      }
    }
}

}  // namespace
}  // namespace sinter::test
#endif
