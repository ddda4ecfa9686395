// SPDX-License-Identifier: Apache-2.0
// The compiler: options as objects that Python fills, calls that Ctrl-C ends.
#include <algorithm>
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

#include "runtime/format_error.h"
#include "tools/compiler/api.h"
#include "tools/compiler/options/option_values.h"
#include "tools/python/src/arrays.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/results.h"
#include "tools/python/src/struct.h"
#include "tools/python/src/text.h"
#include "tools/report/report.h"

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

/// Runs `work` on another thread without the GIL, while this thread handles signals. An exception
/// of a signal handler (KeyboardInterrupt) stops the work and propagates.
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
      GilReleased release;
      std::unique_lock lock(mutex);
      waiting = !changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return done; });
    }
    if (!interrupted && PyErr_CheckSignals() != 0) {
      interrupted.emplace();
      stop.request_stop();
    }
  }
  {
    GilReleased release;
    thread.join();
  }
  if (interrupted) throw std::move(*interrupted);
  if (error) std::rethrow_exception(std::exchange(error, nullptr));
  return std::move(*result);
}

/// `progress(stage, done, total)` and `diagnostic(dict)`; either may be None.
Monitor make_monitor(nb::handle progress, nb::handle diagnostic, const std::stop_source& stop) {
  Monitor monitor;
  monitor.stop = stop.get_token();
  if (!progress.is_none())
    monitor.on_progress = [progress](std::string_view stage, std::size_t done, std::size_t total) {
      GilHeld acquire;
      progress(nb::str(stage.data(), stage.size()), done, total);
    };
  if (!diagnostic.is_none())
    monitor.on_diagnostic = [diagnostic](const Diagnostic& said) {
      GilHeld acquire;
      diagnostic(to_python(said));
    };
  return monitor;
}

/// Runs `call(options)` interruptibly, with callbacks `progress` and `diagnostic`.
template <typename Options, typename Call>
auto monitored(Options options, nb::handle progress, nb::handle diagnostic, Call call) {
  std::stop_source stop;
  options.monitor = make_monitor(progress, diagnostic, stop);
  return interruptible(stop, [&] { return call(options); });
}

nb::tuple compile_model(const Source& source, const CompileOptions& given,
                        const std::optional<std::string>& path, nb::object progress,
                        nb::object diagnostic) {
  const CompileResult result = monitored(given, progress, diagnostic, [&](const auto& options) {
    return path ? compile_to_file(source.model, *path, options) : compile(source.model, options);
  });
  nb::dict report = to_python(result);
  if (path || result.plan.empty()) return nb::make_tuple(nb::none(), report);
  return nb::make_tuple(nb::bytes(result.plan.data(), result.plan.size()), report);
}

nb::dict verify_model(const Source& source, const CompileOptions& given,
                      const VerifyOptions& verify_as, nb::object progress, nb::object diagnostic) {
  return to_python(monitored(given, progress, diagnostic, [&](const auto& options) {
    return verify(source.model, options, verify_as);
  }));
}

nb::dict compare_model(const Source& source, const CompileOptions& given,
                       const CompareOptions& measure, nb::object progress, nb::object diagnostic) {
  return to_python(monitored(given, progress, diagnostic, [&](const auto& options) {
    return compare(source.model, options, measure);
  }));
}

nb::bytes refit_plan(const PlanObject& plan, const std::vector<NamedTensor>& tensors,
                     const RefitOptions& given) {
  const RefitResult result = monitored(given, nb::none(), nb::none(), [&](const auto& options) {
    return refit(plan.plan(), tensors, "", options);
  });
  return nb::bytes(result.plan.data(), result.plan.size());
}

nb::dict profile_plan(const PlanObject& plan, const ProfileOptions& given, nb::object progress) {
  plan.check_process();
  return to_python(monitored(given, progress, nb::none(),
                             [&](const auto& options) { return profile(plan.plan(), options); }));
}

