#include "codegen/transforms.h"

namespace sinter::codegen {

std::span<const ir::Transform* const> transforms() {
  static const ir::Transform* const all[] = {&kPackedGroups, &kNarrowestType, &kStaysWithin};
  return all;
}

std::span<const ir::Derivation* const> derivations() {
  static const ir::Derivation* const all[] = {&kPackedValues, &kPackedElements};
  return all;
}

}  // namespace sinter::codegen
