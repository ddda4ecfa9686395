// SPDX-License-Identifier: Apache-2.0
#include "tools/python/src/plan.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include <nanobind/stl/vector.h>
#include <pthread.h>
#include <sinter/threads.h>

#include "runtime/format_error.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/struct.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

std::atomic<unsigned> generation{0};

/// Default number of concurrent calls of a GPU plan: enough that one copies while another computes.
/// Each uses its own memory on the GPU.
constexpr int kGpuSessions = 4;

/// Memory with the alignment of Plan::borrow.
std::shared_ptr<std::byte> aligned_copy(const void* data, std::size_t size) {
  const std::align_val_t alignment{Plan::kAlignment};
  auto* copy = static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), alignment));
  std::memcpy(copy, data, size);
  return {copy, [alignment](std::byte* memory) { ::operator delete(memory, alignment); }};
}

/// A Python buffer; its last user releases it with the GIL.
std::shared_ptr<Py_buffer> hold_buffer(nb::handle object) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
  return {buffer.release(), [](Py_buffer* held) {
            // After the interpreter's end its objects no longer exist.
            const GilIfOpen acquire;
            if (acquire) PyBuffer_Release(held);
            delete held;
          }};
}

nb::list describe_dims(const std::vector<DimInfo>& dims) {
  nb::list list;
  for (const DimInfo& dim : dims) list.append(nb::make_tuple(dim.text, dim.min, dim.max));
  return list;
}

nb::list describe_bindings(const std::vector<BindingInfo>& bindings) {
  nb::list list;
  for (const BindingInfo& binding : bindings)
    list.append(nb::make_tuple(binding.name, std::string(python_name(binding.dtype)),
                               describe_dims(binding.shape), binding.state.has_value(),
                               binding.is_read_by_host));
  return list;
}

nb::dict describe(const PlanObject& object) {
  const Plan& plan = object.plan();
  nb::dict facts;
  facts["inputs"] = describe_bindings(plan.inputs());
  facts["outputs"] = describe_bindings(plan.outputs());
  nb::list states;
  for (const StateInfo& state : plan.states())
    states.append(
        nb::make_tuple(plan.inputs()[state.input].name, plan.outputs()[state.output].name));
  facts["states"] = states;
  nb::list entries;
  for (const EntryInfo& entry : plan.entries())
    entries.append(nb::make_tuple(entry.name, describe_dims(entry.limits)));
  facts["entries"] = entries;
  facts["target"] = std::string(plan.target());
  facts["architectures"] = plan.architectures();
  facts["steps"] = plan.step_count();
  facts["weight_bytes"] = plan.weight_bytes();
  facts["path"] = std::string(plan.path());
  facts["compiler_version"] = std::string(plan.compiler_version());
  facts["format_version"] = plan.format_version();
  facts["cuda_version"] = plan.cuda_version();
  facts["model_name"] = std::string(plan.model_name());
  facts["model_hash"] = plan.model_hash();
  nb::dict options;
  for (const auto& [name, value] : plan.options()) options[text(name)] = value;
  facts["options"] = options;
  nb::dict errors;
  for (const MeasuredError& error : plan.measured_errors())
    errors[text(error.output)] = error.relative_error;
  facts["measured_errors"] = errors;
  facts["custom_code"] = plan.custom_code();
  facts["host_operators"] = plan.host_operators();
  facts["precision_notes"] = plan.precision_notes();
  return facts;
}

/// Adds libraries only to plans with host operators; others stay unchanged.
Plan with_operators(const Plan& plan, const RunOptions& options) {
  if (options.operator_libraries.empty() || plan.host_operators().empty()) return plan;
  return plan.with_operators(options.operator_libraries);
}

/// Exports the plan's bytes as a buffer that keeps the plan alive.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto bytes = nb::inst_ptr<PlanObject>(self)->bytes();
  if (bytes.data() == nullptr) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "this plan is a file's: read that");
    return -1;
  }
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(bytes.data()),
                           static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

}  // namespace

unsigned process_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

SessionOptions session_options(const RunOptions& options, bool device_outputs) {
  SessionOptions result;
  result.device = options.device;
  result.threads = options.threads;
  result.max_iterations = options.max_iterations;
  result.weight_budget = options.weight_budget;
  result.output_memory = device_outputs ? Memory::kDevice : Memory::kHost;
  return result;
}

std::unique_ptr<SessionPool::Slot> SessionPool::acquire(void* stream) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto same = std::find_if(free_.rbegin(), free_.rend(),
                                   [&](const auto& slot) { return slot->stream == stream; });
    if (same != free_.rend()) {
      std::unique_ptr<Slot> slot = std::move(*same);
      free_.erase(std::next(same).base());
      return slot;
    }
    if (!free_.empty()) {
      std::unique_ptr<Slot> slot = std::move(free_.back());
      free_.pop_back();
      return slot;
    }
    if (made_ < limit_) break;
    returned_.wait(lock);
  }
  ++made_;
  lock.unlock();
  try {
    return std::make_unique<Slot>(Session(plan_, options_), stream, StreamEvent());
  } catch (...) {
    drop();
    throw;
  }
}

void SessionPool::give_back(std::unique_ptr<Slot> slot) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(slot));
  }
  returned_.notify_one();
}

void SessionPool::drop() {
  {
    const std::lock_guard lock(mutex_);
    --made_;
  }
  returned_.notify_one();
}

