// SPDX-License-Identifier: Apache-2.0
// The functions of Highway that its headers call, opened when the first of them is: what it does as
// it is loaded (it measures a clock) takes longer than all else that a short command does. In C++,
// so by their mangled names.
#include <hwy/targets.h>

#include "runtime/libraries/lazy/lazy_library.h"

namespace {
constinit sinter::libraries::LazyLibrary highway(SINTER_HWY_SONAME, "Highway (loops of CPU plans)",
                                                 "apt install " SINTER_HWY_PACKAGE);
}  // namespace

namespace hwy {

std::int64_t SupportedTargets() {
  static const auto found =
      reinterpret_cast<std::int64_t (*)()>(highway.find("_ZN3hwy16SupportedTargetsEv"));
  return found();
}

ChosenTarget& GetChosenTarget() {
  static const auto found =
      reinterpret_cast<ChosenTarget& (*)()>(highway.find("_ZN3hwy15GetChosenTargetEv"));
  return found();
}

}  // namespace hwy
