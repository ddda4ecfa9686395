// SPDX-License-Identifier: Apache-2.0
// Loops in plans: what they compute, how far they go, and what a damaged one is refused for.
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "codegen/compile.h"
#include "codegen/targets/cpu/cpu_target.h"
#include "damaged_plan.h"
#include "ir/text/text.h"
#include "runtime/plan/plan_data.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Doubles x n times.
constexpr const char* kDoubles = R"(graph @main(%x: f32[2], %n: f32[n]) ranges {n: 0..100} {
  %zero = const i64[] {0}
  %y = While(%zero, %x, %n) {states = 1, trips = [n]} : f32[2] body(%i, %v, %all) {
    %w = Fused(%v) {kind = "pointwise"} body(%a) {
      %s = Add(%a, %a)
      return s = %s
    }
    return w = %w
  }
  return y = %y
}
)";

// Doubles x while it is below 100.
constexpr const char* kChecked = R"(graph @main(%go: bool[], %x: f32[]) {
  %zero = const i64[] {0}
  %last, %y = While(%zero, %go, %x) {checked = 1, states = 2} : bool[], f32[] body(%i, %flag, %v) {
    %more, %next = Fused(%v) {kind = "pointwise"} body(%a) {
      %limit = const f32[] {100}
      %s = Add(%a, %a)
      %m = Less(%s, %limit)
      return m = %m, s = %s
    }
    return more = %more, next = %next
  }
  return y = %y
}
)";

// v + 1 in each iteration; z is the last but one v, doubled n times. The loop inside works where v
// lies.
constexpr const char* kBeside =
    R"(graph @main(%v: f32[], %k: f32[], %n: f32[n]) ranges {n: 0..100} {
  %zero = const i64[] {0}
  %y, %z = While(%zero, %v, %k) {states = 2, trips = [n]} : f32[], f32[] body(%i, %a, %b) {
    %new = Fused(%a) {kind = "pointwise"} body(%c) {
      %one = const f32[] {1}
      %s = Add(%c, %one)
      return s = %s
    }
    %none = const i64[] {0}
    %twice = While(%none, %a) {states = 1, trips = [n]} : f32[] body(%j, %d) {
      %e = Fused(%d) {kind = "pointwise"} body(%c) {
        %s = Add(%c, %c)
        return s = %s
      }
      return e = %e
    }
    return new = %new, twice = %twice
  }
  return y = %y, z = %z
}
)";

// x + x where `go` is true, else 3.
constexpr const char* kBranch = R"(graph @main(%go: bool[], %x: f32[2]) {
  %zero = const i64[] {0}
  %three = const f32[2] {3, 3}
  %done, %y = While(%zero, %go, %three, %x) {checked = 1, states = 2, trips = [1]} : bool[], f32[2] body(%i, %flag, %v, %in) {
    %no = const bool[] {false}
    %w = Fused(%in) {kind = "pointwise"} body(%a) {
      %s = Add(%a, %a)
      return s = %s
    }
    return no = %no, w = %w
  }
  return y = %y
}
)";

plan::PlanParts loop_parts(const char* text) {
  codegen::CompileOptions options;
  options.target = &codegen::cpu_target();
  return codegen::compile(ir::parse_graph(text), options).parts;
}

Plan loop_plan(const char* text) {
  return Plan::from_memory(plan::serialize_plan(loop_parts(text)));
}

TEST(While, RunsAsOftenAsASizeSays) {
  Session session(loop_plan(kDoubles));
  for (const std::int64_t n : {1, 5, 0, 20}) {
    session.set_input("x", {2}, std::vector<float>{1, 3});
    session.set_input("n", {n}, std::vector<float>(static_cast<std::size_t>(n)));
    session.run();
    const float power = static_cast<float>(1 << n);
    EXPECT_THAT(session.output("y").as<float>(), ElementsAre(power, 3 * power)) << n;
  }
}

TEST(While, ANewStateDoesNotLieWhereTheOldOneIsWorkedOn) {
  Session session(loop_plan(kBeside));
  session.set_input("v", {}, std::vector<float>{0});
  session.set_input("k", {}, std::vector<float>{7});
  session.set_input("n", {3}, std::vector<float>(3));
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(3));
  EXPECT_THAT(session.output("z").as<float>(), ElementsAre(16));
}

TEST(While, EndsOnWhatItComputes) {
  Session session(loop_plan(kChecked));
  const auto run = [&](bool go, float x) {
    session.set_input("go", {}, std::array<bool, 1>{go});
    session.set_input("x", {}, std::vector<float>{x});
    session.run();
    return session.output("y").as<float>()[0];
  };
  EXPECT_EQ(run(true, 3), 192);
  EXPECT_EQ(run(true, 60), 120);
  EXPECT_EQ(run(false, 3), 3);
}

/// Its number of iterations is no size: a condition may end it long before.
TEST(While, MayCountBeyondAllSizes) {
  std::string text = kChecked;
  const std::string checked = "{checked = 1, states = 2}";
  text.replace(text.find(checked), checked.size(),
               "{checked = 1, states = 2, trips = [9223372036854775807]}");
  Session session(loop_plan(text.c_str()));
  session.set_input("go", {}, std::array<bool, 1>{true});
  session.set_input("x", {}, std::vector<float>{3});
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(192));
}

