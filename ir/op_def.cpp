// SPDX-License-Identifier: Apache-2.0
#include "ir/op_def.h"

namespace sinter::ir {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::kPointwise: return "pointwise";
    case OpKind::kReduce: return "reduce";
    case OpKind::kView: return "view";
    case OpKind::kIndexed: return "indexed";
    case OpKind::kLibrary: return "library";
    case OpKind::kComposite: return "composite";
    case OpKind::kFused: return "fused";
    case OpKind::kWhile: return "while";
    case OpKind::kExtent: return "extent";
  }
  return "?";
}

const ScalarExpr& PointwiseDef::expression(const Attrs& attrs) const {
  if (to_float8.empty()) return expr;
  const DType to = attrs.get_dtype("to");
  if (!is_float8(to)) return expr;
  return to_float8[static_cast<std::size_t>(to) - static_cast<std::size_t>(kFirstFloat8)];
}

}  // namespace sinter::ir
