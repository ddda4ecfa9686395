// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/fingerprint.h"

#include <string>

#include <onnx.pb.h>

namespace sinter::frontend {

std::uint64_t structure_of(const onnx::ModelProto& model) {
  Hasher hasher;
  const auto add = [&](const google::protobuf::MessageLite& message) {
    const std::string text = message.SerializeAsString();
    const std::uint64_t size = text.size();
    hasher.add(std::as_bytes(std::span(&size, 1)));
    hasher.add(std::as_bytes(std::span(text)));
  };
  for (onnx::NodeProto node : model.graph().node()) {
    node.clear_doc_string();  // may contain paths of the exporter's machine
    add(node);
  }
  for (const auto& input : model.graph().input()) add(input);
  for (const auto& output : model.graph().output()) add(output);
  for (const auto& function : model.functions()) add(function);
  for (const auto& opset : model.opset_import()) add(opset);
  return hasher.digest();
}

}  // namespace sinter::frontend
