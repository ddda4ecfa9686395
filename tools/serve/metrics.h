// SPDX-License-Identifier: Apache-2.0
// Figures of a server as Prometheus reads them (text exposition format 0.0.4).
#pragma once

#include <string>

#include "tools/serve/model_registry.h"

namespace sinter::tools {

/// Of all loaded models, each with the label `model`.
std::string metrics_text(const ModelRegistry& models);

}  // namespace sinter::tools
