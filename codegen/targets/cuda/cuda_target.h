// NVIDIA's GPUs: fused regions become CUDA kernels, which NVRTC compiles for each architecture.
#pragma once

#include <string>
#include <vector>

#include "codegen/targets/device_model.h"
#include "codegen/targets/target.h"

namespace sinter::codegen {

const Target& cuda_target();

/// Architectures whose figures are known, the oldest first.
const std::vector<DeviceModel>& cuda_devices();

/// The figures for "sm_90"; for an architecture that is not in the table, those of the newest one
/// before it. Throws Error(kUsage) for one before the first, and for what is no architecture.
const DeviceModel& cuda_device(const std::string& architecture);

}  // namespace sinter::codegen
