// SPDX-License-Identifier: Apache-2.0
// Scan: from regions to loops, and kernels on the emulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/program/loop_lowering.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"
#ifdef SINTER_WITH_CUDA
#include "codegen/families/loops/emit_loops.h"
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

#endif

}  // namespace
}  // namespace sinter::test
