// SPDX-License-Identifier: Apache-2.0
#include "runtime/limits/limits.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include <sched.h>

namespace sinter::runtime::limits {
namespace {

namespace fs = std::filesystem;

bool lists(const std::string& comma_separated, std::string_view word) {
  std::istringstream stream(comma_separated);
  for (std::string one; std::getline(stream, one, ',');)
    if (one == word) return true;
  return false;
}

/// The quota in CPUs from the group's files; nullopt for "max".
std::optional<double> quota_of(const fs::path& group, bool version2) {
  std::string quota, period;
  if (version2) {
    std::ifstream(group / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  char* end = nullptr;
  const double time = std::strtod(quota.c_str(), &end);
  if (quota.empty() || *end != '\0' || time <= 0) return std::nullopt;  // "max", -1, or no file
  const double of = std::strtod(period.c_str(), &end);
  if (period.empty() || *end != '\0' || of <= 0) return std::nullopt;
  return time / of;
}

/// The memory limit of one group; nullopt for "max".
std::optional<double> memory_of(const fs::path& group, bool version2) {
  std::string text;
  std::ifstream(group / (version2 ? "memory.max" : "memory.limit_in_bytes")) >> text;
  char* end = nullptr;
  const double bytes = std::strtod(text.c_str(), &end);
  // Version 1 writes "no limit" as a huge number.
  if (text.empty() || *end != '\0' || bytes <= 0 || bytes >= 0x1p60) return std::nullopt;
  return bytes;
}

/// The mount point of a hierarchy, and the group that is visible there.
struct Mount {
  fs::path point, group;
};

/// mountinfo: id parent device root point options [field..] - type source super-options
std::optional<Mount> find_mount(const fs::path& root, bool version2, std::string_view controller) {
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream left(line.substr(0, separator)), right(line.substr(separator + 3));
    std::string id, parent, device, group, point, type, source, options;
    left >> id >> parent >> device >> group >> point;
    right >> type >> source >> options;
    const bool wanted =
        version2 ? type == "cgroup2" : type == "cgroup" && lists(options, controller);
    if (wanted) return Mount{root / fs::path(point).relative_path(), group};
  }
  return std::nullopt;
}

/// This process's group in a hierarchy; proc/self/cgroup: id:controllers:path
std::optional<std::string> find_group(const fs::path& root, bool version2,
                                      std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? controllers.empty() : lists(controllers, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

using ReadQuota = std::optional<double> (*)(const fs::path& group, bool version2);

/// The minimum of `read` over the process's group and its ancestors.
std::optional<double> least_quota(const fs::path& root, bool version2, std::string_view controller,
                                  ReadQuota read) {
  const auto mount = find_mount(root, version2, controller);
  const auto group = find_group(root, version2, controller);
  if (!mount || !group) return std::nullopt;
  // In a container the mount may start at the container's own group, while the path is the host's.
  fs::path below = fs::path(*group).lexically_relative(mount->group);
  if (below.empty() || *below.begin() == "..") below = ".";
  std::optional<double> least;
  fs::path at = mount->point;
  const auto look = [&] {
    const auto quota = read(at, version2);
    if (quota && (!least || *quota < *least)) least = quota;
  };
  look();
  for (const fs::path& name : below) {
    if (name == ".") continue;
    at /= name;
    look();
  }
  return least;
}

std::optional<double> least_quota(const fs::path& root, std::string_view controller,
                                  ReadQuota read) {
  const auto first = least_quota(root, false, controller, read),
             second = least_quota(root, true, controller, read);
  if (first && second) return std::min(*first, *second);
  return first ? first : second;
}

}  // namespace

std::vector<int> allowed_cpus() {
  // The kernel refuses a mask smaller than its own.
  for (int most = 1024; most <= 1 << 20; most *= 4) {
    cpu_set_t* set = CPU_ALLOC(most);
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(bytes, set);
    const bool known = ::sched_getaffinity(0, bytes, set) == 0;
    std::vector<int> cpus;
    for (int cpu = 0; known && cpu < most; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (known) return cpus;
  }
  return {};
}

std::optional<double> cpu_quota(const fs::path& root) { return least_quota(root, "cpu", quota_of); }

std::optional<std::uint64_t> memory_quota(const fs::path& root) {
  const auto bytes = least_quota(root, "memory", memory_of);
  return bytes ? std::optional(static_cast<std::uint64_t>(*bytes)) : std::nullopt;
}

int usable_cpus(std::size_t allowed, std::optional<double> quota) {
  double count = static_cast<double>(std::max<std::size_t>(allowed, 1));
  if (quota) count = std::min(count, std::max(1.0, *quota));
  return static_cast<int>(count);
}

}  // namespace sinter::runtime::limits
