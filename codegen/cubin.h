// What a compiled kernel says of itself: an ELF file for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

struct Cubin {
  int architecture = 0;  // 90 for sm_90 and sm_90a
  /// The bytes of each parameter, in order, by kernel.
  std::map<std::string, std::vector<std::size_t>, std::less<>> kernels;
};

/// Reads `bytes`; trusts none of it. Throws Error(kUsage) saying what it is instead of a cubin.
Cubin read_cubin(std::span<const std::byte> bytes);

/// Of cubins by architecture the one that GPUs of `architecture` run best: its own, else that of
/// the highest number below it with the same first digits. Null if there is none.
const std::vector<std::byte>* choose_cubin(
    const std::map<std::string, std::vector<std::byte>>& cubins, const std::string& architecture);

/// Throws Error(kUsage) unless `code` is for GPUs of `architecture` and has the kernel that `step`
/// launches, with parameters of its arguments' sizes.
void check_kernel(std::span<const std::byte> code, const std::string& architecture,
                  const plan::fb::KernelStepT& step);

}  // namespace sinter::codegen
