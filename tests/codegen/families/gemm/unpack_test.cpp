// SPDX-License-Identifier: Apache-2.0
// Packed weights made floats in memory: the kernel on the emulator against the weights' definition,
// and when a product has it.
#ifdef SINTER_WITH_CUDA
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"
#include "runtime/plan/expressions.h"
#include "runtime/plan/verify/verify_plan.h"
#include "tests/codegen/emulation/compare_buffers.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct UnpackCase {
  std::int64_t n, k;
  int bits;
  std::int64_t group;
  DType type, scales;
  bool zeros;
  bool floats = false;
};

const ir::CodeType& codes_of(const UnpackCase& test) {
  if (!test.floats) return ir::integer_codes(test.bits);
  return test.bits == 4 ? ir::float4_codes() : ir::codes_stored_as(DType::kFloat8E4M3FN);
}

ir::ScaledTensor random_weights(const UnpackCase& test) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t count) {
    return static_cast<std::int64_t>(random() % count);
  };
  const std::int64_t bytes = test.bits == 8 ? test.k : (test.k + 1) / 2;
  std::vector<std::byte> values(static_cast<std::size_t>(test.n * bytes));
  // Floats are below 2, and numbers all of them.
  for (std::byte& value : values)
    value = static_cast<std::byte>(random()) & (test.floats ? std::byte{0xbf} : std::byte{0xff});
  const DType stored = test.bits == 4 ? DType::kUInt8
                       : test.floats  ? DType::kFloat8E4M3FN
                                      : DType::kInt8;
  const std::int64_t groups = ir::group_count(test.k, test.group), half = test.bits == 8 ? 128 : 8;
  std::vector<double> scales(static_cast<std::size_t>(test.n * groups)), zeros(scales.size());
  // A third needs all bits of a float32, so that packing leaves it one.
  const double unit = test.scales == DType::kFloat32 ? 1.0 / 3 : 1.0;
  for (double& scale : scales) scale = static_cast<double>(below(200) + 1) / 4096 * unit;
  for (double& zero : zeros)
    zero = static_cast<double>(below(static_cast<std::uint64_t>(2 * half)) - half);
  std::optional<ir::Tensor> zero_points, factors;
  if (test.zeros) zero_points = ir::Tensor::from_doubles(DType::kInt8, {test.n, groups}, zeros);
  if (test.scales == DType::kFloat8E4M3FN) {
    for (double& scale : scales) scale *= 1024;
    factors =
        ir::Tensor::from_doubles(DType::kFloat32, {test.n, 1},
                                 std::vector<double>(static_cast<std::size_t>(test.n), 1.0 / 3072));
  }
  // Powers of two: most near one another, and some of groups of zeros.
  if (test.scales == DType::kUInt8)
    for (std::size_t i = 0; i < scales.size(); ++i) {
      scales[i] = i % 7 == 3 ? 1 : 118 + static_cast<double>(below(16));
      if (i % 7 == 3)
        std::fill_n(values.begin() +
                        static_cast<std::ptrdiff_t>(i / static_cast<std::size_t>(groups) *
                                                        static_cast<std::size_t>(bytes) +
                                                    i % static_cast<std::size_t>(groups) *
                                                        static_cast<std::size_t>(test.group / 2)),
                    test.group / 2, std::byte{0x80});
    }
  return ir::scaled_rows_of(
      codes_of(test), test.group, test.k,
      ir::Tensor(stored, {test.n, bytes}, ir::Buffer::take(std::move(values))),
      ir::Tensor::from_doubles(test.scales, {test.n, groups}, scales), std::move(zero_points),
      std::move(factors));
}

codegen::UnpackProgram program_of(const UnpackCase& test) {
  codegen::UnpackProgram program;
  ir::ScaleFormat& format = program.weights.format.emplace();
  format.codes = &codes_of(test);
  const bool is_narrow = test.scales == DType::kUInt8 || test.scales == DType::kFloat8E4M3FN;
  format.scale = is_narrow ? DType::kFloat8E4M3FN : test.scales;
  format.has_factors = is_narrow;
  if (test.zeros) format.zero = DType::kInt8;
  format.depth = test.group >= test.k ? 0 : test.group;
  program.type = test.type;
  program.n = test.n;
  program.k = test.k;
  program.values = 0, program.scales = 1, program.zeros = program.factors = 2, program.result = 3;
  return program;
}

