// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/linear_attention/linear_attention_def.h"

namespace sinter::plan {

const OperatorDef& ragged_linear_attention_operator() {
  static const OperatorDef def = linear_attention_def(true);
  return def;
}

}  // namespace sinter::plan
