// What GPUs have, by architecture. In every build: what the steps of a product may be is asked
// before kernels are made.
#pragma once

#include <string>
#include <vector>

namespace sinter::codegen {

/// True if all these GPUs ("sm_90") have clusters of blocks.
bool have_clusters(const std::vector<std::string>& architectures);
/// True if one of them has instructions of warpgroups.
bool have_warpgroups(const std::vector<std::string>& architectures);

}  // namespace sinter::codegen
