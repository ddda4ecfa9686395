// SPDX-License-Identifier: Apache-2.0
// The frontend's entry point: ONNX bytes in, Graph out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontend/model/import_options.h"
#include "frontend/model/imported_model.h"

namespace sinter::frontend {

/// Imports the model at `path`. If its shapes fit only for some input sizes, the graph assumes
/// these sizes and a warning says so (see assumptions.h). Throws Error(kUsage) if the file cannot
/// be read, kInvalidModel if it is malformed or inconsistent, UnsupportedModel listing all
/// unsupported nodes.
ImportedModel import_model(const std::string& path, const ImportOptions& options = {});

/// Imports a model from memory. External data must be in `folder`; an empty path refuses it.
ImportedModel import_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                 const ImportOptions& options = {});

/// A graph with only the model's inputs and the ranges of their symbols. It shows which shapes a
/// user can set, also for models that import only with given shapes. Throws as import_model.
ir::Graph import_inputs(const std::string& path, const ImportOptions& options = {});
ir::Graph import_inputs_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const ImportOptions& options = {});

/// The initializers of a model's main graph.
struct ModelWeights {
  std::map<std::string, ir::Tensor> tensors;
  std::uint64_t hash = 0, structure = 0;  // as in ImportedModel
};
/// Throws as import_model does for invalid files.
ModelWeights read_weights(const std::string& path);

/// An attribute and the range of operator versions that have it.
struct SupportedAttribute {
  std::string name;
  std::int64_t first = 0, last = 0;
};

/// One operator that the importer supports.
struct SupportedOp {
  std::string domain, name;
  int since_version = 1;                       // first version with this meaning
  std::int64_t until = 0;                      // last version for which the import is verified
  std::string family;                          // group of operators: "reductions"
  std::string types;                           // "floats": types of the data that it computes on
  std::vector<DType> dtypes;                   // the same, as single types
  std::vector<SupportedAttribute> attributes;  // all supported attributes; others are errors
  /// Names of its inputs, separated by spaces, by the version that introduced them.
  std::vector<std::pair<std::int64_t, std::string>> inputs;
};
std::vector<SupportedOp> supported_ops();
/// The first and the last supported version of ai.onnx.
std::pair<std::int64_t, std::int64_t> supported_opsets();

/// Reads one serialised TensorProto (ONNX test data, .pb). Throws Error(kInvalidModel).
ir::Tensor read_tensor_proto(const std::string& path);

}  // namespace sinter::frontend