TEST(While, IsBounded) {
  SessionOptions options;
  options.max_iterations = 1000;
  Session session(loop_plan(kChecked), options);
  session.set_input("go", {}, std::array<bool, 1>{true});
  session.set_input("x", {}, std::vector<float>{-1});
  // Towards minus infinity it never ends.
  try {
    session.run();
    FAIL() << "the loop ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("loop_"), HasSubstr("have run 1000 iterations"),
                                    HasSubstr("SessionOptions::max_iterations")));
  }
}

std::string refusal_of_loop(
    const std::function<void(plan::fb::PlanT&, plan::fb::WhileStepT&)>& damage) {
  plan::PlanParts parts = loop_parts(kDoubles);
  for (const auto& step : parts.meta.steps)
    if (auto* loop = step->work.AsWhileStep()) damage(parts.meta, *loop);
  return refusal_of(plan::serialize_plan(parts));
}

TEST(Branch, IsALoopOfOneIterationAtMost) {
  const plan::PlanParts parts = loop_parts(kBranch);
  EXPECT_TRUE(std::ranges::any_of(
      parts.meta.steps, [](const auto& step) { return step->work.AsIfStep() != nullptr; }));
  EXPECT_TRUE(std::ranges::none_of(
      parts.meta.steps, [](const auto& step) { return step->work.AsWhileStep() != nullptr; }));
  Session session(loop_plan(kBranch));
  for (const bool go : {true, false, true}) {
    session.set_input("go", {}, std::array<bool, 1>{go});
    session.set_input("x", {2}, std::vector<float>{1, 5});
    session.run();
    EXPECT_THAT(session.output("y").as<float>(), go ? ElementsAre(2, 10) : ElementsAre(3, 3));
  }
}

std::string refusal_of_branch(
    const std::function<void(plan::fb::PlanT&, plan::fb::StepT&, plan::fb::IfStepT&)>& damage) {
  plan::PlanParts parts = loop_parts(kBranch);
  const auto step = std::ranges::find_if(
      parts.meta.steps, [](const auto& each) { return each->work.AsIfStep() != nullptr; });
  damage(parts.meta, **step, *(*step)->work.AsIfStep());
  return refusal_of(plan::serialize_plan(parts));
}

TEST(Branch, DamagedOnesAreRefused) {
  EXPECT_THAT(refusal_of_branch([](auto&, auto&, auto& branch) { branch.else_steps = 3; }),
              HasSubstr("its bodies have 4 steps"));
  EXPECT_THAT(refusal_of_branch([](auto&, auto&, auto& branch) { branch.then_steps = ~0u; }),
              HasSubstr("steps, but"));
  EXPECT_THAT(
      refusal_of_branch([](auto&, auto& step, auto& branch) { branch.condition = step.writes[0]; }),
      HasSubstr("its condition is not of type bool"));
  EXPECT_THAT(refusal_of_branch([](auto& plan, auto& step, auto&) {
                // Without the copy in front the other branch would write nothing.
                std::erase_if(plan.steps, [&](const auto& other) {
                  return other->work.AsCopyStep() && other->writes == step.writes;
                });
              }),
              HasSubstr("buffer"));
}

/// Sizes say how often it runs, and none may say less than never.
TEST(While, NegativeNumbersOfIterationsAreRefused) {
  std::string text = kDoubles;
  const std::string trips = "trips = [n]";
  text.replace(text.find(trips), trips.size(), "trips = [n - 5]");
  Session session(loop_plan(text.c_str()));
  session.set_input("x", {2}, std::vector<float>{1, 3});
  session.set_input("n", {4}, std::vector<float>(4));
  try {
    session.run();
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the number of its iterations is -1"));
  }
}

TEST(While, DamagedOnesAreRefused) {
  EXPECT_THAT(refusal_of_loop([](auto&, auto& loop) { loop.steps = 7; }),
              AllOf(HasSubstr("loop_"), HasSubstr("its bodies have 7 steps, but 1 follow it")));
  EXPECT_THAT(refusal_of_loop([](auto&, auto& loop) { loop.trips = -1; }),
              HasSubstr("nothing ends it"));
  EXPECT_THAT(refusal_of_loop([](auto&, auto& loop) { loop.trips = 1 << 20; }),
              HasSubstr("the number of its iterations"));
  EXPECT_THAT(refusal_of_loop([](auto&, auto& loop) { loop.condition = 0; }),
              HasSubstr("its condition is not of type bool"));
  EXPECT_THAT(refusal_of_loop([](auto&, auto& loop) { loop.counter = 0; }),
              HasSubstr("the number of the iteration is not of type i64"));
  EXPECT_THAT(refusal_of_loop([](auto& plan, auto& loop) {
                plan.buffers[loop.counter]->last_step = plan.buffers[loop.counter]->first_step;
              }),
              HasSubstr("lives from step"));
}

}  // namespace
}  // namespace sinter::testing
