// SPDX-License-Identifier: Apache-2.0
// Models that see, for the server.
#pragma once

#include "tools/serve/models/vision_model.h"

namespace sinter::tools {

/// As MakeVisionModel says.
std::unique_ptr<VisionModel> make_vision_model(const Plan& tower, const std::string& folder,
                                               const Tokenizer& tokenizer,
                                               const engine::ExecutorLimits& decoder,
                                               const SessionOptions& session, std::int64_t waiting);

}  // namespace sinter::tools
