// SPDX-License-Identifier: Apache-2.0
// Fits numbers of GEMM estimates (codegen/targets/cuda/fitted) to timings of schedules.
#pragma once

#include <istream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/targets/cuda/fitted/fitted_numbers.h"
#include "tests/perf/fit/gemm_workloads.h"

namespace sinter::bench {

/// How long a schedule takes: a line of `bench_gemm --timings`.
struct Timing {
  std::string problem, schedule;
  bool packed = true;  // 16-bit weights of few rows
  double nanoseconds = 0;
};
std::string to_json_line(const Timing& timing);
/// Throws std::runtime_error that names `file` and the line.
std::vector<Timing> read_timings(std::istream& stream, const std::string& file);

/// How far estimates are from timings.
struct FitError {
  /// How much longer the schedule with the least estimate takes than the fastest one: mean over the
  /// problems.
  double choice = 0;
  double log = 0;  // root mean square of log(estimate / time)
};

/// Timings, and what estimates them with any numbers.
class TimedGemms {
 public:
  /// Throws std::runtime_error for a problem or a schedule that there is not.
  explicit TimedGemms(std::vector<Timing> timings);

  /// The numbers that estimates read; at first the reference device's.
  codegen::FittedNumbers& numbers() { return *numbers_; }
  std::span<const Timing> timings() const { return timings_; }
  std::vector<double> estimates() const;
  FitError error() const;

 private:
  struct Timed {
    const WorkloadGemm* gemm;
    codegen::GemmSchedule schedule;
    std::size_t problem;
  };

  std::vector<Timing> timings_;
  std::unique_ptr<codegen::FittedNumbers> numbers_;
  std::unique_ptr<codegen::DeviceModel> device_;  // with numbers_
  std::vector<std::unique_ptr<WorkloadGemm>> gemms_;
  std::vector<Timed> timed_;  // by timing
  std::size_t problems_ = 0;
};

struct FitOptions {
  std::vector<std::string> numbers;  // prefixes of the names of those that vary: "tma."
  double log_weight = 0.5;           // of FitError::log against the error of the choice
  int most_rounds = 200;
  double first_step = 1.2, last_step = 1.002;  // factors
};
/// Minimises the error by pattern search over the logarithms of the numbers; zeros and kFree
/// stay. Throws std::runtime_error if no name has one of the prefixes.
void fit(TimedGemms& timed, const FitOptions& options);

/// The rows of numbers whose names have one of the prefixes, as they stand in a device's file.
std::string print_rows(codegen::FittedNumbers numbers, std::span<const std::string> prefixes);

}  // namespace sinter::bench
