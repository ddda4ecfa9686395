// SPDX-License-Identifier: Apache-2.0
// The front door of frontend: ONNX bytes in, Graph out.
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

/// Imports the model at `path`. Where its shapes fit only for some sizes of its inputs, the graph
/// takes for granted that they are of these and a warning says so (see assumptions.h). Throws
/// Error(kUsage) if the file cannot be read, kInvalidModel if it is malformed or contradicts
/// itself, UnsupportedModel listing every unsupported node at once.
ImportedModel import_model(const std::string& path, const ImportOptions& options = {});

/// Imports a model from memory. External data is looked for in `folder`; an empty one refuses it.
ImportedModel import_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                 const ImportOptions& options = {});

/// A graph of the model's inputs alone, with the ranges of their symbols: what there is to give
/// shapes for, also of a model that can only be imported once they are given. Throws as
/// import_model.
ir::Graph import_inputs(const std::string& path, const ImportOptions& options = {});
ir::Graph import_inputs_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const ImportOptions& options = {});

/// The initializers of a model's own graph.
struct ModelWeights {
  std::map<std::string, ir::Tensor> tensors;
  std::uint64_t hash = 0, structure = 0;  // as ImportedModel has them
};
/// Throws as import_model does for files that are no models.
ModelWeights read_weights(const std::string& path);

/// An attribute, with the versions of its operator that have it.
struct SupportedAttribute {
  std::string name;
  std::int64_t first = 0, last = 0;
};

/// One operator that the importer knows.
struct SupportedOp {
  std::string domain, name;
  int since_version = 1;                       // of this meaning
  std::int64_t until = 0;                      // the last version that it is known to be right for
  std::string family;                          // what the operator is about: "reductions"
  std::string types;                           // "floats": of what it computes on
  std::vector<DType> dtypes;                   // these types, one by one
  std::vector<SupportedAttribute> attributes;  // any other is an error
  /// Names of its inputs by the version from which on it has them, separated by spaces.
  std::vector<std::pair<std::int64_t, std::string>> inputs;
};
std::vector<SupportedOp> supported_ops();
/// The first and the last version of ai.onnx that models may use.
std::pair<std::int64_t, std::int64_t> supported_opsets();

/// Reads one serialised TensorProto (ONNX test data, .pb). Throws Error(kInvalidModel).
ir::Tensor read_tensor_proto(const std::string& path);

}  // namespace sinter::frontend
