// SPDX-License-Identifier: Apache-2.0
// Finds where a 16-bit model loses more precision than its matmuls explain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/compiler/verify/accuracy.h"

namespace sinter::tools {

/// Errors of the worst output relative to the imported model, in the reference evaluation.
struct RoundingLoss {
  double all = 0;        // with all values rounded
  double matmuls = 0;    // with only the operands and results of matmuls and convolutions rounded
  double constants = 0;  // with only constants rounded
  std::string value;     // value with the largest loss, by name or operator; empty: matmuls explain
                         // the error
  std::vector<std::string> origins;
  double alone = 0;  // with only that value rounded
};

/// For a plan of `--precision fp16` or `bf16` on `inputs`. Nullopt for other precisions, or if the
/// error is at most twice that of rounding matmuls. Needs about 2 log2(values) reference
/// evaluations.
std::optional<RoundingLoss> find_rounding_loss(const BuildResult& built, const BuildOptions& build,
                                               const std::vector<ir::Tensor>& inputs,
                                               const Reporter& reporter);

nlohmann::ordered_json to_json(const RoundingLoss& loss);

/// Nodes of a model whose results float16 cannot hold, in the reference evaluation.
struct Overflow {
  std::vector<std::string> origins;  // of the first
  double largest = 0;                // of its results
  std::size_t nodes = 0;
};

/// For a plan of `--precision fp16` on `inputs`; nullopt if there is none but those of --keep.
std::optional<Overflow> find_overflow(const BuildResult& built, const BuildOptions& build,
                                      const std::vector<ir::Tensor>& inputs);

nlohmann::ordered_json to_json(const Overflow& overflow);

}  // namespace sinter::tools
