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
#include "tests/runtime/plan/damaged_plan.h"
#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string kept(int version) {
  return source_dir() + "/tests/runtime/plan/formats/format_" + std::to_string(version) + ".plan";
}

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
