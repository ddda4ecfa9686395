// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/node_copy.h"

namespace sinter::tools {

using ir::Dim;
using ir::ValueId;

NodeCopier::NodeCopier(ir::GraphBuilder& builder, const ir::Graph& graph)
    : builder_(builder), graph_(graph), mapped_(graph.values().size()) {}

bool NodeCopier::feed(ValueId input, ValueId value) {
  const ir::TensorType &wanted = graph_.type(input), &own = builder_.type(value);
  bool fits = wanted.dtype == own.dtype && wanted.shape.size() == own.shape.size();
  for (std::size_t d = 0; fits && d < own.shape.size(); ++d) {
    if (const auto symbol = wanted.shape[d].as_symbol()) sizes_.emplace(*symbol, own.shape[d]);
    fits = wanted.shape[d].substitute(sizes_) == own.shape[d];
  }
  if (fits) mapped_[input.position()] = value;
  return fits;
}

ValueId NodeCopier::map(ValueId value) {
  ValueId& to = mapped_[value.position()];
  const auto& of = graph_.value(value);
  if (!to.valid() && of.constant) to = builder_.constant(of.constant, of.name);
  return to;
}

void NodeCopier::copy(const ir::Node& node) {
  const ir::GraphBuilder::OriginScope scope(builder_, node.origins);
  ir::Attrs attrs = node.attrs;
  for (const auto& [name, value] : node.attrs.values())
    if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) {
      std::vector<Dim> own = *dims;
      for (Dim& dim : own) dim = dim.substitute(sizes_);
      attrs.set(name, std::move(own));
    }
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(map(input));
  const auto made = builder_.add_multi(node.op->name, std::move(inputs), attrs, node.body);
  for (std::size_t i = 0; i < made.size(); ++i) mapped_[node.outputs[i].position()] = made[i];
}

}  // namespace sinter::tools
