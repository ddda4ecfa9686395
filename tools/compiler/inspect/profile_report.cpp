#include "tools/compiler/inspect/profile_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/console.h"
#include "tools/compiler/verify/measure.h"

namespace sinter::tools {
namespace {

using Row = std::vector<std::string>;

double rate(double amount, double microseconds) {
  return microseconds > 0 ? amount / microseconds * 1e6 : 0;
}

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

double operation_rate(const MachineRates& rates, const std::string& arithmetic) {
  const auto found = rates.operations_per_second.find(arithmetic);
  return found == rates.operations_per_second.end() ? 0 : found->second;
}

std::string giga(double per_second) {
  const double value = per_second * 1e-9;
  return fmt::format("{:.{}f}", value, value < 10 ? 1 : 0);
}

std::string origins_text(const std::vector<std::string>& origins) {
  constexpr std::size_t kShown = 2;
  const std::size_t shown = std::min(kShown, origins.size());
  std::string text = fmt::format(
      "{}", fmt::join(origins.begin(), origins.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (origins.size() > shown) text += fmt::format(" and {} more", origins.size() - shown);
  return text;
}

Row kernel_cells(const PartTime& part) {
  if (!part.kernel) return {"", "", "", ""};
  const KernelUse& use = *part.kernel;
  return {fmt::format("{}", use.registers), fmt::format("{}", use.spilled_bytes),
          fmt::format("{}", use.resident_blocks), percent(use.occupancy)};
}

nlohmann::ordered_json part_json(const PartTime& part) {
  nlohmann::ordered_json json = {
      {"name", part.name}, {"us", part.microseconds}, {"launches", part.launches}};
  if (part.kernel) {
    const KernelUse& use = *part.kernel;
    json["kernel"] = {{"schedule", use.schedule},
                      {"blocks", use.blocks},
                      {"threads_per_block", use.threads},
                      {"registers_per_thread", use.registers},
                      {"spilled_bytes_per_thread", use.spilled_bytes},
                      {"shared_bytes_per_block", use.shared_bytes},
                      {"blocks_per_multiprocessor", use.resident_blocks},
                      {"occupancy", use.occupancy}};
  }
  return json;
}

}  // namespace

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::kMemory: return "memory";
    case Bound::kCompute: return "compute";
    case Bound::kLaunch: break;
  }
  return "launch";
}

std::size_t StepProfile::launches() const {
  std::size_t count = 0;
  for (const PartTime& part : time.parts) count += part.launches;
  return count;
}

double StepProfile::bandwidth() const {
  return rate(static_cast<double>(time.bytes), time.microseconds);
}

double StepProfile::operations_per_second() const {
  return rate(static_cast<double>(time.flops), time.microseconds);
}

double StepProfile::share_of_bound() const {
  const double least = std::max({memory_us, compute_us, launch_us});
  return time.microseconds > 0 ? least / time.microseconds : 0;
}

std::vector<StepTime> median_of(const std::vector<std::vector<StepTime>>& rounds) {
  std::vector<StepTime> result = rounds.back();
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].microseconds = 0;
    for (std::size_t j = 0; j < result[i].parts.size(); ++j) {
      std::vector<double> samples;
      for (const auto& round : rounds) samples.push_back(round[i].parts[j].microseconds);
      result[i].parts[j].microseconds = statistics_of(std::move(samples)).median;
      result[i].microseconds += result[i].parts[j].microseconds;
    }
  }
  return result;
}

ProfileReport make_report(std::vector<StepTime> steps, const MachineRates& rates, double whole_us) {
  ProfileReport report;
  report.rates = rates;
  report.whole_us = whole_us;
  for (StepTime& time : steps) {
    StepProfile step;
    step.launch_us = rates.empty_step_microseconds;
    if (rates.copy_bytes_per_second > 0)
      step.memory_us = static_cast<double>(time.bytes) / rates.copy_bytes_per_second * 1e6;
    if (const double operations = operation_rate(rates, time.arithmetic); operations > 0)
      step.compute_us = static_cast<double>(time.flops) / operations * 1e6;
    if (std::max(step.memory_us, step.compute_us) >= step.launch_us)
      step.bound = step.memory_us >= step.compute_us ? Bound::kMemory : Bound::kCompute;
    step.time = std::move(time);
    report.steps_us += step.time.microseconds;
    (step.bound == Bound::kMemory    ? report.memory_us
     : step.bound == Bound::kCompute ? report.compute_us
                                     : report.launch_us) += step.time.microseconds;
    report.launches += step.launches();
    report.bytes += step.time.bytes;
    report.flops += step.time.flops;
    report.steps.push_back(std::move(step));
  }
  report.gaps_us = std::max(0.0, whole_us - report.steps_us);
  report.overlap_us = std::max(0.0, report.steps_us - whole_us);
  std::stable_sort(report.steps.begin(), report.steps.end(), [](const auto& a, const auto& b) {
    return a.time.microseconds > b.time.microseconds;
  });
  return report;
}

