// SPDX-License-Identifier: Apache-2.0
// A CUDA driver in host memory: device memory is malloc'ed, kernels are host functions, streams run
// at once, captured graphs are lists of closures. It counts what lives and can be made to fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <cuda.h>

#include "graphs/driver.h"

namespace sinter::testing {

/// A host function that stands for a kernel; parameters are 8-byte slots.
struct FakeKernel {
  std::size_t parameters = 0;
  std::function<void(const CUlaunchConfig&, const std::vector<std::uint64_t>&)> body;
  int registers = 32, local_bytes = 0, static_shared_bytes = 0;
};

class FakeDriver {
 public:
  /// Forgets everything. Tests call it first; nothing may be alive from before.
  void reset();
  /// A driver over the fake, made anew after each reset; threads may ask for it at once.
  const graphs::Driver& driver();
  /// The address of an entry point, as dlsym would give it.
  static void* resolve(const char* symbol);

  // What the machine is.
  int device_count = 1;
  int driver_version = 13000;
  int major = 9, minor = 0;
  int l2_bytes = 1 << 20;
  std::uint64_t total_memory = std::uint64_t{1} << 30;
  bool conditional_nodes = true;  // whether the driver has their entry points
  bool peer_access = true;        // of all GPUs to each other
  /// Of kernels in assembly those alone that are named here do something.
  std::map<std::string, FakeKernel> kernels;

  // What happens.
  std::map<std::string, CUresult> fail_next;  // by entry point ("cuMemAlloc_v2"): the next call
  std::map<std::string, int> calls;
  std::vector<std::string> launched;  // kernels that ran, in order
  std::vector<CUlaunchConfig> configs;
  std::vector<std::array<int, 3>> window_bounds;  // of tensor maps: lower, upper, steps
  std::map<std::uint64_t, unsigned> conditions;   // of conditional nodes, by handle
  double clock = 0;                               // microseconds of the fake GPU
  // What work takes, besides the 10 us of a kernel; kernels that were loaded as text take
  // fill_time.
  double event_time = 0, fill_time = 0, copy_microseconds_per_megabyte = 0;

  // What is alive.
  std::map<CUdeviceptr, std::uint64_t> device_memory;
  std::set<void*> pinned;
  int contexts = 0, streams = 0, events = 0, modules = 0, graphs = 0, execs = 0;
  std::uint64_t device_bytes() const;
  /// Device and pinned allocations, streams, events, modules, graphs and contexts.
  int alive() const;

  /// Counts the call; the result that the test wants it to fail with, else success.
  CUresult enter(const char* name);
  /// Runs `work` on `stream`: now, or when the graph that is being captured is launched.
  void put(CUstream stream, CUgraphNodeType type, std::function<void()> work);
  std::recursive_mutex mutex;

 private:
  std::unique_ptr<sinter::graphs::Driver> driver_;
};

FakeDriver& fake();

}  // namespace sinter::testing
