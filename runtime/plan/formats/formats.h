// SPDX-License-Identifier: Apache-2.0
// Which formats of plans are read, and how plans of older ones become plans of today's.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// A step from the format before to this one.
struct Format {
  std::uint32_t version;
  /// Makes metadata of the format before what it would be in this one. Null: fields that were not
  /// there have defaults that mean what the older format meant.
  void (*upgrade)(fb::PlanT&);
};

/// The formats behind the oldest that is read, in order; the last is kFormatVersion.
std::span<const Format> formats();

/// Changes metadata of a plan of format `version` as the `steps` behind it say.
void upgrade(fb::PlanT& plan, std::uint32_t version, std::span<const Format> steps);

/// Which Sinter made the plan, of whatever format; empty where that cannot be told. `file` starts
/// at an address that suits every type in the metadata.
std::string maker_of(std::span<const std::byte> file);

/// Throws Error(kInvalidPlan) unless plans of this format are read: who made it, and what to do.
void require_format(std::uint32_t version, std::span<const std::byte> file);

}  // namespace sinter::plan
