// SPDX-License-Identifier: Apache-2.0
// Checks a node's attributes against its operator's, or its function's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace onnx {
class NodeProto;
}

namespace sinter::frontend {

struct KnownAttribute {
  std::string name;
  std::string elsewhere;  // versions with this attribute, if the node's version lacks it; else
                          // empty
};

/// Throws Error(kInvalidModel) for a duplicate attribute of `node`, and for one that is not in
/// `known`; the message lists `known` and the most similar name. Ignoring an attribute ("stride"
/// for "strides") would silently change the model's meaning.
void check_attributes(const onnx::NodeProto& node, const std::vector<KnownAttribute>& known);

/// The same for operators whose unknown attributes ONNX Runtime ignores: returns these, by the
/// known name that is most similar and that the node does not give. An attribute without such a
/// name is an error.
std::map<std::string, std::string, std::less<>> ignored_attributes(
    const onnx::NodeProto& node, const std::vector<KnownAttribute>& known);

}  // namespace sinter::frontend
