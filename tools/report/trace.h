// SPDX-License-Identifier: Apache-2.0
// Times of steps as a trace of events, which Perfetto and chrome://tracing show.
#pragma once

#include <string>
#include <vector>

#include <sinter/profile.h>
#include <sinter/sinter.h>

namespace sinter::tools {

/// A trace of a run's `steps` from profile_steps, in any order. It has an event per step and,
/// below, one per part, sequentially in the plan's order. Arguments are bytes, operations,
/// schedules and ONNX nodes. `whole_us`: the replayed run, in a separate row; 0: unknown. `what`:
/// the trace's name.
std::string trace_of(const Plan& plan, const std::vector<StepTime>& steps, double whole_us,
                     const std::string& what);

}  // namespace sinter::tools
