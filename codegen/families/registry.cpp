// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

namespace sinter::codegen {

const KernelFamily& family_of(const Region& region, const Target& target) {
  std::string reasons;
  for (const KernelFamily* family : families()) {
    const std::string reason = family->takes(region, target.traits());
    if (reason.empty()) return *family;
    reasons += fmt::format("\n  {}: {}", family->name(), reason);
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("target {} has no kernels for a region of kind '{}':{}", target.name(),
                          region.kind(), reasons));
}

void check_schedule(const std::string& text) {
  const std::string word = text.substr(0, text.find(' '));
  std::vector<std::string_view> known;
  for (const KernelFamily* family : families())
    for (const std::string_view own : family->schedules()) {
      if (word == own) return;
      known.push_back(own);
    }
  throw Error(ErrorCode::kUsage,
              fmt::format("schedule '{}' begins with none of {}", text, fmt::join(known, ", ")));
}

}  // namespace sinter::codegen
