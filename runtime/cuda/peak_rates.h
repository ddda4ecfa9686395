// SPDX-License-Identifier: Apache-2.0
// What GPUs compute at most, by their architecture: stated, not measured.
#pragma once

#include <map>
#include <string>

#include "graphs/device.h"

namespace sinter::runtime {

/// Most operations a second by plan::fb::Arithmetic's names, as MachineRates has them: operations
/// of a multiprocessor in a clock (NVIDIA's architecture white papers; dense products on tensor
/// cores, accumulating in float32), times multiprocessors, times the highest clock. Empty for a GPU
/// older than the table.
std::map<std::string, double> peak_rates(const graphs::DeviceProperties& gpu);

}  // namespace sinter::runtime