constexpr DType kHalf = DType::kFloat16, kBrain = DType::kBFloat16, kSingle = DType::kFloat32;
constexpr UnpackCase kCases[] = {{16, 256, 8, 0, kHalf, kHalf, false},
                                 {40, 300, 8, 0, kBrain, kSingle, true},
                                 {33, 45, 4, 0, kHalf, kHalf, false},
                                 {20, 700, 8, 128, kHalf, kSingle, false},
                                 {17, 520, 4, 128, kHalf, kHalf, true},
                                 {48, 512, 4, 32, kBrain, kBrain, false},
                                 {48, 600, 4, 16, kHalf, kHalf, true},
                                 {9, 600, 8, 48, kHalf, kHalf, true},
                                 {64, 1100, 4, 272, kBrain, kHalf, true},
                                 {130, 256, 8, 512, kHalf, kHalf, true},
                                 {40, 300, 8, 0, kHalf, kHalf, false, true},
                                 {40, 304, 4, 16, kHalf, kHalf, false, true},
                                 {17, 96, 4, 32, kBrain, kBrain, false, true},
                                 {40, 304, 4, 16, kHalf, DType::kFloat8E4M3FN, false, true},
                                 {17, 96, 4, 32, kBrain, DType::kUInt8, false, true}};

TEST(CudaUnpack, WeightsAreWhatTheyMean) {
  std::vector<codegen::EmittedKernel> kernels;
  codegen::ExprTable exprs({});
  for (const UnpackCase& test : kCases)
    kernels.push_back(emit_unpack(program_of(test), fmt::format("unpack_{}", kernels.size()), {},
                                  exprs, kernels.size() % 2 == 0));
  plan::fb::PlanT plan;
  exprs.write(plan);
  const auto sizes = plan::evaluate_expressions(plan, {});
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < kernels.size(); ++c) {
    const UnpackCase& test = kCases[c];
    const ir::ScaledTensor weights = random_weights(test);
    const codegen::PackedWeights packed = codegen::pack_weights(weights, test.type);
    const codegen::UnpackProgram program = program_of(test);
    const auto depth = static_cast<std::size_t>(program.depth());
    const auto bytes_of = [](const ir::Tensor& tensor) {
      return std::vector<std::byte>(tensor.bytes().begin(), tensor.bytes().end());
    };
    Memory memory = {
        bytes_of(packed.values), bytes_of(packed.scales),
        packed.factors ? bytes_of(*packed.factors)
        : packed.zeros ? bytes_of(*packed.zeros)
                       : std::vector<std::byte>(16),
        std::vector<std::byte>(static_cast<std::size_t>(program.blocks()) * 16 * depth * 2,
                               std::byte{0xa5})};
    // A scale of 24 bits is one more rounding.
    const Allowed allowed{test.scales != kSingle ? 0.0 : test.type == kHalf ? 1e-3 : 1e-2, 0.01};
    const ir::Tensor meant = ir::dequantized(weights, test.type);
    const std::span<const std::byte> expected = meant.bytes();
    EXPECT_EQ(run_variants(fmt::format("case {}", c), library, kernels[c].step, sizes, memory,
                           [&](const plan::fb::KernelVariantT& variant, const Memory& found) {
                             std::string problems;
                             const auto width = static_cast<std::size_t>(test.k) * 2;
                             for (std::size_t n = 0; n < static_cast<std::size_t>(test.n); ++n)
                               problems += problem_in(
                                   variant, n,
                                   first_difference(
                                       test.type, std::span(found[3]).subspan(n * depth * 2, width),
                                       expected.subspan(n * width, width), allowed));
                             return problems;
                           }),
              "");
  }
}

