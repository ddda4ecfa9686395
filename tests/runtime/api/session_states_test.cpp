// SPDX-License-Identifier: Apache-2.0
// Sessions on the CPU target: states that they keep, and entry points that runs take.
#include <memory>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/profile.h>

#include "api_plans.h"

namespace sinter::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// s = 2 s + x for a state s of x's shape.
Plan doubled_state() {
  PlanBuilder p;
  const Id n = p.symbol("n"), one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", DType::kFloat32, {n});
  const Id s = p.state("s", DType::kFloat32, {n});
  LoopBuilder l({n}, 0);
  const Id v = l.load(l.access(s, zero, {one}));
  const Id sum = l.op(ScalarOp::kAdd, {v, v});
  l.store(l.access(s, zero, {one}), l.op(ScalarOp::kAdd, {sum, l.load(l.access(x, zero, {one}))}));
  p.loop("double", std::move(l));
  return p.build();
}

TEST(Session, StatesStayInTheSession) {
  Session session(doubled_state(), on_one_thread());
  set(session, "x", {3}, {1, 0, 2});
  for (int i = 0; i < 3; ++i) session.run();  // from zeros
  EXPECT_THAT(session.output("s_next").as<float>(), ElementsAre(7, 0, 14));
  set(session, "s", {3}, {1, 2, 3});
  session.run();
  EXPECT_THAT(session.output("s_next").as<float>(), ElementsAre(3, 4, 8));
  session.reset_state();
  session.run();
  EXPECT_THAT(session.output("s_next").as<float>(), ElementsAre(1, 0, 2));
}

TEST(Session, SessionsHaveStatesOfTheirOwn) {
  const Plan plan = doubled_state();
  Session a(plan, on_one_thread()), b(plan, on_one_thread());
  for (Session* session : {&a, &b}) set(*session, "x", {1}, {1});
  a.run();
  a.run();
  b.run();
  EXPECT_THAT(a.output("s_next").as<float>(), ElementsAre(3));
  EXPECT_THAT(b.output("s_next").as<float>(), ElementsAre(1));
}

TEST(Session, AStateKeepsItsShapeUntilItIsReset) {
  Session session(doubled_state(), on_one_thread());
  set(session, "x", {2}, {1, 2});
  session.run();
  set(session, "x", {3}, {1, 2, 3});
  EXPECT_THAT(usage_of([&] { session.run(); }), HasSubstr("'n' is 3"));
  EXPECT_THAT(usage_of([&] {
                session.warm_up({{"x", {3}}});
              }),
              HasSubstr("state 's' has the shape [2]; reset_state() before it becomes [3]"));
  session.reset_state();
  session.run();
  EXPECT_THAT(session.output("s_next").as<float>(), ElementsAre(1, 2, 3));
}

TEST(Session, AStateHasNoOtherMemory) {
  Session session(doubled_state(), on_one_thread());
  float given[2] = {};
  EXPECT_THAT(
      usage_of([&] {
        session.set_output("s_next", MutableTensorView{DType::kFloat32, {2}, given, Memory::kHost});
      }),
      HasSubstr("'s_next' is a state"));
}

/// y = x + state + w for one row ("one"), and 2 x for three to five ("more"), through memory that
/// only it needs; both count runs in the state.
PlanBuilder two_entries() {
  PlanBuilder p;
  const Id rows = p.symbol("rows", 1, 5);
  const Id one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", DType::kFloat32, {rows});
  const Id y = p.output("y", DType::kFloat32, {rows});
  const Id count = p.state("count", DType::kFloat32, {one});
  const Id w = p.weight(DType::kFloat32, std::vector<float>{0.5F});
  const auto add_one = [&] {
    LoopBuilder loop({one}, 0);
    const Id at = loop.access(count, zero, {one});
    loop.store(at, loop.op(ScalarOp::kAdd, {loop.load(at), loop.constant(1)}));
    p.loop("count", std::move(loop));
  };
  add_one();
  LoopBuilder single({one}, 0);
  const Id sum = single.op(ScalarOp::kAdd, {single.load(single.access(x, zero, {one})),
                                            single.load(single.access(count, zero, {one}))});
  single.store(single.access(y, zero, {one}),
               single.op(ScalarOp::kAdd, {sum, single.load(single.access(w, zero, {one}))}));
  p.loop("single", std::move(single));
  // Of rows - 3 elements more, which one row has not.
  const Id t =
      p.arena(DType::kFloat32,
              {p.expr(fb::ExprOp::Add, rows, p.expr(fb::ExprOp::Sub, rows, p.constant(3)))});
  LoopBuilder first({rows}, 0);
  first.store(
      first.access(t, zero, {one}),
      first.op(ScalarOp::kMul, {first.load(first.access(x, zero, {one})), first.constant(2)}));
  p.loop("first", std::move(first));
  LoopBuilder second({rows}, 0);
  second.store(second.access(y, zero, {one}), second.load(second.access(t, zero, {one})));
  p.loop("second", std::move(second));
  add_one();
  for (const auto& [name, least, most, step, steps] :
       {std::tuple("one", 1, 1, 0U, 2U), std::tuple("more", 3, 5, 2U, 3U)}) {
    auto entry = std::make_unique<fb::EntryT>();
    entry->name = name;
    entry->limits.emplace_back(0, least, most);
    entry->first_step = step;
    entry->step_count = steps;
    p.meta.entries.push_back(std::move(entry));
  }
  return p;
}

TEST(Session, RunsTheEntryPointOfItsShape) {
  const Plan plan = two_entries().build();
  const auto entries = plan.entries();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1].name, "more");
  EXPECT_EQ(entries[1].limits.at(0).text, "rows");
  EXPECT_EQ(entries[1].limits[0].min, 3);
  Session session(plan, on_one_thread());
  for (int round = 0; round < 2; ++round) {
    set(session, "x", {4}, {1, 2, 3, 4});
    session.run();
    EXPECT_EQ(session.entry(), "more");
    EXPECT_EQ(session.launches(), 3U);
    EXPECT_THAT(session.output("y").as<float>(), ElementsAre(2, 4, 6, 8));
    EXPECT_EQ(session.memory().arena, 256U);
    set(session, "x", {1}, {10});
    session.run();
    EXPECT_EQ(session.entry(), "one");
    EXPECT_EQ(session.launches(), 2U);
    EXPECT_THAT(session.output("y").as<float>(), ElementsAre(10.5F + 2 * (round + 1)));
    EXPECT_EQ(profile_steps(session).size(), 2U);
    EXPECT_EQ(profile_steps(session).at(1).name, "single");
    EXPECT_EQ(session.memory().arena, 0U);
    // Two profiles have counted as well.
    session.reset_state();
    const float counted = 2.0F * static_cast<float>(round + 1);
    session.set_input("count", TensorView{DType::kFloat32, {1}, &counted, Memory::kHost});
  }
}

TEST(Session, RefusesShapesThatNoEntryPointTakes) {
  Session session(two_entries().build(), on_one_thread());
  set(session, "x", {2}, {1, 2});
  EXPECT_THAT(usage_of([&] { session.run(); }),
              HasSubstr("no entry point of the plan takes these shapes ('rows' is 2): 'one' takes "
                        "rows 1, 'more' takes rows 3..5"));
}

}  // namespace
}  // namespace sinter::testing
