// SPDX-License-Identifier: Apache-2.0
// Models of two bodies, between which an input of one bool chooses.
#pragma once

#include <functional>
#include <string>

#include "frontend/model/import_options.h"
#include "frontend/model/imported_model.h"

namespace sinter::frontend {

/// Imports the model twice, with input `flag` false and true, and puts both side by side (see
/// ImportedModel::Flag). Throws what `import_one` does, and Error(kUnsupported) for an output that
/// has another rank or element type in one of them.
ImportedModel import_bodies(const std::string& flag, const ImportOptions& options,
                            const std::function<ImportedModel(const ImportOptions&)>& import_one);

}  // namespace sinter::frontend
