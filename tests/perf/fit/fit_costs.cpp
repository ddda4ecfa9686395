// SPDX-License-Identifier: Apache-2.0
// Fits the numbers of GEMM estimates (codegen/targets/cuda/fitted) to timings of schedules, and
// prints their rows anew. Needs no GPU; the timings do:
//
//   bench_gemm --filter bert_,vit_ --timings timings.jsonl > report.json
//   fit_costs timings.jsonl --numbers warp_tile.dense.,tma.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>

#include <fmt/format.h>

#include "tests/perf/fit/fit.h"

namespace sinter::bench {
namespace {

void print_error(const char* when, const FitError& error) {
  fmt::print("// {}: error of the choice {:.2f} %, of the estimates {:.1f} %\n", when,
             100 * error.choice, 100 * error.log);
}

int run(int argc, char** argv) {
  std::vector<std::string> files;
  FitOptions options;
  CLI::App app("Fits the numbers of GEMM estimates to timings; prints their rows anew");
  app.add_option("TIMINGS", files, "Files that bench_gemm --timings has written")->required();
  app.add_option("--numbers", options.numbers,
                 "Numbers that vary: names, or what these begin with, as 'tma.'")
      ->delimiter(',')
      ->required();
  app.add_option("--log-weight", options.log_weight,
                 "Weight of the estimates' logarithmic error against that of the choice")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rounds", options.most_rounds, "Most rounds over all numbers")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::vector<Timing> timings;
  for (const std::string& file : files) {
    std::ifstream stream(file);
    if (!stream) throw std::runtime_error(fmt::format("cannot read '{}'", file));
    const std::vector<Timing> own = read_timings(stream, file);
    timings.insert(timings.end(), own.begin(), own.end());
  }
  TimedGemms timed(std::move(timings));
  fmt::print("// {} timings\n", timed.timings().size());
  print_error("before", timed.error());
  fit(timed, options);
  print_error("after", timed.error());
  fmt::print("{}", print_rows(timed.numbers(), options.numbers));
  return 0;
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) {
  try {
    return sinter::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
