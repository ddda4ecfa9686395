// SPDX-License-Identifier: Apache-2.0
// Take and Scatter: from regions to loops, and from loops to kernels on the emulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/program/loop_lowering.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"
#ifdef SINTER_WITH_CUDA
#include "tests/codegen/emulation/cuda_check.h"
#endif

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct IndexedCase {
  const char* name;
  const char* text;
  /// Of integer inputs on the emulator, instead of [-3, 3).
  std::int64_t low = -3, high = 3;
};

// Dimensions that are reached into have at least three elements: random indices are in [-3, 3).
constexpr IndexedCase kIndexedCases[] = {
    {"take_elements", R"(graph @g(%x: f32[5, 4], %i: i64[5, 7]) {
      %rows = Iota() {shape = [5, 1]}
      %t = Take(%x, %rows, %i)
      %z = Neg(%t)
      return z = %z
    })"},
    {"take_pairs", R"(graph @g(%x: f16[4, 3, 8], %i: i32[6, 1], %j: i64[6, 1]) {
      %columns = Iota() {shape = [8]}
      %z = Take(%x, %i, %j, %columns)
      return z = %z
    })"},
    {"take_at_computed_places", R"(graph @g(%x: f32[3, 6, 9], %s: f32[12]) {
      %rows = Iota() {shape = [3, 1, 1]}
      %six = const f32[] {6}
      %zero = const f32[] {0}
      %five = const f32[] {5}
      %p = Mul(%s, %six)
      %low = Max(%p, %zero)
      %high = Min(%low, %five)
      %at = Cast(%high) {to = i64}
      %at3 = Reshape(%at) {shape = [1, 12, 1]}
      %columns = Iota() {shape = [1, 1, 9], axis = 2}
      %z = Take(%x, %rows, %at3, %columns)
      return z = %z
    })"},
    {"take_every_element_twice", R"(graph @g(%x: f32[4, 10]) {
      %rows = Iota() {shape = [4, 1]}
      %columns = Iota() {shape = [20]}
      %two = const i64[] {2}
      %half = Div(%columns, %two)
      %z = Take(%x, %rows, %half)
      return z = %z
    })"},
    {"generated_mask", R"(graph @g(%x: f32[s, 7]) ranges {s: 1..100} {
      %i = Iota() {shape = [s, 1], dtype = i32}
      %j = Iota() {shape = [7], dtype = i32}
      %keep = GreaterOrEqual(%i, %j)
      %n = Size() {value = [floordiv(s, 2)], dtype = f32}
      %z = Where(%keep, %x, %n)
      return z = %z
    })"},
    {"scatter_elements", R"(graph @g(%x: f32[5, 8], %i: i64[5, 3], %u: f32[5, 3]) {
      %rows = Iota() {shape = [5, 1]}
      %v = Exp(%u)
      %z = Scatter(%x, %v, %rows, %i) {combine = "sum"}
      return z = %z
    })"},
    {"scatter_rows", R"(graph @g(%x: f16[6, 32], %i: i32[9, 1], %u: f16[9, 32]) {
      %columns = Iota() {shape = [32]}
      %z = Scatter(%x, %u, %i, %columns) {combine = "max"}
      return z = %z
    })"},
    {"scatter_points", R"(graph @g(%x: i64[6, 6], %i: i64[20], %j: i64[20], %u: i64[20]) {
      %z = Scatter(%x, %u, %i, %j) {combine = "prod"}
      return z = %z
    })"},
    {"scatter_one_place", R"(graph @g(%x: f32[4], %u: f32[7]) {
      %two = const i64[] {2}
      %z = Scatter(%x, %u, %two) {combine = "sum"}
      return z = %z
    })"},
    {"replace_in_cache",
     R"(graph @g(%x: f32[2, 3, 16, 8], %start: i64[2, 1, 1, 1], %u: f32[2, 3, 4, 8]) {
      %b = Iota() {shape = [2, 1, 1, 1]}
      %h = Iota() {shape = [1, 3, 1, 1], axis = 1}
      %t = Iota() {shape = [1, 1, 4, 1], axis = 2}
      %d = Iota() {shape = [1, 1, 1, 8], axis = 3}
      %at = Add(%start, %t)
      %z = Scatter(%x, %u, %b, %h, %at, %d)
      return z = %z
    })"},
    {"scatter_reduced_rows",
     R"(graph @g(%x: f16[2, m, 48], %start: i64[1, 1, 1], %cache: f16[2, 19, 48], %scales: f32[2, 19, 1]) ranges {m: 1..9} {
      %wide = Cast(%x) {to = f32}
      %magnitude = Abs(%wide)
      %scale = ReduceMax(%magnitude) {axes = [2], keepdims = 1}
      %number = Quotient(%wide, %scale)
      %row = Cast(%number) {to = f16}
      %b = Iota() {shape = [2, 1, 1]}
      %t = Iota() {shape = [1, m, 1], axis = 1}
      %at = Add(%start, %t)
      %d = Iota() {shape = [1, 1, 48], axis = 2}
      %one = Iota() {shape = [1, 1, 1], axis = 2}
      %z = Scatter(%cache, %row, %b, %at, %d)
      %s = Scatter(%scales, %scale, %b, %at, %one)
      return z = %z, s = %s
    })"},
    {"scatter_symbolic",
     R"(graph @g(%x: f32[n, 5], %i: i64[n, m], %u: f32[n, m]) ranges {m: 1..9, n: 1..9} {
      %rows = Iota() {shape = [n, 1]}
      %z = Scatter(%x, %u, %rows, %i) {combine = "min"}
      return z = %z
    })"},
};

