// SPDX-License-Identifier: Apache-2.0
// Plans of other formats: those of the last two are read; others say who made them.
// tests/runtime/plan/formats keeps some.
#include "runtime/plan/formats/formats.h"

#include <cstring>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/version.h>

#include "runtime/plan/file_header.h"
#include "runtime/plan/hash.h"
#include "runtime/plan/verify/verify_plan.h"
#include "tests/runtime/plan/damaged_plan.h"
#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string kept_file(const std::string& name) {
  return source_dir() + "/tests/runtime/plan/formats/" + name;
}
std::string kept(int version) { return kept_file("format_" + std::to_string(version) + ".plan"); }

/// The same plan with another number of format.
Bytes of_format(Bytes bytes, std::uint32_t version) {
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  header.version = version;
  header.hash =
      plan::hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(plan::FileHeader, hash)));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Bytes made_by(const std::string& maker) {
  PlanBuilder builder = steps_of_all_kinds();
  builder.meta.compiler_version = maker;
  return builder.bytes();
}

std::string refusal_of_file(const std::string& path) {
  try {
    Plan::load(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "accepted";
}

TEST(Formats, TheLastTwoAreRead) {
  EXPECT_EQ(plan::kFormatVersion - plan::kOldestFormatVersion, 2u);
  const Bytes bytes = made_by("0.1.0");
  for (std::uint32_t version = plan::kOldestFormatVersion; version <= plan::kFormatVersion;
       ++version)
    EXPECT_EQ(plan::parse_plan(of_format(bytes, version))->format_version, version);
}

TEST(Formats, KeptPlansRun) {
  int ran = 0;
  for (auto version = static_cast<int>(plan::kOldestFormatVersion);
       version <= static_cast<int>(plan::kFormatVersion); ++version) {
    if (!std::filesystem::exists(kept(version))) continue;
    Session session(Plan::load(kept(version)));
    EXPECT_EQ(session.plan().format_version(), static_cast<std::uint32_t>(version));
    session.set_input(0, {1, 8}, std::vector<float>(8, 1.0F));
    session.run();
    EXPECT_THAT(session.output(0).as<float>(), ElementsAre(3.5F, 3.75F, 4.0F, 4.25F)) << version;
    ++ran;
  }
  EXPECT_GE(ran, 1);
}

/// Puts `old`, a step of format 9, in the place of a call of `builder`'s only operator.
template <typename Old>
void expect_upgraded(PlanBuilder builder, Old old) {
  plan::PlanParts parts = builder.parts();
  const fb::OperatorStepT wanted = *parts.meta.steps[0]->work.AsOperatorStep();
  parts.meta.steps[0]->work.Set(std::move(old));
  const Bytes bytes = plan::serialize_plan(parts);
  EXPECT_THAT(refusal_of(bytes), HasSubstr("unknown kind"));
  const auto read = plan::parse_plan(of_format(bytes, 9));
  const fb::OperatorStepT* call = read->meta.steps[0]->work.AsOperatorStep();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->operator_name, wanted.operator_name);
  // The same sizes, whatever the numbers of their expressions.
  const std::vector<std::int64_t> symbols(read->meta.symbols.size(), 3);
  const auto sizes = plan::evaluate_expressions(read->meta, symbols);
  EXPECT_NO_THROW(plan::verify_bound(read->meta, sizes));
  const auto same = [&](const auto& found, const auto& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i]->buffer, expected[i]->buffer);
      ASSERT_EQ(found[i]->shape.size(), expected[i]->shape.size());
      for (std::size_t d = 0; d < found[i]->shape.size(); ++d)
        EXPECT_EQ(sizes[found[i]->shape[d]], sizes[expected[i]->shape[d]]) << i << " " << d;
    }
  };
  same(call->inputs, wanted.inputs);
  same(call->outputs, wanted.outputs);
  ASSERT_EQ(call->attributes.size(), wanted.attributes.size());
  for (std::size_t i = 0; i < wanted.attributes.size(); ++i) {
    EXPECT_EQ(call->attributes[i]->name, wanted.attributes[i]->name);
    EXPECT_EQ(call->attributes[i]->is_float, wanted.attributes[i]->is_float);
    EXPECT_EQ(call->attributes[i]->integer, wanted.attributes[i]->integer);
    EXPECT_EQ(call->attributes[i]->real, wanted.attributes[i]->real);
  }
}

