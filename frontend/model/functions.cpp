// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/functions.h"

#include <unordered_map>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx.pb.h>

#include "frontend/model/structure.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

// Field numbers of IR versions 9 and 10, which the generated classes may lack.
constexpr int kNodeOverload = 8;
constexpr int kFunctionOverload = 13;
constexpr int kFunctionAttributeProtos = 11;

/// The values of the length-delimited field `number` in the serialized `message`.
std::vector<std::string> bytes_of_field(const google::protobuf::MessageLite& message, int number) {
  using Wire = google::protobuf::internal::WireFormatLite;
  const std::string bytes = message.SerializeAsString();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  std::vector<std::string> values;
  while (const std::uint32_t tag = in.ReadTag()) {
    const bool wanted = Wire::GetTagFieldNumber(tag) == number &&
                        Wire::GetTagWireType(tag) == Wire::WIRETYPE_LENGTH_DELIMITED;
    if (wanted ? !Wire::ReadBytes(&in, &values.emplace_back()) : !Wire::SkipField(&in, tag)) break;
  }
  return values;
}

std::string string_field(const google::protobuf::MessageLite& message, int number) {
  const auto values = bytes_of_field(message, number);
  return values.empty() ? std::string() : values.back();
}

/// Attributes for which `function` has default values.
std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function) {
  std::vector<onnx::AttributeProto> defaults;
  for (const std::string& bytes : bytes_of_field(function, kFunctionAttributeProtos))
    if (!defaults.emplace_back().ParseFromString(bytes))
      throw invalid_model_error("a default attribute of function '{}' is damaged", function.name());
  return defaults;
}

using Bound = std::unordered_map<std::string, const onnx::AttributeProto*>;

void bind_nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const Bound& bound) {
  for (onnx::NodeProto& node : nodes) {
    auto& attributes = *node.mutable_attribute();
    for (int i = 0; i < attributes.size();) {
      onnx::AttributeProto& attribute = attributes[i];
      if (attribute.has_g()) bind_nodes(*attribute.mutable_g()->mutable_node(), bound);
      for (onnx::GraphProto& graph : *attribute.mutable_graphs())
        bind_nodes(*graph.mutable_node(), bound);
      if (attribute.ref_attr_name().empty()) {
        ++i;
        continue;
      }
      const auto found = bound.find(attribute.ref_attr_name());
      if (found == bound.end()) {
        attributes.DeleteSubrange(i, 1);
        continue;
      }
      const std::string name = attribute.name();
      attribute = *found->second;
      attribute.set_name(name);
      ++i;
    }
  }
}

}  // namespace

FunctionLibrary::FunctionLibrary(const onnx::ModelProto& model) {
  for (const auto& function : model.functions()) {
    const std::string overload = string_field(function, kFunctionOverload);
    const auto key = std::tuple(plain_domain(function.domain()), function.name(), overload);
    if (!functions_.emplace(key, &function).second)
      throw invalid_model_error("function '{}' of domain '{}' is defined twice", function.name(),
                                function.domain());
  }
}

const onnx::FunctionProto* FunctionLibrary::find(const onnx::NodeProto& node) const {
  const std::string domain = plain_domain(node.domain());
  // Most nodes call no function; one lookup finds that out.
  const auto first = functions_.lower_bound({domain, node.op_type(), ""});
  if (first == functions_.end() || std::get<0>(first->first) != domain ||
      std::get<1>(first->first) != node.op_type())
    return nullptr;
  const auto found = functions_.find({domain, node.op_type(), string_field(node, kNodeOverload)});
  return found == functions_.end() ? nullptr : found->second;
}

std::vector<KnownAttribute> declared_attributes(const onnx::FunctionProto& function) {
  std::vector<KnownAttribute> known;
  for (const std::string& name : function.attribute()) known.push_back({name, ""});
  for (const onnx::AttributeProto& attribute : default_attributes(function))
    known.push_back({attribute.name(), ""});
  return known;
}

std::shared_ptr<const onnx::FunctionProto> bind_attributes(const onnx::FunctionProto& function,
                                                           const onnx::NodeProto& call) {
  auto copy = std::make_shared<onnx::FunctionProto>(function);
  const std::vector<onnx::AttributeProto> defaults = default_attributes(function);
  Bound bound;
  for (const auto& attribute : defaults) bound[attribute.name()] = &attribute;
  for (const auto& attribute : call.attribute()) bound[attribute.name()] = &attribute;
  for (const std::string& name : function.attribute())
    if (bound.count(name) == 0)
      throw invalid_model_error("attribute '{}' of function '{}' is missing", name,
                                function.name());
  bind_nodes(*copy->mutable_node(), bound);
  return copy;
}

}  // namespace sinter::frontend
