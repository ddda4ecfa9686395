// SPDX-License-Identifier: Apache-2.0
// Errors of Sinter as Python's exceptions: pysinter.Error and its subclasses, with what is known as
// data.
#include <optional>

#include <nanobind/stl/vector.h>
#include <sinter/compiler.h>
#include <sinter/file_error.h>

#include "tools/python/src/plan.h"
#include "tools/python/src/results.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

/// The FileError in `error` or nested in it, if any.
std::optional<FileError> file_of(const Error& error) {
  if (const auto* file = dynamic_cast<const FileError*>(&error)) return *file;
  try {
    std::rethrow_if_nested(error);
  } catch (const FileError& cause) {
    return cause;
  } catch (...) {
  }
  return std::nullopt;
}

void raise(const Error& error, const std::vector<Diagnostic>* diagnostics) {
  try {
    const nb::object make = nb::module_::import_("pysinter._errors").attr("make");
    nb::list said;
    if (diagnostics != nullptr)
      for (const Diagnostic& diagnostic : *diagnostics) said.append(to_python(diagnostic));
    const Error::Node& node = error.node();
    const std::optional<FileError> file = file_of(error);
    const nb::object exception =
        make(std::string(to_string(error.code())), text(error.what()), node.name, node.op,
             node.inputs, said, file ? file->path() : std::string(), file ? file->number() : 0);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const CompileError& error) {
      raise(error, &error.diagnostics());
    } catch (const Error& error) {
      raise(error, nullptr);
    }
  });
}

}  // namespace sinter::python
