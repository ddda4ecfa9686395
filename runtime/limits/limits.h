// SPDX-License-Identifier: Apache-2.0
// The number of CPUs and the memory that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace sinter::runtime::limits {

/// The CPUs in the calling thread's affinity mask, ascending.
std::vector<int> allowed_cpus();

/// The smallest CPU quota of the process's control group and its ancestors, in CPUs (1.5: 150 ms of
/// every 100 ms); nullopt if unlimited. Reads proc/self/cgroup, proc/self/mountinfo and the control
/// groups' files (version 1 and 2) under `root`.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// The smallest memory limit of those groups, in bytes; nullopt if unlimited.
std::optional<std::uint64_t> memory_quota(const std::filesystem::path& root = "/");

/// The useful number of threads: `allowed`, limited to the quota rounded down, at least 1. A group
/// that exceeds its quota is throttled until the next period.
int usable_cpus(std::size_t allowed, std::optional<double> quota);

}  // namespace sinter::runtime::limits
