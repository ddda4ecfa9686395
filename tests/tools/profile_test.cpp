// SPDX-License-Identifier: Apache-2.0
// What `sinter profile` says: bounds, sums, parts.
#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <sinter/profile.h>

#include "tests/tools/cli_fixture.h"
#include "tools/cli/text/profile_text.h"
#include "tools/compiler/inspect/profile_report.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A machine that copies a gigabyte and computes 2e9 operations in a millisecond.
MachineRates machine() {
  MachineRates rates;
  rates.machine = "a machine";
  rates.copy_bytes_per_second = 1e12;
  rates.copy_bytes = 1000000;
  rates.empty_step_microseconds = 2;
  rates.operations_per_second = {{"Scalar", 1e12}, {"Half", 2e12}};
  rates.operations_from = "stated";
  rates.timing = "by hand";
  return rates;
}

StepTime step(const std::string& name, double microseconds, std::uint64_t bytes,
              std::uint64_t flops, const std::string& arithmetic = "Scalar") {
  StepTime time;
  time.name = name;
  time.microseconds = microseconds;
  time.bytes = bytes;
  time.flops = flops;
  time.arithmetic = arithmetic;
  time.origins = {name + "_node"};
  time.parts.push_back({name + "_kernel", microseconds, 1, std::nullopt});
  return time;
}

std::vector<StepTime> three_steps() {
  return {step("small", 3, 1000, 1000), step("wide", 20, 16000000, 1000),
          step("deep", 40, 8000000, 60000000, "Half")};
}

