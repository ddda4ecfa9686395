// SPDX-License-Identifier: Apache-2.0
// How the devices of --tensor-parallel share a model, as text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fusion/context.h"

namespace sinter::tools {

/// A table of layers and collectives, where those that differ only in numbers share a row, and the
/// sums.
std::vector<std::string> sharding_text(const fusion::ShardingReport& report, std::int64_t ranks);
nlohmann::ordered_json to_json(const fusion::ShardingReport& report, std::int64_t ranks);

}  // namespace sinter::tools
