// SPDX-License-Identifier: Apache-2.0
#include "tests/graphs/fake_driver.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "tests/graphs/fake_streams.h"

namespace sinter::testing {

FakeDriver& fake() {
  static FakeDriver driver;
  return driver;
}

void FakeDriver::reset() {
  driver_.reset();
  device_count = 1;
  driver_version = 13000;
  major = 9;
  minor = 0;
  l2_bytes = 1 << 20;
  total_memory = std::uint64_t{1} << 30;
  conditional_nodes = true;
  kernels.clear();
  conditions.clear();
  fail_next.clear();
  calls.clear();
  launched.clear();
  configs.clear();
  clock = event_time = fill_time = copy_microseconds_per_megabyte = 0;
  for (const auto& [address, bytes] : device_memory) std::free(reinterpret_cast<void*>(address));
  for (void* data : pinned) std::free(data);
  device_memory.clear();
  pinned.clear();
  contexts = streams = events = modules = graphs = execs = 0;
}

const graphs::Driver& FakeDriver::driver() {
  const std::lock_guard lock(mutex);
  if (!driver_) driver_ = std::make_unique<sinter::graphs::Driver>(&FakeDriver::resolve);
  return *driver_;
}

void* FakeDriver::resolve(const char* symbol) {
  if (!fake().conditional_nodes && std::string_view(symbol) == "cuGraphConditionalHandleCreate")
    return nullptr;
  static const EntryPoints entries = [] {
    EntryPoints all = driver_entries();
    all.merge(graph_entries());
    return all;
  }();
  const auto at = entries.find(symbol);
  return at == entries.end() ? nullptr : at->second;
}

CUresult FakeDriver::enter(const char* name) {
  ++calls[name];
  const auto at = fail_next.find(name);
  if (at == fail_next.end()) return CUDA_SUCCESS;
  const CUresult result = at->second;
  fail_next.erase(at);
  return result;
}

std::uint64_t FakeDriver::device_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [address, bytes] : device_memory) sum += bytes;
  return sum;
}

int FakeDriver::alive() const {
  return static_cast<int>(device_memory.size() + pinned.size()) + contexts + streams + events +
         modules + graphs + execs;
}

void FakeDriver::put(CUstream stream, CUgraphNodeType type, std::function<void()> work) {
  const std::lock_guard lock(mutex);
  if (FakeGraph* graph = stream_of(stream).capturing) {
    graph->nodes.push_back(std::make_unique<Node>(Node{type, std::move(work)}));
    ++stream_of(stream).nodes;
    return;
  }
  work();
}

}  // namespace sinter::testing
