// SPDX-License-Identifier: Apache-2.0
#include "tools/report/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/plan/plan_data.h"
#include "runtime/plan_access.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

// Each row of the trace is a thread.
constexpr int kSteps = 1, kParts = 2, kWhole = 3;

ordered_json event(const std::string& name, const char* category, int line, double start,
                   double microseconds, ordered_json arguments) {
  return {{"name", name}, {"cat", category}, {"ph", "X"},           {"pid", 1},
          {"tid", line},  {"ts", start},     {"dur", microseconds}, {"args", std::move(arguments)}};
}

ordered_json name_of(const char* what, int line, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", line}, {"args", {{"name", name}}}};
}

ordered_json step_arguments(const StepTime& step) {
  ordered_json arguments = {{"onnx", step.origins},
                            {"bytes", step.bytes},
                            {"flops", step.flops},
                            {"arithmetic", step.arithmetic}};
  if (!step.how.empty()) arguments["how"] = step.how;
  return arguments;
}

ordered_json part_arguments(const StepTime& step, const PartTime& part) {
  ordered_json arguments = {
      {"step", step.name}, {"onnx", step.origins}, {"launches", part.launches}};
  if (part.kernel) {
    arguments["schedule"] = part.kernel->schedule;
    arguments["blocks"] = part.kernel->blocks;
    arguments["threads_per_block"] = part.kernel->threads;
    arguments["registers_per_thread"] = part.kernel->registers;
    arguments["occupancy"] = part.kernel->occupancy;
  }
  return arguments;
}

}  // namespace

std::string trace_of(const Plan& plan, const std::vector<StepTime>& steps, double whole_us,
                     const std::string& what) {
  std::map<std::string, std::size_t> places;
  for (const auto& step : PlanAccess::data(plan)->meta.steps)
    places.emplace(step->name, places.size());
  std::vector<const StepTime*> in_order;
  for (const StepTime& step : steps) in_order.push_back(&step);
  const auto place = [&](const StepTime* step) {
    const auto found = places.find(step->name);
    return found == places.end() ? places.size() : found->second;
  };
  std::ranges::stable_sort(in_order, {}, place);

  ordered_json events = {name_of("process_name", 0, what), name_of("thread_name", kSteps, "steps"),
                         name_of("thread_name", kParts, "kernels and library calls")};
  double at = 0;
  for (const StepTime* step : in_order) {
    events.push_back(
        event(step->name, "step", kSteps, at, step->microseconds, step_arguments(*step)));
    for (const PartTime& part : step->parts) {
      events.push_back(
          event(part.name, "part", kParts, at, part.microseconds, part_arguments(*step, part)));
      at += part.microseconds;
    }
    if (step->parts.empty()) at += step->microseconds;
  }
  if (whole_us > 0) {
    events.push_back(name_of("thread_name", kWhole, "the whole run"));
    events.push_back(event("run", "run", kWhole, 0, whole_us, {{"steps_us", at}}));
  }
  const ordered_json trace = {
      {"displayTimeUnit", "ns"},
      {"otherData",
       {{"timing", "each step was timed alone, in its order; gaps between steps are not shown"},
        {"target", plan.target()}}},
      {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace sinter::tools
