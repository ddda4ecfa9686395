// SPDX-License-Identifier: Apache-2.0
// Plans of ranks that are well-formed as bytes and wrong in meaning.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/operators/collective/collective_kind.h"
#include "runtime/plan_access.h"
#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

/// y = the ranks' sum of x times the rank's weights, and the state `s`, of which each has half.
/// Step 0 multiplies, step 1 sums.
plan::PlanParts sample(std::vector<float>& weights) {
  PlanBuilder b;
  b.meta.ranks = 2;
  const Id one = b.constant(1), n = b.constant(64);
  b.symbol("rank", 0, 1);
  b.meta.symbols.back()->is_rank = true;
  const Id x = b.input("x", DType::kFloat32, {n});
  const Id y = b.output("y", DType::kFloat32, {n});
  b.state("s", DType::kFloat32, {b.constant(1), n});
  b.meta.states.back()->axis = 0;
  b.meta.states.back()->parts = 2;
  const Id w = b.weight(DType::kFloat32, std::vector<float>(64, 2));
  const Id product = b.arena(DType::kFloat32, {n});
  LoopBuilder loop({n}, 1);
  const Id zero = b.constant(0);
  const Id a = loop.load(loop.access(x, zero, {one})), c = loop.load(loop.access(w, zero, {one}));
  loop.store(loop.access(product, zero, {one}), loop.op(ScalarOp::kMul, {a, c}));
  b.loop("multiply", std::move(loop));
  b.call("collective", {{product, {one, n, one, one, one}}}, {{y, {one, n, one, one, one}}},
         {{"kind", std::int64_t{0}}, {"combine", std::int64_t{0}}, {"ranks", std::int64_t{2}}});
  plan::PlanParts parts = b.parts();
  // Rank 1's weights follow.
  weights.assign(64, 2);
  weights.resize(128, 3);
  parts.meta.buffers[w]->rank_step = 256;
  parts.weights.clear();
  parts.weights.emplace_back(0, std::as_bytes(std::span(weights)), nullptr);
  return parts;
}

TEST(RankedPlan, Runs) {
  std::vector<float> weights;
  const plan::PlanParts parts = sample(weights);
  const Plan plan = Plan::from_memory(plan::serialize_plan(parts));
  EXPECT_EQ(plan.ranks(), 2U);
  EXPECT_EQ(plan.inputs()[1].shape[0].max, 2);
  Session session(plan);
  for (float value = 1; value < 4; ++value) {
    session.set_input("x", {64}, std::vector<float>(64, value));
    session.run();
    EXPECT_THAT(session.output("y").as<float>(), ::testing::Each(5 * value));
  }
  // A value that all ranks read where it lies.
  std::vector<float> used(64, 10);
  session.use_input("x", {DType::kFloat32, {64}, used.data()});
  session.run();
  EXPECT_THAT(session.output("y").as<float>(), ::testing::Each(50.0F));
  std::vector<float> state(128);
  for (std::size_t i = 0; i < state.size(); ++i) state[i] = static_cast<float>(i);
  session.set_input("s", {2, 64}, state);
  session.run();
  EXPECT_THAT(session.output("s_next").as<float>(), ::testing::ElementsAreArray(state));
  EXPECT_EQ(session.memory().weights, plan.weight_bytes());
}

struct Damage {
  const char* name;
  std::function<void(fb::PlanT&)> damage;
  const char* expected;
};
fb::OperatorStepT& call_of(fb::PlanT& p) { return *p.steps[1]->work.AsOperatorStep(); }
fb::BufferT& weight_of(fb::PlanT& p) {
  for (const auto& buffer : p.buffers)
    if (buffer->kind == fb::BufferKind::Weight) return *buffer;
  throw Error(ErrorCode::kInternal, "no weight");
}
fb::SymbolT& rank_of(fb::PlanT& p) { return *p.symbols[0]; }

