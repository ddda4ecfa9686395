// SPDX-License-Identifier: Apache-2.0
// The C ABI: sessions.
#include <algorithm>
#include <string_view>

#include <sinter/allocator.h>
#include <sinter/dlpack.h>

#include "runtime/c/c_handles.h"
#include "runtime/c/c_support.h"
#include "runtime/format_error.h"
#include "runtime/session_access.h"

namespace sinter::c {
namespace {

class CallbackAllocator final : public Allocator {
 public:
  explicit CallbackAllocator(const sinter_allocator& callbacks) : callbacks_(callbacks) {}

  void* allocate(Memory memory, int device, std::size_t bytes,
                 std::size_t alignment) noexcept override {
    return callbacks_.allocate(callbacks_.user, static_cast<sinter_memory>(memory), device, bytes,
                               alignment);
  }
  void deallocate(void* data, Memory memory, int device, std::size_t bytes,
                  std::size_t alignment) noexcept override {
    callbacks_.deallocate(callbacks_.user, data, static_cast<sinter_memory>(memory), device, bytes,
                          alignment);
  }

 private:
  sinter_allocator callbacks_;
};

Memory memory_of(sinter_memory memory) {
  if (memory != SINTER_HOST && memory != SINTER_DEVICE)
    throw usage_error("there is no memory {}", memory);
  return static_cast<Memory>(memory);
}

/// Copies a C shape into a view's shape, which keeps its capacity.
void read_shape(std::vector<std::int64_t>& to, std::int32_t rank, const std::int64_t* shape) {
  if (rank < 0) throw usage_error("a tensor has {} dimensions", rank);
  if (rank > 0) given(shape, "shape");
  to.assign(shape, shape + rank);
}

/// Copies a C tensor's description into `view`.
template <typename View, typename Tensor>
void read_tensor(View& view, const Tensor* tensor, const char* what, std::size_t index) {
  const Tensor said = read_struct(tensor, "tensor");
  if (said.dtype < 0 || said.dtype >= kDTypeCount)
    throw usage_error("{} {} has the type {}, which is none", what, index, said.dtype);
  view.dtype = static_cast<DType>(said.dtype);
  view.memory = memory_of(said.memory);
  view.device = said.device;
  view.data = said.data;
  read_shape(view.shape, said.rank, said.shape);
  if (const std::size_t wanted = view.byte_count(); wanted != said.bytes)
    throw usage_error("{} {} of shape [{}] and type {} takes {} bytes; {} are given", what, index,
                      fmt::join(view.shape, ", "), to_string(view.dtype), wanted, said.bytes);
}

/// The scratch view of a binding.
template <typename View>
View& view_at(std::vector<View>& views, std::size_t index, const char* what) {
  return views[checked_index(index, views.size(), what)];
}

const TensorView& read_input(SessionObject& session, std::size_t index,
                             const sinter_tensor* tensor) {
  TensorView& view = view_at(session.inputs, index, "input");
  read_tensor(view, tensor, "input", index);
  return view;
}

}  // namespace

SessionOptions session_options_of(const sinter_session_options* given_options) {
  SessionOptions options;
  if (!given_options) return options;
  const auto said = read_struct(given_options, "options");
  options.device = said.device;
  options.threads = said.threads;
  options.cuda_graphs = said.without_cuda_graphs == 0;
  options.output_memory = memory_of(said.output_memory);
  if (said.max_iterations > 0)
    options.max_iterations =
        static_cast<std::int64_t>(std::min<std::uint64_t>(said.max_iterations, INT64_MAX));
  options.weight_budget = said.weight_budget;
  if (said.graph_cache > 0) options.graph_cache = said.graph_cache;
  if (said.tuning_cache) options.tuning_cache = said.tuning_cache;
  options.thorough_tuning = said.thorough_tuning != 0;
  if (said.allocator) {
    const auto callbacks = read_struct(said.allocator, "allocator");
    if (!callbacks.allocate || !callbacks.deallocate)
      throw usage_error("an allocator must have both functions");
    options.allocator = std::make_shared<CallbackAllocator>(callbacks);
  }
  return options;
}

}  // namespace sinter::c

using namespace sinter;
using c::given;
using c::guarded;
using c::with_session;

