// SPDX-License-Identifier: Apache-2.0
// ArgSort on the emulator: short rows, rows that are merged, and rows that are sorted by radix.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/emit/kernel_parameters.h"
#include "codegen/families/sort/emit_sort.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct SortCase {
  DType type;
  std::vector<std::int64_t> shape;
  int axis;
  std::int64_t count;
  bool descending;
  std::int64_t most = 0;  // of the axis, whose length the run finds; 0: it is known
  enum Values { kFew, kCrowded, kWide, kEqual } values = kFew;

  std::int64_t length() const { return shape[static_cast<std::size_t>(axis)]; }

  /// kFew: of few different values, so that ties are common, with NaN of both signs, zeros of both
  /// and infinity among floats. kCrowded: few groups of a piece have all of the least elements.
  ir::Tensor input() const {
    std::int64_t elements = 1;
    for (const std::int64_t dim : shape) elements *= dim;
    std::vector<double> all;
    for (std::int64_t i = 0; i < elements; ++i) {
      double value = static_cast<double>((i * 7919 + 13) % 101) -
                     (is_signed_integer(type) || is_float(type) ? 50 : 0);
      if (is_float(type) && value == 0 && i % 2 == 1) value = -0.0;
      if (is_float(type) && i % 1009 == 0) value = i % 2018 == 0 ? NAN : -NAN;
      if (is_float(type) && i % 1013 == 1) value = std::numeric_limits<double>::infinity();
      if (values == kWide) value *= 123456789.0 * static_cast<double>(1 + i % 1000);
      if (values == kEqual) value = 7;
      if (values == kCrowded) value = static_cast<double>(i % 512 < 112 ? i % 97 : 100 + i % 50);
      all.push_back(value);
    }
    return ir::Tensor::from_doubles(type, shape, all);
  }
};

std::vector<SortCase> all_cases() {
  return {
      {DType::kFloat32, {3, 1}, 1, 1, false},
      {DType::kFloat32, {70, 5}, 1, 2, true},
      {DType::kFloat16, {2, 100, 3}, 1, 100, false},
      {DType::kInt64, {3, 300}, 1, 7, true},
      {DType::kUInt8, {2, 2048}, 1, 2048, true},
      {DType::kFloat32, {1, 2049}, 1, 3, true},
      {DType::kFloat32, {2, 9000}, 1, 9000, false},
      {DType::kBFloat16, {9000, 2}, 0, 2500, true},
      {DType::kFloat64, {1, 5000}, 1, 5000, true},
      {DType::kInt32, {2, 11}, 1, 11, false, 12000},
      {DType::kInt32, {2, 5000}, 1, 11, false, 12000},
      {DType::kInt16, {2, 4095}, 1, 4095, false},
      {DType::kFloat32, {1, 4096}, 1, 4096, true},
      {DType::kInt32, {1, 4097}, 1, 4097, true},
      {DType::kInt64, {1, 2047}, 1, 2047, false},
      {DType::kUInt64, {2, 7}, 1, 7, false},
      {DType::kFloat32, {1, 20001}, 1, 120, true},
      {DType::kFloat32, {2, 4096}, 1, 8, true},
      {DType::kFloat16, {1, 9001}, 1, 100, true},
      {DType::kInt64, {1, 5000}, 1, 40, true},
      {DType::kInt8, {3, 1024}, 1, 5, false},
      {DType::kFloat32, {2, 1500, 2}, 1, 1, false},
      {DType::kInt32, {1, 4096}, 1, 8, false, 0, SortCase::kCrowded},
      // By radix in a block: all bytes differ, none does, halves of both signs.
      {DType::kInt64, {2, 1500}, 1, 1500, true, 0, SortCase::kWide},
      {DType::kFloat64, {1, 2048}, 1, 2000, false, 0, SortCase::kWide},
      {DType::kInt32, {1, 1025}, 1, 1025, false, 0, SortCase::kEqual},
      {DType::kFloat16, {2, 1800}, 1, 1800, true},
      {DType::kBFloat16, {1500, 2}, 0, 1500, false},
      // By radix in tiles.
      {DType::kFloat32, {1, 65537}, 1, 65537, true},
      {DType::kFloat32, {2, 32769}, 1, 32769, false, 0, SortCase::kWide},
      {DType::kFloat16, {2, 17000}, 1, 17000, false},
      {DType::kBFloat16, {17000, 2}, 0, 9000, true},
      {DType::kInt8, {1, 20480}, 1, 20480, false},
      {DType::kUInt8, {3, 17000}, 1, 17000, true},
      {DType::kInt16, {1, 16500}, 1, 16500, true, 0, SortCase::kWide},
      {DType::kInt32, {1, 70000}, 1, 70000, false, 0, SortCase::kEqual},
      {DType::kInt64, {1, 65537}, 1, 65537, true, 0, SortCase::kWide},
      {DType::kInt64, {3, 33000}, 1, 33000, false},
      {DType::kFloat64, {1, 66000}, 1, 8000, false, 0, SortCase::kWide},
      {DType::kUInt32, {3, 33000}, 1, 1000, false, 0, SortCase::kWide},
      // Lengths that the run finds: in one piece, merged, by radix.
      {DType::kInt32, {2, 900}, 1, 900, true, 90000},
      {DType::kInt32, {2, 32768}, 1, 32768, true, 90000},
      {DType::kInt32, {2, 32769}, 1, 32769, true, 90000},
      {DType::kUInt8, {1, 9000}, 1, 9000, false, 50000},
      {DType::kUInt8, {1, 30000}, 1, 30000, false, 50000},
      {DType::kInt64, {1, 0}, 1, 0, false, 50000},
  };
}

