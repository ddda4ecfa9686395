// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/control/sized_state.h"

#include <utility>

#include "frontend/ops/control/unroll.h"

namespace sinter::frontend {

SizedState::SizedState(NodeContext& node, WhileBody& body, ValueId initial, SizedForm form,
                       std::string name)
    : node_(node), form_(std::move(form)), name_(std::move(name)) {
  const auto axis = static_cast<std::size_t>(form_.axis);
  const ValueId buffer = body.state(buffer_of(initial));
  const ValueId count = body.state(node.folder().scalar_of(node.shape(initial)[axis]));
  before_ = part(node, buffer, form_.axis, 0, node.size_from_data(count, form_.most, name_));
}

ValueId SizedState::buffer_of(ValueId value) const {
  Shape shape = node_.shape(value);
  Dim& own = shape[static_cast<std::size_t>(form_.axis)];
  if (own == form_.most) return value;
  own = form_.most;
  // As many zeros as the buffer has elements: how many are missing, the run knows.
  const ValueId zeros = node_.expand(node_.constant(node_.dtype(value), 0), shape);
  return part(node_, node_.concat({value, zeros}, form_.axis), form_.axis, 0, form_.most);
}

void SizedState::append_after(ValueId value, std::vector<ValueId>& after) const {
  after.push_back(buffer_of(value));
  after.push_back(
      node_.folder().scalar_of(node_.shape(value)[static_cast<std::size_t>(form_.axis)]));
}

ValueId SizedState::result(ValueId buffer, ValueId count) const {
  return part(node_, buffer, form_.axis, 0,
              node_.size_from_data(count, form_.most, name_ + "/last"));
}

}  // namespace sinter::frontend
