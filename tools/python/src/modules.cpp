// SPDX-License-Identifier: Apache-2.0
#include "tools/python/src/modules.h"

#include <string>

#include "runtime/format_error.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

bool is_instance(nb::handle value, nb::handle type) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == type.ptr()) return true;
  const int result = PyObject_IsInstance(value.ptr(), type.ptr());
  if (result < 0) throw nb::python_error();
  return result == 1;
}

nb::object imported(nb::handle modules, const char* name) {
  PyObject* module = PyDict_GetItemString(modules.ptr(), name);
  return module == nullptr || module == Py_None ? nb::object() : nb::borrow(module);
}

}  // namespace

std::string_view python_name(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {
      "bool",    "int8",          "int16",       "int32",           "int64",          "uint8",
      "uint16",  "uint32",        "uint64",      "float16",         "bfloat16",       "float32",
      "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"};
  return names[static_cast<std::uint8_t>(dtype)];
}

Modules& Modules::get() {
  // Never destroyed, because the interpreter ends first. No function-local static: its lock could
  // deadlock with an import, which releases the GIL.
  static Modules* modules = nullptr;
  if (modules == nullptr) {
    auto* made = new Modules();
    if (modules == nullptr) modules = made;
  }
  return *modules;
}

Modules::Modules() {
  modules_ = nb::module_::import_("sys").attr("modules");
  numpy_ = nb::module_::import_("numpy");
  ndarray_ = numpy_.attr("ndarray");
  empty_ = numpy_.attr("empty");
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    if (numpy_has(type)) dtypes_[i] = numpy_.attr("dtype")(std::string(python_name(type)));
  }
}

bool Modules::is_numpy(nb::handle value) const { return is_instance(value, ndarray_); }

bool Modules::is_torch(nb::handle value) const {
  if (!tensor_.is_valid()) find_torch();
  return tensor_.is_valid() && is_instance(value, tensor_);
}

bool Modules::is_cupy(nb::handle value) const {
  if (!cupy_array_.is_valid()) find_cupy();
  return cupy_array_.is_valid() && is_instance(value, cupy_array_);
}

void Modules::find_torch() const {
  const nb::object torch = imported(modules_, "torch");
  // A partially imported torch lacks some attributes.
  if (!torch.is_valid() || !nb::hasattr(torch, "Tensor") || !nb::hasattr(torch, "utils")) return;
  torch_ = torch;
  torch_empty_ = torch.attr("empty");
  contiguous_ = torch.attr("contiguous_format");
  const nb::object dlpack = nb::module_::import_("torch.utils.dlpack");
  to_dlpack_ = dlpack.attr("to_dlpack");
  from_dlpack_ = dlpack.attr("from_dlpack");
  for (int i = 0; i < kDTypeCount; ++i) {
    const std::string name(python_name(static_cast<DType>(i)));
    if (nb::hasattr(torch, name.c_str())) torch_dtypes_[i] = torch.attr(name.c_str());
  }
  // The public torch.cuda.current_stream creates an object, which takes as long as a launch.
  const nb::object internals = torch.attr("_C");
  if (nb::hasattr(internals, "_cuda_getCurrentRawStream"))
    raw_stream_ = internals.attr("_cuda_getCurrentRawStream");
  tensor_ = torch.attr("Tensor");
}

void Modules::find_cupy() const {
  const nb::object cupy = imported(modules_, "cupy");
  if (!cupy.is_valid() || !nb::hasattr(cupy, "ndarray")) return;
  cupy_ = cupy;
  cupy_array_ = cupy.attr("ndarray");
}

nb::object Modules::numpy_dtype(DType dtype) const {
  if (numpy_has(dtype)) return dtypes_[static_cast<int>(dtype)];
  nb::object type = imported(modules_, "ml_dtypes");
  if (!type.is_valid()) {
    try {
      type = nb::module_::import_("ml_dtypes");
    } catch (nb::python_error&) {
      throw usage_error(
          "an output is {}, for which NumPy has no type of its own: pip install "
          "ml_dtypes, or give the inputs as torch tensors",
          python_name(dtype));
    }
  }
  return numpy_.attr("dtype")(type.attr(std::string(python_name(dtype)).c_str()));
}

nb::object Modules::numpy_empty(nb::handle shape, nb::handle dtype) const {
  return empty_(shape, dtype);
}

nb::object Modules::dense_copy(nb::handle array) const {
  return numpy_.attr("array")(array, nb::arg("order") = "C");
}

nb::object Modules::torch_empty(nb::handle shape, DType dtype) const {
  const nb::object& type = torch_dtypes_[static_cast<int>(dtype)];
  if (!type.is_valid())
    throw usage_error("this version of torch has no type " + std::string(python_name(dtype)) +
                      ", which an output has: give the inputs as NumPy arrays");
  return torch_empty_(shape, nb::arg("dtype") = type, nb::arg("device") = "cpu");
}

nb::object Modules::torch_to_dlpack(nb::handle tensor) const { return to_dlpack_(tensor); }

nb::object Modules::torch_copy(nb::handle tensor) const {
  return tensor.attr("clone")(nb::arg("memory_format") = contiguous_);
}

nb::object Modules::current_stream(Library library, int device) const {
  if (library == Library::kTorch) {
    if (raw_stream_.is_valid()) return raw_stream_(device);
    return torch_.attr("cuda").attr("current_stream")(device).attr("cuda_stream");
  }
  return cupy_.attr("cuda").attr("get_current_stream")(device).attr("ptr");
}

void Modules::synchronize(Library library, int device) const {
  if (library == Library::kTorch)
    torch_.attr("cuda").attr("synchronize")(device);
  else
    cupy_.attr("cuda").attr("Device")(device).attr("synchronize")();
}

nb::object Modules::record_event(Library library, int device, nb::object event) const {
  if (library == Library::kTorch) {
    const nb::object cuda = torch_.attr("cuda");
    if (!event.is_valid()) event = cuda.attr("Event")();
    event.attr("record")(cuda.attr("current_stream")(device));
  } else {
    const nb::object cuda = cupy_.attr("cuda");
    if (!event.is_valid()) event = cuda.attr("Event")(nb::arg("disable_timing") = true);
    event.attr("record")(cuda.attr("get_current_stream")(device));
  }
  return event;
}

void Modules::wait_event(Library library, int device, nb::handle event) const {
  if (library == Library::kTorch)
    torch_.attr("cuda").attr("current_stream")(device).attr("wait_event")(event);
  else
    cupy_.attr("cuda").attr("get_current_stream")(device).attr("wait_event")(event);
}

nb::object Modules::copy_lent(Library library, nb::handle capsule, int device) const {
  if (library == Library::kTorch) return from_dlpack_(capsule).attr("clone")();
  return cupy_
      .attr("from_dlpack")(nb::module_::import_("pysinter._arrays").attr("Lent")(capsule, device))
      .attr("copy")();
}

}  // namespace sinter::python
