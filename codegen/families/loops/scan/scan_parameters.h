// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>

namespace sinter::codegen {

/// Threads as for rows; a row is processed part by part, one vector for each thread.
struct ScanParameters {
  static constexpr const char* kName = "scan";
  static constexpr std::tuple<> kWords{};
};

}  // namespace sinter::codegen
