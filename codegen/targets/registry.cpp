// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/registry.h"

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {

const Target& target_named(std::string_view name) {
  for (const Target* target : targets())
    if (target->name() == name) return *target;
  throw Error(ErrorCode::kUsage,
              fmt::format("'{}' is no target of this build, which has {}", name, target_names()));
}

std::string target_names() {
  std::string names;
  for (const Target* target : targets())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", target->name());
  return names;
}

}  // namespace sinter::codegen