TEST(ProfileReport, StepsAreBoundByWhatTakesLongest) {
  const auto report = tools::make_report(three_steps(), machine(), 70);
  ASSERT_EQ(report.steps.size(), 3U);
  EXPECT_EQ(report.steps[0].time.name, "deep");  // the longest first
  EXPECT_EQ(report.steps[0].bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(report.steps[0].memory_us, 8);
  EXPECT_DOUBLE_EQ(report.steps[0].compute_us, 30);
  EXPECT_DOUBLE_EQ(report.steps[0].share_of_bound(), 0.75);
  EXPECT_EQ(report.steps[1].bound, Bound::kMemory);
  EXPECT_DOUBLE_EQ(report.steps[1].bandwidth(), 8e11);
  EXPECT_EQ(report.steps[2].bound, Bound::kLaunch);
  EXPECT_DOUBLE_EQ(report.steps[2].share_of_bound(), 2.0 / 3);
}

TEST(ProfileReport, SumsAddUp) {
  const auto report = tools::make_report(three_steps(), machine(), 70);
  EXPECT_DOUBLE_EQ(report.memory_us, 20);
  EXPECT_DOUBLE_EQ(report.compute_us, 40);
  EXPECT_DOUBLE_EQ(report.launch_us, 3);
  EXPECT_DOUBLE_EQ(report.steps_us, 63);
  EXPECT_DOUBLE_EQ(report.gaps_us, 7);
  EXPECT_DOUBLE_EQ(report.overlap_us, 0);
  EXPECT_EQ(report.launches, 3U);
  EXPECT_EQ(report.bytes, 24001000U);
  const auto shorter = tools::make_report(three_steps(), machine(), 60);
  EXPECT_DOUBLE_EQ(shorter.gaps_us, 0);
  EXPECT_DOUBLE_EQ(shorter.overlap_us, 3);
}

TEST(ProfileReport, UnknownRatesDecideNothing) {
  auto rates = machine();
  rates.operations_per_second.clear();
  const auto report = tools::make_report(three_steps(), rates, 70);
  EXPECT_EQ(report.steps[0].bound, Bound::kMemory);
  EXPECT_DOUBLE_EQ(report.steps[0].compute_us, 0);
}

TEST(ProfileReport, MediansOverRoundsOfEachPart) {
  std::vector<std::vector<StepTime>> rounds;
  for (const double time : {5.0, 1.0, 9.0}) {
    rounds.push_back({step("a", time, 1, 1)});
    rounds.back()[0].parts.push_back({"rest", 10 - time, 2, std::nullopt});
  }
  const auto steps = tools::median_of(rounds);
  EXPECT_DOUBLE_EQ(steps[0].parts[0].microseconds, 5);
  EXPECT_DOUBLE_EQ(steps[0].parts[1].microseconds, 5);
  EXPECT_DOUBLE_EQ(steps[0].microseconds, 10);
}

TEST(ProfileReport, KernelColumnsAreForGeneratedKernels) {
  auto steps = three_steps();
  EXPECT_THAT(tools::profile_table(tools::make_report(steps, machine(), 70)),
              AllOf(HasSubstr("of copy"), HasSubstr("wide_node"), Not(HasSubstr("registers"))));
  KernelUse use;
  use.registers = 77;
  use.spilled_bytes = 8;
  use.resident_blocks = 3;
  use.occupancy = 0.375;
  steps[1].parts[0].kernel = use;
  steps[2].parts.push_back({"cuBLASLt", 4, 2, std::nullopt});
  const auto report = tools::make_report(steps, machine(), 70);
  EXPECT_THAT(tools::profile_table(report), AllOf(HasSubstr("registers"), HasSubstr("77"),
                                                  HasSubstr("38%"), HasSubstr("  cuBLASLt")));
  const json object = tools::to_json(report);
  EXPECT_EQ(object["launches"], 5);
  const auto& wide = object["steps"][1];
  EXPECT_EQ(wide["name"], "wide");
  EXPECT_EQ(wide["bound"], "memory");
  EXPECT_EQ(wide["parts"][0]["kernel"]["registers_per_thread"], 77);
  EXPECT_EQ(wide["parts"][0]["kernel"]["spilled_bytes_per_thread"], 8);
  EXPECT_EQ(wide["parts"][0]["kernel"]["blocks_per_multiprocessor"], 3);
  EXPECT_FALSE(object["steps"][0]["parts"][1].contains("kernel"));
}

std::string summary_of(const ProfileReport& report) {
  return fmt::format("{}", fmt::join(tools::profile_summary(report), "\n"));
}

TEST(ProfileReport, StepsBelowATenthOfTheirBoundAreMarked) {
  auto steps = three_steps();
  steps.push_back(step("far", 400, 16000000, 1000));
  steps.push_back(step("loops", 1000, 1000, 60000000));
  steps.back().how = "loops; no library: cuDNN does not multiply i32; no GEMM kernel: none does";
  steps.push_back(step("late", 400, 1000, 1000));  // bound by its launch
  const auto report = tools::make_report(steps, machine(), 70);
  EXPECT_THAT(tools::profile_table(report), AllOf(HasSubstr("4% !"), HasSubstr("6% !")));
  const std::string summary = summary_of(report);
  EXPECT_THAT(
      summary,
      AllOf(HasSubstr("\n! far runs at 4.0% of what its bytes allow"),
            HasSubstr("! loops runs at 6.0% of what its operations allow; it runs as loops, "
                      "which a form that is not refused avoids: none does"),
            Not(HasSubstr("late"))));
  const json object = tools::to_json(report);
  EXPECT_EQ(object["steps"][0]["slow"], true);
  EXPECT_EQ(object["steps"][1]["faster_form"], "");
  EXPECT_EQ(object["steps"][5]["slow"], false);
  EXPECT_THAT(summary_of(tools::make_report(three_steps(), machine(), 70)),
              AllOf(Not(HasSubstr("! ")), Not(HasSubstr("exact"))));
}

TEST(ProfileReport, ExactProductsSayWhatTf32WouldSave) {
  auto rates = machine();
  rates.operations_per_second = {{"Single", 1e12}, {"Tf32", 8e12}};
  auto steps = three_steps();
  steps.push_back(step("fast", 70, 1000, 60000000, "Single"));
  steps.push_back(step("slow", 900, 1000, 60000000, "Single"));
  const std::string summary = summary_of(tools::make_report(steps, rates, 70));
  EXPECT_THAT(summary,
              HasSubstr("2 float32 products are exact (970 us measured); --precision tf32"));
  EXPECT_THAT(summary, HasSubstr("would save about 949 us"));  // 60e6 / (0.7 * 8e12) s each
  EXPECT_THAT(summary, HasSubstr("! slow runs at 6.7% of what its operations allow; tensor cores "
                                 "multiply float32 rounded to TF32"));
  rates.operations_per_second.erase("Tf32");  // a CPU
  EXPECT_THAT(summary_of(tools::make_report(steps, rates, 70)), Not(HasSubstr("exact")));
}

TEST_F(CliTest, ProfileOfAPlanOnTheCpu) {
  const auto plan = compile_small();
  const auto report =
      json::parse(sinter({"profile", plan, "--shapes=x:64x8", "--rounds=3", "--json"}).out);
  EXPECT_EQ(report["target"], "cpu");
  EXPECT_GT(report["machine"]["copy_bytes_per_s"], 0);
  EXPECT_GT(report["machine"]["operations_per_s"]["Single"], 0);
  EXPECT_GT(report["whole_us"], 0);
  EXPECT_EQ(report["launches"], report["steps"].size());
  double sum = 0, before = 1e30;
  std::vector<std::string> origins;
  bool has_product = false;
  for (const auto& step : report["steps"]) {
    const double time = step["us"];
    EXPECT_LE(time, before);
    before = time;
    sum += time;
    has_product = has_product || step["arithmetic"] == "Single";
    for (const auto& origin : step["origins"]) origins.push_back(origin);
  }
  EXPECT_TRUE(has_product);
  EXPECT_THAT(origins, testing::IsSupersetOf({"product", "normalise"}));
  EXPECT_NEAR(sum, report["total_us"], 1e-6 * sum);
  EXPECT_NEAR(report["memory_bound_us"].get<double>() + report["compute_bound_us"].get<double>() +
                  report["launch_bound_us"].get<double>(),
              sum, 1e-6 * sum);
  const auto text = sinter({"profile", plan, "--shapes=x:64x8", "--rounds=3"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("memory-bound"), HasSubstr("gaps"), HasSubstr("measured"),
                              HasSubstr("wall time"), HasSubstr("launches")));
}

}  // namespace
}  // namespace sinter::tests
