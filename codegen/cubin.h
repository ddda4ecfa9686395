// SPDX-License-Identifier: Apache-2.0
// Information in a compiled kernel (cubin): an ELF file for a GPU.
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
  /// Size in bytes of each parameter, in order, by kernel.
  std::map<std::string, std::vector<std::size_t>, std::less<>> kernels;
};

/// Parses untrusted `bytes`. Throws Error(kUsage), which says what they are, if they are no cubin.
Cubin read_cubin(std::span<const std::byte> bytes);

/// The best cubin for GPUs of `architecture`: its own, or else the highest lower one with the same
/// major version. Null if there is none.
const std::vector<std::byte>* choose_cubin(
    const std::map<std::string, std::vector<std::byte>>& cubins, const std::string& architecture);

/// Throws Error(kUsage) unless `code` runs on GPUs of `architecture` and contains the kernel that
/// `step` launches, with parameters of the same sizes.
void check_kernel(std::span<const std::byte> code, const std::string& architecture,
                  const plan::fb::KernelStepT& step);

}  // namespace sinter::codegen
