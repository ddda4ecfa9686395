// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/formats/formats.h"

#include <algorithm>
#include <cstring>

#include <sinter/version.h>

#include "runtime/format_error.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/formats/operator_steps.h"

namespace sinter::plan {
namespace {

constexpr Format kFormats[] = {
    {9, nullptr},  // soft caps of attention's scores: 0, none
    {10, make_operator_steps},
};
static_assert(std::ranges::size(kFormats) == kFormatVersion - kOldestFormatVersion);
static_assert(kFormats[0].version == kOldestFormatVersion + 1);
static_assert(std::ranges::rbegin(kFormats)->version == kFormatVersion);
static_assert(std::ranges::is_sorted(kFormats, {}, &Format::version));

/// The first field of Plan, which every format has where it is.
struct Maker : private flatbuffers::Table {
  const flatbuffers::String* version() const {
    return GetPointer<const flatbuffers::String*>(fb::Plan::VT_COMPILER_VERSION);
  }
  bool Verify(flatbuffers::Verifier& verifier) const {
    return VerifyTableStart(verifier) &&
           VerifyOffsetRequired(verifier, fb::Plan::VT_COMPILER_VERSION) &&
           verifier.VerifyString(version()) && verifier.EndTable();
  }
};

bool is_version_text(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' || c == '+';
  });
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

void upgrade(fb::PlanT& plan, std::uint32_t version, std::span<const Format> steps) {
  for (const Format& step : steps)
    if (step.version > version && step.upgrade != nullptr) step.upgrade(plan);
}

std::string maker_of(std::span<const std::byte> file) {
  FileHeader header;
  if (file.size() < sizeof header) return {};
  std::memcpy(static_cast<void*>(&header), file.data(), sizeof header);
  const SectionEntry& entry = header.sections[0];
  if (entry.offset % kSectionAlignment != 0 || entry.offset > file.size() ||
      entry.size > file.size() - entry.offset || entry.size < 16 ||
      entry.size >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return {};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data() + entry.offset);
  flatbuffers::Verifier verifier(bytes, static_cast<std::size_t>(entry.size));
  if (!verifier.VerifyBuffer<Maker>(fb::PlanIdentifier())) return {};
  const std::string maker = flatbuffers::GetRoot<Maker>(bytes)->version()->str();
  return is_version_text(maker) ? maker : std::string();
}

void require_format(std::uint32_t version, std::span<const std::byte> file) {
  if (version >= kOldestFormatVersion && version <= kFormatVersion) return;
  const std::string maker = maker_of(file);
  const std::string by = maker.empty() ? "" : fmt::format(" and was made by Sinter {}", maker);
  const bool is_newer = version > kFormatVersion;
  const std::string way_out =
      !is_newer       ? "compile the model again ('sinter compile')"
      : maker.empty() ? "install a newer Sinter, or compile the model again with this one"
                      : fmt::format(
                            "install Sinter {} or newer, or compile the model again with "
                            "this one",
                            maker);
  const std::string other_way =
      is_newer || maker.empty() ? "" : fmt::format(", or run the plan with Sinter {}", maker);
  throw invalid_plan_error(fmt::format(
      "the plan has format version {}{}; this library, Sinter {}, reads versions {} to "
      "{}: {}{}",
      version, by, SINTER_VERSION, kOldestFormatVersion, kFormatVersion, way_out, other_way));
}

}  // namespace sinter::plan
