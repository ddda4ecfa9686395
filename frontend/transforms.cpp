// SPDX-License-Identifier: Apache-2.0
#include "frontend/transforms.h"

namespace sinter::frontend {

std::span<const ir::Transform* const> transforms() {
  static const ir::Transform* const all[] = {&kScaledValues, &kScaledZeros, &kPackedByRows,
                                             &kFloat8OfCodes};
  return all;
}

}  // namespace sinter::frontend
