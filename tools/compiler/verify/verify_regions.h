// SPDX-License-Identifier: Apache-2.0
// Beyond outputs: regions one by one, the first that goes wrong, the smallest graph that shows it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/compiler/verify/accuracy.h"
#include "tools/compiler/verify/region_check.h"
#include "tools/compiler/verify/rounding_loss.h"

namespace sinter::tools {

/// Every fused region on the inputs that the reference gives it; the worst first.
struct RegionsReport {
  std::vector<RegionResult> regions;
  std::size_t wrong = 0;     // above their bounds
  bool specialised = false;  // compiled for these shapes alone
};
RegionsReport verify_regions(const BuildResult& built, const VerifyOptions& options,
                             const Reporter& reporter);

/// The first pass that changes what the graph computes; if none does, the first region in order
/// whose result, computed from the results of those before it, is above its bound; if none is, what
/// the outputs of the whole plan are.
struct BisectReport {
  std::string pass;                    // empty: none
  std::optional<RegionResult> region;  // none if a pass is found, or nothing is wrong
  std::size_t place = 0, regions = 0;  // of that region, of how many
  std::optional<double> own_error;     // of that region on the reference's inputs, if it is there
  bool own_ok = true;                  // that error is within the region's own bound
  std::optional<Accuracy> outputs;     // if no region is above its bound
  std::optional<RoundingLoss> loss;    // of 16 bits, beyond what rounding matmuls brings
  bool ok() const { return pass.empty() && !region && outputs && outputs->ok(); }
};
BisectReport bisect(const BuildResult& built, const BuildOptions& build,
                    const VerifyOptions& options, const Reporter& reporter);

/// The smallest graph found that still fails, written to a file.
struct ReduceReport {
  std::optional<RegionResult> region;  // that fails; none: nothing does, and nothing was written
  std::size_t regions = 0;
  std::string path, inputs;  // files; no inputs: seeded ones show it
  std::size_t operators_before = 0, operators = 0, trials = 0;
  std::string command;  // which shows it
};
/// Writes to `path` the smallest Graph text that still fails and, if seeded inputs do not show it,
/// its inputs beside it (.npz). It starts from the first region that fails on the reference's
/// inputs, else from the graph up to the one that `bisect` finds. Progress is stage "reducing".
ReduceReport reduce_failure(const BuildResult& built, const BuildOptions& build,
                            const VerifyOptions& options, const std::string& path,
                            const Reporter& reporter);

nlohmann::ordered_json to_json(const RegionResult& region);

}  // namespace sinter::tools
