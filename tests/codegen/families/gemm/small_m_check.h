// What tests of the small-M kernel and of those with its tiles share.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "gemm_check.h"
#include "quantized_graphs.h"

namespace sinter::test {

inline std::string small_m_scheduled(const char* tile, int splits = 1) {
  const bool slices = std::string_view(tile).find("slices=") != std::string_view::npos;
  return fmt::format("{} {} split_k={} cluster_n=1", slices ? "int8_gemv" : "small_m", tile,
                     splits);
}

/// Three rows times weights of both widths in such groups, types and splits in turns.
inline void add_groups(GemmCheck& check, std::initializer_list<int> groups, const char* tile) {
  int number = 0;
  for (const int group : groups)
    for (const int bits : {8, 4}) {
      const Weights weights = {bits, group, number % 3 == 0 ? "f32" : "f16"};
      check.add(fmt::format("g{}", number),
                quantized_graph(number % 2 == 0 ? "f16" : "bf16", "3", 40, 520, weights),
                small_m_scheduled(tile, 1 + number % 2));
      ++number;
    }
}

}  // namespace sinter::test
