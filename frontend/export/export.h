// SPDX-License-Identifier: Apache-2.0
// Exports a compiler graph as an ONNX model for viewing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::frontend {

struct ExportOptions {
  /// Larger constants, in bytes, are left out: they become inputs of the model or, within kernels,
  /// `sinter.Constant` nodes without a value.
  std::size_t largest_constant = 1024;
};

struct ExportedModel {
  std::string bytes;                  // a serialized ModelProto
  std::size_t kernels = 0;            // local functions
  std::vector<std::string> left_out;  // names of constants that became inputs
};

/// Exports fused nodes as calls of local functions in the domain "sinter.kernels", whose nodes are
/// the node's body. Operators that ONNX (opset 17) defines equally are ONNX's. All others are in
/// the domain "sinter" with their IR names, and with symbolic dimensions as strings. Such models
/// pass onnx.checker but cannot run. Throws Error(kUnsupported) if the model exceeds protobuf's
/// size limit.
ExportedModel export_onnx(const ir::Graph& graph, const ExportOptions& options = {});

}  // namespace sinter::frontend
