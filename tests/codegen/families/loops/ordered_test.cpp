// SPDX-License-Identifier: Apache-2.0
// Scan and ArgSort: from regions to loops, and kernels on the emulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/program/loop_lowering.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"
#ifdef SINTER_WITH_CUDA
#include "codegen/families/loops/emit_loops.h"
#include "codegen/families/sort/emit_sort.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_check.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#endif

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

struct OrderedCase {
  const char* name;
  const char* text;
  std::vector<ir::Bindings> sizes = {{}};
  friend void PrintTo(const OrderedCase& value, std::ostream* os) { *os << value.name; }
};

const OrderedCase kOrderedCases[] = {
    {"sum", R"(graph @g(%x: f32[3, 40]) {
      %z = Scan(%x) {axis = 1, combine = "sum"}
      return z = %z
    })"},
    {"exclusive_from_the_end", R"(graph @g(%x: i64[2, 37]) {
      %z = Scan(%x) {axis = 1, combine = "sum", exclusive = 1, reverse = 1}
      return z = %z
    })"},
    {"down_the_columns", R"(graph @g(%x: f32[19, 130]) {
      %z = Scan(%x) {axis = 0, combine = "prod", exclusive = 1}
      return z = %z
    })"},
    {"down_the_columns_from_the_end", R"(graph @g(%x: f16[2, 7, 33]) {
      %z = Scan(%x) {axis = 1, combine = "max", reverse = 1}
      return z = %z
    })"},
    {"of_bytes", R"(graph @g(%x: u8[4, 100]) {
      %z = Scan(%x) {axis = 1, combine = "sum"}
      return z = %z
    })"},
    {"with_neighbours",
     R"(graph @g(%x: f32[5, n], %scale: f32[5, 1]) ranges {n: 1..5000} {
      %e = Exp(%x)
      %s = Scan(%e) {axis = 1, combine = "sum"}
      %y = Mul(%s, %scale)
      %d = Sub(%y, %e)
      return z = %d, s = %s
    })",
     {{{"n", 1}}, {{"n", 31}}, {{"n", 200}}, {{"n", 260}}, {{"n", 1029}}, {{"n", 2048}}}},
    {"two_at_once", R"(graph @g(%x: f32[3, 512]) {
      %a = Scan(%x) {axis = 1, combine = "max"}
      %b = Scan(%x) {axis = 1, combine = "sum", exclusive = 1}
      %z = Add(%a, %b)
      return z = %z
    })"},
    {"one_of_the_other", R"(graph @g(%x: bf16[2, 600]) {
      %a = Scan(%x) {axis = 1, combine = "max"}
      %b = Scan(%a) {axis = 1, combine = "min", reverse = 0}
      %t = Add(%a, %b)
      %z = Mul(%t, %x)
      return z = %z
    })"},
    {"of_a_view", R"(graph @g(%x: f32[6, 4, 8], %y: f32[4, 2, 8]) {
      %t = Transpose(%x) {perm = [1, 0, 2]}
      %c = Concat(%t, %y) {axis = 1}
      %z = Scan(%c) {axis = 1, combine = "sum"}
      return z = %z
    })"},
    {"of_what_all_elements_share", R"(graph @g(%x: f32[5, 1]) {
      %w = Expand(%x) {shape = [5, 300]}
      %z = Scan(%w) {axis = 1, combine = "sum", reverse = 1}
      return z = %z
    })"},
    {"no_axis_to_run_along", R"(graph @g(%x: f32[5, 1, 3]) {
      %a = Scan(%x) {axis = 1, combine = "sum"}
      %b = Scan(%x) {axis = 1, combine = "prod", exclusive = 1}
      %z = Sub(%a, %b)
      return z = %z
    })"},
    {"many_short_rows", R"(graph @g(%x: i32[300, 6]) {
      %z = Scan(%x) {axis = 1, combine = "min"}
      return z = %z
    })"},
    {"long_rows_by_a_block", R"(graph @g(%x: f32[2, 9000]) {
      %z = Scan(%x) {axis = 1, combine = "sum"}
      return z = %z
    })"},
    {"long_rows_of_odd_length", R"(graph @g(%x: f64[2, 2501]) {
      %z = Scan(%x) {axis = 1, combine = "sum"}
      return z = %z
    })"},
};

