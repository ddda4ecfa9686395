// SPDX-License-Identifier: Apache-2.0
// The GPU that kernels are timed on.
#include <algorithm>
#include <cstring>
#include <random>

#include <sinter/devices.h>
#include <sinter/profile.h>

#include "runtime/format_error.h"
#include "tools/compiler/build/build.h"
#include "tools/compiler/run/device_copies.h"
#include "tools/compiler/tuning/tune.h"

namespace sinter::tools {
namespace {

std::vector<std::int64_t> evaluate(const ir::Shape& shape, const ir::Bindings& sizes) {
  std::vector<std::int64_t> result;
  for (const ir::Dim& dim : shape) result.push_back(dim.evaluate(sizes));
  return result;
}

/// Repeats one random block, so that a large tensor takes only its copy's time. Integers are small
/// enough to be valid indices of most tables; invalid ones are never read.
ir::Tensor random_tensor(const ir::TensorType& type, const ir::Bindings& sizes) {
  constexpr std::size_t kBlock = 1 << 18;
  constexpr std::int64_t kMostInteger = 1000;
  const std::vector<std::int64_t> shape = evaluate(type.shape, sizes);
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  const std::size_t block = std::min(count, kBlock), size = size_of(type.dtype);
  std::vector<std::byte> bytes(count * size);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const std::int64_t most = type.dtype == DType::kBool ? 1 : size < 4 ? 100 : kMostInteger;
  std::uniform_int_distribution<std::int64_t> integer(0, most);
  for (std::size_t i = 0; i < block; ++i) {
    if (is_float(type.dtype))
      ir::store_double(type.dtype, bytes.data() + i * size, normal(random));
    else
      ir::store_int(type.dtype, bytes.data() + i * size, integer(random));
  }
  for (std::size_t at = block; at < count; at += block)
    std::memcpy(bytes.data() + at * size, bytes.data(), std::min(block, count - at) * size);
  return ir::Tensor(type.dtype, shape, ir::Buffer::copy_of(bytes));
}

class GpuBench : public TrialBench {
 public:
  GpuBench(const ir::Graph& region, const ir::Bindings& sizes, int device)
      : device_(device), copies_(device) {
    for (const ir::ValueId id : region.inputs())
      inputs_.emplace_back(region.value(id).name,
                           copies_.add(random_tensor(region.type(id), sizes)));
    for (std::size_t i = 0; i < region.outputs().size(); ++i)
      outputs_.emplace_back(region.output_names()[i],
                            copies_.add(random_tensor(region.type(region.outputs()[i]), sizes)));
  }

  Reading open(const codegen::CompiledPlan& plan, const std::string& schedule) override {
    SessionOptions options;
    options.device = device_;
    options.output_memory = Memory::kDevice;
    auto session = std::make_shared<Session>(load_built(plan), options);
    for (const auto& [name, view] : inputs_) session->set_input(name, view);
    for (const auto& [name, view] : outputs_) session->set_output(name, view);
    session->run();
    return [session, schedule] {
      for (const StepTime& step : profile_steps(*session))
        for (const PartTime& part : step.parts)
          if (part.kernel && part.kernel->schedule == schedule) return part.microseconds;
      throw unsupported_error("no kernel of that schedule ran");
    };
  }

 private:
  int device_;
  DeviceCopies copies_;
  std::vector<std::pair<std::string, MutableTensorView>> inputs_, outputs_;
};

}  // namespace

TuningMachine gpu_machine(int device) {
  const GpuList list = list_gpus();
  if (list.gpus.empty()) throw device_error(list.problem);
  const auto gpu =
      std::ranges::find_if(list.gpus, [&](const GpuInfo& info) { return info.index == device; });
  if (gpu == list.gpus.end())
    throw device_error("there is no GPU {}: {} are visible", device, list.gpus.size());
  TuningMachine machine;
  machine.gpu = gpu->name;
  machine.architecture = gpu->architecture;
  machine.versions =
      fmt::format("driver {}.{}", list.driver_version / 1000, list.driver_version % 1000 / 10);
  machine.bench = [device](const ir::Graph& region, const ir::Bindings& sizes) {
    return std::make_unique<GpuBench>(region, sizes, device);
  };
  return machine;
}

}  // namespace sinter::tools
