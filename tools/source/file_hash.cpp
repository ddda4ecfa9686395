// SPDX-License-Identifier: Apache-2.0
#include "tools/source/file_hash.h"

#include <ctime>
#include <filesystem>
#include <vector>

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"

namespace sinter::tools {
namespace {

std::string hexadecimal(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string read_hash(const files::InputFile& file, const std::string& path) {
  std::vector<std::byte> block(std::size_t{1} << 20);
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (;;) {
    const std::size_t size = files::read_some(file.descriptor, block, path);
    XXH3_128bits_update(state, block.data(), size);
    if (size < block.size()) break;
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return hexadecimal(hash);
}

/// What changes when a file's contents do. Empty if it was written just now: a change within the
/// resolution of times would not be seen.
std::string state_of(const struct stat& status) {
  constexpr std::time_t kMoment = 2;  // seconds
  if (std::time(nullptr) - status.st_mtim.tv_sec < kMoment) return "";
  return fmt::format("{} {}.{} {}.{} {} {}", status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
                     status.st_dev, status.st_ino);
}

}  // namespace

std::string hash_of(std::string_view text) {
  return hexadecimal(XXH3_128bits(text.data(), text.size()));
}

std::string FileHashes::of(const std::string& path) const {
  const files::InputFile file = files::open_input(path);
  if (!file.problem.empty())
    throw file.error(path, fmt::format("'{}' cannot be read: {}", path, file.problem));
  namespace fs = std::filesystem;
  std::error_code none;
  const std::string state = state_of(file.status);
  const std::string known =
      folder_.empty() || state.empty()
          ? ""
          : folder_ + "/" + hash_of(fs::weakly_canonical(path, none).string());
  constexpr std::uint64_t kMost = 512;
  if (!known.empty() && fs::is_regular_file(known, none)) try {
      const std::string text = files::read_file(known, "", kMost);
      const std::size_t line = text.find('\n');
      constexpr std::size_t kHash = 32;
      if (line != std::string::npos && text.substr(0, line) == state &&
          text.size() == line + 1 + kHash)
        return text.substr(line + 1);
    } catch (const Error&) {
      // Damaged or somebody else's: the file is read.
    }
  std::string hash = read_hash(file, path);
  if (!known.empty()) try {
      files::write_file(known, state + "\n" + hash, {.what = "a hash", .is_durable = false});
    } catch (const Error&) {
      // An unwritable cache: the file is read again next time.
    }
  return hash;
}

}  // namespace sinter::tools
