// SPDX-License-Identifier: Apache-2.0
// Where a model of 16-bit floats loses what its matmuls do not explain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/compiler/verify/accuracy.h"

namespace sinter::tools {

/// Errors of the worst output against the model as imported, in the reference evaluation.
struct RoundingLoss {
  double all = 0;        // with every value rounded to its type
  double matmuls = 0;    // with operands and results of matmuls and convolutions rounded alone
  double constants = 0;  // with constants alone
  std::string value;     // that loses most, by name or operator; empty: what matmuls do explains it
  std::vector<std::string> origins;
  double alone = 0;  // with that value alone rounded
};

/// Of a plan of `--precision fp16` or `bf16` on `inputs`; nothing for any other, or if the error is
/// at most twice what rounding matmuls brings. Evaluates the reference some 2 log2(values) times.
std::optional<RoundingLoss> find_rounding_loss(const BuildResult& built, const BuildOptions& build,
                                               const std::vector<ir::Tensor>& inputs,
                                               const Reporter& reporter);

nlohmann::ordered_json to_json(const RoundingLoss& loss);

}  // namespace sinter::tools
