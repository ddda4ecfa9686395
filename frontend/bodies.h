// SPDX-License-Identifier: Apache-2.0
// Models with two bodies, selected by a scalar bool input.
#pragma once

#include <functional>
#include <string>

#include "frontend/model/import_options.h"
#include "frontend/model/imported_model.h"

namespace sinter::frontend {

/// Imports the model twice, with input `flag` false and true, and combines both (see
/// ImportedModel::Flag). Throws as `import_one` does, and Error(kUnsupported) for an output whose
/// rank or element type differs between the two.
ImportedModel import_bodies(const std::string& flag, const ImportOptions& options,
                            const std::function<ImportedModel(const ImportOptions&)>& import_one);

}  // namespace sinter::frontend