/// Made by Sinter 0.1.0 of TopK, NonMaxSuppression and TreeEnsembleRegressor.
TEST(Formats, OperatorsOfAKeptPlanOfNineRun) {
  Session session(Plan::load(kept_file("format_9_operators.plan")));
  session.set_input("x", {2, 3}, std::vector<float>{3, 1, 2, 0, 5, 5});
  session.set_input("boxes", {1, 4, 4},
                    std::vector<float>{0, 0, 1, 1, 0, 0, 1, 1.1F, 2, 2, 3, 3, 0, 0, 0.4F, 0.4F});
  session.set_input("scores", {1, 1, 4}, std::vector<float>{0.9F, 0.8F, 0.7F, 0.6F});
  session.run();
  EXPECT_THAT(session.output("i").as<std::int64_t>(), ElementsAre(0, 2, 1, 2));
  EXPECT_THAT(session.output("sel").as<std::int64_t>(), ElementsAre(0, 0, 0, 0, 0, 2, 0, 0, 3));
  EXPECT_THAT(session.output("t").as<float>(), ElementsAre(20, 10));
}

TEST(Formats, SortsOfNineAreCalls) {
  PlanBuilder b;
  const Id rows = b.symbol("rows"), length = b.constant(5), one = b.constant(1),
           two = b.constant(2);
  const auto x = b.input_of("x", DType::kFloat32, {rows, length, one});
  const auto y = b.output_of("y", DType::kInt64, {rows, two, one});
  b.call("sort", {x}, {y}, {{"descending", std::int64_t{1}}});
  fb::SortStepT old;
  old.input = x.buffer, old.output = y.buffer;
  old.outer = rows, old.length = length, old.inner = one, old.count = two;
  old.descending = true;
  expect_upgraded(std::move(b), old);
}

TEST(Formats, SuppressionsOfNineAreCalls) {
  PlanBuilder b;
  const Id rows = b.symbol("rows"), length = b.constant(5);
  const auto boxes = b.input_of("boxes", DType::kFloat32, {rows, length, b.constant(4)});
  const auto valid = b.input_of("valid", DType::kBool, {rows, length});
  const auto kept = b.output_of("kept", DType::kBool, {rows, length});
  b.call("suppression", {boxes, valid}, {kept}, {{"iou", 0.25}, {"most", std::int64_t{0}}});
  fb::SuppressionStepT old;
  old.boxes = boxes.buffer, old.valid = valid.buffer, old.kept = kept.buffer;
  old.rows = rows, old.length = length, old.iou = 0.25F;
  expect_upgraded(std::move(b), old);
}

TEST(Formats, SamplingOfNineIsACall) {
  PlanBuilder b;
  const Id rows = b.symbol("rows"), count = b.constant(40), sets = b.constant(7);
  const Id biases = b.constant(5);
  const auto logits = b.input_of("logits", DType::kFloat32, {rows, count});
  const auto reals = b.input_of("reals", DType::kFloat64, {rows, b.constant(4)});
  const auto integers = b.input_of("integers", DType::kInt64, {rows, b.constant(6)});
  const auto masks = b.input_of("sets", DType::kInt32, {sets, b.constant(2)});
  const auto biased = b.input_of("biased", DType::kInt32, {biases});
  const auto by = b.input_of("biases", DType::kFloat32, {biases});
  const auto tokens = b.output_of("tokens", DType::kInt32, {rows});
  b.call("sampling", {logits, reals, integers, masks, biased, by}, {tokens});
  fb::SamplingStepT old;
  old.logits = logits.buffer, old.reals = reals.buffer, old.integers = integers.buffer;
  old.sets = masks.buffer, old.biased = biased.buffer, old.biases = by.buffer;
  old.tokens = tokens.buffer, old.rows = rows, old.vocabulary = count;
  old.sets_rows = sets, old.biases_count = biases;
  expect_upgraded(std::move(b), old);
}

TEST(Formats, LogprobsOfNineAreCalls) {
  PlanBuilder b;
  const Id rows = b.symbol("rows"), count = b.constant(40);
  const auto logits = b.input_of("logits", DType::kFloat32, {rows, count});
  const auto tokens = b.input_of("tokens", DType::kInt32, {rows});
  const auto wanted = b.input_of("wanted", DType::kInt32, {rows});
  const auto likeliest = b.output_of("likeliest", DType::kInt32, {rows, b.constant(3)});
  const auto logprobs = b.output_of("logprobs", DType::kFloat32, {rows, b.constant(4)});
  b.call("logprobs", {logits, tokens, wanted}, {likeliest, logprobs});
  fb::LogprobsStepT old;
  old.logits = logits.buffer, old.tokens = tokens.buffer, old.wanted = wanted.buffer;
  old.likeliest = likeliest.buffer, old.logprobs = logprobs.buffer;
  old.rows = rows, old.vocabulary = count, old.most = 3;
  expect_upgraded(std::move(b), old);
}

