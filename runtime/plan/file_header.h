// The fixed header in front of every plan file. FORMAT.md describes it byte by byte.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

inline constexpr char kMagic[8] = {'S', 'I', 'N', 'T', 'E', 'R', 'P', 'L'};

struct SectionEntry {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t hash = 0;
};

/// Little-endian on disk, as in memory on every machine that Sinter runs on.
struct FileHeader {
  char magic[8] = {};
  std::uint32_t version = 0;
  std::uint32_t header_size = 0;
  std::uint32_t section_count = 0;
  std::uint32_t reserved = 0;
  std::uint64_t file_size = 0;
  std::array<SectionEntry, kSectionCount> sections;
  std::uint64_t hash = 0;  // of everything before it
};
static_assert(sizeof(FileHeader) == 32 + 24 * kSectionCount + 8);

constexpr std::uint64_t align_section(std::uint64_t offset) {
  return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

constexpr const char* section_name(int section) {
  constexpr const char* names[kSectionCount] = {"metadata", "weights", "modules", "sources"};
  return names[section];
}

}  // namespace sinter::plan