PlanObject::PlanObject(const std::string& path, const RunOptions& options) : options_(options) {
  Plan plan = [&] {
    GilReleased release;
    LoadOptions load;
    load.copy = options.copy;
    load.allow_custom_code = options.allow_custom_code;
    load.require_signature = options.require_signature;
    return with_operators(Plan::load(path, load), options);
  }();
  caller_ = std::make_shared<Caller>(std::move(plan));
  start();
}

PlanObject::PlanObject(nb::object bytes, const RunOptions& options) : options_(options) {
  std::shared_ptr<Py_buffer> buffer = hold_buffer(bytes);
  const auto size = static_cast<std::size_t>(buffer->len);
  std::shared_ptr<const void> owner = buffer;
  const auto* data = static_cast<const std::byte*>(buffer->buf);
  GilReleased release;
  if (reinterpret_cast<std::uintptr_t>(data) % Plan::kAlignment != 0 || !buffer->readonly) {
    const std::shared_ptr<std::byte> copy = aligned_copy(data, size);
    data = copy.get();
    owner = copy;
    buffer.reset();
  }
  bytes_ = {data, size};
  LoadOptions load;
  load.allow_custom_code = options.allow_custom_code;
  load.require_signature = options.require_signature;
  Plan plan = with_operators(Plan::borrow(bytes_, std::move(owner), load), options);
  GilHeld acquire;
  caller_ = std::make_shared<Caller>(std::move(plan));
  start();
}

void PlanObject::start() {
  if (options_.max_sessions < 0)
    throw usage_error("max_sessions is {}: it must be 1 or more, or 0 for the default",
                      options_.max_sessions);
  if (options_.max_sessions == 0)
    options_.max_sessions = caller_->is_cuda() ? kGpuSessions : thread_pool_size();
  process_ = process_generation();
  for (const bool on_device : {false, true})
    pools_[on_device] =
        std::make_unique<SessionPool>(plan(), session_options(options_, on_device),
                                      static_cast<std::size_t>(options_.max_sessions));
}

void PlanObject::check_process() const {
  if (caller_->is_cuda() && process_ != process_generation())
    throw usage_error(
        "this plan was loaded before fork(), and a GPU's context does not live on in the child: "
        "load it there, or start processes by 'spawn' (multiprocessing.set_start_method('spawn'))");
}

SessionPool& PlanObject::pool(bool on_device) {
  if (process_ != process_generation()) {
    check_process();
    // Abandons the parent's sessions and pool, which may have been in a run or locked.
    for (auto& pool : pools_) (void)pool.release();
    start();
  }
  return *pools_[on_device];
}

nb::object PlanObject::call(nb::args positions, nb::kwargs names) {
  const std::shared_ptr<Caller> caller = caller_;
  Call call = caller->read(positions, names, true);
  caller->make_results(call);
  SessionPool& sessions = pool(call.on_device);
  std::unique_ptr<SessionPool::Slot> slot;
  struct Lease {
    SessionPool& sessions;
    std::unique_ptr<SessionPool::Slot>& slot;
    bool keep = false;
    ~Lease() {
      if (!slot) return;
      if (keep) {
        sessions.give_back(std::move(slot));
        return;
      }
      slot->copied = {};
      GilReleased release;
      slot.reset();
      sessions.drop();
    }
  } lease{sessions, slot};
  try {
    GilReleased release;
    slot = sessions.acquire(call.stream);
    // The session orders the run after its last run, but not after the copies of its outputs.
    if (call.on_device && slot->stream != call.stream) {
      GilHeld acquire;
      sessions.streams_vary = true;
      slot->copied.wait(call.library, call.device);
    }
    slot->stream = call.stream;
    if (!plan().states().empty()) slot->session.reset_state();
    caller->run(slot->session, call, Keep::kForRun);
  } catch (const Error& error) {
    // After a usage error the session is unchanged and reusable.
    lease.keep = error.code() == ErrorCode::kUsage;
    throw;
  }
  nb::object results = caller->take_results(slot->session, call);
  if (call.on_device && sessions.streams_vary) slot->copied.record(call.library, call.device);
  lease.keep = true;
  return results;
}

void bind_plan(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                                {0, nullptr}};
  SINTER_CLASS(RunOptions, device, threads, copy, max_sessions, max_iterations, allow_custom_code,
               require_signature, operator_libraries, weight_budget);
  nb::class_<PlanObject>(module, "Plan", nb::is_weak_referenceable(), nb::type_slots(slots))
      .def(
          "__init__",
          [](PlanObject* self, nb::str path, const RunOptions& options) {
            new (self) PlanObject(std::string(path.c_str()), options);
          },
          nb::arg("path"), nb::arg("options"))
      .def(
          "__init__",
          [](PlanObject* self, nb::object bytes, const RunOptions& options) {
            new (self) PlanObject(std::move(bytes), options);
          },
          nb::arg("bytes"), nb::arg("options"))
      .def("__call__", &PlanObject::call, nb::arg("args"), nb::arg("kwargs"),
           nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"),
           "Runs the plan. args, kwargs: arrays of the inputs' types and shapes, by position or by "
           "name, and out. Returns one output by itself, several as Outputs. Raises UsageError for "
           "another name, type, rank or size, OutOfMemoryError and DeviceError.")
      .def("_describe", &describe)
      .def("_options", [](const PlanObject& self) { return self.options(); })
      .def("_graph", [](const PlanObject& self) { return std::string(self.plan().graph_text()); });
}

}  // namespace sinter::python