const Damage kDamage[] = {
    {"none", [](auto&) {}, "accepted"},
    {"no_ranks", [](auto& p) { p.ranks = 0; }, "it is for 0 ranks; this library runs 1 to 64"},
    {"many_ranks", [](auto& p) { p.ranks = 65; }, "it is for 65 ranks"},
    {"one_rank", [](auto& p) { p.ranks = 1; }, "is not the number of one of 1 ranks"},
    {"symbol_range", [](auto& p) { rank_of(p).max = 2; }, "from 0 to 2, is not the number of one"},
    {"symbol_min", [](auto& p) { rank_of(p).min = 1; }, "from 1 to 1, is not the number of one"},
    {"symbol_tokens", [](auto& p) { rank_of(p).extent_of = 0; }, "not the number of an extent"},
    {"two_symbols",
     [](auto& p) {
       p.symbols.push_back(std::make_unique<fb::SymbolT>(rank_of(p)));
       p.symbols.back()->name = "other";
     },
     "two symbols are the number of the rank"},
    {"unbound_symbol", [](auto& p) { rank_of(p).is_rank = false; }, "it can have no value"},
    {"size_by_rank",
     [](auto& p) {
       for (std::uint32_t e = 0; e < p.expressions.size(); ++e)
         if (p.expressions[e].op() == fb::ExprOp::Symbol)
           for (const auto& buffer : p.buffers)
             if (buffer->kind == fb::BufferKind::Arena) buffer->bytes = e;
     },
     "the size of a buffer depends on the rank"},
    {"entry_by_rank",
     [](auto& p) {
       auto entry = std::make_unique<fb::EntryT>();
       entry->name = "first";
       entry->step_count = 2;
       entry->limits.emplace_back(0, 0, 0);
       p.entries.push_back(std::move(entry));
     },
     "an entry point is for some ranks alone"},
    {"part_beyond", [](auto& p) { weight_of(p).rank_step = 512; }, "outside the 512 bytes"},
    {"part_misaligned", [](auto& p) { weight_of(p).rank_step = 128; }, "are misaligned"},
    {"part_overflow", [](auto& p) { weight_of(p).rank_step = UINT64_MAX - 255; }, "outside"},
    {"sharing_none", [](auto& p) { weight_of(p).sharing = 0; }, "0 of 2 ranks share each part"},
    {"sharing_many", [](auto& p) { weight_of(p).sharing = 4; }, "4 of 2 ranks share each part"},
    {"sharing_whole",
     [](auto& p) {
       weight_of(p).rank_step = 0;
       weight_of(p).sharing = 2;
     },
     "ranks share parts of what is not split"},
    {"part_of_input", [](auto& p) { p.buffers[p.inputs[0]->buffer]->rank_step = 256; },
     "it is no weight of several ranks"},
    {"state_axis", [](auto& p) { p.states[0]->axis = 2; }, "2 parts along dimension 2"},
    {"state_axis_negative", [](auto& p) { p.states[0]->axis = -2; }, "along dimension -2"},
    {"state_parts", [](auto& p) { p.states[0]->parts = 3; }, "3 parts along dimension 0"},
    {"state_parts_whole", [](auto& p) { p.states[0]->axis = -1; }, "2 parts along dimension -1"},
    {"call_ranks", [](auto& p) { call_of(p).attributes[2]->integer = 3; },
     "3 ranks meet there, the plan is for 2"},
    {"call_kind", [](auto& p) { call_of(p).attributes[0]->integer = 5; }, "takes 0 to 4"},
    {"call_combine", [](auto& p) { call_of(p).attributes[1]->integer = 4; }, "takes 0 to 3"},
    {"target", [](auto& p) { p.target = "cuda"; }, "cuda"},
};

class RankedPlanDamage : public ::testing::TestWithParam<Damage> {};
INSTANTIATE_TEST_SUITE_P(Cases, RankedPlanDamage, ::testing::ValuesIn(kDamage),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(RankedPlanDamage, IsRefused) {
  std::vector<float> weights;
  plan::PlanParts parts = sample(weights);
  GetParam().damage(parts.meta);
  std::string refusal = "accepted";
  try {
    plan::parse_plan(plan::serialize_plan(parts));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    refusal = error.what();
  }
  EXPECT_THAT(refusal, HasSubstr(GetParam().expected));
}

/// Results that are not what their ranks make are refused where sizes are bound.
TEST(RankedPlan, SizesOfCollectivesAreChecked) {
  const std::pair<int, std::vector<std::int64_t>> cases[] = {
      // kind, a b c d e, f g
      {0, {1, 64, 1, 1, 1, 32, 1}}, {0, {1, 64, 1, 1, 1, 64, 2}}, {1, {1, 64, 1, 1, 1, 64, 1}},
      {2, {1, 64, 1, 1, 1, 64, 1}}, {3, {1, 64, 1, 1, 1, 32, 1}}, {4, {1, 32, 1, 2, 1, 64, 2}}};
  for (const auto& [kind, sizes] : cases) {
    std::vector<float> weights;
    plan::PlanParts parts = sample(weights);
    call_of(parts.meta).attributes[0]->integer = kind;
    const auto expression = [&](std::int64_t value) {
      parts.meta.expressions.emplace_back(fb::ExprOp::Constant, 0, 0, value);
      return static_cast<std::uint32_t>(parts.meta.expressions.size() - 1);
    };
    auto &from = call_of(parts.meta).inputs[0]->shape, &to = call_of(parts.meta).outputs[0]->shape;
    for (std::size_t d = 0; d < 5; ++d) from[d] = to[d] = expression(sizes[d]);
    to[1] = expression(sizes[5]), to[3] = expression(sizes[6]);
    Session session(Plan::from_memory(plan::serialize_plan(parts)));
    session.set_input("x", {64}, std::vector<float>(64, 1));
    EXPECT_THROW(session.run(), Error) << kind;
  }
}

}  // namespace
}  // namespace sinter::testing