extern "C" {

sinter_status sinter_session_create(const sinter_plan* plan, const sinter_session_options* options,
                                    sinter_session** session) {
  return guarded([&] {
    given(session, "session");
    *session = c::sessions().add(std::make_shared<c::SessionObject>(
        Session(c::plans().at(plan)->plan, c::session_options_of(options))));
  });
}

void sinter_session_free(sinter_session* session) { c::sessions().remove(session); }

sinter_status sinter_session_set_input(sinter_session* session, size_t index,
                                       const sinter_tensor* tensor) {
  return with_session(session, [&](c::SessionObject& s) {
    s.session.set_input(index, c::read_input(s, index, tensor));
  });
}

sinter_status sinter_session_use_input(sinter_session* session, size_t index,
                                       const sinter_tensor* tensor) {
  return with_session(session, [&](c::SessionObject& s) {
    s.session.use_input(index, c::read_input(s, index, tensor));
  });
}

sinter_status sinter_session_set_output(sinter_session* session, size_t index,
                                        const sinter_mutable_tensor* tensor) {
  return with_session(session, [&](c::SessionObject& s) {
    MutableTensorView& view = c::view_at(s.outputs, index, "output");
    if (!tensor) return s.session.set_output(index, MutableTensorView{});
    c::read_tensor(view, tensor, "output", index);
    if (!view.data && view.byte_count() > 0) throw usage_error("output {} has no data", index);
    s.session.set_output(index, view);
  });
}

sinter_status sinter_session_run(sinter_session* session) {
  return with_session(session, [](c::SessionObject& s) { s.session.run(); });
}

sinter_status sinter_session_run_async(sinter_session* session, void* stream) {
  return with_session(session, [&](c::SessionObject& s) { s.session.run_async(stream); });
}

sinter_status sinter_session_await(sinter_session* session) {
  return with_session(session, [](c::SessionObject& s) { s.session.await(); });
}

sinter_status sinter_session_output(sinter_session* session, size_t index, sinter_tensor* tensor) {
  return with_session(session, [&](c::SessionObject& s) {
    const TensorView& view = s.session.output(index);
    sinter_tensor value{};
    value.dtype = static_cast<sinter_dtype>(view.dtype);
    value.rank = static_cast<std::int32_t>(view.shape.size());
    value.shape = view.shape.data();
    value.data = view.data;
    value.bytes = view.byte_count();
    value.memory = static_cast<sinter_memory>(view.memory);
    value.device = view.device;
    c::write_struct(tensor, value, "tensor");
  });
}

sinter_status sinter_session_reset_state(sinter_session* session) {
  return with_session(session, [](c::SessionObject& s) { s.session.reset_state(); });
}

sinter_status sinter_session_set_weights(sinter_session* session, const sinter_plan* plan) {
  return with_session(
      session, [&](c::SessionObject& s) { s.session.set_weights(c::plans().at(plan)->plan); });
}

sinter_status sinter_session_warm_up(sinter_session* session, const sinter_input_shape* shapes,
                                     size_t count) {
  return with_session(session, [&](c::SessionObject& s) {
    const auto& inputs = s.session.plan().inputs();
    std::map<std::string, std::vector<std::int64_t>> by_name;
    for (const sinter_input_shape& each : c::given_array(shapes, count, "shapes")) {
      c::view_at(s.inputs, each.input, "input");
      c::read_shape(by_name[inputs[each.input].name], each.rank, each.shape);
    }
    s.session.warm_up(by_name);
  });
}

sinter_status sinter_session_memory(sinter_session* session, sinter_memory_account* account) {
  return with_session(session, [&](c::SessionObject& s) {
    const MemoryAccount found = s.session.memory();
    sinter_memory_account value{};
    value.weights = found.weights;
    value.arena = found.arena;
    value.arena_without_reuse = found.arena_without_reuse;
    value.workspace = found.workspace;
    value.io = found.io;
    value.streamed_weights = found.streamed_weights;
    value.weight_ring = found.weight_ring;
    c::write_struct(account, value, "account");
  });
}

sinter_status sinter_session_entry(sinter_session* session, const char** name) {
  return with_session(session, [&](c::SessionObject& s) {
    const std::string_view entry = s.session.entry();
    given(name, "name") = entry.empty() ? "" : entry.data();
  });
}

sinter_status sinter_session_launches(sinter_session* session, uint64_t* launches) {
  return with_session(
      session, [&](c::SessionObject& s) { given(launches, "launches") = s.session.launches(); });
}

sinter_status sinter_session_output_dlpack(sinter_session* session, size_t index,
                                           void** managed_tensor) {
  return with_session(session, [&](c::SessionObject& s) {
    given(managed_tensor, "managed_tensor");
    *managed_tensor = to_dlpack(s.session, index);
  });
}

}  // extern "C"
