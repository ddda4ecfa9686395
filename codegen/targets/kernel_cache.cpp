// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/kernel_cache.h"

#include <cstdint>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <sinter/error.h>
#include <xxhash.h>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"

namespace sinter::codegen {

namespace fs = std::filesystem;

namespace {

// An entry is this header, then the code. All integers are little-endian.
struct EntryHeader {
  char magic[8] = {'S', 'N', 'T', 'R', 'K', 'R', 'N', '1'};
  std::uint64_t size = 0;
  std::uint64_t hash_low = 0, hash_high = 0;  // XXH3-128 of the code
};

EntryHeader header_of(const std::vector<std::byte>& cubin) {
  const XXH128_hash_t hash = XXH3_128bits(cubin.data(), cubin.size());
  EntryHeader header;
  header.size = cubin.size();
  header.hash_low = hash.low64;
  header.hash_high = hash.high64;
  return header;
}

/// Cached code is executed: only the user may own it or be able to write it.
bool is_ours_alone(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string folder_name(const std::string& key) { return key.substr(0, 2); }
std::string entry_name(const std::string& key) { return key.substr(2) + ".kernel"; }

/// Opens a folder if only the user owns it and can write it. A relative `path` is below `at`.
/// `make` creates it and removes write permission of others.
files::Descriptor open_folder(const std::string& path, int at, bool make) {
  if (make) ::mkdirat(at, path.c_str(), 0700);
  // Follows a link for the cache folder itself, which the user placed, but not inside of it.
  const int follow = at == AT_FDCWD ? 0 : O_NOFOLLOW;
  files::Descriptor folder(::openat(at, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow));
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) return {};
  if (is_ours_alone(status)) return folder;
  const mode_t mode = status.st_mode & 07777 & ~static_cast<mode_t>(S_IWGRP | S_IWOTH);
  if (!make || status.st_uid != ::geteuid() || ::fchmod(folder.get(), mode) != 0) return {};
  return folder;
}

/// The folder of the entry of `key`; none if others own or can write it or the cache.
files::Descriptor open_entries(const std::string& cache, const std::string& key, bool make) {
  // Parent folders such as ~/.cache are created private too.
  if (make)
    for (std::size_t at = cache.find('/', 1); at != std::string::npos; at = cache.find('/', at + 1))
      ::mkdir(cache.substr(0, at).c_str(), 0700);
  const files::Descriptor folder = open_folder(cache, AT_FDCWD, make);
  return folder ? open_folder(folder_name(key), folder.get(), make) : files::Descriptor();
}

}  // namespace

std::string KernelCache::key(std::string_view source, std::string_view more,
                             std::string_view options, int nvrtc_version,
                             std::string_view architecture) {
  // Lengths separate the parts unambiguously.
  std::string all = fmt::format("{} {} {} {} {}\n", source.size(), more.size(), options.size(),
                                nvrtc_version, architecture);
  all.append(source).append(more).append(options);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string KernelCache::path(const std::string& key) const {
  return (fs::path(folder_) / folder_name(key) / entry_name(key)).string();
}

std::optional<std::vector<std::byte>> KernelCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const files::Descriptor folder = open_entries(folder_, key, false);
  if (!folder) return std::nullopt;
  const std::string name = entry_name(key);
  const files::InputFile file = files::open_input(name, folder.get(), false);
  if (!file.problem.empty() || !is_ours_alone(file.status)) return std::nullopt;
  EntryHeader header;
  if (file.size() > sizeof(header) &&
      files::read_some(file.descriptor, std::as_writable_bytes(std::span(&header, 1)), name) ==
          sizeof(header) &&
      header.size == file.size() - sizeof(header)) {
    std::vector<std::byte> cubin(header.size);
    const std::size_t size = files::read_some(file.descriptor, cubin, name);
    const EntryHeader expected = header_of(cubin);
    if (size == cubin.size() && std::memcmp(&header, &expected, sizeof(header)) == 0) return cubin;
  }
  ::unlinkat(folder.get(), name.c_str(), 0);
  return std::nullopt;
}

void KernelCache::insert(const std::string& key, const std::vector<std::byte>& cubin) const {
  if (folder_.empty()) return;
  const files::Descriptor folder = open_entries(folder_, key, true);
  if (!folder) return;
  // Removes anything but a regular file: a pipe would be written to, not replaced.
  if (!files::open_input(entry_name(key), folder.get(), false).problem.empty())
    ::unlinkat(folder.get(), entry_name(key).c_str(), 0);
  const EntryHeader header = header_of(cubin);
  try {
    // Not durable: entries lost or damaged by a crash are compiled again.
    files::OutputFile file(path(key), {.what = "the kernel", .mode = 0600, .is_durable = false});
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(cubin);
    file.commit();
  } catch (const Error&) {
    // For example a full disk: the kernel is not cached.
  }
}

}  // namespace sinter::codegen
