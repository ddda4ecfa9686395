// SPDX-License-Identifier: Apache-2.0
#include "codegen/transforms.h"

namespace sinter::codegen {

std::span<const ir::Transform* const> transforms() {
  static const ir::Transform* const all[] = {&kPackedGroups, &kScaledPowers, &kNarrowestType,
                                             &kHasFourBits,  &kStaysWithin,  &kUniformZero};
  return all;
}

std::span<const ir::Derivation* const> derivations() {
  static const ir::Derivation* const all[] = {&kPackedValues, &kPackedForBytes, &kPackedElements,
                                              &kPanelValues, &kPanelGroups};
  return all;
}

}  // namespace sinter::codegen
