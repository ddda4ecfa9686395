// SPDX-License-Identifier: Apache-2.0
// What a compilation did, as JSON: what the command prints and what a report's page reads.
#pragma once

#include <nlohmann/json.hpp>

#include <sinter/compiler.h>

namespace sinter::tools {

nlohmann::ordered_json to_json(const PassResult& pass);
nlohmann::ordered_json to_json(const LayerResult& layer);

}  // namespace sinter::tools
