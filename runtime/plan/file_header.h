// SPDX-License-Identifier: Apache-2.0
// The fixed header of every plan file. FORMAT.md describes it byte by byte.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

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
  std::uint64_t hash = 0;  // of all preceding bytes
};
static_assert(sizeof(FileHeader) == 32 + 24 * kSectionCount + 8);

/// Optional trailer: a signature of all bytes before it. FileHeader::file_size does not include it.
struct SignatureTrailer {
  static constexpr char kMagic[8] = {'S', 'N', 'T', 'R', 'S', 'I', 'G', '1'};
  char magic[8] = {'S', 'N', 'T', 'R', 'S', 'I', 'G', '1'};
  std::array<std::uint8_t, 32> key = {};  // public key
  std::array<std::uint8_t, 64> signature = {};
};
static_assert(sizeof(SignatureTrailer) == 104 && alignof(SignatureTrailer) == 1);

/// Null if the file has no trailer, or is too short to be a plan.
inline const SignatureTrailer* trailer_of(std::span<const std::byte> file) {
  if (file.size() < sizeof(FileHeader) + sizeof(SignatureTrailer)) return nullptr;
  const auto* trailer = reinterpret_cast<const SignatureTrailer*>(file.data() + file.size() -
                                                                  sizeof(SignatureTrailer));
  FileHeader header;
  std::memcpy(static_cast<void*>(&header), file.data(), sizeof header);
  const bool is_behind = header.file_size == file.size() - sizeof(SignatureTrailer);
  return is_behind && std::ranges::equal(trailer->magic, SignatureTrailer::kMagic) ? trailer
                                                                                   : nullptr;
}

constexpr std::uint64_t align_section(std::uint64_t offset) {
  return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

constexpr const char* section_name(int section) {
  constexpr const char* names[kSectionCount] = {"metadata", "weights", "modules", "sources"};
  return names[section];
}

}  // namespace sinter::plan
