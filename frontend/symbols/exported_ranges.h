// SPDX-License-Identifier: Apache-2.0
// What exporters write beside a model's graph.
#pragma once

#include <string>
#include <vector>

#include "frontend/model/import_options.h"

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace sinter::frontend {

/// What our Python package writes into the metadata of models that it exports, since ONNX has no
/// place for it: "sinter.range.NAME" is the range of a dimension ("2..8", "..512"), "sinter.note.N"
/// what the export has assumed.
void read_metadata(const onnx::ModelProto& model, ImportOptions& options,
                   std::vector<std::string>& notes);

}  // namespace sinter::frontend
