// SPDX-License-Identifier: Apache-2.0
// Attributes of nodes against those that the operator, or the function that is called, has.
#pragma once

#include <string>
#include <vector>

namespace onnx {
class NodeProto;
}

namespace sinter::frontend {

struct KnownAttribute {
  std::string name;
  std::string elsewhere;  // the versions that have it, where the node's has not; else empty
};

/// Throws Error(kInvalidModel) for an attribute of `node` that is not among `known`, with the
/// nearest of these and all of them, and for one that is given twice. An attribute that nobody
/// reads would make another model than the one that its author meant ("stride" for "strides").
void check_attributes(const onnx::NodeProto& node, const std::vector<KnownAttribute>& known);

}  // namespace sinter::frontend
