// SPDX-License-Identifier: Apache-2.0
// Fitting the numbers of estimates to timings.
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/perf/fit/fit.h"

namespace sinter::test {
namespace {

using bench::Timing;

/// Timings of all schedules of one kernel, as the estimate would have them with numbers that
/// `change` changes, with noise.
template <typename Change>
std::vector<Timing> made_timings(const std::vector<std::string>& filter, const std::string& kernel,
                                 const Change& change) {
  std::vector<Timing> all;
  for (const bench::Workload& workload : bench::workloads(filter)) {
    const auto gemm = bench::WorkloadGemm::make(
        workload, kernel != "warp_tile" && kernel != "small_m", true, codegen::reference_device());
    if (!gemm || !gemm->has_kernel()) continue;
    for (const auto& schedule : codegen::all_gemm_schedules(gemm->analysis(), gemm->product()))
      if (const std::string text = schedule.to_string(); text.starts_with(kernel + " "))
        all.push_back({workload.name, text, true, 1});
  }
  bench::TimedGemms timed(all);
  change(timed.numbers());
  const std::vector<double> times = timed.estimates();
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.005);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].nanoseconds = times[i] * (1 + noise(random));
  return all;
}

void expect_near(double found, double expected) { EXPECT_NEAR(found, expected, 0.05 * expected); }

TEST(FitCosts, FindsTheNumbersThatMadeTheTimings) {
  bench::TimedGemms timed(made_timings({"bert_128_", "bert_768_"}, "tma", [](auto& numbers) {
    numbers.tma.latency *= 1.5;
    numbers.tma.flops *= 0.6;
    numbers.tma.element *= 1.4;
  }));
  const bench::FitError before = timed.error();
  bench::fit(timed, {.numbers = {"tma.latency", "tma.flops", "tma.element"}});
  const codegen::TmaCosts &found = timed.numbers().tma,
                          &reference = codegen::reference_device().fitted->tma;
  expect_near(found.latency, 1.5 * reference.latency);
  expect_near(found.flops, 0.6 * reference.flops);
  expect_near(found.element, 1.4 * reference.element);
  EXPECT_EQ(found.wave, reference.wave);
  EXPECT_LT(timed.error().log, 0.02);
  EXPECT_LT(timed.error().log, before.log / 5);
  EXPECT_LE(timed.error().choice, before.choice);
}

TEST(FitCosts, VariesOneOfSeveralSets) {
  bench::TimedGemms timed(made_timings({"bert_128_", "minilm_64_fc1"}, "warp_tile", [](auto& n) {
    n.warp_tile.dense.latency *= 0.7;
    n.warp_tile.dense.step *= 1.3;
  }));
  bench::fit(timed, {.numbers = {"warp_tile.dense.latency", "warp_tile.dense.step"}});
  const auto &found = timed.numbers().warp_tile,
             &reference = codegen::reference_device().fitted->warp_tile;
  expect_near(found.dense.latency, 0.7 * reference.dense.latency);
  expect_near(found.dense.step, 1.3 * reference.dense.step);
  EXPECT_EQ(found.windows.latency, reference.windows.latency);
}

TEST(FitCosts, FitsPackedWeightsOfFewRows) {
  bench::TimedGemms timed(made_timings({"decode_1_fc1", "decode_8_fc1"}, "small_m",
                                       [](auto& n) { n.few_rows.packed_16.wave *= 1.4; }));
  bench::fit(timed, {.numbers = {"few_rows.packed_16.wave"}});
  expect_near(timed.numbers().few_rows.packed_16.wave,
              1.4 * codegen::reference_device().fitted->few_rows.packed_16.wave);
}

TEST(FitCosts, PrintsRowsAsTheyStandInTheFile) {
  codegen::FittedNumbers numbers = *codegen::reference_device().fitted;
  numbers.warp_tile.windows.latency = 731.26;
  const std::vector<std::string> asked = {"warp_tile.windows.latency", "warp_tile.dense.all_bytes",
                                          "tma.row_byte"};
  EXPECT_EQ(bench::print_rows(numbers, asked),
            "// warp_tile: dense, windows\n"
            "FITTED(latency, kTime, 3000, 731.3)\n"
            "FITTED(all_bytes, kMemoryRate, 2530, kFree)\n"
            "// tma\n"
            "FITTED(row_byte, kTime, 22.6)\n");
}

TEST(FitCosts, TimingsAreLinesOfJson) {
  const Timing timing{"bert_128_fc1", "tma 64x64x64", false, 1250.5};
  std::istringstream lines(bench::to_json_line(timing) + "\n\n" + bench::to_json_line(timing));
  const std::vector<Timing> read = bench::read_timings(lines, "timings.jsonl");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].problem, timing.problem);
  EXPECT_EQ(read[1].schedule, timing.schedule);
  EXPECT_FALSE(read[1].packed);
  EXPECT_EQ(read[1].nanoseconds, timing.nanoseconds);
}

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(FitCosts, RefusesWhatItCannotUse) {
  const auto read = [](const std::string& text) {
    return message_of([&] {
      std::istringstream stream(text);
      bench::read_timings(stream, "t.jsonl");
    });
  };
  EXPECT_THAT(read("\n{\"problem\": 1}\n"), testing::HasSubstr("t.jsonl, line 2: "));
  EXPECT_THAT(read(bench::to_json_line({"p", "s", true, 0})),
              testing::HasSubstr("t.jsonl, line 1: a time of 0 ns"));
  EXPECT_THAT(read(""), testing::HasSubstr("t.jsonl has no timings"));
  const auto timed = [](const std::string& problem, const std::string& schedule) {
    return message_of([&] { bench::TimedGemms({{problem, schedule, true, 1}}); });
  };
  EXPECT_THAT(timed("bert_9", "tma"), testing::HasSubstr("'bert_9' is no problem"));
  EXPECT_THAT(timed("bert_128_fc1", "tma 64x64"), testing::HasSubstr("is no schedule"));
  EXPECT_THAT(timed("bert_128_fc1", "tma 48x64x64 warpgroups=1 stages=4 split_k=1 cluster_n=1"),
              testing::HasSubstr("does not take"));
  bench::TimedGemms one(
      {{"bert_128_fc1", "tma 64x64x64 warpgroups=1 stages=4 split_k=1 cluster_n=1", true, 5000}});
  EXPECT_THAT(message_of([&] { bench::fit(one, {.numbers = {"tmq."}}); }),
              testing::HasSubstr("no number's name begins with 'tmq.'"));
}

}  // namespace
}  // namespace sinter::test
