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
  /// What passes and lowerings ask; nothing asks for the name.
  virtual const ir::TargetTraits& traits() const = 0;
  /// The device that stands for an architecture that users name ("sm_90"). Throws Error(kUsage) for
  /// one that the target does not have, saying which it has.
  virtual const DeviceModel& device(const std::string& architecture) const = 0;
  /// Code of every text, in order; equal ones are compiled once. Texts that do not compile have a
  /// refusal. Throws Error(kUnsupported) or Error(kDevice) if nothing compiles here, saying how to
  /// change that.
  virtual std::vector<CompiledKernel> compile(std::span<const KernelText> texts,
                                              const KernelCompileOptions& options,
                                              KernelCompileStats& stats) const = 0;
};

/// The activations that a plan's convolution steps end with (fb::Activation), by operator.
inline std::set<std::string, std::less<>> conv_activations() {
  return {"Relu", "Gelu", "GeluTanh",  "Sigmoid",     "Tanh",
          "Silu", "Clip", "LeakyRelu", "HardSigmoid", "HardSwish"};
}

}  // namespace sinter::codegen
