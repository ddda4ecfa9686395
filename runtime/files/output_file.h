// SPDX-License-Identifier: Apache-2.0
// The one place that writes files.
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
  mode_t mode = 0666;         // of which the umask takes its part
  bool is_durable = true;     // it is on the disk before it has its name
  bool needs_a_name = false;  // for tests: as in file systems that have no files without one
};

/// A file that has its name once it is complete. Until commit() its bytes are in a file without a
/// name, or, where the file system has no such files, beside `path` under a name of its own that
/// nobody can have planted. What had the name stays as it was until then, and for good without it.
/// What is no regular file, such as a pipe or /dev/null, is not replaced but written to. All
/// members throw Error(kUsage), "cannot write WHAT 'PATH': WHY".
class OutputFile {
 public:
  /// Refuses folders, and block devices, which hold somebody's data.
  explicit OutputFile(std::string path, OutputOptions options = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// A pipe or a device: what was written has left, and cannot be read or written again.
  bool is_stream() const { return is_stream_; }
  std::uint64_t size() const { return size_; }
  /// By what the bytes so far can be read before commit(). Not of a stream.
  std::string readable_path() const;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Puts `bytes` over the file's first ones. Not in a stream.
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
  [[noreturn]] void fail() const;  // with errno

  std::string path_;
  OutputOptions options_;
  Descriptor file_;
  bool is_stream_ = false;
  std::uint64_t size_ = 0;
  std::string temporary_;  // beside the path; empty: the file has no name yet
  int registered_ = -1;    // as a temporary file
};

/// Writes a whole file.
void write_file(const std::string& path, std::string_view text, OutputOptions options = {});

/// Throws Error(kUsage) if the file that `output` would replace is one of `inputs`, by whatever
/// name, or cannot be one: to be asked before work begins. Empty paths are none.
void check_output(const std::string& output, const std::vector<std::string>& inputs);

/// Removes the temporary files that there are, for a handler of a signal that ends the process:
/// safe in one. A file without a name needs none of it.
void remove_temporary_files() noexcept;

}  // namespace sinter::files
