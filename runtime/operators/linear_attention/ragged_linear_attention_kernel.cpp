// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/linear_attention/state_threads.h"

namespace sinter::runtime::cpu {

const OperatorKernel& ragged_linear_attention_kernel() {
  static const OperatorKernel kernel = {"ragged_linear_attention", prepare_linear_attention};
  return kernel;
}

}  // namespace sinter::runtime::cpu