class Scans : public testing::TestWithParam<OrderedCase> {};

TEST_P(Scans, MatchTheReference) {
  const ir::Graph body = ir::parse_graph(GetParam().text);
  for (const ir::Bindings& sizes : GetParam().sizes)
    for (std::uint64_t seed = 1; seed <= 2; ++seed) EXPECT_EQ(check_region(body, sizes, seed), "");
}

INSTANTIATE_TEST_SUITE_P(Regions, Scans, testing::ValuesIn(kOrderedCases),
                         [](const auto& info) { return info.param.name; });

std::string ordered_listing_of(std::string_view name) { return listing_in(kOrderedCases, name); }

TEST(Scan, TheAxisIsTheRow) {
  EXPECT_THAT(ordered_listing_of("down_the_columns"), HasSubstr("loops (i0 < 130) row (i1 < 19)"));
  EXPECT_THAT(ordered_listing_of("down_the_columns"), HasSubstr("scan_prod_exclusive f32 %0"));
  // From the end: the addresses run backwards, the program does not.
  EXPECT_THAT(ordered_listing_of("exclusive_from_the_end"), HasSubstr("-1*i1 + 36"));
  EXPECT_THAT(ordered_listing_of("no_axis_to_run_along"), Not(HasSubstr("scan")));
}

TEST(Scan, IsReadAtItsOwnElementOnly) {
  const ir::Graph body = ir::parse_graph(R"(graph @g(%x: f32[3, 8]) {
    %s = Scan(%x) {axis = 1, combine = "sum"}
    %v = Slice(%s) {starts = [0, 7], steps = [1, -1], shape = [3, 8]}
    %z = Add(%s, %v)
    return z = %z
  })");
  codegen::ExprTable exprs({});
  EXPECT_THAT([&] { lower(body, exprs); },
              ThrowsMessage<Error>(HasSubstr("read at another element than its own")));
}

#ifdef SINTER_WITH_CUDA

TEST(Scan, KernelsRunOnTheEmulator) {
  CudaCheck check({{"n", {1, 5000, nullptr}}});
  for (const OrderedCase& test : kOrderedCases)
    check.add(test.name, lowered_program(check.exprs, ir::parse_graph(test.text)), test.sizes);
  EXPECT_EQ(check.run(), "");
  std::string all;
  for (const auto& [schedule, times] : check.schedules_run()) all += schedule + "\n";
  for (const char* threads : {"threads=1x128", "threads=4x32", "threads=256x1", "threads=512x1"})
    EXPECT_THAT(all, HasSubstr(threads));
  EXPECT_THAT(all, HasSubstr("scan vector=4"));
}

// A tile has 2,048 elements or 4,096, and 32 tiles are a group: one element more and less, several
// groups, rows side by side.
const OrderedCase kTiledCases[] = {
    {"whole_tiles", R"(graph @g(%x: f32[2, 20480]) {
      %z = Scan(%x) {axis = 1, combine = "sum"}
      return z = %z
    })"},
    {"one_element_more", R"(graph @g(%x: i64[1, 16385]) {
      %z = Scan(%x) {axis = 1, combine = "sum", exclusive = 1}
      return z = %z
    })"},
    {"one_group", R"(graph @g(%x: i32[65536, 1]) {
      %z = Scan(%x) {axis = 0, combine = "sum", reverse = 1}
      return z = %z
    })"},
    {"many_groups",
     R"(graph @g(%x: i32[1, n]) ranges {n: 1..400000} {
      %z = Scan(%x) {axis = 1, combine = "sum"}
      return z = %z
    })",
     {{{"n", 1}}, {{"n", 2047}}, {{"n", 2049}}, {{"n", 65537}}, {{"n", 140004}}}},
    {"side_by_side", R"(graph @g(%x: f32[17000, 3]) {
      %z = Scan(%x) {axis = 0, combine = "max"}
      return z = %z
    })"},
    {"halves_and_neighbours", R"(graph @g(%x: f16[3, 20000], %scale: f16[3, 1]) {
      %e = Mul(%x, %scale)
      %s = Scan(%e) {axis = 1, combine = "max", reverse = 1}
      %y = Add(%s, %x)
      return z = %y, s = %s
    })"},
    {"two_of_one_row", R"(graph @g(%x: f64[1, 70000], %k: u8[1, 70000]) {
      %a = Scan(%x) {axis = 1, combine = "min"}
      %b = Scan(%k) {axis = 1, combine = "sum", exclusive = 1}
      return a = %a, b = %b
    })"},
};