const ir::Bindings kSymbols = {{"m", 7}, {"n", 4}, {"s", 11}};

ir::Bindings symbols_of(const ir::Graph& body) {
  ir::Bindings result;
  for (const auto& [name, range] : body.ranges()) result[name] = kSymbols.at(name);
  return result;
}

class Indexed : public testing::TestWithParam<IndexedCase> {};

TEST_P(Indexed, MatchesTheReference) {
  const ir::Graph body = ir::parse_graph(GetParam().text);
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    EXPECT_EQ(check_region(body, symbols_of(body), seed), "");
}

INSTANTIATE_TEST_SUITE_P(Regions, Indexed, testing::ValuesIn(kIndexedCases),
                         [](const auto& info) { return info.param.name; });

std::string indexed_listing_of(std::string_view name) { return listing_in(kIndexedCases, name); }

TEST(Indexed, WhatCountsIsAnAddress) {
  // Only the chosen dimension is gathered; rows and columns are strides.
  EXPECT_THAT(indexed_listing_of("take_elements"), HasSubstr("[4*i0 + %"));
  EXPECT_THAT(indexed_listing_of("take_at_computed_places"), HasSubstr("9*%"));
  // i / 2 is the outer one of two loops.
  const std::string twice = indexed_listing_of("take_every_element_twice");
  EXPECT_THAT(twice, HasSubstr("loops (i0 < 40, i1 < 2)"));
  EXPECT_THAT(twice, Not(HasSubstr("%0[of")));
}

TEST(Indexed, ElementsThatMayMeetAreOrdered) {
  EXPECT_THAT(indexed_listing_of("scatter_elements"), HasSubstr("loops (i0 < 5) row (i1 < 3)"));
  EXPECT_THAT(indexed_listing_of("scatter_elements"), HasSubstr("scatter_sum f32"));
  EXPECT_THAT(indexed_listing_of("scatter_rows"), HasSubstr("loops (i0 < 32) row (i1 < 9)"));
  EXPECT_THAT(indexed_listing_of("scatter_points"), HasSubstr("row (i1 < 20)"));
  EXPECT_THAT(indexed_listing_of("replace_in_cache"), HasSubstr("row (i"));
}

TEST(Indexed, ReducedRowsAreScatteredAsRows) {
  const std::string listing = indexed_listing_of("scatter_reduced_rows");
  EXPECT_THAT(listing, HasSubstr("row (i2 < 48)"));
  EXPECT_THAT(listing, HasSubstr("reduce_max"));
}

#ifdef SINTER_WITH_CUDA

TEST(Indexed, KernelsRunOnTheEmulator) {
  CudaCheck check({{"m", {1, 9, nullptr}}, {"n", {1, 9, nullptr}}, {"s", {1, 100, nullptr}}});
  for (const IndexedCase& test : kIndexedCases) {
    const ir::Graph body = ir::parse_graph(test.text);
    ProgramBuilder program = lowered_program(check.exprs, body);
    check.add(test.name, std::move(program), {kSymbols});
  }
  EXPECT_EQ(check.run(), "");
}

TEST(Indexed, KernelsSkipPlacesOutside) {
  CudaCheck check;
  for (const char* combine : {"none", "sum"}) {
    const ir::Graph body = ir::parse_graph(
        std::string("graph @g(%x: f32[4, 6], %i: i64[5, 1], %u: f32[5, 6]) {\n"
                    "%c = Iota() {shape = [6]}\n%z = Scatter(%x, %u, %i, %c) {combine = \"") +
        combine + "\"}\nreturn z = %z\n}");
    ProgramBuilder program = lowered_program(check.exprs, body);
    program.ranges[1] = {-9, 9};
    check.add(std::string("outside_") + combine, std::move(program));
  }
  EXPECT_EQ(check.run(), "");
  EXPECT_THAT(check.kernels()[0].source, HasSubstr("has_index("));
  EXPECT_THAT(check.kernels()[0].source, HasSubstr("schedule: pointwise"));
  EXPECT_THAT(check.kernels()[1].source, HasSubstr("Sum::of("));
  EXPECT_THAT(check.kernels()[1].source, HasSubstr("looped threads=1x"));
}

TEST(Indexed, ReducedRowsSkipPlacesOutside) {
  CudaCheck check({{"m", {1, 9, nullptr}}});
  std::string text;
  for (const IndexedCase& test : kIndexedCases)
    if (std::string_view(test.name) == "scatter_reduced_rows") text = test.text;
  ProgramBuilder program = lowered_program(check.exprs, ir::parse_graph(text));
  program.ranges[1] = {-25, 19};
  check.add("outside", std::move(program), {{{"m", 1}}, {{"m", 9}}});
  EXPECT_EQ(check.run(), "");
  const std::string& source = check.kernels()[0].source;
  EXPECT_THAT(source, HasSubstr("schedule: row vector=8"));
  // A vector of elements each, and once for a row its scale.
  EXPECT_THAT(source, HasSubstr("if (live && has_index("));
  EXPECT_THAT(source, HasSubstr("if (live && lane == 0 && has_index("));
}

#endif

}  // namespace
}  // namespace sinter::test
