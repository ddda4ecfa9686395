// SPDX-License-Identifier: Apache-2.0
// Compiled kernels: modules, functions, launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graphs/device.h"

namespace sinter::graphs {

/// A loaded cubin.
class Module {
 public:
  /// Loads a copy of `image`. Throws Error(kDevice) with `name` in front.
  Module(ContextPtr context, std::span<const std::byte> image, const std::string& name);

  /// Throws Error(kDevice) if the module has no such function. The function's code is on the device
  /// on return: nothing is left to be loaded lazily while a graph is captured.
  CUfunction function(const std::string& name) const;
  /// The same, but null if the module has no such function.
  CUfunction find(const std::string& name) const;

 private:
  Owned<CUmodule, &Driver::module_unload> handle_;
  std::string name_;
};

/// Raises how much dynamic shared memory `function` may be launched with to at least `bytes`.
void allow_shared_memory(const Context& context, CUfunction function, std::uint64_t bytes);

/// Allows `function` to be launched in clusters of `blocks`, which above 8 takes leave.
void allow_cluster(const Context& context, CUfunction function, unsigned blocks);

/// How a kernel is launched. Attributes (programmatic serialisation, clusters) travel with it into
/// the nodes of a captured graph.
struct LaunchConfig {
  static constexpr std::size_t kMaxAttributes = 4;

  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;
  std::array<CUlaunchAttribute, kMaxAttributes> attributes{};
  unsigned attribute_count = 0;

  /// Throws Error(kInternal) if there is no room for another.
  void add(const CUlaunchAttribute& attribute);
  void remove(CUlaunchAttributeID id);
};

/// What a launch of a kernel takes of a multiprocessor, as the driver counts it.
struct KernelResources {
  unsigned registers = 0;        // of a thread
  unsigned local_bytes = 0;      // of a thread: spilled registers, and arrays in memory
  unsigned shared_bytes = 0;     // of a block, static and dynamic
  unsigned resident_blocks = 0;  // on a multiprocessor at once
  double occupancy = 0;          // their threads over those that a multiprocessor holds
};
KernelResources resources_of(const Context& context, CUfunction function,
                             const LaunchConfig& config);

/// `arguments` has one pointer for each parameter, to its value.
void launch(const Driver& driver, CUfunction function, const LaunchConfig& config, CUstream stream,
            void** arguments);

}  // namespace sinter::graphs
