// SPDX-License-Identifier: Apache-2.0
#include "tools/source/plan_cache.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sinter/compiler.h>
#include <sinter/file_error.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{20} << 30;
constexpr std::string_view kUsed = "used", kTemporary = ".part.", kLocks = "locks";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Creates the folder for the user alone. Why it cannot be used; empty: it can.
std::string prepare(const std::string& folder) {
  for (std::size_t at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1))
    ::mkdir(folder.substr(0, at).c_str(), 0700);
  ::mkdir(folder.c_str(), 0700);
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    return fmt::format("'{}' cannot be made: {}", folder, std::strerror(errno));
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("others own or can write '{}', and plans may have code", folder);
  for (const char* part : {"hashes", "locks", "notes"})
    if (::mkdir((folder + "/" + part).c_str(), 0700) != 0 && errno != EEXIST)
      return fmt::format("'{}' cannot be written: {}", folder, std::strerror(errno));
  if (::access(folder.c_str(), W_OK) != 0)
    return fmt::format("'{}' cannot be written: {}", folder, std::strerror(errno));
  return "";
}

void touch(const files::Descriptor& file) { ::futimens(file.get(), nullptr); }

/// Removes a folder at once for everybody else: under its name it is no longer.
void remove_entry(const fs::path& folder) {
  std::error_code none;
  const fs::path away =
      folder.string() + std::string(kTemporary) + "old." + std::to_string(::getpid());
  fs::remove_all(away, none);
  fs::rename(folder, away, none);
  fs::remove_all(none ? folder : away, none);
}

/// Removes what ended processes have left of `key`, whose lock the caller holds: who writes an
/// entry holds it, too.
void remove_parts(const std::string& folder, const std::string& key) {
  std::error_code none;
  std::vector<fs::path> parts;
  for (const auto& one : fs::directory_iterator(folder, none))
    if (one.path().filename().string().starts_with(key + std::string(kTemporary)))
      parts.push_back(one.path());
  for (const fs::path& part : parts) fs::remove_all(part, none);
}

/// The errno of an error about a file in `folder`, which may be nested in it; 0: it is of another.
int number_of(const Error& error, const std::string& folder) {
  try {
    if (const auto* of_file = dynamic_cast<const FileError*>(&error))
      return of_file->path().starts_with(folder) ? of_file->number() : 0;
    std::rethrow_if_nested(error);
  } catch (const FileError& nested) {
    return nested.path().starts_with(folder) ? nested.number() : 0;
  } catch (...) {
  }
  return 0;
}

