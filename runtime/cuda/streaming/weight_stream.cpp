// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/streaming/weight_stream.h"

#include <algorithm>
#include <utility>

namespace sinter::runtime {

WeightStream::WeightStream(graphs::ContextPtr context, const DeviceWeights& weights,
                           graphs::DeviceAllocatorPtr allocator)
    : context_(std::move(context)), weights_(weights) {
  const std::uint64_t bytes = weights.residency().ring_bytes();
  if (bytes == 0) return;
  const graphs::Context::Scope scope(*context_);
  ring_ = graphs::DeviceMemory(context_, bytes, std::move(allocator));
  stream_.emplace(context_);
  // Zeros, because steps may be timed before the first copy.
  context_->driver().memset_d8_async(ring_.address(), 0, bytes, stream_->handle());
  stream_->synchronize();
}

std::unique_ptr<StreamedRun> WeightStream::plan_run(const plan::fb::PlanT& meta,
                                                    plan::StepRange steps) const {
  if (!is_used()) return nullptr;
  auto run = std::make_unique<StreamedRun>();
  RunUnits units = weights_.units_of(meta, steps);
  run->schedule = schedule_copies(weights_.sizes(), units.units, weights_.residency());
  run->bytes = run->schedule.bytes(weights_.sizes());
  run->unit_of = std::move(units.unit_of);
  run->copied.resize(units.units.size());
  run->ended.resize(units.units.size());
  run->start.emplace(context_, false);
  const auto make = [&](std::optional<graphs::Event>& event) {
    if (!event) event.emplace(context_, false);
  };
  for (const WeightCopy& copy : run->schedule.copies) {
    make(run->copied[copy.unit]);
    if (copy.behind != WeightCopy::kStart) make(run->ended[copy.behind]);
  }
  return run;
}

void WeightStream::set_addresses(const StreamedRun& run, const plan::fb::PlanT& meta,
                                 plan::StepRange steps, std::size_t step,
                                 BufferAddresses& buffers) const {
  for (const std::uint32_t buffer : meta.steps[steps.first + step]->reads) {
    const auto part = weights_.streamed(buffer);
    if (!part) continue;
    for (const std::size_t copy : run.schedule.copies_of[run.unit_of[step]])
      if (run.schedule.copies[copy].weight == part->weight)
        buffers.address[buffer] = ring_.address() + run.schedule.copies[copy].place + part->offset;
  }
}

void WeightStream::put(const WeightCopy& copy, CUstream stream) const {
  context_->driver().memcpy_htod_async(ring_.address() + copy.place, weights_.host(copy.weight),
                                       weights_.sizes()[copy.weight], stream);
}

void WeightStream::load(const StreamedRun& run, std::size_t unit, CUstream stream) const {
  for (const std::size_t copy : run.schedule.copies_of[unit])
    if (run.schedule.copies[copy].unit == unit) put(run.schedule.copies[copy], stream);
}

std::size_t WeightStream::copies_for(const StreamedRun& run, std::size_t unit) {
  return static_cast<std::size_t>(std::ranges::count_if(
      run.schedule.copies_of[unit],
      [&](std::size_t copy) { return run.schedule.copies[copy].unit == unit; }));
}

void WeightStream::begin(const StreamedRun& run, CUstream stream) {
  run_ = &run;
  next_ = 0;
  waited_ = WeightCopy::kStart;
  if (run.schedule.copies.empty()) return;
  run.start->record(stream);
  run.start->make_wait(stream_->handle());
}

bool WeightStream::before(std::size_t step, CUstream stream) {
  const std::vector<WeightCopy>& copies = run_->schedule.copies;
  const std::size_t unit = run_->unit_of[step];
  // Enqueues copies as far ahead as the units already on `stream` allow.
  for (; next_ < copies.size(); ++next_) {
    const WeightCopy& copy = copies[next_];
    if (copy.behind != WeightCopy::kStart) {
      if (copy.behind >= unit) break;
      if (waited_ == WeightCopy::kStart || waited_ < copy.behind) {
        run_->ended[copy.behind]->make_wait(stream_->handle());
        waited_ = copy.behind;
      }
    }
    put(copy, stream_->handle());
    if (next_ + 1 == copies.size() || copies[next_ + 1].unit != copy.unit)
      run_->copied[copy.unit]->record(stream_->handle());
  }
  if (!run_->copied[unit]) return false;
  run_->copied[unit]->make_wait(stream);
  return true;
}

void WeightStream::after(std::size_t step, CUstream stream) {
  if (const auto& ended = run_->ended[run_->unit_of[step]]) ended->record(stream);
}

}  // namespace sinter::runtime
