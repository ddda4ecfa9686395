#pragma once

#include <tuple>

namespace sinter::codegen {

/// Threads as for rows, but a row is taken part by part, a vector for each thread.
struct ScanParameters {
  static constexpr const char* kName = "scan";
  static constexpr std::tuple<> kWords{};
};

}  // namespace sinter::codegen
