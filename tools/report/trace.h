// SPDX-License-Identifier: Apache-2.0
// Times of steps as a trace of events, which Perfetto and chrome://tracing show.
#pragma once

#include <string>
#include <vector>

#include <sinter/profile.h>
#include <sinter/sinter.h>

namespace sinter::tools {

/// A trace of a run's `steps`, as profile_steps gives them, in any order: an event for each step
/// and below it one for each of its parts, one after the other in the plan's order, with bytes,
/// operations, schedules and ONNX nodes as arguments. `whole_us`: of the run as it is replayed, on
/// a line of its own; 0: not known. `what`: the trace's name, for people.
std::string trace_of(const Plan& plan, const std::vector<StepTime>& steps, double whole_us,
                     const std::string& what);

}  // namespace sinter::tools