TEST(Sort, KernelsRunOnTheEmulator) {
  const std::vector<SortCase> cases = all_cases();
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  std::vector<Memory> memories;
  tables.reserve(cases.size());
  for (const SortCase& test : cases) {
    auto& exprs = tables.emplace_back(ir::Ranges{{"n", ir::Range{0, std::max(test.most, {1})}}});
    codegen::SortProblem problem;
    problem.input = 0;
    problem.output = 1;
    problem.dtype = test.type;
    problem.outer = problem.inner = 1;
    for (std::size_t d = 0; d < test.shape.size(); ++d) {
      if (static_cast<int>(d) == test.axis) continue;
      ir::Dim& rows = static_cast<int>(d) < test.axis ? problem.outer : problem.inner;
      rows = rows * ir::Dim(test.shape[d]);
    }
    problem.length = test.most > 0 ? ir::Dim::symbol("n") : ir::Dim(test.length());
    problem.count =
        test.most > 0 && test.count == test.length() ? problem.length : ir::Dim(test.count);
    problem.descending = test.descending;
    Memory& memory = memories.emplace_back(2);
    const ir::Tensor input = test.input();
    memory[0].assign(input.bytes().begin(), input.bytes().end());
    const auto indices =
        input.element_count() / std::max<std::int64_t>(1, test.length()) * test.count * 8;
    memory[1].assign(static_cast<std::size_t>(indices), std::byte{0xa5});
    const codegen::SortSchedule schedule = choose_sort(problem, exprs);
    std::vector<std::uint32_t> scratch;
    for (const ir::Dim& bytes : sort_scratch_bytes(problem, schedule, exprs)) {
      scratch.push_back(static_cast<std::uint32_t>(memory.size()));
      memory.emplace_back(static_cast<std::size_t>(bytes.evaluate({{"n", test.length()}})),
                          std::byte{0xa5});
    }
    kernels.push_back(
        emit_sort(problem, scratch, "sort_" + std::to_string(kernels.size()), {}, exprs));
    EXPECT_EQ(kernels.back().more.size() + 1, schedule.kernels());
  }
  const EmulatedKernels library(kernels);
  int by_radix = 0;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const SortCase& test = cases[c];
    SCOPED_TRACE(fmt::format("{} {}", kernels[c].step.variants[0]->schedule, c));
    const ir::Tensor input = test.input();
    const ir::Tensor expected = ir::evaluate_op(ir::get_op("ArgSort"),
                                                {{"axis", std::int64_t{test.axis}},
                                                 {"count", std::vector<ir::Dim>{test.count}},
                                                 {"descending", std::int64_t{test.descending}}},
                                                std::vector{input})[0];
    plan::fb::PlanT plan;
    tables[c].write(plan);
    const auto sizes = plan::evaluate_expressions(
        plan, std::vector<std::int64_t>(plan.symbols.size(), test.length()));
    const auto run = [&](const plan::fb::KernelStepT& step) {
      if (sizes[step.variants[0]->grid[0]] == 0) return;
      if (step.variants[0]->function.ends_with("_count")) ++by_radix;
      library.run(step, 0, sizes, memories[c]);
    };
    run(kernels[c].step);
    for (const auto& step : kernels[c].more) run(step);
    for (std::int64_t i = 0; i < expected.element_count(); ++i)
      ASSERT_EQ(ir::load_as_int(DType::kInt64, memories[c][1].data() + i * 8), expected.at_int(i))
          << "place " << i;
  }
  EXPECT_EQ(by_radix, 15);
}

