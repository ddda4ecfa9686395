// SPDX-License-Identifier: Apache-2.0
// Lazy stubs for the functions that Highway's headers call. Loading Highway measures a clock, which
// takes longer than the rest of a short command. C++ functions, so by their mangled names.
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
