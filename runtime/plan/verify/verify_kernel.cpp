// SPDX-License-Identifier: Apache-2.0
// Verifies kernels: variants, arguments and tensor maps.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/tensor_map_limits.h"
#include "runtime/plan/verify/verify_kinds.h"

namespace sinter::plan {
namespace {

constexpr std::uint32_t kMaxThreads = 1024;  // threads per CUDA block
constexpr std::uint32_t kMaxCluster = 16;    // blocks per cluster; more than 8 need the driver's
                                             // opt-in
constexpr std::uint32_t kMaxSharedBytes = 1 << 20;  // above what any GPU has
constexpr std::size_t kMostPackedArgs = 4095;  // 8 bytes each: the limit of a kernel's parameters

void verify_variant(const Checker& check, const fb::KernelVariantT& variant) {
  check.index(variant.module_, check.plan.modules.size(), "a variant's module", "modules");
  if (variant.function.empty()) check.fail("a kernel variant names no function");
  verify_conditions(check, variant.conditions);
  if (variant.grid.size() != 3 || variant.block.size() != 3)
    check.fail("kernel '{}' has {} grid and {} block dimensions instead of three each",
               variant.function, variant.grid.size(), variant.block.size());
  check.expressions(variant.grid, "a grid dimension");
  std::uint64_t threads = 1;
  for (const std::uint32_t size : variant.block) threads *= std::min(size, kMaxThreads + 1);
  if (threads == 0 || threads > kMaxThreads)
    check.fail("kernel '{}' has blocks of {} x {} x {} threads", variant.function, variant.block[0],
               variant.block[1], variant.block[2]);
  if (variant.shared_bytes > kMaxSharedBytes)
    check.fail("kernel '{}' asks for {} bytes of shared memory", variant.function,
               variant.shared_bytes);
  if (variant.cluster > kMaxCluster)
    check.fail("kernel '{}' has clusters of {} blocks instead of 1 to {}", variant.function,
               variant.cluster, kMaxCluster);
  if (variant.cluster == 0 && variant.programmatic_launch)
    check.fail("kernel '{}', whose blocks wait for each other, may not start early",
               variant.function);
  for (const std::uint32_t architecture : variant.architectures)
    check.index(architecture, check.plan.architectures.size(), "a variant's architecture",
                "architectures");
}

/// `written`: the step's outputs. Only the kernel's code decides whether it reads or writes a
/// buffer; the step must declare one of the two.
void verify_args(const Checker& check, const std::vector<fb::KernelArg>& args, bool packed,
                 const Buffers& written, Uses& uses) {
  if (packed && args.size() > kMostPackedArgs)
    check.fail("it packs {} arguments, at most {} fit", args.size(), kMostPackedArgs);
  for (const fb::KernelArg& arg : args) {
    check.in_range(arg.kind(), fb::ArgKind::MAX, "an argument's kind");
    if (packed && arg.kind() != fb::ArgKind::Buffer)
      check.fail("it packs an argument that is no buffer");
    if (arg.kind() != fb::ArgKind::Buffer) {
      check.expression(arg.index(), "an argument's expression");
    } else {
      check.buffer(arg.index(), "an argument's buffer");
      (written.contains(arg.index()) ? uses.writes : uses.reads).insert(arg.index());
    }
  }
}

void verify_map(const Checker& check, const fb::TensorMapT& map, const std::string& kernel) {
  constexpr std::uint32_t kMostInBox = 256;
  constexpr std::size_t kRowBytes = 128, kMostDimensions = 5;
  const std::size_t element =
      size_of(check.dtype(check.buffer(map.buffer, "a tensor map's buffer").dtype, "its buffer"));
  check.expression(map.offset, "a tensor map's offset");
  check.expressions(map.extents, "a tensor map's extent");
  check.expressions(map.strides, "a tensor map's stride");
  const std::size_t rank = map.extents.size();
  const bool windows = !map.lower.empty();
  if (rank < 2 || rank > kMostDimensions || map.strides.size() + 1 != rank ||
      map.box.size() != (windows ? 2 : rank))
    check.fail("kernel '{}' has a tensor map of {} extents, {} strides and a box of {} sizes",
               kernel, rank, map.strides.size(), map.box.size());
  for (const std::uint32_t size : map.box)
    if (size == 0 || size > kMostInBox)
      check.fail("kernel '{}' has a tensor map whose box is {} long", kernel, size);
  if (map.box[0] * element != kRowBytes)
    check.fail("kernel '{}' has a tensor map whose box has rows of {} bytes instead of {}", kernel,
               map.box[0] * element, kRowBytes);
  if (!windows && map.upper.empty() && map.steps.empty()) return;
  if (rank < 3 || map.lower.size() != rank - 2 || map.upper.size() != rank - 2 ||
      map.steps.size() != rank - 2)
    check.fail("kernel '{}' has a tensor map of {} extents whose windows have {}, {} and {} bounds",
               kernel, rank, map.lower.size(), map.upper.size(), map.steps.size());
  const int most = window_bound(rank);
  for (std::size_t d = 0; d + 2 < rank; ++d)
    if (map.lower[d] < -most || map.lower[d] >= most || map.upper[d] < -most ||
        map.upper[d] >= most || map.steps[d] < 1 || map.steps[d] > kMostWindowStep)
      check.fail("kernel '{}' has a tensor map whose windows go from {} to {} in steps of {}",
                 kernel, map.lower[d], map.upper[d], map.steps[d]);
}

}  // namespace

void verify_kernel(const Checker& check, const fb::KernelStepT& work, const fb::StepT& step,
                   Uses& uses) {
  if (work.variants.empty()) check.fail("it has no kernel");
  for (const auto& variant : work.variants) {
    verify_variant(check, *variant);
    if (work.packed && !variant->maps.empty()) check.fail("it packs a tensor map");
    for (const auto& map : variant->maps) {
      verify_map(check, *map, variant->function);
      uses.reads.insert(map->buffer);
    }
  }
  const Buffers written(step.writes.begin(), step.writes.end());
  verify_args(check, work.args, work.packed, written, uses);
  for (const auto& variant : work.variants)
    verify_args(check, variant->args, work.packed, written, uses);
}

void verify_conditions(const Checker& check, const std::vector<fb::Condition>& conditions) {
  for (const fb::Condition& condition : conditions) {
    check.expression(condition.expression(), "a condition's expression");
    if (condition.divisor() == 0 || condition.divisor() > INT64_MAX)
      check.fail("a condition's divisor is {}", condition.divisor());
  }
}

}  // namespace sinter::plan
