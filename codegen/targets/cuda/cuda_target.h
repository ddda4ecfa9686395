// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs: fused regions become CUDA kernels, compiled by NVRTC for each architecture.
#pragma once

#include <string>
#include <vector>

#include "codegen/targets/device_model.h"
#include "codegen/targets/target.h"

namespace sinter::codegen {

const Target& cuda_target();

/// Known architectures, oldest first.
const std::vector<DeviceModel>& cuda_devices();

/// The figures for "sm_90"; for an unlisted architecture, those of the newest older one. Throws
/// Error(kUsage) for one older than the first, and for an invalid name.
const DeviceModel& cuda_device(const std::string& architecture);

}  // namespace sinter::codegen
