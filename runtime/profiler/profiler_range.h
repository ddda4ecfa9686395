// SPDX-License-Identifier: Apache-2.0
// Ranges of host code that profilers show by name (Nsight Systems, Nsight Compute): NVTX.
#pragma once

#include <string>
#include <vector>

namespace sinter::runtime {

/// Whether a profiler listens: it names its library in NVTX_INJECTION64_PATH before the process
/// starts. False, too, where Sinter was built without NVTX's headers, which are in the CUDA
/// toolkit.
bool profiler_is_attached();

/// "name: first, second and 3 more", as ranges of steps are called; empty unless a profiler is
/// attached.
std::string range_name(const std::string& step, const std::vector<std::string>& onnx_nodes);

/// A range of the calling thread, in the domain "sinter", while it lives. An empty name: none.
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
