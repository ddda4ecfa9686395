// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/peers/rank_gpus.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "runtime/cuda/cuda_executor.h"
#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

using graphs::Context;

constexpr const char* kDevicesVariable = "SINTER_RANK_DEVICES";

/// The GPUs of `ranks` ranks, as the variable lists them.
std::vector<int> listed_devices(std::string_view text, int ranks) {
  std::vector<int> devices;
  const auto refuse = [&] {
    return usage_error("{} is '{}': it lists the GPU of each of {} ranks, as in '0,1'",
                       kDevicesVariable, text, ranks);
  };
  const char *at = text.data(), *end = at + text.size();
  for (;;) {
    int device = 0;
    const auto [behind, error] = std::from_chars(at, end, device);
    if (error != std::errc() || device < 0) throw refuse();
    devices.push_back(device);
    at = behind;
    if (at == end) break;
    if (*at++ != ',') throw refuse();
  }
  if (std::ssize(devices) != ranks) throw refuse();
  return devices;
}

}  // namespace

RankGpus::RankGpus(const CudaEnvironment& environment, const std::vector<int>& devices,
                   std::chrono::milliseconds patience)
    : environment_(environment), patience_(patience) {
  for (const int device : devices) gpus_.emplace_back(Context::retain(*environment.driver, device));
  connect();
  const auto ranks = static_cast<std::uint32_t>(gpus_.size());
  for (Gpu& gpu : gpus_) {
    const Context::Scope scope(*gpu.context);
    gpu.table = graphs::DeviceMemory(gpu.context, sizeof(plan::PeerTable));
    gpu.area = graphs::DeviceMemory(gpu.context, plan::peer_area_bytes(ranks));
    gpu.report = graphs::PinnedMemory(gpu.context, sizeof(std::uint64_t));
  }
  clear();
}

void RankGpus::connect() const {
  for (const Gpu& from : gpus_)
    for (const Gpu& to : gpus_) {
      const int a = from.context->properties().index, b = to.context->properties().index;
      if (a == b) continue;
      const graphs::Driver& driver = from.context->driver();
      CUdevice own = 0, other = 0;
      driver.device_get(&own, a);
      driver.device_get(&other, b);
      int can = 0;
      driver.device_can_access_peer(&can, own, other);
      if (can == 0)
        throw device_error(
            "GPU {} does not reach the memory of GPU {}, through which ranks of a plan meet: "
            "choose "
            "GPUs that do (`nvidia-smi topo -p2p r`; {}=0,1 lists them), or compile for one GPU",
            a, b, kDevicesVariable);
      const Context::Scope scope(*from.context);
      const CUresult result = driver.ctx_enable_peer_access.raw(to.context->handle(), 0);
      if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        graphs::fail(driver, result, "cuCtxEnablePeerAccess");
    }
}

void RankGpus::clear() {
  for (std::size_t r = 0; r < gpus_.size(); ++r) {
    const Gpu& gpu = gpus_[r];
    const Context::Scope scope(*gpu.context);
    gpu.reported() = 0;
    plan::PeerTable table{};
    table.rank = static_cast<std::uint32_t>(r);
    table.ranks = static_cast<std::uint32_t>(gpus_.size());
    table.patience = static_cast<std::uint64_t>(std::chrono::nanoseconds(patience_).count());
    table.report = reinterpret_cast<std::uint64_t>(gpu.report.data());
    for (std::size_t other = 0; other < gpus_.size(); ++other)
      table.area[other] = gpus_[other].area.address();
    const graphs::Driver& driver = gpu.context->driver();
    driver.memset_d8_async(gpu.area.address(), 0, gpu.area.size(), gpu.stream.handle());
    driver.memcpy_htod_async(gpu.table.address(), &table, sizeof table, gpu.stream.handle());
    gpu.stream.synchronize();
  }
  has_failed_ = false;
}

std::unique_ptr<Executor> RankGpus::make(int rank, std::shared_ptr<const plan::PlanData> plan,
                                         const SessionOptions& options,
                                         const std::shared_ptr<const HostOperators>& operators) {
  const Gpu& gpu = gpus_[static_cast<std::size_t>(rank)];
  SessionOptions own = options;
  own.device = gpu.context->properties().index;
  // Under a budget a GPU gets the weights alone that its rank's steps read.
  if (own.weight_budget == 0) own.weight_budget = std::numeric_limits<std::int64_t>::max();
  return make_cuda_executor(environment_, std::move(plan), own, operators, gpu.table.address());
}

void RankGpus::begin() {
  // What has failed has left meetings behind that some ranks have begun.
  if (has_failed_) clear();
}

void RankGpus::check(int rank) {
  const std::uint64_t word = gpus_[static_cast<std::size_t>(rank)].reported();
  if (word == 0) return;
  has_failed_ = true;
  const auto report = plan::PeerReport::of(word);
  throw device_error(
      "rank {} (GPU {}) waits for rank {} (GPU {}) at meeting {}, and that has not come in {} ms "
      "(SessionOptions::rank_patience_ms)",
      rank, gpus_[static_cast<std::size_t>(rank)].context->properties().index, report.rank,
      gpus_.at(report.rank).context->properties().index, report.meeting, patience_.count());
}

void RankGpus::give_up() noexcept {
  has_failed_ = true;
  static constexpr std::uint32_t kFailed = 1;
  for (const Gpu& gpu : gpus_) {
    const auto scope = gpu.context->scope_nothrow();
    gpu.context->driver().memcpy_htod_async.raw(
        gpu.table.address() + offsetof(plan::PeerTable, failed), &kFailed, sizeof kFailed,
        gpu.stream.handle());
  }
}

std::unique_ptr<RankDevices> make_rank_gpus(int ranks, const SessionOptions& options) {
  std::vector<int> devices;
  const CudaEnvironment environment = CudaEnvironment::system();
  if (const char* listed = std::getenv(kDevicesVariable)) {
    devices = listed_devices(listed, ranks);
  } else {
    int count = 0;
    environment.driver->device_get_count(&count);
    if (options.device + ranks > count)
      throw device_error(
          "the plan is for {} GPUs, and from GPU {} on there are {}: compile it with "
          "--tensor-parallel {}, or place several ranks on one GPU ({}=0,0)",
          ranks, options.device, std::max(0, count - options.device),
          std::max(1, count - options.device), kDevicesVariable);
    for (int r = 0; r < ranks; ++r) devices.push_back(options.device + r);
  }
  return std::make_unique<RankGpus>(environment, devices,
                                    std::chrono::milliseconds(options.rank_patience_ms));
}

}  // namespace sinter::runtime
