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
  /// Loads a copy of `image`. Throws Error(kDevice); the message starts with `name`.
  Module(ContextPtr context, std::span<const std::byte> image, const std::string& name);

  /// Throws Error(kDevice) if the module has no such function. Loads the function's code to the
  /// device, because lazy loading is not allowed while a graph is captured.
  CUfunction function(const std::string& name) const;
  /// The same, but returns null if the module has no such function.
  CUfunction find(const std::string& name) const;

 private:
  Owned<CUmodule, &Driver::module_unload> handle_;
  std::string name_;
};

/// Raises the limit of dynamic shared memory of `function` to at least `bytes`.
void allow_shared_memory(const Context& context, CUfunction function, std::uint64_t bytes);

/// Allows launches of `function` in clusters of `blocks`; more than 8 need an opt-in.
void allow_cluster(const Context& context, CUfunction function, unsigned blocks);

/// Launch configuration of a kernel. Captured graph nodes keep its attributes (programmatic
/// serialization, clusters).
struct LaunchConfig {
  static constexpr std::size_t kMaxAttributes = 4;

  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;
  std::array<CUlaunchAttribute, kMaxAttributes> attributes{};
  unsigned attribute_count = 0;

  /// Throws Error(kInternal) if all slots are used.
  void add(const CUlaunchAttribute& attribute);
  void remove(CUlaunchAttributeID id);
};

/// Resources of a kernel launch per multiprocessor, from the driver's occupancy calculator.
struct KernelResources {
  unsigned registers = 0;        // per thread
  unsigned local_bytes = 0;      // per thread: spilled registers and local arrays
  unsigned shared_bytes = 0;     // per block, static and dynamic
  unsigned resident_blocks = 0;  // resident blocks per multiprocessor
  double occupancy = 0;          // resident threads over the multiprocessor's maximum
};
KernelResources resources_of(const Context& context, CUfunction function,
                             const LaunchConfig& config);

/// `arguments` has one pointer per parameter, to its value.
void launch(const Driver& driver, CUfunction function, const LaunchConfig& config, CUstream stream,
            void** arguments);

}  // namespace sinter::graphs
