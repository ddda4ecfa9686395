// SPDX-License-Identifier: Apache-2.0
// Values that a loop carries and whose size differs between iterations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/ops/control/while_body.h"

namespace sinter::frontend {

/// How large such a value becomes: at most `most` elements along `axis`, its other dimensions stay.
struct SizedForm {
  std::int64_t axis;
  ir::Dim most;
  bool is_checked;  // the run tells if an iteration needs more; false: import has to show that none
                    // does
};

/// A carried value of a While as two states of fixed types: a buffer of the greatest size, whose
/// rest means nothing, and how much of it is the value.
class SizedState {
 public:
  /// Adds the states. `name` distinguishes the sizes of a node's values.
  SizedState(NodeContext& node, WhileBody& body, ir::ValueId initial, SizedForm form,
             std::string name);

  /// In an iteration: the value before it.
  ir::ValueId before() const { return before_; }
  /// Appends both states after an iteration that ends with `value`.
  void append_after(ir::ValueId value, std::vector<ir::ValueId>& after) const;
  /// The value behind the loop, of the final states.
  ir::ValueId result(ir::ValueId buffer, ir::ValueId count) const;

 private:
  ir::ValueId buffer_of(ir::ValueId value) const;

  NodeContext& node_;
  SizedForm form_;
  std::string name_;
  ir::ValueId before_;
};

}  // namespace sinter::frontend
