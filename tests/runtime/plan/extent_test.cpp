// SPDX-License-Identifier: Apache-2.0
// Sizes that a run finds: what plans compute with them, and what a damaged one is refused for.
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

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The first k elements of x, doubled, and their sum.
constexpr const char* kFirst =
    R"(graph @main(%x: f32[a], %k: i64[]) ranges {a: 1..100, n: 0..8 data} {
  %size = Extent(%k) {symbol = "n"}
  %y = Fused(%x) {kind = "pointwise"} : f32[n] body(%p) {
    %first = Slice(%p) {shape = [n], starts = [0], steps = [1]}
    %twice = Add(%first, %first)
    return y = %twice
  }
  %s = Fused(%y) {kind = "reduction"} : f32[] body(%q) {
    %sum = ReduceSum(%q) {axes = [0], keepdims = 0}
    return s = %sum
  }
  return y = %y, s = %s
}
)";

plan::PlanParts sized_parts(const char* text) {
  codegen::CompileOptions options;
  options.target = &codegen::cpu_target();
  return codegen::compile(ir::parse_graph(text), options).parts;
}

Plan first_plan() { return Plan::from_memory(plan::serialize_plan(sized_parts(kFirst))); }

void set(Session& session, std::int64_t count, std::int64_t k) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  session.set_input("x", {count}, x);
  session.set_input("k", {}, std::vector<std::int64_t>{k});
}

TEST(Extents, OutputsHaveTheSizeThatTheRunFinds) {
  Session session(first_plan());
  for (const auto& [count, k] :
       {std::pair<std::int64_t, std::int64_t>{9, 3}, {9, 8}, {9, 0}, {8, 1}, {9, 3}}) {
    set(session, count, k);
    session.run();
    const auto y = session.output("y").as<float>();
    EXPECT_EQ(session.output("y").shape, std::vector<std::int64_t>{k});
    ASSERT_EQ(static_cast<std::int64_t>(y.size()), k);
    for (std::int64_t i = 0; i < k; ++i) EXPECT_EQ(y[static_cast<std::size_t>(i)], 2 * (i + 1));
    EXPECT_THAT(session.output("s").as<float>(), ElementsAre(static_cast<float>(k * (k + 1))));
  }
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Extents, BeyondTheirBoundAreErrorsThatLoseNothing) {
  Session session(first_plan());
  for (const std::int64_t k : {std::int64_t{9}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    set(session, 20, k);
    EXPECT_THAT(error_of([&] { session.run(); }),
                AllOf(HasSubstr("the size 'n', which follows from data, is " + std::to_string(k)),
                      HasSubstr("for 0 to 8"), HasSubstr("--bound 'n=N'")));
  }
  // Within the bound, but more than there is.
  set(session, 2, 5);
  EXPECT_THAT(error_of([&] { session.run(); }), HasSubstr("reaches element"));
  set(session, 9, 2);
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(2, 4));
}

