// SPDX-License-Identifier: Apache-2.0
// Serializes plans. Every byte is a function of the parts: gaps are zero, and nothing depends on
// the time or the machine.
#include <algorithm>
#include <cstring>
#include <functional>
#include <future>

#include "runtime/format_error.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/hash.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/plan_file.h"

namespace sinter::plan {
namespace {

using Pieces = std::vector<PlanParts::Piece>;
using Sink = std::function<void(std::span<const std::byte>)>;

void put_zeros(const Sink& sink, std::uint64_t count) {
  static constexpr std::byte zeros[kSectionAlignment] = {};
  while (count > 0) {
    const std::uint64_t n = std::min<std::uint64_t>(count, sizeof zeros);
    sink({zeros, static_cast<std::size_t>(n)});
    count -= n;
  }
}

/// Sorted by offset; pieces must not overlap.
Pieces sorted(const Pieces& pieces, int section) {
  Pieces result = pieces;
  std::ranges::stable_sort(result,
                           [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::uint64_t end = 0;
  for (const PlanParts::Piece& piece : result) {
    if (piece.offset < end)
      throw internal_error(
          "pieces of the plan's {} section overlap: one starts at {}, the one before ends at {}",
          section_name(section), piece.offset, end);
    end = piece.offset + piece.size;
  }
  return result;
}

/// Pipelined: one thread makes the next piece while this one writes the current piece.
void put_pieces(const Pieces& pieces, const Sink& sink) {
  constexpr std::uint64_t kLeast = 1 << 16;  // smaller pieces are not worth a thread
  const auto start = [&](std::size_t i) {
    const bool is_large = i < pieces.size() && pieces[i].size >= kLeast;
    return is_large ? std::async(std::launch::async, pieces[i].read) : std::future<PieceBytes>();
  };
  std::uint64_t position = 0;
  std::future<PieceBytes> next = start(0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PlanParts::Piece& piece = pieces[i];
    put_zeros(sink, piece.offset - position);
    const PieceBytes read = next.valid() ? next.get() : piece.read();
    next = start(i + 1);
    if (read.bytes.size() != piece.size)
      throw internal_error("a piece of the plan has {} bytes instead of {}", read.bytes.size(),
                           piece.size);
    sink(read.bytes);
    position = piece.offset + piece.size;
  }
}

std::uint64_t size_of(const Pieces& pieces) {
  return pieces.empty() ? 0 : pieces.back().offset + pieces.back().size;
}

/// Writes all sections in file order and reads each piece once. The header there is zeros, since it
/// contains the hashes of the sections; the caller writes the returned header over it.
FileHeader put_plan(const PlanParts& parts, const Sink& sink) {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &parts.meta));
  const std::span metadata =
      std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));

  std::array<Pieces, kSectionCount> sections;
  sections[0] = {{0, metadata, nullptr}};
  sections[1] = sorted(parts.weights, 1);
  sections[2] = sorted(parts.modules, 2);
  sections[3] = sorted(parts.sources, 3);

  FileHeader header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kFormatVersion;
  header.header_size = sizeof(FileHeader);
  header.section_count = kSectionCount;
  std::uint64_t position = sizeof(FileHeader);
  put_zeros(sink, position);
  for (int i = 0; i < kSectionCount; ++i) {
    const std::uint64_t offset = align_section(position);
    put_zeros(sink, offset - position);
    Hasher hasher;
    put_pieces(sections[i], [&](std::span<const std::byte> bytes) {
      hasher.update(bytes);
      sink(bytes);
    });
    header.sections[i] = {offset, size_of(sections[i]), hasher.digest()};
    position = offset + header.sections[i].size;
  }
  header.file_size = position;
  header.hash = hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(FileHeader, hash)));
  return header;
}

}  // namespace

PlanFile::PlanFile(const PlanParts& parts, std::string path)
    : file_(std::move(path), {.what = "the plan"}) {
  // The header precedes the data but is known last, so a stream needs the whole plan in memory.
  if (file_.is_stream()) {
    file_.write(serialize_plan(parts));
    return;
  }
  const FileHeader header =
      put_plan(parts, [&](std::span<const std::byte> bytes) { file_.write(bytes); });
  file_.rewrite_start(std::as_bytes(std::span(&header, 1)));
}

void write_plan(const PlanParts& parts, const std::string& path) { PlanFile(parts, path).commit(); }

std::vector<std::byte> serialize_plan(const PlanParts& parts) {
  std::vector<std::byte> result;
  const FileHeader header = put_plan(parts, [&](std::span<const std::byte> bytes) {
    result.insert(result.end(), bytes.begin(), bytes.end());
  });
  std::memcpy(result.data(), &header, sizeof header);
  return result;
}

}  // namespace sinter::plan
