// SPDX-License-Identifier: Apache-2.0
// Times tactics of steps within the whole graph.
#include <algorithm>

#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/tactics/flush_buffer.h"
#include "runtime/cuda/tactics/refine_choices.h"

namespace sinter::runtime {

namespace fb = plan::fb;

bool CudaExecutor::spare_foreign(const BoundShape& shape, BufferAddresses& buffers,
                                 std::vector<graphs::DeviceMemory>& scratch) const try {
  // Caches may take most of the memory, so numeric states share one scratch buffer of the largest
  // size.
  const auto shares = [&](std::size_t i) {
    const fb::BufferT& buffer = *meta().buffers[i];
    return buffer.kind == fb::BufferKind::State && is_sampled(static_cast<DType>(buffer.dtype));
  };
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < buffers.address.size(); ++i)
    if (buffers.is_foreign[i] && shares(i))
      largest = std::max(largest, shape.bytes_of(*meta().buffers[i]));
  const CUdeviceptr shared =
      largest == 0 ? 0 : scratch.emplace_back(plan_->context(), largest).address();
  for (std::size_t i = 0; i < buffers.address.size(); ++i) {
    const std::uint64_t bytes = buffers.is_foreign[i] ? shape.bytes_of(*meta().buffers[i]) : 0;
    if (bytes == 0) continue;
    buffers.address[i] =
        shares(i) ? shared : scratch.emplace_back(plan_->context(), bytes).address();
    buffers.is_foreign[i] = false;
  }
  return true;
} catch (const Error& error) {
  if (error.code() != ErrorCode::kOutOfMemory) throw;
  return false;
}

double CudaExecutor::time_in_graph(const std::vector<StepLaunches>& steps,
                                   const std::vector<StepPlace>& places) {
  CUstream stream = stream_.handle();
  const graphs::GraphExec graph(graphs::Graph::capture(
      plan_->context(), stream, [&](CUstream s) { put_branches(steps, places, s); }));
  graph.upload(stream);
  return *cold_time(plan_->context(), stream, flush_, [&] {
    graph.launch(stream);
    return true;
  });
}

bool CudaExecutor::choose_in_graph(const BoundShape& shape, BufferAddresses buffers,
                                   LibraryContext libraries,
                                   const std::vector<TimedChoice>& timed) {
  std::vector<graphs::DeviceMemory> scratch;
  if (!spare_foreign(shape, buffers, scratch)) return false;
  libraries.timed = nullptr;
  const TakenTactics taken = refine_choices(timed, [&](const TakenTactics& trial) {
    libraries.taken = &trial;
    return time_in_graph(make_launches(*plan_, shape, buffers, libraries), {});
  });
  bool changed = false;
  for (const TimedChoice& choice : timed) {
    const std::size_t best = taken.at(choice.problem);
    if (best == choice.taken) continue;
    changed = true;
    const std::string note = choice.how[best] + "; faster in the whole graph";
    tuning_->store(choice.problem, {{best}, choice.microseconds[best], note}, libraries.thorough);
  }
  return changed;
}

}  // namespace sinter::runtime
