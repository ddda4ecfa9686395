#include "codegen/program/reshapes.h"

namespace sinter::codegen {

ir::ValueId root_of(const ir::Graph& body, ir::ValueId value) {
  for (;;) {
    const ir::Node* node = body.producer(value);
    if (!node || node->op->name != "Reshape") return value;
    value = node->inputs[0];
  }
}

}  // namespace sinter::codegen
