// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/texts.h"

#include <algorithm>

#include <onnx.pb.h>

#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

const std::string kDefaultString = "_Unused";

/// Attributes whose strings name modes, not values.
bool names_modes(const onnx::NodeProto& node, const std::string& attribute) {
  return attribute == "nodes_modes" || attribute == "activations" ||
         (attribute != "default_string" && attribute != "value_string" &&
          attribute.find("strings") == std::string::npos && node.op_type() != "Constant" &&
          !attribute.ends_with("_tensor"));
}

template <typename Give>
void each_string(const onnx::GraphProto& graph, const Give& give);

template <typename Give>
void each_string(const onnx::NodeProto& node, const Give& give) {
  // What LabelEncoder and CategoryMapper make where nothing else is said.
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(node.attribute(),
                               [&](const auto& attribute) { return attribute.name() == name; });
  };
  if (has("values_strings") || has("values_tensor") || node.op_type() == "CategoryMapper")
    give(kDefaultString);
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) each_string(attribute.g(), give);
    for (const auto& graph : attribute.graphs()) each_string(graph, give);
    if (names_modes(node, attribute.name())) continue;
    if (attribute.type() == onnx::AttributeProto::STRING) give(attribute.s());
    for (const auto& text : attribute.strings()) give(text);
    if (attribute.has_t())
      for (const auto& text : attribute.t().string_data()) give(text);
  }
}

template <typename Give>
void each_string(const onnx::GraphProto& graph, const Give& give) {
  for (const auto& tensor : graph.initializer())
    for (const auto& text : tensor.string_data()) give(text);
  for (const auto& node : graph.node()) each_string(node, give);
}

/// Input of the graph whose elements reach `value` by nodes that move elements only; empty: none.
std::string source_of(const onnx::GraphProto& graph, std::string value) {
  for (bool found = true; found;) {
    found = false;
    for (const auto& node : graph.node()) {
      if (node.output_size() == 0 || node.output(0) != value || node.input_size() == 0) continue;
      static constexpr std::string_view kMoves[] = {
          "Identity", "Reshape",   "Flatten",
          "Squeeze",  "Gather",    "Transpose",
          "Slice",    "Unsqueeze", "ArrayFeatureExtractor"};
      if (std::find(std::begin(kMoves), std::end(kMoves), node.op_type()) == std::end(kMoves))
        return {};
      value = node.input(0);
      found = true;
      break;
    }
  }
  for (const auto& input : graph.input())
    if (input.name() == value) return value;
  return {};
}

}  // namespace

bool same_text(const TextPtr& a, const TextPtr& b) {
  if (a == b) return true;
  return a && b && a->code == b->code && a->labels == b->labels && a->hash_seed == b->hash_seed;
}

void ModelTexts::read() {
  if (std::exchange(is_read_, true)) return;
  auto all = std::make_shared<BindingText>();
  const auto give = [&](const std::string& text) {
    if (places_.emplace(text, std::ssize(all->labels)).second) all->labels.push_back(text);
  };
  each_string(model_.graph(), give);
  for (const auto& function : model_.functions())
    for (const auto& node : function.node()) each_string(node, give);
  all_ = std::move(all);
  for (const auto& node : model_.graph().node()) {
    if (node.op_type() != "MurmurHash3" || node.input_size() == 0) continue;
    const std::string input = source_of(model_.graph(), node.input(0));
    if (input.empty()) continue;
    std::int64_t seed = 0, positive = 1;
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "seed") seed = attribute.i();
      if (attribute.name() == "positive") positive = attribute.i();
    }
    hashed_.emplace(
        input, std::pair(std::make_shared<BindingText>(BindingText{
                             BindingText::Code::kMurmur3, {}, static_cast<std::uint32_t>(seed)}),
                         positive != 0 ? DType::kUInt32 : DType::kInt32));
  }
}

const TextPtr& ModelTexts::all() {
  read();
  return all_;
}

std::int64_t ModelTexts::code(const std::string& text) {
  read();
  return places_.at(text);
}

ir::Tensor ModelTexts::codes_of(const onnx::TensorProto& tensor) {
  const std::vector<std::int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  std::vector<std::int64_t> codes;
  for (const auto& text : tensor.string_data()) codes.push_back(code(text));
  std::int64_t count = 1;
  for (const std::int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count))
      throw invalid_model_error("tensor '{}': its shape is no shape", tensor.name());
  if (count != std::ssize(codes))
    throw invalid_model_error("tensor '{}': it has {} strings, but needs {}", tensor.name(),
                              codes.size(), count);
  return ir::Tensor::from_ints(DType::kInt64, shape, codes);
}

TextPtr ModelTexts::of_input(const std::string& name) {
  read();
  const auto found = hashed_.find(name);
  return found == hashed_.end() ? all_ : found->second.first;
}

DType ModelTexts::type_of_input(const std::string& name) {
  read();
  const auto found = hashed_.find(name);
  return found == hashed_.end() ? DType::kInt64 : found->second.second;
}

}  // namespace sinter::frontend
