// SPDX-License-Identifier: Apache-2.0
// A graph of the compiler as an ONNX model, to be looked at.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::frontend {

struct ExportOptions {
  /// Constants of more bytes are left out: they become inputs of the model, those in kernels nodes
  /// `sinter.Constant` without a value.
  std::size_t largest_constant = 1024;
};

struct ExportedModel {
  std::string bytes;                  // a serialised ModelProto
  std::size_t kernels = 0;            // local functions
  std::vector<std::string> left_out;  // constants that are inputs now
};

/// Each fused node is a call of a function of its own in the domain "sinter.kernels", whose nodes
/// are its body. Operators that mean the same in ONNX (opset 17) are ONNX's; all others are in the
/// domain "sinter", by their names in the IR, with symbolic dimensions as texts. Such models pass
/// onnx.checker; they are not for running. Throws Error(kUnsupported) if the model would be larger
/// than protobuf allows.
ExportedModel export_onnx(const ir::Graph& graph, const ExportOptions& options = {});

}  // namespace sinter::frontend
