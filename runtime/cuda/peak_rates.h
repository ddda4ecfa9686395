// SPDX-License-Identifier: Apache-2.0
// Peak rates of GPUs by architecture, from data sheets, not measured.
#pragma once

#include <map>
#include <string>

#include "graphs/device.h"

namespace sinter::runtime {

/// Peak operations per second, by the names of plan::fb::Arithmetic, as in MachineRates. The rate
/// is operations per clock and multiprocessor (NVIDIA's architecture white papers; dense
/// tensor-core operations with float32 accumulators), times multiprocessors, times the highest
/// clock. Empty for a GPU older than the table.
std::map<std::string, double> peak_rates(const graphs::DeviceProperties& gpu);

}  // namespace sinter::runtime
