// SPDX-License-Identifier: Apache-2.0
#include "tests/perf/fit/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/families/gemm/gemm_tactics.h"
#include "codegen/targets/cuda/fitted/fitted_rows.h"

namespace sinter::bench {
namespace {

bool has_prefix(const std::string& name, std::span<const std::string> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](const std::string& prefix) { return name.starts_with(prefix); });
}

/// The numbers that a search varies.
std::vector<double*> varied(codegen::FittedNumbers& numbers,
                            std::span<const std::string> prefixes) {
  std::vector<double*> found;
  bool is_known = false;
  codegen::visit_fitted_rows(numbers, [&](const codegen::FittedRow& row, const auto& sets) {
    for (std::size_t set = 0; set < sets.size(); ++set) {
      if (!has_prefix(codegen::full_name(row, set), prefixes)) continue;
      is_known = true;
      if (*sets[set] != 0 && *sets[set] != codegen::kFree) found.push_back(sets[set]);
    }
  });
  if (!is_known)
    throw std::runtime_error(
        fmt::format("no number's name begins with '{}': they are 'tma.latency', "
                    "'warp_tile.dense.step' ..",
                    fmt::join(prefixes, "' or '")));
  return found;
}

/// Pattern search (Hooke and Jeeves): each number is multiplied and divided by a step while that
/// helps, then all move once more in the direction in which they moved together.
class PatternSearch {
 public:
  PatternSearch(TimedGemms& timed, const FitOptions& options)
      : timed_(timed), options_(options), numbers_(varied(timed.numbers(), options.numbers)) {}

  void run() {
    double step = options_.first_step;
    loss_ = loss();
    for (int round = 0; round < options_.most_rounds && step > options_.last_step; ++round) {
      const std::vector<double> before = values();
      if (!explore(step)) {
        step = std::sqrt(step);
        continue;
      }
      const std::vector<double> after = values();
      for (std::size_t i = 0; i < numbers_.size(); ++i)
        *numbers_[i] = after[i] * after[i] / before[i];
      if (const double moved = loss(); moved < loss_)
        loss_ = moved;
      else
        for (std::size_t i = 0; i < numbers_.size(); ++i) *numbers_[i] = after[i];
    }
  }

 private:
  double loss() const {
    const FitError error = timed_.error();
    return error.choice + options_.log_weight * error.log;
  }

  std::vector<double> values() const {
    std::vector<double> all;
    for (const double* number : numbers_) all.push_back(*number);
    return all;
  }

  bool explore(double step) {
    bool improves = false;
    for (double* number : numbers_)
      for (const double factor : {step, 1 / step}) {
        const double before = *number;
        *number *= factor;
        if (const double changed = loss(); changed < loss_) {
          loss_ = changed;
          improves = true;
          break;
        }
        *number = before;
      }
    return improves;
  }

  TimedGemms& timed_;
  const FitOptions& options_;
  std::vector<double*> numbers_;
  double loss_ = 0;
};

}  // namespace

std::string to_json_line(const Timing& timing) {
  return nlohmann::ordered_json{{"problem", timing.problem},
                                {"schedule", timing.schedule},
                                {"packed", timing.packed},
                                {"ns", timing.nanoseconds}}
      .dump();
}

std::vector<Timing> read_timings(std::istream& stream, const std::string& file) {
  std::vector<Timing> all;
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (line.empty()) continue;
    try {
      const auto json = nlohmann::json::parse(line);
      all.push_back({json.at("problem").get<std::string>(), json.at("schedule").get<std::string>(),
                     json.value("packed", true), json.at("ns").get<double>()});
    } catch (const nlohmann::json::exception& error) {
      throw std::runtime_error(fmt::format("{}, line {}: {}", file, number, error.what()));
    }
    if (!(all.back().nanoseconds > 0) || std::isinf(all.back().nanoseconds))
      throw std::runtime_error(
          fmt::format("{}, line {}: a time of {} ns", file, number, all.back().nanoseconds));
  }
  if (all.empty()) throw std::runtime_error(fmt::format("{} has no timings", file));
  return all;
}

