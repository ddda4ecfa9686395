// SPDX-License-Identifier: Apache-2.0
#include "runtime/log.h"

#include <atomic>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace sinter {
namespace {

struct Sink {
  std::shared_mutex mutex;  // calls of the logger hold it shared
  Logger logger;
  std::atomic<int> least{std::numeric_limits<int>::max()};
};

/// Never destroyed: threads may log while the process ends.
Sink& sink() {
  static Sink& one = *new Sink;
  return one;
}

}  // namespace

void set_logger(Logger logger, LogLevel least) {
  const std::unique_lock lock(sink().mutex);
  sink().least = logger ? static_cast<int>(least) : std::numeric_limits<int>::max();
  sink().logger = std::move(logger);
}

namespace runtime {

bool is_logged(LogLevel level) {
  return static_cast<int>(level) >= sink().least.load(std::memory_order_relaxed);
}

void put_log(LogLevel level, std::string_view message) {
  const std::shared_lock lock(sink().mutex);
  if (!sink().logger || !is_logged(level)) return;
  try {
    sink().logger(level, message);
  } catch (...) {
    // A failing logger must not fail the call that logs.
  }
}

}  // namespace runtime
}  // namespace sinter
