// SPDX-License-Identifier: Apache-2.0
// Work spread over child processes, so that a crash or a hang is the failure of one item.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace sinter::conformance {

struct WorkOptions {
  std::size_t items = 0;
  int jobs = 1;
  double limit_s = 60;  // for one item; its process is killed then
};

/// Calls `work(i)` for every item in some child process and `done(i, text)` here with what it
/// returned. If the process died or ran past the limit, `lost(i, why)` is called instead and
/// another process takes its place. `work` must not throw. Call this before any thread is started.
void spread(const WorkOptions& options, const std::function<std::string(std::size_t)>& work,
            const std::function<void(std::size_t, const std::string&)>& done,
            const std::function<void(std::size_t, const std::string&)>& lost);

}  // namespace sinter::conformance