std::string why_nodes(const Source& source, const std::string& a, const std::string& b,
                      const CompileOptions& given) {
  return monitored(given, nb::none(), nb::none(),
                   [&](const auto& options) { return why(source.model, a, b, options); });
}

std::string inspect_source(const Source& source, const CompileOptions& given) {
  return monitored(given, nb::none(), nb::none(),
                   [&](const auto& options) { return inspect_model(source.model, options); });
}

std::string graph_of(const Source& source, const CompileOptions& given, const std::string& behind) {
  return monitored(given, nb::none(), nb::none(),
                   [&](const auto& options) { return graph_text(source.model, options, behind); });
}

/// Options of a report; `measure` has the inputs and the device for measurements.
tools::ReportOptions report_options(const ProfileOptions& measure, bool measures, bool verify) {
  tools::ReportOptions how;
  how.inputs = measure.inputs;
  how.session = measure.session;
  how.rounds = measure.rounds;
  how.measure = measures;
  how.verify = verify;
  return how;
}

/// The HTML page of `report`; `against`: another page to compare with, or empty.
std::string page_of(const nlohmann::ordered_json& report, const std::string& against) {
  if (against.empty()) return tools::report_page(report);
  return tools::report_page(report, tools::data_of_page(against, "against"));
}

std::string report_model(const Source& source, const CompileOptions& given,
                         const ProfileOptions& measure, bool measures, bool verify,
                         const std::string& against, nb::object progress) {
  return monitored(given, progress, nb::none(), [&](const CompileOptions& options) {
    return tools::at_boundary(options.monitor, tools::OptionNames::kFields, [&](auto& reporter) {
      const tools::BuildOptions build(source.model, options);
      return page_of(
          tools::report_of_model(build, report_options(measure, measures, verify), reporter),
          against);
    });
  });
}

std::string report_plan(const PlanObject& plan, const std::string& name,
                        const ProfileOptions& measure, bool measures, const std::string& against,
                        nb::object progress) {
  plan.check_process();
  return monitored(measure, progress, nb::none(), [&](const ProfileOptions& options) {
    return tools::at_boundary(options.monitor, tools::OptionNames::kFields, [&](auto& reporter) {
      return page_of(tools::report_of_plan(plan.plan(), name,
                                           report_options(options, measures, false), reporter),
                     against);
    });
  });
}

/// A tensor with the array (or copy) that it views. Options keep only the view, so Python keeps
/// this object while it uses them.
struct HeldTensor : NamedTensor {
  HeldTensor(std::string name_in, nb::handle value)
      : NamedTensor{std::move(name_in), {}}, array(Array::read(value, "tensor '" + name + "'")) {
    if (array.on_device())
      throw usage_error("tensor '" + name + "' is in GPU memory: give it as a NumPy array");
    tensor = array.view();
  }

  Array array;
};

/// The rows of compile options.
nb::list option_dicts() {
  nb::list list;
  for (const tools::OptionRow& row : tools::option_rows()) {
    nb::dict d;
    d["flag"] = text(row.flag);
    d["keyword"] = text(row.keyword);
    d["type"] = text(row.type);
    d["values"] = text(row.values);
    d["default"] = text(row.standard);
    d["help"] = text(row.help);
    d["kind"] = text(to_string(row.kind));
    d["group"] = text(title_of(row.group));
    d["group_index"] = static_cast<int>(row.group);
    list.append(d);
  }
  return list;
}

/// Replaces the flag in a message by the keyword.
std::string with_keyword(std::string message, const tools::OptionRow& row) {
  if (const std::size_t at = message.find(row.name()); !row.flag.empty() && at != message.npos)
    message.replace(at, row.name().size(), row.keyword);
  return message;
}

}  // namespace

