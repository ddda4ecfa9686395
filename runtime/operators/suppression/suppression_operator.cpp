// SPDX-License-Identifier: Apache-2.0
// kept[r, i] = valid[r, i] and no box before i in row r that is kept overlaps box i by more than
// `iou` of their union. A box is its lower and upper corner. Boxes without area overlap none. The
// first `most` of a row are kept; 0: all.
#include "runtime/plan/operators/operator_def.h"

namespace sinter::plan {

const OperatorDef& suppression_operator() {
  static const OperatorDef def = {
      .name = "suppression",
      .inputs = {{"boxes", {DType::kFloat32}, "rows length 4"},
                 {"valid", {DType::kBool}, "rows length"}},
      .outputs = {{"kept", {DType::kBool}, "rows length"}},
      .attributes = {{.name = "iou", .is_float = true}, {.name = "most", .min = 0}},
  };
  return def;
}

}  // namespace sinter::plan
