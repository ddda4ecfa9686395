// SPDX-License-Identifier: Apache-2.0
#include "fusion/transforms.h"

#include "ir/ranks/rank_parts.h"

namespace sinter::fusion {

std::span<const ir::Transform* const> transforms() {
  static const ir::Transform* const all[] = {
      &kJoinedBiases,      &kNarrowed,         &kQuantized,  &kQuantizedFloats,
      &kFoldedScales,      &kFoldedThresholds, &kSplatValue, &kIsMask,
      &kUnfitConstant,     &kIsUniform,        &kShifts,     &kReadIntegers,
      &kIntegerDifference, &kIntegerSums,      &kHasFloat4,  &kPackedFloat4,
      &kDoubledCodes,      &kPowersOfTwo};
  return all;
}

std::span<const ir::Derivation* const> derivations() {
  static const ir::Derivation* const all[] = {&kTransposed, &ir::kPart, &kJoinedColumns,
                                              &kJoinedRows};
  return all;
}

}  // namespace sinter::fusion