/// A size that may be one number alone has no reader.
TEST(Extents, OfOneNumberAreChecks) {
  Session session(Plan::from_memory(plan::serialize_plan(sized_parts(R"(
    graph @check(%x: f32[m], %k: i64[]) ranges {m: 1..20, surplus: 0..0 data} {
      %more = Fused(%k) {kind = "pointwise"} : i64[] body(%q) {
        %two = const i64[] {2}
        %d = Sub(%q, %two)
        return d = %d
      }
      %check = Extent(%more) {symbol = "surplus"}
      %y = Fused(%x) {kind = "pointwise"} : f32[m] body(%p) {
        %n = Neg(%p)
        return n = %n
      }
      return y = %y
    })"))));
  set(session, 3, 5);
  EXPECT_THAT(error_of([&] { session.run(); }),
              HasSubstr("'surplus', which follows from data, is 3 and must be 0"));
  set(session, 3, 2);
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(-1, -2, -3));
}

/// What two sizes leave is less than nothing where each is the most that it may be.
TEST(Extents, LeaveTheRest) {
  Session session(Plan::from_memory(plan::serialize_plan(sized_parts(R"(
    graph @rest(%x: f32[m], %a: i64[], %b: i64[]) ranges {m: 1..20, p: 0..20 max m data, q: 0..20 max m data} {
      %sp = Extent(%a) {symbol = "p"}
      %sq = Extent(%b) {symbol = "q"}
      %r = Fused(%x) {kind = "reduction"} : f32[] body(%i) {
        %rest = Slice(%i) {shape = [m - p - q], starts = [p + q], steps = [1]}
        %sum = ReduceSum(%rest) {axes = [0], keepdims = 0}
        return sum = %sum
      }
      return r = %r
    })"))));
  const auto rest = [&](std::int64_t a, std::int64_t b) {
    session.set_input("x", {5}, std::vector<float>{1, 2, 3, 4, 5});
    session.set_input("a", {}, std::vector<std::int64_t>{a});
    session.set_input("b", {}, std::vector<std::int64_t>{b});
    session.run();
    return session.output("r").as<float>()[0];
  };
  EXPECT_EQ(rest(2, 1), 9);
  EXPECT_EQ(rest(0, 0), 15);
  EXPECT_EQ(rest(1, 4), 0);
}

TEST(Extents, MemoryForAnOutputIsForTheMost) {
  Session session(first_plan());
  set(session, 9, 2);
  std::vector<float> memory(8, -1);
  session.set_output("y", {DType::kFloat32, {8}, memory.data()});
  session.run();
  EXPECT_EQ(session.output("y").shape, std::vector<std::int64_t>{2});
  EXPECT_THAT(memory, ElementsAre(2, 4, -1, -1, -1, -1, -1, -1));
}

std::string refused_for(const std::function<void(plan::fb::PlanT&)>& damage) {
  plan::PlanParts parts = sized_parts(kFirst);
  damage(parts.meta);
  try {
    Plan::from_memory(plan::serialize_plan(std::move(parts)));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "accepted";
}

plan::fb::SymbolT& symbol(plan::fb::PlanT& plan, const char* name) {
  for (const auto& one : plan.symbols)
    if (one->name == name) return *one;
  throw std::logic_error("no such symbol");
}

plan::fb::ExtentStepT& extent_step(plan::fb::PlanT& plan) {
  for (const auto& step : plan.steps)
    if (auto* extent = step->work.AsExtentStep()) return *extent;
  throw std::logic_error("no such step");
}

TEST(Extents, DamagedOnesAreRefused) {
  const auto size_of_n = [](plan::fb::PlanT& plan) {
    for (std::uint32_t i = 0; i < plan.expressions.size(); ++i)
      if (plan.expressions[i].op() == plan::fb::ExprOp::Symbol &&
          plan.symbols[plan.expressions[i].a()]->name == "n")
        return i;
    throw std::logic_error("no such expression");
  };
  EXPECT_THAT(refused_for([&](auto& plan) { plan.buffers[0]->bytes = size_of_n(plan); }),
              HasSubstr("its size depends on data"));
  EXPECT_THAT(refused_for([&](auto& plan) { plan.inputs[0]->shape[0] = size_of_n(plan); }),
              HasSubstr("the shape of an input depends on data"));
  EXPECT_THAT(refused_for([](auto& plan) { symbol(plan, "n").extent_of = 0; }),
              HasSubstr("is not the number of an extent of its own"));
  EXPECT_THAT(refused_for([](auto& plan) { symbol(plan, "n").extent_of = -1; }),
              HasSubstr("'n' is in no input's dimension"));
  EXPECT_THAT(refused_for([](auto& plan) { symbol(plan, "n").bound = 1 << 20; }),
              HasSubstr("its bound"));
  EXPECT_THAT(refused_for([&](auto& plan) {
                symbol(plan, "n").bound = static_cast<std::int32_t>(size_of_n(plan));
              }),
              HasSubstr("the bound of symbol 'n' depends on data"));
  EXPECT_THAT(refused_for([](auto& plan) { extent_step(plan).extent = 0; }),
              HasSubstr("buffer 0 is no extent"));
  EXPECT_THAT(refused_for([](auto& plan) {
                plan.buffers[extent_step(plan).extent]->dtype =
                    static_cast<std::uint8_t>(DType::kInt32);
              }),
              HasSubstr("an extent must be one i64"));
  EXPECT_THAT(refused_for([](auto& plan) { plan.buffers[extent_step(plan).extent]->binding = 3; }),
              HasSubstr("its place"));
}

// Whatever the bound says, no step leaves its buffers: one that is too large for them is refused
// when the shape is bound.
TEST(Extents, ABoundBeyondTheBuffersIsRefusedWhenItRuns) {
  plan::PlanParts parts = sized_parts(kFirst);
  parts.meta.expressions.emplace_back(plan::fb::ExprOp::Constant, 0, 0, 1 << 20);
  symbol(parts.meta, "n").bound = static_cast<std::int32_t>(parts.meta.expressions.size() - 1);
  Session session(Plan::from_memory(plan::serialize_plan(std::move(parts))));
  set(session, 9, 2);
  EXPECT_NE(error_of([&] { session.run(); }), "no error");
}

}  // namespace
}  // namespace sinter::testing
