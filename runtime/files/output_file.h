// SPDX-License-Identifier: Apache-2.0
// Writing files: complete or not at all. All files are written here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "runtime/files/descriptor.h"

namespace sinter::files {

struct OutputOptions {
  std::string what;           // for messages: "the plan"
  mode_t mode = 0666;         // before the umask
  bool is_durable = true;     // fsync before naming the file
  bool needs_a_name = false;  // for tests: as on file systems without O_TMPFILE
};

/// A file that appears under its name only once it is complete. Until commit(), its bytes are in an
/// unnamed file (O_TMPFILE). On file systems without those, they are beside `path` under a name
/// that nobody can plant. A previous file of the same name stays until commit(). Pipes, /dev/null
/// and other non-regular files are written directly. All members throw Error(kUsage), "cannot write
/// WHAT 'PATH': WHY".
class OutputFile {
 public:
  /// Refuses folders and block devices.
  explicit OutputFile(std::string path, OutputOptions options = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// A pipe or a device: written bytes cannot be read or rewritten.
  bool is_stream() const { return is_stream_; }
  std::uint64_t size() const { return size_; }
  /// A path for reading the bytes written so far, before commit(). Not for streams.
  std::string readable_path() const;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Overwrites the start of the file with `bytes`. Not for streams.
  void rewrite_start(std::span<const std::byte> bytes);
  void commit();

 private:
  void open_stream();
  bool open_without_name();
  void open_with_name();
  void put(std::span<const std::byte> bytes, std::int64_t at);
  void give_name();
  void replace(const std::string& temporary);
  [[noreturn]] void fail(int number, std::string_view why) const;
  [[noreturn]] void fail() const;  // reads errno

  std::string path_;
  OutputOptions options_;
  Descriptor file_;
  bool is_stream_ = false;
  std::uint64_t size_ = 0;
  std::string temporary_;  // beside the path; empty: the file has no name yet
  int registered_ = -1;    // index among the temporary names; -1: none
};

/// Writes a whole file.
void write_file(const std::string& path, std::string_view text, OutputOptions options = {});

/// Call before the work begins. Throws Error(kUsage) if `output` cannot be written as a file, or
/// would replace one of `inputs`, under any name. Ignores empty paths.
void check_output(const std::string& output, const std::vector<std::string>& inputs);

/// Removes all temporary files; safe in a signal handler that ends the process. Unnamed files need
/// no removal.
void remove_temporary_files() noexcept;

}  // namespace sinter::files
