// SPDX-License-Identifier: Apache-2.0
// The names of a body: its values, initializers and strings, and how messages describe them.
#include <algorithm>

#include <onnx.pb.h>

#include "frontend/model/initializers.h"
#include "frontend/model/model_file.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/scope.h"

namespace sinter::frontend {

ir::Tensor Scope::traced(const ir::Tensor& tensor, const std::string& name) const {
  const bool is_main = place_.outer == nullptr && place_.prefix.empty();
  return state_.reads && is_main ? ir::model_tensor(tensor, name, state_.reads) : tensor;
}

void Scope::read_initializers(const onnx::GraphProto& graph) {
  for (const auto& proto : graph.initializer()) {
    initializer_names_.insert(proto.name());
    // A tensor of an unsupported type may belong to a node that is refused anyway, or to none: it
    // is an error only where it is used.
    if (!dtype_of(proto.data_type()) && !is_scaled_float(proto.data_type())) {
      if (proto.data_type() == kString) {
        initializers_.emplace(proto.name(), state_.texts.codes_of(proto));
        texts_.emplace(proto.name(), state_.texts.all());
        continue;
      }
      unreadable_.emplace(proto.name(), proto.data_type());
      if (is_four_bit(proto.data_type()))
        initializers_.emplace(proto.name(),
                              traced(read_four_bit_tensor(proto, state_.external), proto.name()));
      continue;
    }
    ir::Tensor tensor = read_tensor(proto, place_.owner, state_.external);
    if (proto.data_location() == onnx::TensorProto::EXTERNAL && state_.on_external &&
        dtype_of(proto.data_type()))
      state_.on_external(tensor.hold().bytes);
    initializers_.emplace(proto.name(), traced(tensor, proto.name()));
  }
  for (const auto& proto : graph.sparse_initializer()) {
    const std::string& name = proto.values().name();
    initializer_names_.insert(name);
    if (dtype_of(proto.values().data_type()))
      initializers_.emplace(name, traced(read_sparse_tensor(proto, state_.external), name));
    else
      unreadable_.emplace(name, proto.values().data_type());
  }
}

void Scope::note_declared_types(const onnx::GraphProto& graph) {
  for (const auto& info : graph.value_info())
    if (info.type().has_tensor_type()) declared_.emplace(info.name(), &info);
}

ir::ValueId Scope::find_value(const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto initializer = initializers_.find(name);
  if (initializer != initializers_.end()) {
    const ir::ValueId value = state_.builder.constant(initializer->second, place_.prefix + name);
    values_.emplace(name, value);
    return value;
  }
  if (place_.outer != nullptr && unreadable_.count(name) == 0)
    return place_.outer->find_value(name);
  return {};
}

TextPtr Scope::text_of(const std::string& name) const {
  if (const auto found = texts_.find(name); found != texts_.end()) return found->second;
  if (values_.count(name) != 0 || initializers_.count(name) != 0 || place_.outer == nullptr)
    return nullptr;
  return place_.outer->text_of(name);
}

TextPtr Scope::moved_text(const OpRow& row, const std::vector<TextPtr>& texts,
                          const onnx::NodeProto& node) const {
  const Strings how = strings_of(row.domain, row.name);
  TextPtr one;
  std::size_t numbers = 0, strings = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i]) {
      ++numbers;
      continue;
    }
    if (how == Strings::kRefuses)
      throw unsupported_error(
          "input '{}' holds strings, for which integers stand here, and {} does not take these: "
          "encode the column before the model, and export from its numbers on",
          node.input(static_cast<int>(i)), row.name);
    if (how == Strings::kMoves && strings++ > 0 && !same_text(one, texts[i]))
      throw unsupported_error("its inputs hold strings of different lists, or hashes of them");
    one = texts[i];
  }
  if (how == Strings::kMoves && row.name == "Concat" && strings > 0 && numbers > 0)
    throw invalid_model_error("it concatenates strings and numbers");
  return how == Strings::kMoves ? one : nullptr;
}

std::optional<int> Scope::unreadable_type(const std::string& name) const {
  if (const auto found = unreadable_.find(name); found != unreadable_.end()) return found->second;
  if (values_.count(name) != 0 || place_.outer == nullptr) return std::nullopt;
  return place_.outer->unreadable_type(name);
}

std::string Scope::describe_input(const std::string& name) const {
  if (name.empty()) return "-";
  if (const auto found = values_.find(name); found != values_.end())
    return ir::to_string(state_.builder.type(found->second));
  if (const auto found = initializers_.find(name); found != initializers_.end())
    return ir::to_string(found->second.type());
  const auto declared = declared_.find(name);
  if (declared == declared_.end())
    return place_.outer != nullptr ? place_.outer->describe_input(name) : "?";
  const auto& tensor = declared->second->type().tensor_type();
  std::vector<std::string> dims;
  for (const auto& dim : tensor.shape().dim())
    dims.push_back(dim.has_dim_value()       ? std::to_string(dim.dim_value())
                   : dim.dim_param().empty() ? "?"
                                             : dim.dim_param());
  const auto dtype = dtype_of(tensor.elem_type());
  const std::string type_name =
      dtype ? std::string(to_string(*dtype)) : onnx_type_name(tensor.elem_type());
  return tensor.has_shape() ? fmt::format("{}[{}]", type_name, fmt::join(dims, ", "))
                            : type_name + "[?]";
}

Error::Node Scope::describe_node(const onnx::NodeProto& node, const std::string& label) const {
  const std::string domain = is_onnx_domain(node.domain()) ? "" : node.domain() + "::";
  Error::Node described{
      label,
      fmt::format("{}{}-{}", domain, node.op_type(), version_of(plain_domain(node.domain()))),
      {}};
  for (const std::string& name : node.input()) described.inputs.push_back(describe_input(name));
  return described;
}

void Scope::note_unsupported(const onnx::NodeProto& node, const std::string& label,
                             const std::string& why, const std::string& hint) {
  state_.unsupported.push_back({describe_node(node, label), why, hint});
}

std::int64_t Scope::version_of(const std::string& domain) const {
  const auto found = place_.opsets.find(domain);
  if (found != place_.opsets.end()) return found->second;
  // Other domains: all exporters so far write a single version.
  return domain.empty() ? 0 : 1;
}

}  // namespace sinter::frontend