TEST(Formats, TreesOfNineAreCalls) {
  PlanBuilder b;
  const Id rows = b.symbol("rows"), two = b.constant(2), three = b.constant(3);
  const auto x = b.input_of("x", DType::kFloat64, {rows, two});
  const Id nodes = b.weight(DType::kInt32, std::vector<std::int32_t>{0, 1, 0, -1, 0, 0, -1, 1, 0});
  const Id thresholds = b.weight(DType::kFloat64, std::vector<double>{1, 0, 0});
  const Id trees = b.weight(DType::kInt32, std::vector<std::int32_t>{0, 0});
  const Id weights = b.weight(DType::kFloat64, std::vector<double>{1, 2, 3, 4});
  const auto y = b.output_of("y", DType::kFloat64, {rows, three});
  b.call("trees",
         {x,
          {nodes, {three, three}},
          {thresholds, {three}},
          {trees, {b.constant(1), two}},
          {weights, {two, two}}},
         {y}, {{"combine", static_cast<std::int64_t>(Combine::kMax)}});
  fb::TreeStepT old;
  old.rows_of = x.buffer, old.nodes = nodes, old.thresholds = thresholds, old.trees = trees;
  old.weights = weights, old.result = y.buffer, old.rows = rows;
  old.columns = old.width = 2, old.targets = 3;
  old.combine = static_cast<std::uint8_t>(Combine::kMax);
  expect_upgraded(b, old);
  // Nothing of it is trusted.
  old.nodes = 999;
  plan::PlanParts parts = b.parts();
  parts.meta.steps[0]->work.Set(old);
  EXPECT_THAT(refusal_of(of_format(plan::serialize_plan(parts), 9)), HasSubstr("its input is 999"));
}

TEST(Formats, OldOnesSayWhoMadeThem) {
  const std::string reads = "this library, Sinter " SINTER_VERSION ", reads versions " +
                            std::to_string(plan::kOldestFormatVersion) + " to " +
                            std::to_string(plan::kFormatVersion);
  EXPECT_THAT(refusal_of(of_format(made_by("0.1.0"), plan::kOldestFormatVersion - 1)),
              AllOf(HasSubstr("was made by Sinter 0.1.0"), HasSubstr(reads),
                    HasSubstr("compile the model again ('sinter compile'), or run the plan with "
                              "Sinter 0.1.0")));
}

TEST(Formats, ThePlanOfTheFirstFormatSaysWhoMadeIt) {
  EXPECT_THAT(refusal_of_file(kept(1)),
              AllOf(HasSubstr("format_1.plan"),
                    HasSubstr("has format version 1 and was made by Sinter 0.1.0"),
                    HasSubstr("compile the model again")));
}

TEST(Formats, NewerOnesSayWhatToInstall) {
  EXPECT_THAT(refusal_of(of_format(made_by("3.4.5"), plan::kFormatVersion + 3)),
              AllOf(HasSubstr("was made by Sinter 3.4.5"),
                    HasSubstr("install Sinter 3.4.5 or newer, or compile the model again")));
}

TEST(Formats, WhatIsNoVersionIsNotTold) {
  for (const char* maker : {"", "ruin\n\x1b[31m", "Version of somebody's whose text is too long"}) {
    const std::string text = refusal_of(of_format(made_by(maker), plan::kFormatVersion + 1));
    EXPECT_THAT(text, AllOf(Not(HasSubstr("made by")), HasSubstr("install a newer Sinter")));
  }
  Bytes bytes = of_format(made_by("0.1.0"), 1);
  for (std::size_t i = sizeof(plan::FileHeader); i < bytes.size(); ++i) bytes[i] = std::byte{0xff};
  EXPECT_THAT(refusal_of(bytes), AllOf(HasSubstr("format version 1"), Not(HasSubstr("made by"))));
  bytes.resize(40);
  EXPECT_THAT(refusal_of(bytes), HasSubstr("format version 1"));
}

TEST(Formats, SoftCapsOfFormat9AreProgramsOfScores) {
  fb::PlanT plan;
  fb::StepT step;
  fb::AttentionStepT attention;
  attention.batch = {0};
  attention.softcap = 2;
  step.work.Set(std::move(attention));
  plan.steps.push_back(std::make_unique<fb::StepT>(std::move(step)));
  plan::upgrade(plan, 9, plan::formats());
  const fb::AttentionStepT& upgraded = *plan.steps[0]->work.AsAttentionStep();
  EXPECT_EQ(upgraded.softcap, 0);
  ASSERT_NE(upgraded.scores, nullptr);
  EXPECT_EQ(upgraded.scores->extents.size(), 3u);
  EXPECT_EQ(upgraded.scores->instrs.back()->kind, fb::InstrKind::Store);
}

TEST(Formats, StepsBehindAPlansFormatChangeIt) {
  const plan::Format steps[] = {
      {2, [](fb::PlanT& plan) { plan.graph_text += " two"; }},
      {3, nullptr},
      {4, [](fb::PlanT& plan) { plan.graph_text += " four"; }},
  };
  for (const auto& [version, text] : {std::pair(1u, "of two four"), {2u, "of four"}, {4u, "of"}}) {
    fb::PlanT plan;
    plan.graph_text = "of";
    plan::upgrade(plan, version, steps);
    EXPECT_EQ(plan.graph_text, text);
  }
}

}  // namespace
}  // namespace sinter::testing
