// SPDX-License-Identifier: Apache-2.0
#include "runtime/files/input_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>

#include "runtime/format_error.h"

namespace sinter::files {
namespace {

/// Why `mode` is not a regular file; empty for a regular file.
std::string_view why_not_regular(mode_t mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "it is a folder, not a regular file";
  if (S_ISFIFO(mode)) return "it is a pipe, not a regular file";
  if (S_ISSOCK(mode)) return "it is a socket, not a regular file";
  if (S_ISLNK(mode)) return "it is a symbolic link, not a regular file";
  return "it is a device, not a regular file";
}

}  // namespace

InputFile open_input(const std::string& path, int folder, bool follow) {
  InputFile file;
  const int at = folder < 0 ? AT_FDCWD : folder;
  // Checks the type before opening, because opening some devices has side effects. O_NONBLOCK
  // covers a file that replaces this one between the two calls.
  if (::fstatat(at, path.c_str(), &file.status, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    file.number = errno;
    file.problem = std::strerror(errno);
    return file;
  }
  const auto check_mode = [&] {
    file.problem = why_not_regular(file.status.st_mode);
    if (S_ISDIR(file.status.st_mode)) file.number = EISDIR;
    return file.problem.empty();
  };
  if (!check_mode()) return file;
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW);
  Descriptor descriptor(::openat(at, path.c_str(), flags));
  if (!descriptor || ::fstat(descriptor.get(), &file.status) != 0) {
    file.number = errno;
    file.problem = std::strerror(errno);
  } else if (check_mode()) {
    file.descriptor = std::move(descriptor);
  }
  return file;
}

std::size_t read_some(const Descriptor& file, std::span<std::byte> bytes, const std::string& path) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int number = errno;
      throw FileError(ErrorCode::kUsage,
                      fmt::format("'{}' cannot be read: {}", path, std::strerror(number)), path,
                      number);
    }
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::string read_file(const std::string& path, std::string_view what, std::uint64_t most) {
  const InputFile file = open_input(path);
  const auto refuse = [&](std::string_view why) {
    throw file.error(
        path, fmt::format("{}{}'{}' cannot be read: {}", what, what.empty() ? "" : " ", path, why));
  };
  if (!file.problem.empty()) refuse(file.problem);
  if (file.size() > most)
    refuse(fmt::format("it has {} bytes, more than the {} that it may have", file.size(), most));
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  text.resize(read_some(file.descriptor, std::as_writable_bytes(std::span(text)), path));
  return text;
}

std::ifstream open_stream(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  int number = file ? 0 : errno;
  // ifstream opens a folder and reads it as empty, so folders are refused here.
  struct stat status {};
  if (file && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) number = EISDIR;
  if (number != 0)
    throw FileError(ErrorCode::kUsage,
                    fmt::format("cannot read '{}': {}", path, std::strerror(number)), path, number);
  return file;
}

}  // namespace sinter::files
