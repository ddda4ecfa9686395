// SPDX-License-Identifier: Apache-2.0
// NVTX ranges of host code, which profilers (Nsight Systems, Nsight Compute) show by name.
#pragma once

#include <string>
#include <vector>

namespace sinter::runtime {

/// Whether a profiler is attached: it names its library in NVTX_INJECTION64_PATH before the process
/// starts. Always false if Sinter was built without NVTX's headers from the CUDA toolkit.
bool profiler_is_attached();

/// A step's range name, "name: first, second and 3 more"; empty unless a profiler is attached.
std::string range_name(const std::string& step, const std::vector<std::string>& onnx_nodes);

/// A profiler range of the calling thread, in the domain "sinter", for its lifetime. An empty name
/// makes no range.
class ProfilerRange {
 public:
  explicit ProfilerRange(const std::string& name) : is_open_(!name.empty()) {
    if (is_open_) open(name.c_str());
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
  ~ProfilerRange() {
    if (is_open_) close();
  }

 private:
  static void open(const char* name);
  static void close();
  bool is_open_;
};

}  // namespace sinter::runtime
