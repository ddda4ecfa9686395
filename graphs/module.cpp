// SPDX-License-Identifier: Apache-2.0
#include "graphs/module.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sinter::graphs {

Module::Module(ContextPtr context, std::span<const std::byte> image, const std::string& name)
    : handle_(std::move(context)), name_(name) {
  if (image.empty())
    throw Error(ErrorCode::kInvalidPlan, fmt::format("kernel module '{}' is empty", name_));
  // The driver reads an ELF image in place, with its length from the header; a mapped section may
  // not be aligned enough for that.
  std::vector<std::uint64_t> aligned((image.size() + 7) / 8);
  std::memcpy(aligned.data(), image.data(), image.size());
  with_context(fmt::format("loading kernel module '{}'", name_), [&] {
    const Context::Scope scope(*handle_.context());
    handle_.driver().module_load_data(handle_.put(), aligned.data());
  });
}

CUfunction Module::function(const std::string& name) const {
  if (const CUfunction function = find(name)) return function;
  throw Error(ErrorCode::kDevice,
              fmt::format("kernel module '{}' has no function '{}'", name_, name));
}

CUfunction Module::find(const std::string& name) const {
  return with_context(fmt::format("function '{}' of kernel module '{}'", name, name_), [&] {
    const Context::Scope scope(*handle_.context());
    const Driver& driver = handle_.driver();
    CUfunction function = nullptr;
    if (driver.module_get_function.raw(&function, handle_.get(), name.c_str()) ==
        CUDA_ERROR_NOT_FOUND)
      return static_cast<CUfunction>(nullptr);
    driver.module_get_function(&function, handle_.get(), name.c_str());
    if (driver.func_load) driver.func_load(function);
    return function;
  });
}

void allow_shared_memory(const Context& context, CUfunction function, std::uint64_t bytes) {
  const Context::Scope scope(context);
  int current = 0;
  context.driver().func_get_attribute(&current, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      function);
  if (bytes <= static_cast<std::uint64_t>(current)) return;
  if (bytes > context.properties().max_shared_bytes)
    throw Error(
        ErrorCode::kDevice,
        fmt::format("a kernel needs {} bytes of shared memory a block, this GPU ({}) has {}", bytes,
                    context.properties().name, context.properties().max_shared_bytes));
  context.driver().func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(bytes));
}

void allow_cluster(const Context& context, CUfunction function, unsigned blocks) {
  constexpr unsigned kPortable = 8;
  if (blocks <= kPortable) return;
  const Context::Scope scope(context);
  context.driver().func_set_attribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                                      1);
}

void LaunchConfig::add(const CUlaunchAttribute& attribute) {
  if (attribute_count == kMaxAttributes)
    throw Error(ErrorCode::kInternal, "too many launch attributes");
  attributes[attribute_count++] = attribute;
}

void LaunchConfig::remove(CUlaunchAttributeID id) {
  const auto end = attributes.begin() + attribute_count;
  attribute_count = static_cast<unsigned>(
      std::remove_if(attributes.begin(), end, [&](auto& attribute) { return attribute.id == id; }) -
      attributes.begin());
}

KernelResources resources_of(const Context& context, CUfunction function,
                             const LaunchConfig& config) {
  const Context::Scope scope(context);
  const auto attribute = [&](CUfunction_attribute which) {
    int value = 0;
    context.driver().func_get_attribute(&value, which, function);
    return static_cast<unsigned>(std::max(value, 0));
  };
  KernelResources resources;
  resources.registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  resources.local_bytes = attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  resources.shared_bytes = attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) + config.shared_bytes;
  const unsigned threads = config.block[0] * config.block[1] * config.block[2];
  int blocks = 0;
  context.driver().occupancy_max_active_blocks(&blocks, function, static_cast<int>(threads),
                                               config.shared_bytes);
  resources.resident_blocks = static_cast<unsigned>(std::max(blocks, 0));
  const std::uint64_t room = context.properties().threads_per_multiprocessor;
  if (room > 0)
    resources.occupancy = static_cast<double>(resources.resident_blocks) *
                          static_cast<double>(threads) / static_cast<double>(room);
  return resources;
}

void launch(const Driver& driver, CUfunction function, const LaunchConfig& config, CUstream stream,
            void** arguments) {
  // The driver takes a pointer to non-const attributes but does not write to them.
  std::array<CUlaunchAttribute, LaunchConfig::kMaxAttributes> attributes;
  CUlaunchConfig launch{};
  launch.gridDimX = config.grid[0];
  launch.gridDimY = config.grid[1];
  launch.gridDimZ = config.grid[2];
  launch.blockDimX = config.block[0];
  launch.blockDimY = config.block[1];
  launch.blockDimZ = config.block[2];
  launch.sharedMemBytes = config.shared_bytes;
  launch.hStream = stream;
  if (config.attribute_count > 0) {
    attributes = config.attributes;
    launch.attrs = attributes.data();
    launch.numAttrs = config.attribute_count;
  }
  driver.launch_kernel_ex(&launch, function, arguments, nullptr);
}

}  // namespace sinter::graphs
