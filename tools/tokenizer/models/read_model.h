// SPDX-License-Identifier: Apache-2.0
// Reading of the "model" of tokenizer.json.
#pragma once

#include <memory>

#include "tools/tokenizer/models/model.h"

namespace sinter::tools {

/// Throws Error(kUsage) for what is no such model, Error(kUnsupported) for kinds that are not
/// known.
std::unique_ptr<const Model> read_model(const Fields::Json& model);

}  // namespace sinter::tools
