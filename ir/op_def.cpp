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

}  // namespace sinter::ir
