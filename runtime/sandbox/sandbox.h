// SPDX-License-Identifier: Apache-2.0
// Work that strangers write, in processes of its own: whatever it does there, it ends, and takes
// nothing along. A crash is a refusal.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace sinter::sandbox {

/// What such processes do. Both functions are called in them, throw sinter::Error as elsewhere, and
/// may use no thread, lock or file of the program.
struct Task {
  const char *name, *verb;  // for messages: "the chat template", "applied"
  /// Once for each Worker.
  std::shared_ptr<void> (*prepare)(std::string_view input);
  /// In a process of its own for each call.
  std::string (*run)(void* prepared, std::string_view input);
};

/// Of one call. Memory is what is added to that of the prepared process; the stack is the system's.
struct Limits {
  double seconds;          // of a core
  double prepare_seconds;  // of Task::prepare
  std::size_t bytes;
  std::size_t answer_bytes;
  int at_once = 4;     // calls of one Worker that run
  int waiting = 1024;  // and that wait; more are refused
};

/// Begins the process that all others come from, which has this one's memory: call it first, before
/// there are threads. A second call does nothing. Throws Error(kInternal).
void start();
bool is_started();

/// A process that has prepared a task, and forks for each call. Needs start().
class Worker {
 public:
  /// Throws what prepare() threw, and Error(kUsage) if it went beyond `limits` or crashed. `task`
  /// is static.
  Worker(const Task& task, std::string_view input, const Limits& limits);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// What run() gave, or threw. Throws Error(kUsage) if it went beyond the limits or crashed, and
  /// Error(kOutOfMemory) if too many wait. From any thread; those who wait have their turn in
  /// order.
  std::string run(std::string_view input) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::sandbox