files::Descriptor lock_of(const std::string& folder, const std::string& key) {
  return files::Descriptor(::open(fmt::format("{}/{}/{}", folder, kLocks, key).c_str(),
                                  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

std::uint64_t bytes_of(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(folder, none))
    if (file.is_regular_file(none)) bytes += file.file_size(none);
  return bytes;
}

}  // namespace

PlanCache::PlanCache(const PlanCacheOptions& options)
    : folder_(options.folder), most_bytes_(options.most_bytes) {
  if (folder_.empty()) folder_ = variable("SINTER_PLAN_CACHE");
  if (most_bytes_ == 0)
    if (const std::string size = variable("SINTER_PLAN_CACHE_SIZE"); !size.empty())
      most_bytes_ = with_context("SINTER_PLAN_CACHE_SIZE", [&] { return parse_bytes(size); });
  if (most_bytes_ == 0) most_bytes_ = kMostBytes;
  if (folder_.empty())
    if (const std::string kernels = default_kernel_cache(); !kernels.empty())
      folder_ = kernels + "/plans";
  if (folder_.empty()) problem_ = "there is no home folder (SINTER_PLAN_CACHE names one)";
  if (folder_ == "off") problem_ = "it is off";
  if (!problem_.empty()) return;
  std::error_code none;
  folder_ = fs::absolute(folder_, none).string();
  problem_ = prepare(folder_);
}

std::optional<PlanCache::Entry> PlanCache::find(const std::string& key) const {
  if (!problem_.empty()) return std::nullopt;
  Entry entry;
  entry.folder = folder_ + "/" + key;
  entry.lock = files::Descriptor(
      ::open((entry.folder + "/" + std::string(kUsed)).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!entry.lock) return std::nullopt;
  ::flock(entry.lock.get(), LOCK_SH);
  touch(entry.lock);
  std::error_code none;
  if (!fs::is_regular_file(entry.plan(), none)) return std::nullopt;  // it was removed meanwhile
  return entry;
}

PlanCache::Entry PlanCache::get(const std::string& key,
                                const std::function<std::string(const std::string&)>& write,
                                const std::function<void(std::string_view)>& note) const {
  const files::Descriptor turn = lock_of(folder_, key);
  bool is_alone = turn && ::flock(turn.get(), LOCK_EX | LOCK_NB) == 0;
  if (turn && !is_alone && errno == EWOULDBLOCK) {
    note("another process compiles this model: waiting for its plan");
    while (!(is_alone = ::flock(turn.get(), LOCK_EX) == 0) && errno == EINTR) {
    }
  }
  if (auto entry = find(key)) return std::move(*entry);
  if (is_alone) remove_parts(folder_, key);
  const std::string made =
      fmt::format("{}/{}{}{}", folder_, key, kTemporary, std::to_string(::getpid()));
  std::error_code error;
  fs::remove_all(made, error);
  struct Removed {
    const std::string& folder;
    ~Removed() {
      std::error_code none;
      fs::remove_all(folder, none);
    }
  } const removed{made};
  if (::mkdir(made.c_str(), 0700) != 0)
    throw usage_error(
        "the cache of plans '{}' cannot be written: {} (--plan-cache=off does without)", folder_,
        std::strerror(errno));
  const std::string last = [&] {
    try {
      return write(made);
    } catch (const Error& error) {
      const int number = number_of(error, made);
      if (number == 0) throw;
      throw usage_error(
          "the cache of plans '{}' cannot be written: {} (--plan-cache=off does without)", folder_,
          std::strerror(number));
    }
  }();
  files::write_file(made + "/" + std::string(kUsed), "",
                    {.what = "a file of the cache", .mode = 0600, .is_durable = false});
  discard(last);  // a folder without a plan
  fs::rename(made, folder_ + "/" + last, error);
  auto entry = find(last);
  if (!entry)
    throw usage_error("the cache of plans '{}' cannot be written{} (--plan-cache=off does without)",
                      folder_, error ? ": " + error.message() : "");
  evict(last);
  return std::move(*entry);
}

void PlanCache::discard(const std::string& key) const {
  std::error_code none;
  if (const fs::path folder = folder_ + "/" + key; fs::exists(folder, none)) remove_entry(folder);
}

void PlanCache::evict(const std::string& kept) const {
  struct Old {
    fs::path folder;
    fs::file_time_type used;
    std::uint64_t bytes;
  };
  std::vector<Old> entries;
  std::uint64_t bytes = 0;
  std::error_code none;
  const auto now = fs::file_time_type::clock::now();
  for (const auto& one : fs::directory_iterator(folder_, none)) {
    const std::string name = one.path().filename().string();
    const auto used = fs::last_write_time(one.path() / kUsed, none);
    const bool has_none = static_cast<bool>(none);
    if (const std::size_t end = name.find(kTemporary); end != std::string::npos) {
      // Where files have no locks, what is old was left by an ended process.
      const files::Descriptor lock = lock_of(folder_, name.substr(0, end));
      if ((lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) ||
          now - fs::last_write_time(one.path(), none) > std::chrono::hours(24))
        fs::remove_all(one.path(), none);
    } else if (!has_none) {
      entries.push_back({one.path(), used, bytes_of(one.path())});
      bytes += entries.back().bytes;
    }
  }
  std::ranges::sort(entries, {}, &Old::used);
  for (const Old& old : entries) {
    if (bytes <= most_bytes_) return;
    if (old.folder.filename() == kept) continue;
    const files::Descriptor lock(
        ::open((old.folder / kUsed).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use
    remove_entry(old.folder);
    bytes -= old.bytes;
  }
}

std::string PlanCache::read_note(const std::string& key) const {
  constexpr std::uint64_t kMost = 1 << 20;
  const std::string path = folder_ + "/notes/" + key;
  std::error_code none;
  if (!problem_.empty() || !fs::is_regular_file(path, none)) return "";
  try {
    return files::read_file(path, "", kMost);
  } catch (const Error&) {
    return "";
  }
}

void PlanCache::write_note(const std::string& key, const std::string& text) const {
  if (!problem_.empty()) return;
  try {
    files::write_file(folder_ + "/notes/" + key, text, {.what = "a note", .is_durable = false});
  } catch (const Error&) {
    // The plan is then compiled again.
  }
}

}  // namespace sinter::tools
