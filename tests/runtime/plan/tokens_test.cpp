// SPDX-License-Identifier: Apache-2.0
// Sizes that are how many tokens a mask has: what a session makes of them, and what it refuses.
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "codegen/compile.h"
#include "codegen/targets/cpu/cpu_target.h"
#include "ir/text/text.h"
#include "runtime/plan/plan_data.h"

namespace sinter::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// As many ones as there are packed rows: what is bound is the output's shape.
std::string text_of(const char* type, int first) {
  return std::string("graph @main(%mask: ") + type +
         "[batch, seq]) ranges {batch: 1..8, seq: 1..1024, tokens: 1..8192 max batch*seq} {\n"
         "  %t = TokenCount(%mask) {symbol = \"tokens\", first = " +
         std::to_string(first) +
         "}\n"
         "  %y = Fused() {kind = \"pointwise\"} : f32[tokens] body() {\n"
         "    %one = const f32[] {1}\n"
         "    %all = Expand(%one) {shape = [tokens]}\n"
         "    return y = %all\n"
         "  }\n"
         "  return y = %y\n}\n";
}

plan::PlanParts parts_of(const char* type, int first) {
  codegen::CompileOptions options;
  options.target = &codegen::cpu_target();
  return codegen::compile(ir::parse_graph(text_of(type, first)), options).parts;
}

Plan plan_of(const char* type = "i64", int first = 0) {
  return Plan::from_memory(plan::serialize_plan(parts_of(type, first)));
}

template <typename T>
std::int64_t rows_of(Session& session, std::vector<std::int64_t> shape,
                     const std::vector<T>& mask) {
  session.set_input("mask", std::move(shape), mask);
  session.run();
  const auto y = session.output("y").template as<float>();
  EXPECT_THAT(y, Each(1.0F));
  return static_cast<std::int64_t>(y.size());
}

std::string failure(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Tokens, AreCountedWhenAMaskIsSet) {
  Session session(plan_of());
  std::vector<std::int64_t> mask(2 * 300);
  EXPECT_EQ(rows_of(session, {2, 300}, mask), 8);
  mask[7] = mask[599] = 1;
  EXPECT_EQ(rows_of(session, {2, 300}, mask), 8);
  for (int i = 0; i < 9; ++i) mask[static_cast<std::size_t>(i)] = 1;
  EXPECT_EQ(rows_of(session, {2, 300}, mask), 16);
  mask.assign(600, 1);
  EXPECT_EQ(rows_of(session, {2, 300}, mask), 600);
  EXPECT_EQ(rows_of(session, {1, 3}, std::vector<std::int64_t>{1, 1, 0}), 3);
}

TEST(Tokens, OfEveryType) {
  Session bools(plan_of("bool")), floats(plan_of("f32")), bytes(plan_of("u8"));
  bools.set_input("mask", TensorView{DType::kBool, {1, 3}, "\1\0\1"});
  bools.run();
  EXPECT_EQ(bools.output("y").as<float>().size(), 3u);
  EXPECT_EQ(rows_of(floats, {1, 9}, std::vector<float>{1, -0.0F, 1, 0, 0, 0, 0, 0, 0}), 8);
  EXPECT_EQ(rows_of(bytes, {1, 2}, std::vector<std::uint8_t>{0, 1}), 2);
}

TEST(Tokens, OfMemoryThatStaysTheCallersAreCountedInEachRun) {
  Session session(plan_of());
  std::vector<std::int64_t> mask(100);
  session.use_input("mask", TensorView{DType::kInt64, {1, 100}, mask.data()});
  session.run();
  EXPECT_EQ(session.output("y").as<float>().size(), 8u);
  mask.assign(100, 1);
  session.run();
  EXPECT_EQ(session.output("y").as<float>().size(), 100u);
}

TEST(Tokens, OfOtherNumbersAreRefused) {
  Session session(plan_of());
  EXPECT_THAT(failure([&] {
                rows_of(session, {2, 2}, std::vector<std::int64_t>{1, 1, 2, 0});
              }),
              HasSubstr("element [1, 0] of input 'mask' is neither 0 nor 1"));
  Session floats(plan_of("f32"));
  EXPECT_THAT(failure([&] {
                rows_of(floats, {1, 2}, std::vector<float>{1, 0.5F});
              }),
              HasSubstr("element [0, 1] of input 'mask' is neither 0 nor 1"));
  EXPECT_EQ(rows_of(floats, {1, 2}, std::vector<float>{1, 0}), 2);
}

TEST(Tokens, AreAskedForAtTheFirstPositionsThatAreRead) {
  Session session(plan_of("i64", 1));
  EXPECT_THAT(failure([&] {
                rows_of(session, {2, 2}, std::vector<std::int64_t>{1, 1, 0, 1});
              }),
              HasSubstr("sequence 1 of input 'mask' has no token at its first position"));
  EXPECT_EQ(rows_of(session, {2, 2}, std::vector<std::int64_t>{1, 1, 1, 0}), 4);
}

TEST(Tokens, AWarmUpTakesAFullMask) {
  Session session(plan_of());
  session.warm_up({{"mask", {2, 50}}});
  EXPECT_EQ(rows_of(session, {2, 50}, std::vector<std::int64_t>(100, 1)), 100);
}

TEST(Tokens, DamageIsRefusedByName) {
  struct Damage {
    std::function<void(plan::fb::SymbolT&)> change;
    const char* expected;
  };
  const Damage all[] = {
      {[](auto& symbol) { symbol.tokens_of = 7; }, "what it counts is 7"},
      {[](auto& symbol) { symbol.value_of = 0; }, "counts tokens and is another value"},
      {[](auto& symbol) { symbol.tokens_of = -1; }, "is in no input's dimension"},
      {[](auto& symbol) { symbol.tokens_of = -3; }, "what it counts is"},
  };
  for (const Damage& damage : all) {
    plan::PlanParts parts = parts_of("i64", 0);
    for (const auto& symbol : parts.meta.symbols)
      if (symbol->name == "tokens") damage.change(*symbol);
    try {
      plan::parse_plan(plan::serialize_plan(parts));
      FAIL() << "accepted; expected: " << damage.expected;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
      EXPECT_THAT(error.what(), HasSubstr(damage.expected));
    }
  }
}

}  // namespace
}  // namespace sinter::testing
