// The compiler: options as objects that Python fills, calls that Ctrl-C ends.
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>
#include <sinter/compiler.h>

#include "tools/python/src/arrays.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/results.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

/// A model's path, or its bytes.
struct Source {
  Model model;
  Py_buffer buffer{};
  bool has_buffer = false;

  Source(nb::handle path_or_bytes, const std::string& folder, const std::string& name) {
    if (nb::isinstance<nb::str>(path_or_bytes)) {
      model.path = nb::cast<std::string>(path_or_bytes);
      return;
    }
    if (PyObject_GetBuffer(path_or_bytes.ptr(), &buffer, PyBUF_SIMPLE) != 0)
      throw nb::python_error();
    has_buffer = true;
    model.bytes = {static_cast<const std::byte*>(buffer.buf), static_cast<std::size_t>(buffer.len)};
    model.folder = folder;
    model.name = name;
  }
  Source(const Source&) = delete;
  ~Source() {
    if (has_buffer) PyBuffer_Release(&buffer);
  }
};

/// Runs `work` without the GIL on a thread of its own, while this one sees signals: what a signal's
/// handler raises (KeyboardInterrupt) stops the work and leaves this.
template <typename Work>
auto interruptible(std::stop_source& stop, Work work) {
  std::optional<decltype(work())> result;
  std::exception_ptr error;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread thread([&] {
    try {
      result.emplace(work());
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  std::optional<nb::python_error> interrupted;
  for (bool waiting = true; waiting;) {
    {
      nb::gil_scoped_release release;
      std::unique_lock lock(mutex);
      waiting = !changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return done; });
    }
    if (!interrupted && PyErr_CheckSignals() != 0) {
      interrupted.emplace();
      stop.request_stop();
    }
  }
  {
    nb::gil_scoped_release release;
    thread.join();
  }
  if (interrupted) throw std::move(*interrupted);
  if (error) std::rethrow_exception(std::exchange(error, nullptr));
  return std::move(*result);
}

/// `progress(stage, done, total)` and `diagnostic(dict)`, each or None.
Monitor make_monitor(nb::handle progress, nb::handle diagnostic, const std::stop_source& stop) {
  Monitor monitor;
  monitor.stop = stop.get_token();
  if (!progress.is_none())
    monitor.on_progress = [progress](std::string_view stage, std::size_t done, std::size_t total) {
      nb::gil_scoped_acquire acquire;
      progress(nb::str(stage.data(), stage.size()), done, total);
    };
  if (!diagnostic.is_none())
    monitor.on_diagnostic = [diagnostic](const Diagnostic& said) {
      nb::gil_scoped_acquire acquire;
      diagnostic(to_python(said));
    };
  return monitor;
}

nb::tuple compile_model(const Source& source, CompileOptions options,
                        const std::optional<std::string>& path, nb::object progress,
                        nb::object diagnostic) {
  std::stop_source stop;
  options.monitor = make_monitor(progress, diagnostic, stop);
  CompileResult result = interruptible(stop, [&] {
    return path ? compile_to_file(source.model, *path, options) : compile(source.model, options);
  });
  nb::dict report = to_python(result);
  if (path || result.plan.empty()) return nb::make_tuple(nb::none(), report);
  return nb::make_tuple(nb::bytes(result.plan.data(), result.plan.size()), report);
}

nb::dict verify_model(const Source& source, CompileOptions options, const VerifyOptions& verify_as,
                      nb::object progress, nb::object diagnostic) {
  std::stop_source stop;
  options.monitor = make_monitor(progress, diagnostic, stop);
  return to_python(interruptible(stop, [&] { return verify(source.model, options, verify_as); }));
}

nb::dict compare_model(const Source& source, CompileOptions options, const CompareOptions& measure,
                       nb::object progress, nb::object diagnostic) {
  std::stop_source stop;
  options.monitor = make_monitor(progress, diagnostic, stop);
  return to_python(interruptible(stop, [&] { return compare(source.model, options, measure); }));
}

nb::dict profile_plan(const PlanObject& plan, ProfileOptions options, nb::object progress) {
  plan.check_process();
  std::stop_source stop;
  options.monitor = make_monitor(progress, nb::none(), stop);
  return to_python(interruptible(stop, [&] { return profile(plan.plan(), options); }));
}

std::string why_nodes(const Source& source, const std::string& a, const std::string& b,
                      CompileOptions options) {
  std::stop_source stop;
  options.monitor = make_monitor(nb::none(), nb::none(), stop);
  return interruptible(stop, [&] { return why(source.model, a, b, options); });
}

std::string inspect_source(const Source& source, CompileOptions options) {
  std::stop_source stop;
  options.monitor = make_monitor(nb::none(), nb::none(), stop);
  return interruptible(stop, [&] { return inspect_model(source.model, options); });
}

std::string graph_of(const Source& source, CompileOptions options, const std::string& behind) {
  std::stop_source stop;
  options.monitor = make_monitor(nb::none(), nb::none(), stop);
  return interruptible(stop, [&] { return graph_text(source.model, options, behind); });
}

/// A tensor with the array that it is a view of, or a copy of that. Options take the view alone:
/// Python keeps this object as long as it uses them.
struct HeldTensor : NamedTensor {
  HeldTensor(std::string name_in, nb::handle value)
      : NamedTensor{std::move(name_in), {}}, array(Array::read(value, "tensor '" + name + "'")) {
    if (array.on_device())
      throw Error(ErrorCode::kUsage,
                  "tensor '" + name + "' is in GPU memory: give it as a NumPy array");
    tensor = array.view();
  }

  Array array;
};

}  // namespace

