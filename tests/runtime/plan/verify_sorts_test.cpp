// SPDX-License-Identifier: Apache-2.0
// Sorts and sampling of plans that are well-formed as bytes and wrong in meaning.
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "damaged_plan.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

fb::SortStepT& sort_of(fb::PlanT& p) { return *p.steps[3]->work.AsSortStep(); }

const DamageCase kSortDamage[] = {
    {"sort_input", [](auto& p) { sort_of(p).input = 99; }, "its input is 99"},
    {"sort_size", [](auto& p) { sort_of(p).count = 999; }, "a size is 999"},
    {"sort_types", [](auto& p) { sort_of(p).output = sort_of(p).input; }, "is not of type i64"},
    {"sort_undeclared", [](auto& p) { p.steps[3]->reads.clear(); }, "undeclared"},
};

INSTANTIATE_TEST_SUITE_P(Sorts, PlanVerify, ::testing::ValuesIn(kSortDamage), damage_name);

const DamageCase kSortBoundDamage[] = {
    {"sort_length", [](auto& p) { sort_of(p).length = sort_of(p).outer; }, "its input reaches"},
    {"sort_count", [](auto& p) { sort_of(p).count = sort_of(p).outer; }, "in rows of 4 elements"},
    {"sort_output", [](auto& p) { sort_of(p).count = sort_of(p).length; }, "its output reaches"},
};

INSTANTIATE_TEST_SUITE_P(Sorts, PlanVerifyBound, ::testing::ValuesIn(kSortBoundDamage),
                         damage_name);

PlanBuilder sampling_plan() {
  PlanBuilder b;
  const Id rows = b.symbol("batch", 1, 64), count = b.constant(40);
  fb::SamplingStepT sampling;
  sampling.rows = rows;
  sampling.vocabulary = count;
  sampling.sets_rows = b.constant(3);
  sampling.biases_count = b.constant(5);
  sampling.logits = b.input("logits", DType::kFloat16, {rows, count});
  sampling.reals = b.input("reals", DType::kFloat64, {rows, b.constant(4)});
  sampling.integers = b.input("integers", DType::kInt64, {rows, b.constant(6)});
  sampling.sets = b.input("sets", DType::kInt32, {sampling.sets_rows, b.constant(2)});
  sampling.biased = b.input("biased", DType::kInt32, {sampling.biases_count});
  sampling.biases = b.input("biases", DType::kFloat32, {sampling.biases_count});
  sampling.tokens = b.output("tokens", DType::kInt32, {rows});
  b.sampling("sample", std::move(sampling));
  return b;
}

TEST(PlanVerifySampling, DamageIsRefused) {
  const auto damaged = [](const auto& damage) {
    PlanBuilder builder = sampling_plan();
    plan::PlanParts parts = builder.parts();
    damage(*parts.meta.steps[0], *parts.meta.steps[0]->work.AsSamplingStep());
    const std::string refusal = refusal_of(plan::serialize_plan(parts));
    return refusal == "accepted" ? bound_refusal_of(parts.meta, 3) : refusal;
  };
  EXPECT_EQ(damaged([](auto&, auto&) {}), "accepted");
  EXPECT_THAT(damaged([](auto&, auto& work) { std::swap(work.reals, work.integers); }),
              HasSubstr("its real parameters are not of type f64"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.logits = work.sets; }),
              HasSubstr("its logits are of type i32"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.tokens = work.logits; }),
              HasSubstr("its results are not of type i32"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.tokens = work.biased; }),
              HasSubstr("its results lie where its inputs do"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.biases = 99; }), HasSubstr("its biases"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.rows = 99; }), HasSubstr("a size"));
  EXPECT_THAT(damaged([](auto& step, auto&) { step.reads.clear(); }), HasSubstr("undeclared"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.rows = work.vocabulary; }),
              HasSubstr("its logits reach"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.sets_rows = work.biases_count; }),
              HasSubstr("its sets of tokens reach"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.biases_count = work.vocabulary; }),
              HasSubstr("its tokens with a bias reach"));
}

TEST(PlanVerifyLogprobs, DamageIsRefused) {
  PlanBuilder builder;
  const Id rows = builder.symbol("batch", 1, 64), count = builder.constant(40);
  fb::LogprobsStepT logprobs;
  logprobs.rows = rows;
  logprobs.vocabulary = count;
  logprobs.most = 5;
  logprobs.logits = builder.input("logits", DType::kFloat16, {rows, count});
  logprobs.tokens = builder.input("tokens", DType::kInt32, {rows});
  logprobs.wanted = builder.input("wanted", DType::kInt32, {rows});
  logprobs.likeliest = builder.output("likeliest", DType::kInt32, {rows, builder.constant(5)});
  logprobs.logprobs = builder.output("logprobs", DType::kFloat32, {rows, builder.constant(6)});
  builder.logprobs("tell", std::move(logprobs));
  const auto damaged = [&](const auto& damage) {
    plan::PlanParts parts = builder.parts();
    fb::LogprobsStepT& work = *parts.meta.steps[0]->work.AsLogprobsStep();
    const fb::LogprobsStepT whole = work;
    damage(work);
    const std::string refusal = refusal_of(plan::serialize_plan(parts));
    const std::string all = refusal == "accepted" ? bound_refusal_of(parts.meta, 3) : refusal;
    work = whole;
    return all;
  };
  EXPECT_EQ(damaged([](auto&) {}), "accepted");
  EXPECT_THAT(damaged([](auto& work) { work.logits = work.wanted; }),
              HasSubstr("its logits are of type i32"));
  EXPECT_THAT(damaged([](auto& work) { work.tokens = work.logits; }),
              HasSubstr("its tokens are not of type i32"));
  EXPECT_THAT(damaged([](auto& work) { work.likeliest = work.tokens; }),
              HasSubstr("its results lie where its inputs do"));
  EXPECT_THAT(damaged([](auto& work) { std::swap(work.likeliest, work.logprobs); }),
              HasSubstr("are not of type"));
  EXPECT_THAT(damaged([](auto& work) { work.most = 0; }), HasSubstr("it tells 0 of"));
  EXPECT_THAT(damaged([](auto& work) { work.most = 33; }), HasSubstr("it tells 33 of"));
  EXPECT_THAT(damaged([](auto& work) { work.most = 6; }), HasSubstr("its likeliest tokens"));
  EXPECT_THAT(damaged([](auto& work) { work.rows = work.vocabulary; }),
              HasSubstr("its logits reach"));
}

}  // namespace
}  // namespace sinter::testing
