// sinter.Session: a session that a program holds itself, for states and for inputs that stay.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "tools/python/src/plan.h"

namespace sinter::python {
namespace {

SessionOptions session_options(const RunOptions& options, bool on_device) {
  SessionOptions result;
  result.device = options.device;
  result.threads = options.threads;
  result.output_memory = on_device ? Memory::kDevice : Memory::kHost;
  return result;
}

class SessionObject {
 public:
  SessionObject(nb::object plan, bool device_outputs)
      : plan_object_(std::move(plan)), device_outputs_(device_outputs) {
    const auto& object = nb::cast<const PlanObject&>(plan_object_);
    object.check_process();
    caller_ = object.caller();
    if (device_outputs && !caller_->is_cuda())
      throw Error(ErrorCode::kUsage, "device_outputs is for plans that run on a GPU");
    process_ = process_generation();
    nb::gil_scoped_release release;
    session_.emplace(caller_->plan(), session_options(object.options(), device_outputs));
  }
  ~SessionObject() {
    // What belongs to another process is left as it is.
    if (session_ && process_ != process_generation()) new Session(std::move(*session_));
    nb::gil_scoped_release release;
    session_.reset();
  }

  nb::object run(nb::args positions, nb::kwargs names) {
    check();
    Call call = caller_->read(positions, names, false);
    if (device_outputs_ && !call.on_device) {
      if (!held_device_)
        throw Error(ErrorCode::kUsage, "a session with device_outputs takes inputs in GPU memory");
      call.on_device = true;
      call.library = held_library_;
      call.device = nb::cast<const PlanObject&>(plan_object_).options().device;
      call.stream = current_stream(call.library, call.device);
    }
    if (call.on_device && !device_outputs_)
      throw Error(ErrorCode::kUsage,
                  "an input is in GPU memory, and this session's outputs are on the host: "
                  "plan.session(device_outputs=True)");
    if (call.on_device && stream_ != nullptr && stream_ != call.stream)
      synchronize(call.library, call.device);  // outputs may still be read on the other stream
    {
      nb::gil_scoped_release release;
      caller_->run(*session_, call, Keep::kForLater);
    }
    if (call.on_device) {
      stream_ = call.stream;
      held_device_ = true;
      held_library_ = call.library;
    }
    hold(call);
    call.key.clear();  // not of all inputs
    return caller_->take_results(*session_, call);
  }

  nb::object output(const std::string& name) {
    check();
    const std::size_t index = caller_->plan().output_index(name);
    if (device_outputs_) return copy_device_output(held_library_, *session_, index);
    const TensorView& view = session_->output(index);
    return caller_->copy_output(Library::kNumpy, view);
  }

  void reset() {
    check();
    nb::gil_scoped_release release;
    session_->reset_state();
  }

  void warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
    check();
    nb::gil_scoped_release release;
    session_->warm_up(shapes);
  }

  nb::dict facts() const {
    const MemoryAccount memory = session_->memory();
    nb::dict result;
    result["weights"] = memory.weights;
    result["arena"] = memory.arena;
    result["arena_without_reuse"] = memory.arena_without_reuse;
    result["workspace"] = memory.workspace;
    result["io"] = memory.io;
    return result;
  }

  std::string entry() const { return std::string(session_->entry()); }
  std::size_t launches() const { return session_->launches(); }
  std::uint64_t bytes_moved() const { return session_->bytes_moved(); }
  nb::object plan() const { return plan_object_; }

 private:
  void check() const {
    if (process_ != process_generation())
      throw Error(ErrorCode::kUsage,
                  "this session was made before fork(): make one in the child, plan.session()");
  }
  /// Device inputs are read where they lie by later runs, too.
  void hold(Call& call) {
    held_.resize(call.inputs.size());
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      if (call.inputs[i]) held_[i] = std::move(call.inputs[i]);
  }

  nb::object plan_object_;
  bool device_outputs_;
  std::shared_ptr<Caller> caller_;
  std::optional<Session> session_;
  std::vector<Array> held_;
  void* stream_ = nullptr;
  bool held_device_ = false;
  Library held_library_ = Library::kTorch;
  unsigned process_ = 0;
};

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<SessionObject>(module, "Session")
      .def(nb::init<nb::object, bool>(), nb::arg("plan"), nb::arg("device_outputs"))
      .def("run", &SessionObject::run, nb::arg("args"), nb::arg("kwargs"))
      .def("output", &SessionObject::output, nb::arg("name"))
      .def("reset", &SessionObject::reset)
      .def("_warm_up", &SessionObject::warm_up, nb::arg("shapes"))
      .def_prop_ro("plan", &SessionObject::plan)
      .def_prop_ro("memory", &SessionObject::facts)
      .def_prop_ro("entry", &SessionObject::entry)
      .def_prop_ro("launches", &SessionObject::launches)
      .def_prop_ro("bytes_moved", &SessionObject::bytes_moved);
}

}  // namespace sinter::python
