// SPDX-License-Identifier: Apache-2.0
// Runs untrusted work (such as chat templates) in separate processes with limits on time and
// memory. A crash becomes an error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace sinter::sandbox {

/// The work of a sandboxed process. Both functions run there and throw sinter::Error. They must not
/// use threads, locks or files of the program.
struct Task {
  const char *name, *verb;  // for messages: "the chat template", "applied"
  /// Called once for each Worker.
  std::shared_ptr<void> (*prepare)(std::string_view input);
  /// Called in a new process for each call.
  std::string (*run)(void* prepared, std::string_view input);
};

/// Limits of one call. Memory counts beyond that of the prepared process; the stack has the
/// system's limit.
struct Limits {
  double seconds;          // CPU seconds
  double prepare_seconds;  // CPU seconds of Task::prepare
  std::size_t bytes;
  std::size_t answer_bytes;
  int at_once = 4;     // running calls of one Worker
  int waiting = 1024;  // waiting calls of one Worker; more are refused
};

/// Starts the process that all others are forked from. It copies this process's memory, so call it
/// first, before threads exist. A second call does nothing. Throws Error(kInternal).
void start();
bool is_started();

/// A process that has prepared a task and forks for each call. Requires start().
class Worker {
 public:
  /// Throws the error of prepare(), or Error(kUsage) if that exceeds `limits` or crashes. `task`
  /// must be static.
  Worker(const Task& task, std::string_view input, const Limits& limits);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Returns the result of Task::run, or throws its error. Throws Error(kUsage) if it exceeds the
  /// limits or crashes, Error(kOutOfMemory) if too many calls wait. Thread-safe; waiting calls run
  /// in FIFO order.
  std::string run(std::string_view input) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::sandbox