// None is rounded: what f16 and bf16 do not hold stays float32, and powers of two too far apart for
// e4m3 and a factor become such.
TEST(CudaUnpack, ScalesKeepTheirNumbers) {
  const auto packed_of = [](const ir::Tensor& scales, std::optional<ir::Tensor> factors = {}) {
    const std::vector<std::uint8_t> codes(32, 0x21);
    return codegen::pack_weights(ir::scaled_rows_of(ir::float4_codes(), 32, 64,
                                                    ir::Tensor::of(DType::kUInt8, {1, 32}, codes),
                                                    scales, std::nullopt, std::move(factors)),
                                 kHalf);
  };
  const auto scales = [](DType type, double first, double second) {
    return ir::Tensor::from_doubles(type, {1, 2}, std::vector<double>{first, second});
  };
  const auto expect = [](const codegen::PackedWeights& packed, DType type, double first,
                         double second) {
    EXPECT_EQ(packed.scales.dtype(), type);
    const double factor = packed.factors ? packed.factors->at(0) : 1;
    EXPECT_EQ(packed.scales.at(0) * factor, first);
    EXPECT_EQ(packed.scales.at(16) * factor, second);
  };
  expect(packed_of(scales(kSingle, 0.5, 0.25)), kHalf, 0.5, 0.25);
  expect(packed_of(scales(kSingle, double{0.1F}, 1)), kSingle, double{0.1F}, 1);
  expect(packed_of(scales(kSingle, 1e-6F, 1)), kSingle, double{1e-6F}, 1);
  expect(packed_of(scales(DType::kUInt8, 127, 110)), DType::kFloat8E4M3FN, 1, 0x1p-17);
  expect(packed_of(scales(DType::kUInt8, 127, 109)), kHalf, 1, 0x1p-18);
  expect(packed_of(scales(DType::kUInt8, 127, 100)), kBrain, 1, 0x1p-27);
  expect(packed_of(scales(DType::kUInt8, 254, 250)), DType::kFloat8E4M3FN, 0x1p127, 0x1p123);
  expect(packed_of(scales(DType::kFloat8E4M3FN, 448, 0x1p-9),
                   ir::Tensor::from_doubles(kSingle, {1, 1}, std::vector<double>{3})),
         DType::kFloat8E4M3FN, 1344, 3 * 0x1p-9);
}

TEST(CudaUnpack, CompilesForEveryArchitecture) {
  std::vector<std::string> sources;
  codegen::ExprTable exprs({});
  for (const UnpackCase& test : kCases)
    sources.push_back(emit_unpack(program_of(test), "unpack", {"Layer"}, exprs, true).source);
  const auto compiled =
      codegen::compile_cuda(sources, std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  for (const auto& kernel : compiled)
    for (const codegen::CompiledKernel& code : kernel) EXPECT_GT(code.code.size(), 1000u);
}

/// y = sigmoid(x w) of some rows by 96 weights for each of 64 columns, whose scales are `scales`.
codegen::CompiledPlan compiled(const std::string& rows, const std::string& scales = "random(2)",
                               const std::string& way = "") {
  std::string values = "{0";
  for (int i = 1; i < 64 * 96; ++i) values += fmt::format(", {}", i * 37 % 256 - 128);
  const std::string text =
      fmt::format(R"(
graph @main(%x: f16[{0}, 96]) {2} {{
  %w = const i8[64, 96] {3}
  %s = const f16[64, 1] {1}
  %a = Fused(%x, %w, %s) {{kind = "gemm"}} body (%x, %w, %s) {{
    %p = Fused(%x, %w, %s) {{kind = "matmul"}} body (%x, %w, %s) {{
      %m = MatMul(%x, %w, %s) {{w = "i8 * f16 row"}}
      return m = %m
    }}
    %n = Fused(%p) {{kind = "pointwise"}} body (%p) {{
      %g = Sigmoid(%p)
      return g = %g
    }}
    return n = %n
  }}
  return a = %a
}})",
                  rows, scales, rows == "rows" ? "ranges {rows: 1..4096}" : "", values + "}");
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  options.gemm = way;
  return codegen::compile(ir::parse_graph(text), options);
}

std::vector<std::string> ways_of(const codegen::CompiledPlan& plan) {
  std::vector<std::string> names;
  for (const auto& tactic : plan.parts.meta.steps[0]->work.AsTacticStep()->tactics)
    names.push_back(tactic->name);
  return names;
}

