// SPDX-License-Identifier: Apache-2.0
// A target: what plans are compiled for. Each has a folder here; registry.h lists them.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/targets/compile_kernels.h"
#include "codegen/targets/device_model.h"
#include "ir/target_traits.h"

namespace sinter::codegen {

class Target {
 public:
  virtual ~Target() = default;
  /// As --target and plans spell it: "cuda".
  virtual std::string_view name() const = 0;
  /// Properties that passes and lowerings query; none of them queries the name.
  virtual const ir::TargetTraits& traits() const = 0;
  /// The device that represents an architecture as users name it ("sm_90"). Throws Error(kUsage)
  /// that lists the known ones.
  virtual const DeviceModel& device(const std::string& architecture) const = 0;
  /// Compiles each text, in order; equal ones once. Texts that do not compile get a refusal. Throws
  /// Error(kUnsupported) or Error(kDevice) if this machine cannot compile; the message says how to
  /// change that.
  virtual std::vector<CompiledKernel> compile(std::span<const KernelText> texts,
                                              const KernelCompileOptions& options,
                                              KernelCompileStats& stats) const = 0;
};

/// Activations that convolution steps of a plan can apply (fb::Activation), by operator.
inline std::set<std::string, std::less<>> conv_activations() {
  return {"Relu", "Gelu", "GeluTanh",  "Sigmoid",     "Tanh",
          "Silu", "Clip", "LeakyRelu", "HardSigmoid", "HardSwish"};
}

}  // namespace sinter::codegen
