// SPDX-License-Identifier: Apache-2.0
// A toy: a target that interprets loops as the CPU does, and has no library. The folder is all of
// it.
#include <sinter/error.h>

#include "codegen/targets/target.h"

namespace sinter::codegen {
namespace {

class AbacusTarget final : public Target {
 public:
  std::string_view name() const override { return "abacus"; }
  const ir::TargetTraits& traits() const override {
    static const ir::TargetTraits traits = {.launch_bytes = 1e3};
    return traits;
  }
  const DeviceModel& device(const std::string&) const override {
    throw Error(ErrorCode::kUsage, "an abacus has no architectures");
  }
  std::vector<CompiledKernel> compile(std::span<const KernelText>, const KernelCompileOptions&,
                                      KernelCompileStats&) const override {
    throw Error(ErrorCode::kInternal, "an abacus has no kernels");
  }
};

}  // namespace

const Target& abacus_target() {
  static const AbacusTarget target;
  return target;
}

}  // namespace sinter::codegen
