#include "codegen/cuda/kernel_cache.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace sinter::codegen {

namespace fs = std::filesystem;

namespace {

// An entry: this header, then the code. All integers little-endian.
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

}  // namespace

std::string KernelCache::key(std::string_view source, std::string_view more,
                             std::string_view options, int nvrtc_version,
                             std::string_view architecture) {
  // Lengths keep the parts apart.
  std::string all = fmt::format("{} {} {} {} {}\n", source.size(), more.size(), options.size(),
                                nvrtc_version, architecture);
  all.append(source).append(more).append(options);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string KernelCache::path(const std::string& key) const {
  return (fs::path(folder_) / key.substr(0, 2) / (key.substr(2) + ".kernel")).string();
}

std::optional<std::vector<std::byte>> KernelCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(path(key), std::ios::binary);
  if (!file) return std::nullopt;
  EntryHeader header;
  std::error_code ignored;
  const std::uintmax_t file_size = fs::file_size(path(key), ignored);
  std::vector<std::byte> cubin;
  if (!ignored && file_size > sizeof(header) &&
      file.read(reinterpret_cast<char*>(&header), sizeof(header)) &&
      header.size == file_size - sizeof(header)) {
    cubin.resize(header.size);
    const EntryHeader expected = [&] {
      file.read(reinterpret_cast<char*>(cubin.data()), static_cast<std::streamsize>(cubin.size()));
      return header_of(cubin);
    }();
    if (file && std::memcmp(&header, &expected, sizeof(header)) == 0) return cubin;
  }
  fs::remove(path(key), ignored);
  return std::nullopt;
}

void KernelCache::insert(const std::string& key, const std::vector<std::byte>& cubin) const {
  if (folder_.empty()) return;
  static std::atomic<unsigned> counter = 0;
  const fs::path target = path(key);
  const fs::path temporary =
      target.string() + fmt::format(".{}.{}.tmp", ::getpid(), counter.fetch_add(1));
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) return;
  const EntryHeader header = header_of(cubin);
  {
    std::ofstream file(temporary, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    file.write(reinterpret_cast<const char*>(cubin.data()),
               static_cast<std::streamsize>(cubin.size()));
    file.close();
    if (!file) {
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, target, error);
  if (error) fs::remove(temporary, error);
}

}  // namespace sinter::codegen