void bind_compiler(nb::module_& module) {
  nb::class_<Source>(module, "Source")
      .def(nb::init<nb::handle, const std::string&, const std::string&>(), nb::arg("model"),
           nb::arg("folder"), nb::arg("name"));
  nb::class_<NamedTensor>(module, "TensorOfOptions");
  nb::class_<HeldTensor, NamedTensor>(module, "NamedTensor")
      .def(nb::init<std::string, nb::handle>(), nb::arg("name"), nb::arg("array"));
  SINTER_CLASS(DimRange, min, max, multiple_of, same_as);
  SINTER_CLASS(SessionOptions, device, threads, cuda_graphs, operator_libraries);
  SINTER_CLASS(RunInputs, tensors, files, shapes, ranges, seed);
  // Options with values that are texts, numbers or lists of these are set by set_option.
  SINTER_CLASS(WeightOptions, calibration, calibration_files);
  SINTER_CLASS(StateOptions, find, pairs);
  SINTER_CLASS(EntryOptions, name, limits);
  SINTER_CLASS(TuneOptions, shapes, operator_libraries);
  SINTER_CLASS(VerifyOptions, inputs, session, max_error, runs, save_folder);
  SINTER_CLASS(CompareOptions, inputs, session, rounds, seconds, hot);
  SINTER_CLASS(ProfileOptions, inputs, session, rounds);
  SINTER_CLASS(RefitOptions, partial);
  SINTER_CLASS(PlanViews, graph, steps, kernels, source, memory, tuning, shapes);
  SINTER_CLASS(CompileOptions, weights, min_shapes, max_shapes, dims, bounds, constants, operators,
               states, entries, tuning, kernel_cache, verify);

  module.def("compile_option_rows", &option_dicts);
  module.def(
      "set_option",
      [](CompileOptions& options, const std::string& keyword, const std::string& text) {
        const auto rows = tools::option_rows();
        const auto row = std::ranges::find(rows, keyword, &tools::OptionRow::keyword);
        if (row == rows.end()) throw usage_error("there is no option '{}'", keyword);
        try {
          tools::set_option(*row, text, options);
        } catch (const Error& error) {
          throw Error(error.code(), with_keyword(error.what(), *row));
        }
      },
      nb::arg("options"), nb::arg("keyword"), nb::arg("text"));
  module.def("parse_dim", [](const std::string& text) {
    DimRanges ranges;
    parse_dim(text, ranges);
    return ranges;
  });
  module.def("parse_shapes", [](const std::string& text) { return parse_shapes(text); });

  module.def("compile", &compile_model, nb::arg("source"), nb::arg("options"),
             nb::arg("path").none(), nb::arg("progress").none(), nb::arg("diagnostic").none());
  module.def("verify", &verify_model, nb::arg("source"), nb::arg("options"), nb::arg("verify"),
             nb::arg("progress").none(), nb::arg("diagnostic").none());
  module.def("compare", &compare_model, nb::arg("source"), nb::arg("options"), nb::arg("compare"),
             nb::arg("progress").none(), nb::arg("diagnostic").none());
  module.def("profile", &profile_plan, nb::arg("plan"), nb::arg("options"),
             nb::arg("progress").none());
  module.def("refit", &refit_plan, nb::arg("plan"), nb::arg("tensors"), nb::arg("options"));
  module.def(
      "inspect_refit", [](const PlanObject& plan) { return inspect_refit(plan.plan()); },
      nb::arg("plan"));
  module.def("why", &why_nodes, nb::arg("source"), nb::arg("node_a"), nb::arg("node_b"),
             nb::arg("options"));
  module.def("report_model", &report_model, nb::arg("source"), nb::arg("options"),
             nb::arg("measure"), nb::arg("measures"), nb::arg("verify"), nb::arg("against"),
             nb::arg("progress").none());
  module.def("report_plan", &report_plan, nb::arg("plan"), nb::arg("name"), nb::arg("measure"),
             nb::arg("measures"), nb::arg("against"), nb::arg("progress").none());
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
