// SPDX-License-Identifier: Apache-2.0
// Reading of the "model" of tokenizer.json.
#pragma once

#include <memory>

#include "tools/tokenizer/models/model.h"

namespace sinter::tools {

/// Throws Error(kUsage) for an invalid model, Error(kUnsupported) for an unknown kind.
std::unique_ptr<const Model> read_model(const Fields::Json& model);

}  // namespace sinter::tools
