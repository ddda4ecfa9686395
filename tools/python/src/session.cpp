// SPDX-License-Identifier: Apache-2.0
// pysinter.Session: a session that a program holds itself, for states and for inputs that stay.
#include <atomic>

#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include "runtime/format_error.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

class SessionObject {
 public:
  SessionObject(nb::object plan, bool device_outputs)
      : plan_object_(std::move(plan)), device_outputs_(device_outputs) {
    const auto& object = nb::cast<const PlanObject&>(plan_object_);
    object.check_process();
    caller_ = object.caller();
    if (device_outputs && !caller_->is_cuda())
      throw usage_error("device_outputs is for plans that run on a GPU");
    process_ = process_generation();
    GilReleased release;
    session_.emplace(caller_->plan(), session_options(object.options(), device_outputs));
  }
  ~SessionObject() {
    // Leaks a session that belongs to the parent process.
    if (session_ && process_ != process_generation()) new Session(std::move(*session_));
    GilReleased release;
    session_.reset();
  }

  nb::object run(nb::args positions, nb::kwargs names) {
    const Use use(*this);
    Call call = caller_->read(positions, names, false);
    if (device_outputs_ && !call.on_device) {
      if (!held_device_)
        throw usage_error("a session with device_outputs takes inputs in GPU memory");
      call.on_device = true;
      call.library = held_library_;
      call.device = nb::cast<const PlanObject&>(plan_object_).options().device;
      call.stream = current_stream(call.library, call.device);
    }
    if (call.on_device && !device_outputs_)
      throw usage_error(
          "an input is in GPU memory, and this session's outputs are on the host: "
          "plan.session(device_outputs=True)");
    caller_->check_overlaps(call, held_);
    if (call.on_device && stream_ != nullptr && stream_ != call.stream)
      synchronize(call.library, call.device);  // outputs may still be in use on the other stream
    const Hold hold{*this, call};
    {
      GilReleased release;
      caller_->run(*session_, call, Keep::kForLater);
    }
    if (call.on_device) {
      stream_ = call.stream;
      held_device_ = true;
      held_library_ = call.library;
    }
    call.key.clear();  // not all inputs are given
    return caller_->take_results(*session_, call);
  }

  nb::object output(const std::string& name) {
    const Use use(*this);
    const std::size_t index = caller_->plan().output_index(name);
    if (device_outputs_) return copy_device_output(held_library_, *session_, index);
    const TensorView& view = session_->output(index);
    return caller_->copy_output(Library::kNumpy, view);
  }

  void reset() {
    const Use use(*this);
    GilReleased release;
    session_->reset_state();
  }

  void set_weights(const PlanObject& plan) {
    const Use use(*this);
    plan.check_process();
    const Plan weights = plan.plan();
    GilReleased release;
    session_->set_weights(weights);
  }

  void warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
    const Use use(*this);
    GilReleased release;
    session_->warm_up(shapes);
  }

  nb::dict facts() {
    const Use use(*this);
    const MemoryAccount memory = session_->memory();
    nb::dict result;
    result["weights"] = memory.weights;
    result["arena"] = memory.arena;
    result["arena_without_reuse"] = memory.arena_without_reuse;
    result["workspace"] = memory.workspace;
    result["io"] = memory.io;
    result["streamed_weights"] = memory.streamed_weights;
    result["weight_ring"] = memory.weight_ring;
    return result;
  }

  std::string entry() {
    const Use use(*this);
    return std::string(session_->entry());
  }
  std::size_t launches() {
    const Use use(*this);
    return session_->launches();
  }
  std::uint64_t bytes_moved() {
    const Use use(*this);
    return session_->bytes_moved();
  }
  nb::object plan() const { return plan_object_; }

 private:
  /// Marks a thread inside a method. A run consists of several calls of the C++ session with the
  /// GIL released; another thread's calls between them would mix up results.
  struct Use {
    explicit Use(SessionObject& session_in) : session(session_in) {
      if (session.process_ != process_generation())
        throw usage_error(
            "this session was made before fork(): make one in the child, plan.session()");
      if (session.busy_.exchange(true))
        throw usage_error(
            "the session is used from two threads at once: give each thread a session of "
            "its own, plan.session(); calls of the plan itself need none");
    }
    ~Use() { session.busy_ = false; }

    SessionObject& session;
  };

  /// Its destructor moves the arrays to which the C++ session still points from the call to the
  /// session object, whether or not the run succeeded.
  struct Hold {
    ~Hold() {
      session.held_.resize(call.inputs.size());
      for (std::size_t i = 0; i < call.inputs_set; ++i) {
        if (!call.inputs[i]) continue;
        // Host memory was copied and need not be kept.
        session.held_[i] = call.inputs[i].on_device() ? std::move(call.inputs[i]) : Array();
      }
      session.held_out_.resize(session.caller_->results().size());
      for (std::size_t place = 0; place < call.outputs_set; ++place)
        session.held_out_[place] = place < call.out.size() ? std::move(call.out[place]) : Array();
    }

    SessionObject& session;
    Call& call;
  };

  nb::object plan_object_;
  bool device_outputs_;
  std::shared_ptr<Caller> caller_;
  std::optional<Session> session_;
  std::vector<Array> held_;      // device inputs, which later runs read in place
  std::vector<Array> held_out_;  // out= of the last run, by index: output() reads it
  std::atomic<bool> busy_ = false;
  void* stream_ = nullptr;
  bool held_device_ = false;
  Library held_library_ = Library::kTorch;
  unsigned process_ = 0;
};

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<SessionObject>(module, "Session")
      .def(nb::init<nb::object, bool>(), nb::arg("plan"), nb::arg("device_outputs"))
      .def(
          "run", &SessionObject::run, nb::arg("args"), nb::arg("kwargs"),
          nb::sig("def run(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"),
          "Runs once. args, kwargs: inputs by position or by name, and out, as a call of the plan "
          "takes them; an input that is not given is that of the run before. Returns one output by "
          "itself, several as Outputs. Raises UsageError for another name, type, rank or size.")
      .def("output", &SessionObject::output, nb::arg("name"),
           nb::sig("def output(self, name: str) -> typing.Any"),
           "What the last run left in the output `name`, states included: a copy, of the output's "
           "shape in that run. Raises UsageError for another name.")
      .def("reset", &SessionObject::reset, "States are zeros again, as in a new session.")
      .def("_warm_up", &SessionObject::warm_up, nb::arg("shapes"))
      .def("_set_weights", &SessionObject::set_weights, nb::arg("plan"))
      .def_prop_ro("plan", &SessionObject::plan, nb::sig("def plan(self) -> typing.Any"),
                   "The plan that it runs.")
      .def_prop_ro("memory", &SessionObject::facts, nb::sig("def memory(self) -> dict[str, int]"),
                   "Bytes that it holds: weights (shared with other sessions of the plan), arena, "
                   "arena_without_reuse, workspace, io, streamed_weights, weight_ring.")
      .def_prop_ro("entry", &SessionObject::entry,
                   "The entry point that the last run took; empty if the plan has none.")
      .def_prop_ro("launches", &SessionObject::launches,
                   "Kernels and library calls of one run of the last shapes.")
      .def_prop_ro("bytes_moved", &SessionObject::bytes_moved,
                   "Bytes that all steps of such a run must read and write.");
}

}  // namespace sinter::python
