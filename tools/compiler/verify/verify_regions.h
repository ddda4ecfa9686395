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

/// Every fused region on the reference's inputs; worst first.
struct RegionsReport {
  std::vector<RegionResult> regions;
  std::size_t wrong = 0;     // number of regions above their bounds
  bool specialised = false;  // compiled only for these shapes
};
RegionsReport verify_regions(const BuildResult& built, const VerifyOptions& options,
                             const Reporter& reporter);

/// The first pass that changes the graph's results. If there is none: the first region whose
/// propagated result is above its bound. If there is none: the errors of the whole plan's outputs.
struct BisectReport {
  std::string pass;                    // empty: none
  std::optional<RegionResult> region;  // nullopt if a pass is found, or nothing is wrong
  std::size_t place = 0, regions = 0;  // index of that region, and the number of regions
  std::optional<double> own_error;   // error of that region on the reference's inputs, if it exists
                                     // there
  bool own_ok = true;                // own_error is within the region's own bound
  std::optional<Accuracy> outputs;   // if no region is above its bound
  std::optional<RoundingLoss> loss;  // loss of 16 bits, beyond that of rounding matmuls
  std::optional<Overflow> overflow;  // of float16
  bool ok() const { return pass.empty() && !region && outputs && outputs->ok(); }
};
BisectReport bisect(const BuildResult& built, const BuildOptions& build,
                    const VerifyOptions& options, const Reporter& reporter);

/// The smallest graph found that still fails, written to a file.
struct ReduceReport {
  std::optional<RegionResult> region;  // failing region; nullopt: nothing fails, and nothing was
                                       // written
  std::size_t regions = 0;
  std::string path, inputs;  // paths; no inputs: seeded random ones show the failure
  std::size_t operators_before = 0, operators = 0, trials = 0;
  std::string command;  // shows the failure
};
/// Writes the smallest Graph text that still fails to `path`, and its inputs beside it (.npz)
/// unless seeded random inputs show the failure. Starts from the first region that fails on the
/// reference's inputs, else from the graph up to the region that `bisect` finds. Progress is stage
/// "reducing".
ReduceReport reduce_failure(const BuildResult& built, const BuildOptions& build,
                            const VerifyOptions& options, const std::string& path,
                            const Reporter& reporter);

nlohmann::ordered_json to_json(const RegionResult& region);

}  // namespace sinter::tools
