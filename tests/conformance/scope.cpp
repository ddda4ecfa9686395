// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/scope.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <onnx.pb.h>

namespace sinter::conformance {
namespace {

using Reason = std::optional<std::string>;

const std::set<std::string_view> kLosses = {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"};
const std::set<std::string_view> kRandom = {"Bernoulli",        "Multinomial",
                                            "RandomNormal",     "RandomUniform",
                                            "RandomNormalLike", "RandomUniformLike"};
const std::set<std::string_view> kStrings = {"StringConcat", "StringNormalizer", "StringSplit",
                                             "RegexFullMatch", "TfIdfVectorizer"};
const std::set<std::string_view> kSequences = {
    "ConcatFromSequence", "SequenceAt",     "SequenceConstruct", "SequenceEmpty",  "SequenceErase",
    "SequenceInsert",     "SequenceLength", "SequenceMap",       "SplitToSequence"};
const std::set<std::string_view> kOptionals = {"Optional", "OptionalGetElement",
                                               "OptionalHasElement"};

bool has_attr(const onnx::NodeProto& node, std::string_view name, std::int64_t value) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [&](const auto& attr) { return attr.name() == name && attr.i() == value; });
}

bool is_training(const onnx::NodeProto& node) {
  if (node.domain() == "ai.onnx.preview.training") return true;
  // Dropout's third input turns training on. No case gives it to leave training off.
  if (node.op_type() == "Dropout") return node.input_size() > 2 && !node.input(2).empty();
  return node.op_type() == "BatchNormalization" &&
         (has_attr(node, "training_mode", 1) || node.output_size() > 1);
}

Reason of_graph(const onnx::GraphProto& graph);

Reason of_node(const onnx::NodeProto& node) {
  const std::string_view type = node.op_type();
  if (is_training(node)) return "training";
  if (kLosses.contains(type)) return "loss";
  if (kRandom.contains(type)) return "random generator";
  if (kStrings.contains(type)) return "string";
  if (kSequences.contains(type)) return "sequence";
  if (kOptionals.contains(type)) return "optional";
  for (const auto& attribute : node.attribute())
    if (attribute.has_g())
      if (auto reason = of_graph(attribute.g())) return reason;
  return std::nullopt;
}

/// ONNX's numbers of element types that are out of scope.
Reason of_element_type(int type) {
  switch (type) {
    case 8: return "string";
    case 14:
    case 15: return "complex type at the border";
    case 24: return "float8e8m0 at the border";
    case 21:
    case 22:
    case 23: return "4-bit type at the border";
    case 25:
    case 26: return "2-bit type at the border";
    case 27:
    case 28: return "6-bit float at the border";
    default: return std::nullopt;
  }
}

Reason of_border(const onnx::ValueInfoProto& value) {
  switch (value.type().value_case()) {
    case onnx::TypeProto::kTensorType:
      return of_element_type(value.type().tensor_type().elem_type());
    case onnx::TypeProto::kSequenceType: return "sequence";
    case onnx::TypeProto::kOptionalType: return "optional";
    case onnx::TypeProto::kMapType: return "map";
    case onnx::TypeProto::VALUE_NOT_SET: return "optional";  // newer than the generated classes
    case onnx::TypeProto::kSparseTensorType: return "sparse tensor at the border";
    default: return std::nullopt;
  }
}

Reason of_graph(const onnx::GraphProto& graph) {
  for (const auto& input : graph.input())
    if (auto reason = of_border(input)) return reason;
  for (const auto& output : graph.output())
    if (auto reason = of_border(output)) return reason;
  for (const auto& node : graph.node())
    if (auto reason = of_node(node)) return reason;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> out_of_scope(const onnx::ModelProto& model) {
  return of_graph(model.graph());
}

}  // namespace sinter::conformance
