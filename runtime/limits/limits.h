// SPDX-License-Identifier: Apache-2.0
// How many processors and how much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace sinter::runtime::limits {

/// The processors that the calling thread may run on, ascending.
std::vector<int> allowed_cpus();

/// The least of the CPU quotas of the process's control group and those above it, in processors
/// (1.5: 150 ms of every 100); nothing where there is none. Reads proc/self/cgroup,
/// proc/self/mountinfo and the control groups' files (version 1 and 2) under `root`.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// The least of the memory limits of those groups, in bytes; nothing where there is none.
std::optional<std::uint64_t> memory_quota(const std::filesystem::path& root = "/");

/// Threads that are of use: allowed_cpus, and no more than the quota rounded down, because a group
/// that uses its quota up stands still until the next period. At least 1.
int usable_cpus(std::size_t allowed, std::optional<double> quota);

}  // namespace sinter::runtime::limits
