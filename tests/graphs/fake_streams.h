// SPDX-License-Identifier: Apache-2.0
// What stands behind the fake driver's handles of streams, events and graphs, and its tables of
// entry points.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <cuda.h>

namespace sinter::testing {

struct Node {
  CUgraphNodeType type;
  std::function<void()> work;
};
struct FakeGraph {
  std::vector<std::unique_ptr<Node>> nodes;
};
struct FakeExec {
  std::vector<Node> nodes;
};
struct FakeStream {
  FakeGraph* capturing = nullptr;
  bool invalidated = false;
  bool is_origin = true;  // of what it captures; others joined by waiting for an event
  bool is_body = false;   // captures into a graph that a conditional node owns
  int nodes = 0, awaited = 0;
};
struct FakeEvent {
  double time = -1;
  FakeStream* recorded_on = nullptr;
  int nodes = 0;
};

inline std::set<FakeStream*> all_streams;
inline thread_local int context_depth = 0;  // contexts that the thread has pushed

/// That of the handle; of null the legacy stream.
inline FakeStream& stream_of(CUstream stream) {
  static FakeStream legacy;
  return stream ? *reinterpret_cast<FakeStream*>(stream) : legacy;
}

/// Functions by the symbols that stand for them.
using EntryPoints = std::map<std::string_view, void*>;

template <typename Function>
std::pair<std::string_view, void*> entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

EntryPoints driver_entries();  // all but those of captures and graphs
EntryPoints graph_entries();

}  // namespace sinter::testing
