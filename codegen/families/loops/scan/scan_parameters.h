// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>

#include "codegen/families/loops/schedule_word.h"

namespace sinter::codegen {

/// Threads as for rows. A row is processed part by part; a thread takes `unroll` neighbouring
/// vectors of each.
struct ScanParameters {
  static constexpr const char* kName = "scan";
  bool tiles = false;  // a block has one part of a row, and parts meet through memory

  static constexpr std::tuple kWords{Word{"tiles", &ScanParameters::tiles, false}};
};

}  // namespace sinter::codegen
