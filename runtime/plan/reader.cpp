// SPDX-License-Identifier: Apache-2.0
// Parses plans from bytes, which are untrusted: see FORMAT.md for the order of the checks.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <sinter/file_error.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/formats/formats.h"
#include "runtime/plan/hash.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/verify/verify_plan.h"

namespace sinter::plan {
namespace {

using Bytes = std::span<const std::byte>;

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw invalid_plan_error(fmt::format(format, std::forward<Args>(args)...));
}

bool all_zero(Bytes bytes) {
  for (const std::byte b : bytes)
    if (b != std::byte{0}) return false;
  return true;
}

FileHeader check_header(Bytes file) {
  constexpr std::size_t kVersionEnd = offsetof(FileHeader, header_size);
  if (file.size() < sizeof kMagic || std::memcmp(file.data(), kMagic, sizeof kMagic) != 0)
    fail(
        "this is not a Sinter plan: it has {} bytes and does not start with 'SINTERPL'; make a "
        "plan from an ONNX model with 'sinter compile'",
        file.size());
  FileHeader header;
  if (file.size() >= kVersionEnd)
    std::memcpy(&header.version, file.data() + offsetof(FileHeader, version),
                sizeof header.version);
  if (file.size() >= kVersionEnd) require_format(header.version, file);
  if (file.size() < sizeof header)
    fail(
        "the plan is truncated: it has {} bytes, its header alone has {}; copy the file again or "
        "recompile the model",
        file.size(), sizeof header);
  std::memcpy(static_cast<void*>(&header), file.data(), sizeof header);
  const std::uint64_t hash = hash64(file.first(offsetof(FileHeader, hash)));
  if (hash != header.hash)
    fail(
        "the plan's header is damaged: its hash is {:016x}, it says {:016x}; copy the file again "
        "or recompile the model",
        hash, header.hash);
  if (header.header_size != sizeof header || header.section_count != kSectionCount ||
      header.reserved != 0)
    fail(
        "the plan's header has {} bytes and {} sections, version {} has {} and {}: recompile the "
        "model",
        header.header_size, header.section_count, header.version, sizeof header, kSectionCount);
  if (header.file_size != file.size())
    fail(
        "the plan is {}: it has {} bytes, its header says {}; copy the file again or recompile the "
        "model",
        file.size() < header.file_size ? "truncated" : "longer than it should be", file.size(),
        header.file_size);
  return header;
}

/// Called with bytes of a file that were read once, and are needed again later or never.
using Release = void (*)(Bytes bytes);

void keep(Bytes) {}

/// Takes pages of a mapped file off the process's memory: what is used comes back from the system's
/// cache, and what is not, as a table of which a run reads few rows, takes no memory.
void unmap_pages(Bytes bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (address + page - 1) / page * page,
                       last = (address + bytes.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

std::uint64_t hash_of(Bytes bytes, Release release) {
  constexpr std::size_t kStep = std::size_t{2} << 20;
  Hasher hasher;
  for (std::size_t at = 0; at < bytes.size(); at += kStep) {
    const Bytes step = bytes.subspan(at, std::min(kStep, bytes.size() - at));
    hasher.update(step);
    release(step);
  }
  return hasher.digest();
}

/// The sections in file order: consecutive, without overlap, with gaps of zeros.
std::array<Bytes, kSectionCount> check_sections(Bytes file, const FileHeader& header,
                                                Release release) {
  std::array<Bytes, kSectionCount> sections;
  std::uint64_t end = sizeof header;
  for (int i = 0; i < kSectionCount; ++i) {
    const SectionEntry& entry = header.sections[i];
    const std::uint64_t expected = align_section(end);
    // An empty last section may begin where its padding would end, which is beyond the file.
    if (entry.offset != expected || entry.offset > file.size() ||
        entry.size > file.size() - entry.offset)
      fail(
          "the plan's {} section lies at {} with {} bytes; it should begin at {} and end within "
          "the file's {} bytes: recompile the model",
          section_name(i), entry.offset, entry.size, expected, file.size());
    if (!all_zero(file.subspan(end, entry.offset - end)))
      fail(
          "the plan's gap before its {} section is not zero: copy the file again or recompile the "
          "model",
          section_name(i));
    sections[i] = file.subspan(entry.offset, entry.size);
    end = entry.offset + entry.size;
  }
  if (end != file.size())
    fail("the plan's sections end at {}, the file at {}: recompile the model", end, file.size());
  for (int i = 0; i < kSectionCount; ++i) {
    const std::uint64_t hash = hash_of(sections[i], release);
    if (hash != header.sections[i].hash)
      fail(
          "the plan's {} section is damaged: its hash is {:016x}, the header says {:016x}; copy "
          "the file again or recompile the model",
          section_name(i), hash, header.sections[i].hash);
  }
  return sections;
}

/// `file` must be aligned for every type in the metadata.
std::shared_ptr<const PlanData> check_plan(Bytes file, std::shared_ptr<const void> owner,
                                           const std::string& path, const FileCheck& check,
                                           Release release = keep) {
  if (check) check(file);
  if (trailer_of(file) != nullptr) file = file.first(file.size() - sizeof(SignatureTrailer));
  const FileHeader header = check_header(file);
  const auto sections = check_sections(file, header, release);

  const Bytes metadata = sections[0];
  const auto* metadata_bytes = reinterpret_cast<const std::uint8_t*>(metadata.data());
  constexpr flatbuffers::uoffset_t kMaxDepth = 16;
  flatbuffers::Verifier verifier(metadata_bytes, metadata.size(), kMaxDepth);
  if (metadata.size() >= FLATBUFFERS_MAX_BUFFER_SIZE || metadata.size() < 16 ||
      !fb::VerifyPlanBuffer(verifier))
    fail(
        "the plan's metadata ({} bytes) is not a well-formed FlatBuffer of type SNTR: recompile "
        "the model",
        metadata.size());
  const fb::Plan& root = *fb::GetPlan(metadata_bytes);
  verify_packed_size(root, metadata.size());

  auto plan = std::make_shared<PlanData>();
  root.UnPackTo(&plan->meta);
  plan->format_version = header.version;
  upgrade(plan->meta, header.version, formats());
  plan->weights = sections[1];
  plan->modules = sections[2];
  plan->sources = sections[3];
  plan->owner = std::move(owner);
  plan->path = path;
  verify_plan(plan->meta, {sections[1].size(), sections[2].size(), sections[3].size()});
  return plan;
}

struct Mapping {
  Mapping() = default;
  ~Mapping() {
    if (size > 0) ::munmap(address, size);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void adopt(void* mapped, std::size_t bytes) {
    address = mapped;
    size = bytes;
  }

  void* address = nullptr;
  std::size_t size = 0;
};

struct AlignedBytes {
  explicit AlignedBytes(std::size_t size)
      : data(static_cast<std::byte*>(::operator new (std::max<std::size_t>(size, 1),
                                                     std::align_val_t{kSectionAlignment}))) {}
  ~AlignedBytes() { ::operator delete (data, std::align_val_t{kSectionAlignment}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data;
};

files::InputFile open_plan(const std::string& path) {
  files::InputFile file = files::open_input(path);
  if (!file.problem.empty())
    throw file.error(path, fmt::format("cannot open the plan '{}': {}", path, file.problem));
  return file;
}

std::shared_ptr<Mapping> map_file(const std::string& path) {
  const files::InputFile file = open_plan(path);
  auto mapping = std::make_shared<Mapping>();
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return mapping;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (address == MAP_FAILED) {
    const int number = errno;
    throw FileError(ErrorCode::kUsage,
                    fmt::format("cannot open the plan '{}': {}", path, std::strerror(number)), path,
                    number);
  }
  mapping->adopt(address, size);
  return mapping;
}

}  // namespace

std::span<const std::byte> PlanData::weight(const fb::BufferT& buffer, std::uint64_t bytes) const {
  if (buffer.kind != fb::BufferKind::Weight || buffer.weight_offset > weights.size() ||
      bytes > weights.size() - buffer.weight_offset)
    fail("{} bytes at {} are outside the plan's weights ({} bytes): recompile the model", bytes,
         buffer.weight_offset, weights.size());
  return weights.subspan(buffer.weight_offset, bytes);
}

std::shared_ptr<const PlanData> read_plan(const std::string& path, const FileCheck& check) {
  const std::shared_ptr<Mapping> mapping = map_file(path);
  return with_context(fmt::format("loading the plan '{}'", path), [&] {
    return check_plan({static_cast<const std::byte*>(mapping->address), mapping->size}, mapping,
                      path, check, unmap_pages);
  });
}

std::shared_ptr<const PlanData> read_plan_copy(const std::string& path, const FileCheck& check) {
  const files::InputFile file = open_plan(path);
  const auto copy = std::make_shared<AlignedBytes>(static_cast<std::size_t>(file.size()));
  const std::size_t size =
      files::read_some(file.descriptor, {copy->data, static_cast<std::size_t>(file.size())}, path);
  return with_context(fmt::format("loading the plan '{}'", path), [&] {
    return check_plan({copy->data, size}, copy, path, check);
  });
}

std::shared_ptr<const PlanData> parse_plan(std::span<const std::byte> bytes,
                                           const FileCheck& check) {
  const auto copy = std::make_shared<AlignedBytes>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy->data, bytes.data(), bytes.size());
  return check_plan({copy->data, bytes.size()}, copy, {}, check);
}

std::shared_ptr<const PlanData> borrow_plan(std::span<const std::byte> bytes,
                                            std::shared_ptr<const void> owner,
                                            const FileCheck& check) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (address % kBorrowedAlignment != 0)
    throw usage_error(
        "the plan's bytes lie at {:#x}, which is not aligned to {} bytes: "
        "align them, or let the plan copy them",
        address, kBorrowedAlignment);
  return check_plan(bytes, std::move(owner), {}, check);
}

}  // namespace sinter::plan