TimedGemms::TimedGemms(std::vector<Timing> timings)
    : timings_(std::move(timings)),
      numbers_(std::make_unique<codegen::FittedNumbers>(*codegen::reference_device().fitted)),
      device_(std::make_unique<codegen::DeviceModel>(codegen::reference_device())) {
  device_->fitted = numbers_.get();
  std::map<std::string, Workload> known;
  for (Workload& workload : workloads({})) known.emplace(workload.name, std::move(workload));
  std::map<std::tuple<std::string, bool, bool>, const WorkloadGemm*> gemms;
  std::map<std::string, std::size_t> problems;
  for (const Timing& timing : timings_) {
    const auto workload = known.find(timing.problem);
    if (workload == known.end())
      throw std::runtime_error(fmt::format("'{}' is no problem of bench_gemm", timing.problem));
    try {
      const bool by_warpgroups = codegen::GemmRequest(timing.schedule).is_warpgroup_schedule();
      const WorkloadGemm*& gemm = gemms[{timing.problem, by_warpgroups, timing.packed}];
      if (gemm == nullptr) {
        gemms_.push_back(
            WorkloadGemm::make(workload->second, by_warpgroups, timing.packed, *device_));
        gemm = gemms_.back().get();
      }
      timed_.push_back(
          {gemm,
           codegen::choose_gemm_schedules(gemm->analysis(), gemm->product(), timing.schedule)
               .front(),
           problems.emplace(timing.problem, problems.size()).first->second});
    } catch (const Error& error) {
      throw std::runtime_error(fmt::format("{}: {}", timing.problem, error.what()));
    }
  }
  problems_ = problems.size();
}

std::vector<double> TimedGemms::estimates() const {
  std::vector<double> all;
  for (const Timed& one : timed_) all.push_back(one.gemm->estimate(one.schedule));
  return all;
}

FitError TimedGemms::error() const {
  struct Best {
    double time = std::numeric_limits<double>::infinity();
    double estimate = std::numeric_limits<double>::infinity();
    double chosen = 0;  // time of the schedule with the least estimate
  };
  std::vector<Best> best(problems_);
  FitError error;
  const std::vector<double> all = estimates();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double time = timings_[i].nanoseconds, log = std::log(all[i] / time);
    error.log += log * log / static_cast<double>(all.size());
    Best& own = best[timed_[i].problem];
    own.time = std::min(own.time, time);
    if (all[i] < own.estimate) own.estimate = all[i], own.chosen = time;
  }
  error.log = std::sqrt(error.log);
  for (const Best& own : best)
    error.choice += (own.chosen / own.time - 1) / static_cast<double>(problems_);
  return error;
}

void fit(TimedGemms& timed, const FitOptions& options) { PatternSearch(timed, options).run(); }

std::string print_rows(codegen::FittedNumbers numbers, std::span<const std::string> prefixes) {
  std::string text;
  std::string_view table;
  codegen::visit_fitted_rows(numbers, [&](const codegen::FittedRow& row, const auto& sets) {
    std::vector<std::string> values;
    bool is_asked = false;
    for (std::size_t set = 0; set < sets.size(); ++set) {
      is_asked = is_asked || has_prefix(codegen::full_name(row, set), prefixes);
      values.push_back(*sets[set] == codegen::kFree ? "kFree" : fmt::format("{:.4g}", *sets[set]));
    }
    if (!is_asked) return;
    if (table != row.table) {
      text += fmt::format("// {}{}{}\n", row.table, row.sets.empty() ? "" : ": ", row.sets);
      table = row.table;
    }
    text += fmt::format("FITTED({}, {}, {})\n", row.name, row.scale, fmt::join(values, ", "));
  });
  return text;
}

}  // namespace sinter::bench
