// SPDX-License-Identifier: Apache-2.0
// Names of nodes for error messages and for kernels.
#pragma once

#include <string>

#include "ir/graph.h"

namespace sinter::codegen {

using ir::Attrs, ir::Graph, ir::GraphBuilder, ir::Node, ir::OpKind, ir::Tensor, ir::TensorType,
    ir::ValueId;

/// "Add 'encoder/Add_12'": the operator and the ONNX nodes that the node comes from, at most three.
std::string describe(const ir::Node& node);

/// A C identifier made of the operators of `node` (of its body, if it is fused), each once, in
/// order, at most 60 characters: "add_reducemean_sub_square_sqrt_div".
std::string name_stem(const ir::Node& node);

}  // namespace sinter::codegen