std::string profile_table(const ProfileReport& report) {
  const bool has_kernels =
      std::any_of(report.steps.begin(), report.steps.end(), [](const StepProfile& step) {
        return std::any_of(step.time.parts.begin(), step.time.parts.end(),
                           [](const PartTime& part) { return part.kernel.has_value(); });
      });
  Row heading = {"step",    "us",      "share", "bytes",    "GB/s",
                 "of copy", "GFLOP/s", "bound", "of bound", "launches"};
  if (has_kernels)
    heading.insert(heading.end(), {"registers", "spilled", "blocks/SM", "occupancy"});
  heading.insert(heading.end(), {"how", "from"});
  std::vector<Row> rows = {heading};
  for (const StepProfile& step : report.steps) {
    const StepTime& time = step.time;
    Row row = {time.name,
               fmt::format("{:.2f}", time.microseconds),
               report.steps_us > 0 ? percent(time.microseconds / report.steps_us) : "",
               format_bytes(static_cast<double>(time.bytes)),
               giga(step.bandwidth()),
               report.rates.copy_bytes_per_second > 0
                   ? percent(step.bandwidth() / report.rates.copy_bytes_per_second)
                   : "",
               giga(step.operations_per_second()),
               std::string(to_string(step.bound)),
               percent(step.share_of_bound()),
               fmt::format("{}", step.launches())};
    const bool is_one = time.parts.size() == 1;
    if (has_kernels) {
      const Row cells = is_one ? kernel_cells(time.parts[0]) : Row(4);
      row.insert(row.end(), cells.begin(), cells.end());
    }
    const std::string how = !time.how.empty() ? time.how : is_one ? time.parts[0].name : "";
    row.push_back(how == time.name ? "" : how);
    row.push_back(origins_text(time.origins));
    rows.push_back(std::move(row));
    if (is_one) continue;
    for (const PartTime& part : time.parts) {
      Row sub(heading.size());
      sub[0] = "  " + part.name;
      sub[1] = fmt::format("{:.2f}", part.microseconds);
      sub[9] = fmt::format("{}", part.launches);
      if (has_kernels) std::ranges::copy(kernel_cells(part), sub.begin() + 10);
      rows.push_back(std::move(sub));
    }
  }
  return format_table(rows);
}

std::vector<std::string> profile_summary(const ProfileReport& report) {
  const MachineRates& rates = report.rates;
  const auto sum = [&](const char* what, Bound bound, double time) {
    const auto count = std::count_if(report.steps.begin(), report.steps.end(),
                                     [&](const StepProfile& step) { return step.bound == bound; });
    return fmt::format("{} {} in {} step{}", what, format_time(time), count, count == 1 ? "" : "s");
  };
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "{}, {}, {}; {}", sum("memory-bound", Bound::kMemory, report.memory_us),
      sum("compute-bound", Bound::kCompute, report.compute_us),
      sum("bound by launches", Bound::kLaunch, report.launch_us),
      report.overlap_us > 0
          ? fmt::format("no gaps: the run is {} shorter than its steps one by one",
                        format_time(report.overlap_us))
          : fmt::format("gaps {}, the run's own launch among them", format_time(report.gaps_us))));
  lines.push_back(fmt::format(
      "whole run {}, steps one by one {}; {} launches, {} moved, {:.2f} "
      "GFLOP",
      format_time(report.whole_us), format_time(report.steps_us), report.launches,
      format_bytes(static_cast<double>(report.bytes)), static_cast<double>(report.flops) * 1e-9));
  lines.push_back(fmt::format("times: {}", rates.timing));
  lines.push_back(fmt::format(
      "{}: copies {} GB/s (measured, {} read and written), an empty step takes {:.2f} us",
      rates.machine, giga(rates.copy_bytes_per_second),
      format_bytes(static_cast<double>(rates.copy_bytes)), rates.empty_step_microseconds));
  std::vector<std::string> operations;
  for (const auto& [arithmetic, per_second] : rates.operations_per_second)
    operations.push_back(fmt::format("{} {:.0f}", arithmetic, per_second * 1e-9));
  lines.push_back(
      fmt::format("GFLOP/s: {} ({})", fmt::join(operations, ", "), rates.operations_from));
  lines.push_back(
      "a step is bound by what takes longest at these rates: its bytes, its operations, or, where "
      "both take less than an empty step, its launch; 'of bound' is that least time over its own");
  return lines;
}

nlohmann::ordered_json to_json(const ProfileReport& report) {
  const MachineRates& rates = report.rates;
  nlohmann::ordered_json json;
  json["machine"] = {{"name", rates.machine},
                     {"copy_bytes_per_s", rates.copy_bytes_per_second},
                     {"copy_bytes", rates.copy_bytes},
                     {"empty_step_us", rates.empty_step_microseconds},
                     {"operations_per_s", rates.operations_per_second},
                     {"operations_from", rates.operations_from}};
  json["timing"] = rates.timing;
  json["whole_us"] = report.whole_us;
  json["total_us"] = report.steps_us;
  json["memory_bound_us"] = report.memory_us;
  json["compute_bound_us"] = report.compute_us;
  json["launch_bound_us"] = report.launch_us;
  json["gaps_us"] = report.gaps_us;
  json["overlap_us"] = report.overlap_us;
  json["launches"] = report.launches;
  json["bytes"] = report.bytes;
  json["flops"] = report.flops;
  json["steps"] = nlohmann::ordered_json::array();
  for (const StepProfile& step : report.steps) {
    const StepTime& time = step.time;
    nlohmann::ordered_json parts = nlohmann::ordered_json::array();
    for (const PartTime& part : time.parts) parts.push_back(part_json(part));
    json["steps"].push_back(
        {{"name", time.name},
         {"us", time.microseconds},
         {"bytes", time.bytes},
         {"flops", time.flops},
         {"arithmetic", time.arithmetic},
         {"bytes_per_s", step.bandwidth()},
         {"share_of_copy",
          rates.copy_bytes_per_second > 0 ? step.bandwidth() / rates.copy_bytes_per_second : 0},
         {"flops_per_s", step.operations_per_second()},
         {"bound", to_string(step.bound)},
         {"least_memory_us", step.memory_us},
         {"least_compute_us", step.compute_us},
         {"least_launch_us", step.launch_us},
         {"share_of_bound", step.share_of_bound()},
         {"launches", step.launches()},
         {"how", time.how},
         {"origins", time.origins},
         {"parts", parts}});
  }
  return json;
}

}  // namespace sinter::tools