TEST(Sort, KernelsCompileForEveryArchitecture) {
  std::vector<std::string> sources;
  for (const std::int64_t count : {1, 5000})
    for (int type = 0; type < kDTypeCount; ++type) {
      if (static_cast<DType>(type) == DType::kBool || is_float8(static_cast<DType>(type))) continue;
      // Few are selected by entries of each size.
      if (count == 1 && static_cast<DType>(type) != DType::kFloat32 &&
          static_cast<DType>(type) != DType::kInt64)
        continue;
      codegen::ExprTable exprs({{"n", {1, 50000, nullptr}}});
      codegen::SortProblem problem;
      problem.dtype = static_cast<DType>(type);
      problem.outer = problem.inner = 3;
      problem.length = ir::Dim::symbol("n");
      problem.count = count;
      problem.descending = type % 2 == 0;
      sources.push_back(
          emit_sort(problem, {2, 3, 4}, fmt::format("sort_{}", type), {}, exprs).source);
    }
  const auto compiled =
      codegen::compile_cuda(sources, std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  for (const auto& kernel : compiled)
    for (const codegen::CompiledKernel& code : kernel) EXPECT_GT(code.code.size(), 100u);
}

TEST(Sort, RowsThatFitTakeOneKernel) {
  codegen::ExprTable exprs({{"n", {1, 50000, nullptr}}});
  codegen::SortProblem problem;
  problem.outer = 8;
  problem.length = 64;
  problem.inner = 1;
  problem.count = 4;
  const auto schedule = [&] { return choose_sort(problem, exprs); };
  EXPECT_EQ(schedule().to_string(), "sort piece=64 threads=8x16 passes=0");
  EXPECT_TRUE(sort_scratch_bytes(problem, schedule(), exprs).empty());
  problem.length = 100000;
  EXPECT_EQ(schedule().to_string(), "sort piece=4096 threads=512x1 passes=5 groups=32");
  // Only what may be among the first of the row is kept of each piece.
  EXPECT_EQ(sort_scratch_bytes(problem, schedule(), exprs),
            (std::vector<ir::Dim>{8 * 25 * 4 * 8, 8 * 25 * 4 * 8}));
  problem.count = 1000;
  EXPECT_EQ(schedule().to_string(), "sort digits=4");
  EXPECT_EQ(schedule().kernels(), 6u);
  problem.length = ir::Dim::symbol("n");
  EXPECT_EQ(schedule().to_string(), "sort piece=4096 threads=512x1 passes=2 digits=4");
  EXPECT_EQ(schedule().kernels(), 9u);
}

// On the emulator blocks run one after another, so that a tile always finds the result of the one
// before it. Here records are as a GPU may leave them: tiles that know their own counts alone.
TEST(Sort, TilesAddUpCountsOfThoseBefore) {
  codegen::ExprTable exprs({});
  codegen::KernelParameters args(exprs);
  args.buffer("const u64* records", 0);
  args.buffer("u32* y", 1);
  codegen::EmittedKernel kernel;
  kernel.source =
      "#include \"radix.cuh\"\nextern \"C\" __global__ void add_tiles(const u64* records, u32* y) "
      "{\n"
      "  y[threadIdx.x] = count_before(records, threadIdx.x, 1);\n}\n";
  auto variant = std::make_unique<plan::fb::KernelVariantT>();
  variant->function = "add_tiles";
  variant->grid = {exprs.intern(1), exprs.intern(1), exprs.intern(1)};
  constexpr std::uint32_t kTiles = 23;
  variant->block = {kTiles, 1, 1};
  kernel.step.variants.push_back(std::move(variant));
  kernel.step.args = args.args();
  constexpr std::uint64_t kOwn = 3, kWhole = 4;  // of pass 1
  std::vector<std::uint64_t> records(kTiles * 256, kWhole << 32 | 999);
  std::vector<std::uint32_t> expected;
  std::uint32_t sum = 0;
  for (std::uint32_t tile = 0; tile < kTiles; ++tile) {
    expected.push_back(sum);
    const std::uint32_t own = 10 + tile;
    sum += own;
    // Tiles 6 and 15 know the result.
    const bool is_whole = tile == 6 || tile == 15;
    records[tile * 256] = is_whole ? kWhole << 32 | sum : kOwn << 32 | own;
  }
  Memory memory(2);
  memory[0].resize(records.size() * 8);
  std::memcpy(memory[0].data(), records.data(), memory[0].size());
  memory[1].resize(4 * kTiles);
  plan::fb::PlanT plan;
  exprs.write(plan);
  const EmulatedKernels library({&kernel, 1});
  library.run(kernel.step, 0, plan::evaluate_expressions(plan, {}), memory);
  std::vector<std::uint32_t> found(kTiles);
  std::memcpy(found.data(), memory[1].data(), memory[1].size());
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace sinter::test
#endif