TEST(Scan, TilesOfLongRowsMeetInOrder) {
  CudaCheck check({{"n", {1, 400000, nullptr}}});
  for (const OrderedCase& test : kTiledCases)
    check.add(test.name, lowered_program(check.exprs, ir::parse_graph(test.text)), test.sizes);
  EXPECT_EQ(check.run(), "");
  for (const auto& [schedule, times] : check.schedules_run())
    EXPECT_THAT(schedule, HasSubstr("tiles")) << times;
  const auto compiled =
      codegen::compile_cuda(check.sources(), std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  for (const auto& kernel : compiled)
    for (const codegen::CompiledKernel& code : kernel) EXPECT_GT(code.code.size(), 100u);
}

std::vector<codegen::EmittedKernel> compiled_kernels() {
  std::vector<codegen::EmittedKernel> kernels;
  codegen::ExprTable exprs({{"n", {1, 5000, nullptr}}});
  for (const OrderedCase& test : kOrderedCases)
    kernels.push_back(
        emit_loops(lowered_program(exprs, ir::parse_graph(test.text)).request(test.name), exprs));
  for (int type = 0; type < kDTypeCount; ++type) {
    if (static_cast<DType>(type) == DType::kBool || is_float8(static_cast<DType>(type))) continue;
    codegen::SortProblem problem;
    problem.dtype = static_cast<DType>(type);
    problem.outer = problem.inner = 3;
    problem.length = ir::Dim::symbol("n");
    problem.count = 1;
    problem.descending = type % 2 == 0;
    kernels.push_back(emit_sort(problem, {2, 3}, "sort_" + std::to_string(type), {}, exprs));
  }
  return kernels;
}

TEST(Ordered, KernelsCompileForEveryArchitecture) {
  std::vector<std::string> sources;
  for (const codegen::EmittedKernel& kernel : compiled_kernels()) sources.push_back(kernel.source);
  const auto compiled =
      codegen::compile_cuda(sources, std::vector<std::string>{"sm_80", "sm_90", "sm_100"});
  for (const auto& kernel : compiled)
    for (const codegen::CompiledKernel& code : kernel) EXPECT_GT(code.code.size(), 100u);
}

struct SortCase {
  DType type;
  std::vector<std::int64_t> shape;
  int axis;
  std::int64_t count;
  bool descending;
  bool symbolic = false;  // the axis is n, up to 12000
  bool crowded = false;   // few groups of a piece have all of the least elements
};

TEST(Sort, KernelsRunOnTheEmulator) {
  const SortCase cases[] = {
      {DType::kFloat32, {3, 1}, 1, 1, false},
      {DType::kFloat32, {70, 5}, 1, 2, true},
      {DType::kFloat16, {2, 100, 3}, 1, 100, false},
      {DType::kInt64, {3, 300}, 1, 7, true},
      {DType::kUInt8, {2, 2048}, 1, 2048, true},
      {DType::kFloat32, {1, 2049}, 1, 3, true},
      {DType::kFloat32, {2, 9000}, 1, 9000, false},
      {DType::kBFloat16, {9000, 2}, 0, 2500, true},
      {DType::kFloat64, {1, 5000}, 1, 5000, true},
      {DType::kInt32, {2, 11}, 1, 11, false, true},
      {DType::kInt32, {2, 5000}, 1, 11, false, true},
      {DType::kInt16, {2, 4095}, 1, 4095, false},
      {DType::kFloat32, {1, 4096}, 1, 4096, true},
      {DType::kInt32, {1, 4097}, 1, 4097, true},
      {DType::kInt64, {1, 2047}, 1, 2047, false},
      {DType::kUInt64, {2, 7}, 1, 7, false},
      {DType::kFloat32, {1, 20001}, 1, 150, true},
      {DType::kFloat32, {2, 4096}, 1, 8, true},
      {DType::kFloat16, {1, 9001}, 1, 100, true},
      {DType::kInt64, {1, 5000}, 1, 40, true},
      {DType::kInt8, {3, 1024}, 1, 5, false},
      {DType::kFloat32, {2, 1500, 2}, 1, 1, false},
      {DType::kInt32, {1, 4096}, 1, 8, false, false, true},
  };
  std::vector<codegen::EmittedKernel> kernels;
  codegen::ExprTable exprs({{"n", {11, 12000, nullptr}}});
  for (const SortCase& test : cases) {
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
    problem.length =
        test.symbolic ? ir::Dim::symbol("n") : test.shape[static_cast<std::size_t>(test.axis)];
    problem.count = test.count;
    problem.descending = test.descending;
    exprs.intern(codegen::sort_scratch_bytes(problem, choose_sort(problem, exprs), exprs));
    kernels.push_back(
        emit_sort(problem, {2, 3}, "sort_" + std::to_string(kernels.size()), {}, exprs));
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < kernels.size(); ++c) {
    const SortCase& test = cases[c];
    SCOPED_TRACE(kernels[c].step.variants[0]->schedule + " " + std::to_string(c));
    const std::int64_t n = test.shape[static_cast<std::size_t>(test.axis)];
    // Few different values: ties are common; the first is a NaN of floats.
    std::vector<double> values;
    std::int64_t elements = 1;
    for (const std::int64_t dim : test.shape) elements *= dim;
    for (std::int64_t i = 0; i < elements; ++i)
      values.push_back(is_float(test.type) && i == 0
                           ? std::nan("")
                           : static_cast<double>((i * 7919 + 13) % 101) -
                                 (is_signed_integer(test.type) || is_float(test.type) ? 50 : 0));
    if (test.crowded)
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(i % 512 < 112 ? i % 97 : 100 + i % 50);
    const ir::Tensor input = ir::Tensor::from_doubles(test.type, test.shape, values);
    const ir::Tensor inputs[] = {input};
    const ir::Tensor expected = ir::evaluate_op(ir::get_op("ArgSort"),
                                                {{"axis", std::int64_t{test.axis}},
                                                 {"count", std::vector<ir::Dim>{test.count}},
                                                 {"descending", std::int64_t{test.descending}}},
                                                inputs)[0];
    plan::fb::PlanT plan;
    exprs.write(plan);
    std::vector<std::int64_t> symbols(plan.symbols.size(), n);
    const auto sizes = plan::evaluate_expressions(plan, symbols);
    Memory memory(4);
    memory[0].assign(input.bytes().begin(), input.bytes().end());
    memory[1].assign(expected.bytes().size(), std::byte{0xa5});
    const std::int64_t entry = size_of(test.type) == 8 ? 16 : 8, piece = 32768 / entry;
    const auto scratch =
        static_cast<std::size_t>(elements / n * ((n + piece - 1) / piece) *
                                 std::min<std::int64_t>(test.count, piece) * entry);
    memory[2].assign(scratch, std::byte{0});
    memory[3].assign(scratch, std::byte{0});
    const auto run = [&](const plan::fb::KernelStepT& step) {
      if (sizes[step.variants[0]->grid[0]] > 0) library.run(step, 0, sizes, memory);
    };
    run(kernels[c].step);
    for (const auto& step : kernels[c].more) run(step);
    for (std::int64_t i = 0; i < expected.element_count(); ++i)
      ASSERT_EQ(ir::load_as_int(DType::kInt64, memory[1].data() + i * 8), expected.at_int(i))
          << "place " << i;
  }
}

TEST(Sort, RowsThatFitTakeOneKernel) {
  codegen::ExprTable exprs({});
  codegen::SortProblem problem;
  problem.outer = 8;
  problem.length = 64;
  problem.inner = 1;
  problem.count = 4;
  EXPECT_EQ(choose_sort(problem, exprs).to_string(), "sort piece=64 threads=8x16 passes=0");
  EXPECT_EQ(sort_scratch_bytes(problem, choose_sort(problem, exprs), exprs), ir::Dim(0));
  problem.length = 100000;
  EXPECT_EQ(choose_sort(problem, exprs).to_string(),
            "sort piece=4096 threads=512x1 passes=5 groups=32");
  // Only what may be among the first of the row is kept of each piece.
  EXPECT_EQ(sort_scratch_bytes(problem, choose_sort(problem, exprs), exprs),
            ir::Dim(8 * 25 * 4 * 8));
}

#endif

}  // namespace
}  // namespace sinter::test