void bind_compiler(nb::module_& module) {
  nb::class_<Source>(module, "Source")
      .def(nb::init<nb::handle, const std::string&, const std::string&>(), nb::arg("model"),
           nb::arg("folder"), nb::arg("name"));
  nb::class_<NamedTensor>(module, "TensorOfOptions");
  nb::class_<HeldTensor, NamedTensor>(module, "NamedTensor")
      .def(nb::init<std::string, nb::handle>(), nb::arg("name"), nb::arg("array"));
  nb::class_<DimRange>(module, "DimRange")
      .def(nb::init<>())
      .def_rw("min", &DimRange::min)
      .def_rw("max", &DimRange::max)
      .def_rw("multiple_of", &DimRange::multiple_of)
      .def_rw("same_as", &DimRange::same_as);
  nb::class_<SessionOptions>(module, "SessionOptions")
      .def(nb::init<>())
      .def_rw("device", &SessionOptions::device)
      .def_rw("threads", &SessionOptions::threads)
      .def_rw("cuda_graphs", &SessionOptions::cuda_graphs);
  nb::class_<RunInputs>(module, "RunInputs")
      .def(nb::init<>())
      .def_rw("tensors", &RunInputs::tensors)
      .def_rw("files", &RunInputs::files)
      .def_rw("shapes", &RunInputs::shapes)
      .def_rw("ranges", &RunInputs::ranges)
      .def_rw("seed", &RunInputs::seed);
  nb::class_<WeightOptions>(module, "WeightOptions")
      .def(nb::init<>())
      .def_rw("keep", &WeightOptions::keep)
      .def_rw("max_layer_error", &WeightOptions::max_layer_error)
      .def_rw("calibration", &WeightOptions::calibration)
      .def_rw("calibration_files", &WeightOptions::calibration_files);
  nb::class_<StateOptions>(module, "StateOptions")
      .def(nb::init<>())
      .def_rw("find", &StateOptions::find)
      .def_rw("pairs", &StateOptions::pairs);
  nb::class_<SampleOptions>(module, "SampleOptions")
      .def(nb::init<>())
      .def_rw("temperature", &SampleOptions::temperature)
      .def_rw("top_k", &SampleOptions::top_k)
      .def_rw("top_p", &SampleOptions::top_p)
      .def_rw("keep_logits", &SampleOptions::keep_logits)
      .def_rw("ids", &SampleOptions::ids)
      .def_rw("logits", &SampleOptions::logits)
      .def_rw("position", &SampleOptions::position);
  nb::class_<EntryOptions>(module, "EntryOptions")
      .def(nb::init<>())
      .def_rw("name", &EntryOptions::name)
      .def_rw("limits", &EntryOptions::limits);
  nb::class_<TuneOptions>(module, "TuneOptions")
      .def(nb::init<>())
      .def_rw("seconds", &TuneOptions::seconds)
      .def_rw("file", &TuneOptions::file)
      .def_rw("gpu", &TuneOptions::gpu)
      .def_rw("shapes", &TuneOptions::shapes)
      .def_rw("device", &TuneOptions::device);
  nb::class_<VerifyOptions>(module, "VerifyOptions")
      .def(nb::init<>())
      .def_rw("inputs", &VerifyOptions::inputs)
      .def_rw("session", &VerifyOptions::session)
      .def_rw("max_error", &VerifyOptions::max_error)
      .def_rw("runs", &VerifyOptions::runs)
      .def_rw("save_folder", &VerifyOptions::save_folder);
  nb::class_<CompareOptions>(module, "CompareOptions")
      .def(nb::init<>())
      .def_rw("inputs", &CompareOptions::inputs)
      .def_rw("session", &CompareOptions::session)
      .def_rw("rounds", &CompareOptions::rounds)
      .def_rw("seconds", &CompareOptions::seconds)
      .def_rw("hot", &CompareOptions::hot);
  nb::class_<ProfileOptions>(module, "ProfileOptions")
      .def(nb::init<>())
      .def_rw("inputs", &ProfileOptions::inputs)
      .def_rw("session", &ProfileOptions::session)
      .def_rw("rounds", &ProfileOptions::rounds);
  nb::class_<PlanViews>(module, "PlanViews")
      .def(nb::init<>())
      .def_rw("graph", &PlanViews::graph)
      .def_rw("steps", &PlanViews::steps)
      .def_rw("kernels", &PlanViews::kernels)
      .def_rw("source", &PlanViews::source)
      .def_rw("memory", &PlanViews::memory)
      .def_rw("tuning", &PlanViews::tuning)
      .def_rw("shapes", &PlanViews::shapes);
  nb::class_<CompileOptions>(module, "CompileOptions")
      .def(nb::init<>())
      .def_rw("target", &CompileOptions::target)
      .def_prop_rw(
          "precision", [](const CompileOptions& o) { return std::string(to_string(o.precision)); },
          [](CompileOptions& o, const std::string& text) { o.precision = parse_precision(text); })
      .def_rw("weights", &CompileOptions::weights)
      .def_rw("min_shapes", &CompileOptions::min_shapes)
      .def_rw("max_shapes", &CompileOptions::max_shapes)
      .def_rw("dims", &CompileOptions::dims)
      .def_rw("constants", &CompileOptions::constants)
      .def_rw("pad_selections", &CompileOptions::pad_selections)
      .def_rw("drop_unsupported_outputs", &CompileOptions::drop_unsupported_outputs)
      .def_rw("max_compile_memory", &CompileOptions::max_compile_memory)
      .def_rw("states", &CompileOptions::states)
      .def_rw("sample", &CompileOptions::sample)
      .def_rw("entries", &CompileOptions::entries)
      .def_rw("fuse", &CompileOptions::fuse)
      .def_rw("disabled_passes", &CompileOptions::disabled_passes)
      .def_rw("strict", &CompileOptions::strict)
      .def_rw("programmatic_launch", &CompileOptions::programmatic_launch)
      .def_rw("precise_math", &CompileOptions::precise_math)
      .def_rw("schedule", &CompileOptions::schedule)
      .def_rw("tuning", &CompileOptions::tuning)
      .def_rw("jobs", &CompileOptions::jobs)
      .def_rw("kernel_cache", &CompileOptions::kernel_cache)
      .def_rw("verify", &CompileOptions::verify);

  module.def("parse_weights", [](const std::string& text) { return parse_weights(text); });
  module.def("parse_bytes", [](const std::string& text) { return parse_bytes(text); });
  module.def("parse_sample", [](const std::string& text) { return parse_sample(text); });
  module.def("parse_entry", [](const std::string& text) { return parse_entry(text); });
  module.def("parse_dim", [](const std::string& text) {
    DimRanges ranges;
    parse_dim(text, ranges);
    return ranges;
  });
  module.def("parse_shapes", [](const std::string& text) { return parse_shapes(text); });
  module.def("default_kernel_cache", &default_kernel_cache);

  module.def("compile", &compile_model, nb::arg("source"), nb::arg("options"),
             nb::arg("path").none(), nb::arg("progress").none(), nb::arg("diagnostic").none());
  module.def("verify", &verify_model, nb::arg("source"), nb::arg("options"), nb::arg("verify"),
             nb::arg("progress").none(), nb::arg("diagnostic").none());
  module.def("compare", &compare_model, nb::arg("source"), nb::arg("options"), nb::arg("compare"),
             nb::arg("progress").none(), nb::arg("diagnostic").none());
  module.def("profile", &profile_plan, nb::arg("plan"), nb::arg("options"),
             nb::arg("progress").none());
  module.def("why", &why_nodes, nb::arg("source"), nb::arg("node_a"), nb::arg("node_b"),
             nb::arg("options"));
  module.def("inspect_model", &inspect_source, nb::arg("source"), nb::arg("options"));
  module.def(
      "inspect_plan",
      [](const PlanObject& plan, const PlanViews& views) {
        return inspect_plan(plan.plan(), views);
      },
      nb::arg("plan"), nb::arg("views"));
  module.def("graph_text", &graph_of, nb::arg("source"), nb::arg("options"),
             nb::arg("behind_pass"));
}

}  // namespace sinter::python
