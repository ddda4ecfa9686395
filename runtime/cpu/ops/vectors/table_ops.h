// SPDX-License-Identifier: Apache-2.0
// Functions of one byte, by a table of their 256 results.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

using ByteTable = std::array<std::uint8_t, 256>;

/// args[0]: 8-bit integers of either sign; args[1].data: a ByteTable, indexed by their bits.
OpKernel find_table_kernel();

}  // namespace sinter::runtime::cpu
