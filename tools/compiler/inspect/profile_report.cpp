// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/inspect/profile_report.h"

#include <algorithm>

#include "tools/compiler/build/exact_products.h"
#include "tools/compiler/inspect/faster_form.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"

namespace sinter::tools {
namespace {

double operation_rate(const MachineRates& rates, const std::string& arithmetic) {
  const auto found = rates.operations_per_second.find(arithmetic);
  return found == rates.operations_per_second.end() ? 0 : found->second;
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
    if (step.is_slow()) step.faster_form = faster_form(step.time, rates);
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
  report.exact_products = describe(exact_products(report), "measured").value_or("");
  std::ranges::stable_sort(report.steps, [](const auto& a, const auto& b) {
    return a.time.microseconds > b.time.microseconds;
  });
  return report;
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
  json["transfers"] = {{"host_to_device_us", report.transfers.host_to_device},
                       {"device_to_host_us", report.transfers.device_to_host}};
  json["exact_products"] = report.exact_products;
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
         {"slow", step.is_slow()},
         {"faster_form", step.faster_form},
         {"launches", step.launches()},
         {"how", time.how},
         {"origins", time.origins},
         {"stream", time.stream},
         {"waits", time.waits},
         {"parts", parts}});
  }
  return json;
}

ProfileReport profile_plan(const Plan& plan, const ProfileOptions& options,
                           const Reporter& reporter) {
  const auto inputs = make_inputs(plan.inputs(), options.inputs);
  Session session(plan, options.session);
  set_inputs(session, plan, inputs);
  first_run(session, options.inputs);
  const MachineRates rates = measure_rates(session);
  const auto count = static_cast<std::size_t>(std::max(1, options.rounds));
  std::vector<std::vector<StepTime>> rounds;
  std::vector<double> whole;
  for (std::size_t round = 0; round < count; ++round) {
    rounds.push_back(profile_steps(session));
    whole.push_back(time_compute(session, true));
    reporter.progress("measuring", round + 1, count);
  }
  ProfileReport report =
      make_report(median_of(rounds), rates, statistics_of(std::move(whole)).median);
  std::vector<double> to_device, to_host;
  for (std::size_t round = 0; round < count; ++round) {
    const TransferTimes transfers = time_transfers(session);
    to_device.push_back(transfers.host_to_device);
    to_host.push_back(transfers.device_to_host);
  }
  report.transfers = {statistics_of(std::move(to_device)).median,
                      statistics_of(std::move(to_host)).median};
  report.target = plan.target();
  report.shapes = describe_shapes(plan, inputs);
  return report;
}

}  // namespace sinter::tools

namespace sinter {
namespace {

double rate(double amount, double microseconds) {
  return microseconds > 0 ? amount / microseconds * 1e6 : 0;
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

bool StepProfile::is_slow() const {
  constexpr double kSlow = 0.1;
  return bound != Bound::kLaunch && share_of_bound() < kSlow;
}

}  // namespace sinter
