// SPDX-License-Identifier: Apache-2.0
#include "runtime/files/output_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include <fcntl.h>
#include <sinter/file_error.h>
#include <sys/stat.h>

#include "runtime/format_error.h"

namespace sinter::files {
namespace {

/// Names of temporary files, in static storage and lock-free, so that a signal handler can read
/// them.
class TemporaryNames {
 public:
  /// -1 if the table is full or the name is too long: then no signal handler removes the file.
  int add(const std::string& name) {
    if (name.size() >= sizeof Slot::name) return -1;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      State free = State::kFree;
      if (!slots_[i].state.compare_exchange_strong(free, State::kFilling)) continue;
      std::memcpy(slots_[i].name, name.c_str(), name.size() + 1);
      slots_[i].state = State::kUsed;
      return static_cast<int>(i);
    }
    return -1;
  }
  void remove(int index) {
    if (index >= 0) slots_[static_cast<std::size_t>(index)].state = State::kFree;
  }
  void unlink_all() noexcept {
    for (const Slot& slot : slots_)
      if (slot.state == State::kUsed) ::unlink(slot.name);
  }

 private:
  enum class State : int { kFree, kFilling, kUsed };
  struct Slot {
    std::atomic<State> state = State::kFree;
    char name[PATH_MAX] = {};
  };
  static_assert(std::atomic<State>::is_always_lock_free);
  std::array<Slot, 16> slots_;
};

TemporaryNames temporary_names;

/// Blocks signals on this thread during its lifetime. Another thread may still receive a fatal
/// signal, so this only shortens the time in which one can leave a temporary file.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

std::string folder_of_output(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Whether `path` is a name of the system's, such as /dev/stdout or /dev/fd/3. It may refer to a
/// regular file, but must not be replaced by one.
bool is_name_of_system(const std::string& path) {
  std::error_code error;
  const std::string folder = std::filesystem::canonical(folder_of_output(path), error).string();
  return folder == "/dev" || folder.starts_with("/proc/");
}

/// A name beside `path`, unique among all processes.
std::string temporary_name(const std::string& path) {
  static thread_local std::random_device random;
  return fmt::format("{}.{:08x}.tmp", path, random());
}

std::string descriptor_path(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

}  // namespace

OutputFile::OutputFile(std::string path, OutputOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail(EISDIR, "it is a folder");
    if (S_ISBLK(status.st_mode)) fail(0, "it is a block device");
    is_stream_ = !S_ISREG(status.st_mode) || is_name_of_system(path_);
  }
  if (is_stream_)
    open_stream();
  else if (options_.needs_a_name || !open_without_name())
    open_with_name();
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_names.remove(registered_);
}

void OutputFile::open_stream() {
  // O_NONBLOCK: do not wait for a reader of a pipe.
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file_ && errno == ENXIO) fail(ENXIO, "nobody reads from it");
  if (!file_) fail();
  const int flags = ::fcntl(file_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file_.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) fail();
}

bool OutputFile::open_without_name() {
  const std::string folder = folder_of_output(path_);
  // Readable too: readable_path() serves its bytes before the file is named.
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, options_.mode));
  // linkat() through /proc names the file later.
  if (!file || ::access(descriptor_path(file).c_str(), F_OK) != 0) return false;
  file_ = std::move(file);
  return true;
}

void OutputFile::open_with_name() {
  do {
    temporary_ = temporary_name(path_);
    file_ = Descriptor(::open(temporary_.c_str(),
                              O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, options_.mode));
  } while (!file_ && errno == EEXIST);
  if (!file_) {
    temporary_.clear();
    fail();
  }
  registered_ = temporary_names.add(temporary_);
}

std::string OutputFile::readable_path() const {
  return temporary_.empty() ? descriptor_path(file_) : temporary_;
}

void OutputFile::put(std::span<const std::byte> bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = at < 0 ? ::write(file_.get(), bytes.data(), bytes.size())
                             : ::pwrite(file_.get(), bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    if (at >= 0) at += n;
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  put(bytes, -1);
  size_ += bytes.size();
}

void OutputFile::rewrite_start(std::span<const std::byte> bytes) { put(bytes, 0); }

void OutputFile::commit() {
  if (!is_stream_) {
    // Without fsync, a machine crash could leave the name without the data.
    if (options_.is_durable && ::fsync(file_.get()) != 0 && errno != EINVAL) fail();
    give_name();
  }
  if (::close(file_.release()) != 0) fail();
}

void OutputFile::give_name() {
  const SignalsHeld held;
  if (!temporary_.empty()) return replace(temporary_);
  const std::string source = descriptor_path(file_);
  const auto link = [&](const std::string& name) {
    return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link(path_)) return;
  if (errno != EEXIST) fail();
  // A hard link cannot replace an existing file; rename can.
  std::string name;
  do {
    name = temporary_name(path_);
    registered_ = temporary_names.add(name);
    if (link(name)) return replace(temporary_ = name);
    temporary_names.remove(std::exchange(registered_, -1));
  } while (errno == EEXIST);
  fail();
}

void OutputFile::replace(const std::string& temporary) {
  if (::rename(temporary.c_str(), path_.c_str()) != 0) fail();
  temporary_.clear();
  temporary_names.remove(std::exchange(registered_, -1));
}

void OutputFile::fail(int number, std::string_view why) const {
  throw FileError(ErrorCode::kUsage,
                  fmt::format("cannot write {}{}'{}': {}", options_.what,
                              options_.what.empty() ? "" : " ", path_, why),
                  path_, number);
}

void OutputFile::fail() const {
  const int number = errno;
  fail(number, std::strerror(number));
}

void write_file(const std::string& path, std::string_view text, OutputOptions options) {
  OutputFile file(path, std::move(options));
  file.write(text);
  file.commit();
}

void check_output(const std::string& output, const std::vector<std::string>& inputs) {
  struct stat target {};
  if (output.empty() || ::stat(output.c_str(), &target) != 0) return;
  if (S_ISDIR(target.st_mode))
    throw FileError(ErrorCode::kUsage, fmt::format("cannot write '{}': it is a folder", output),
                    output, EISDIR);
  if (!S_ISREG(target.st_mode)) return;
  for (const std::string& input : inputs) {
    struct stat status {};
    if (input.empty() || ::stat(input.c_str(), &status) != 0) continue;
    if (status.st_dev == target.st_dev && status.st_ino == target.st_ino)
      throw usage_error(
          "'{}' would be written over the input '{}', which is the same file: name another", output,
          input);
  }
}

void remove_temporary_files() noexcept { temporary_names.unlink_all(); }

}  // namespace sinter::files
