// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text/profile_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/text/table.h"

namespace sinter::tools {
namespace {

using Row = std::vector<std::string>;

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

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

}  // namespace

std::string profile_table(const ProfileReport& report, std::size_t most) {
  const bool has_kernels = std::ranges::any_of(report.steps, [](const StepProfile& step) {
    return std::ranges::any_of(step.time.parts,
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
               percent(step.share_of_bound()) + (step.is_slow() ? " !" : ""),
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
  return format_table(rows, most);
}

namespace {

/// The slow steps, longest first.
void add_slow_steps(const ProfileReport& report, std::vector<std::string>& lines) {
  constexpr std::ptrdiff_t kShown = 5;
  const auto count = std::ranges::count_if(report.steps, &StepProfile::is_slow);
  std::ptrdiff_t shown = 0;
  for (const StepProfile& step : report.steps) {
    if (!step.is_slow() || ++shown > kShown) continue;
    lines.push_back(fmt::format("! {} runs at {:.1f}% of what its {} allow{}{}", step.time.name,
                                100 * step.share_of_bound(),
                                step.bound == Bound::kMemory ? "bytes" : "operations",
                                step.faster_form.empty() ? "" : "; ", step.faster_form));
  }
  if (count > kShown)
    lines.push_back(
        fmt::format("! and {} more steps below a tenth of what bounds them", count - kShown));
}

}  // namespace

std::vector<std::string> profile_summary(const ProfileReport& report) {
  const MachineRates& rates = report.rates;
  const auto sum = [&](const char* what, Bound bound, double time) {
    const auto count = std::ranges::count_if(
        report.steps, [&](const StepProfile& step) { return step.bound == bound; });
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
          : fmt::format("gaps {}{}", format_time(report.gaps_us),
                        report.target == "cpu" ? "" : ", the run's own launch among them")));
  lines.push_back(fmt::format(
      "whole run {}, steps one by one {}; {} launches, {} moved, {:.2f} GFLOP",
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
  add_slow_steps(report, lines);
  if (!report.exact_products.empty()) lines.push_back(report.exact_products);
  return lines;
}

}  // namespace sinter::tools
