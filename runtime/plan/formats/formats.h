// SPDX-License-Identifier: Apache-2.0
// Readable plan formats, and the upgrade of older plans to the current format.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// A format version and the conversion from its predecessor.
struct Format {
  std::uint32_t version;
  /// Converts metadata of the previous format. Null: the defaults of added fields have the old
  /// meaning.
  void (*upgrade)(fb::PlanT&);
};

/// The formats after the oldest readable one, in order; the last is kFormatVersion.
std::span<const Format> formats();

/// Applies those of `steps` that are newer than `version` to a plan's metadata.
void upgrade(fb::PlanT& plan, std::uint32_t version, std::span<const Format> steps);

/// The version of Sinter that made the plan, for any format; empty if unreadable. `file` must be
/// aligned for every type in the metadata.
std::string maker_of(std::span<const std::byte> file);

/// Throws Error(kInvalidPlan), naming the maker and the remedy, unless this format is readable.
void require_format(std::uint32_t version, std::span<const std::byte> file);

}  // namespace sinter::plan