TEST(CudaUnpack, ProductsOfManyRowsMayUnpackTheirWeights) {
  const auto made = compiled("rows");
  EXPECT_THAT(ways_of(made), testing::ElementsAre("warp-specialized gemm",
                                                  "dequantized weights, warp-specialized gemm",
                                                  "dequantized weights, library", "gemm"));
  const auto plan = plan::parse_plan(plan::serialize_plan(made.parts));
  const plan::fb::StepT& step = *plan->meta.steps[0];
  const plan::fb::TacticStepT& choice = *step.work.AsTacticStep();
  ASSERT_EQ(choice.tactics[1]->parts.size(), 2u);
  ASSERT_EQ(choice.tactics[2]->parts.size(), 3u);
  EXPECT_TRUE(choice.tactics[3]->conditions.empty());
  // Both read what one kernel has made of the weights, whose packed form is the only one.
  const auto* unpack = choice.tactics[1]->parts[0]->work.AsKernelStep();
  const auto* other = choice.tactics[2]->parts[0]->work.AsKernelStep();
  ASSERT_TRUE(unpack != nullptr && other != nullptr);
  EXPECT_EQ(unpack->variants[0]->function, other->variants[0]->function);
  const std::uint32_t scratch = unpack->args.back().index();
  const auto* library = choice.tactics[2]->parts[1]->work.AsMatmulStep();
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(library->b->buffer, scratch);
  EXPECT_EQ(library->quantization, nullptr);
  const auto* groups = choice.tactics[1]->parts[1]->work.AsKernelStep();
  ASSERT_NE(groups, nullptr);
  EXPECT_EQ(groups->variants[0]->maps[1]->buffer, scratch);
  EXPECT_THAT(step.writes, testing::Contains(scratch));
  std::uint64_t weights = 0;
  for (const auto& part : made.parts.weights) weights += part.size;
  EXPECT_EQ(weights, 64u * 256 + 64 * 2);
  // Few rows need no memory for them.
  const auto bytes = [&](std::int64_t rows) {
    const auto values = plan::evaluate_expressions(plan->meta, std::vector<std::int64_t>{rows});
    EXPECT_NO_THROW(plan::verify_bound(plan->meta, values));
    const plan::fb::Condition& condition = choice.tactics[1]->conditions[0];
    EXPECT_EQ(values[condition.expression()] <= condition.max(), rows >= 65);
    return values[plan->meta.buffers[scratch]->bytes];
  };
  EXPECT_EQ(bytes(1), 0);
  EXPECT_EQ(bytes(64), 0);
  EXPECT_EQ(bytes(65), 64 * 256 * 2);
  EXPECT_EQ(bytes(4096), 64 * 256 * 2);
}

TEST(CudaUnpack, RowsAndScalesDecideWhetherWeightsAreUnpacked) {
  EXPECT_THAT(ways_of(compiled("16")), testing::ElementsAre("gemm"));
  EXPECT_THAT(ways_of(compiled("64")), testing::ElementsAre("warp-specialized gemm", "gemm"));
  EXPECT_THAT(
      ways_of(compiled("65")),
      testing::ElementsAre("warp-specialized gemm", "dequantized weights, warp-specialized gemm",
                           "dequantized weights, library", "gemm"));
  EXPECT_THAT(ways_of(compiled("4096")),
              testing::ElementsAre("dequantized weights, warp-specialized gemm",
                                   "dequantized weights, library", "gemm"));
  std::string large = "{";
  for (int n = 0; n < 64; ++n) large += n == 0 ? "1000" : ", 1";
  EXPECT_THAT(ways_of(compiled("65", large + "}")),
              testing::ElementsAre("warp-specialized gemm", "gemm"));
}

TEST(CudaUnpack, OneWayCanBeAskedFor) {
  EXPECT_THAT(ways_of(compiled("65", "random(2)", "dequantized")),
              testing::ElementsAre("dequantized weights, warp-specialized gemm",
                                   "dequantized weights, library"));
  EXPECT_THAT(ways_of(compiled("65", "random(2)", "library")),
              testing::ElementsAre("dequantized weights, library"));
  // Few rows are left to the kernel that takes packed weights.
  EXPECT_THAT(ways_of(compiled("rows", "random(2)", "library")),
              testing::ElementsAre("dequantized weights, library", "gemm"));
}

}  // namespace
}  // namespace sinter::test
#endif
