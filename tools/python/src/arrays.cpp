// SPDX-License-Identifier: Apache-2.0
#include "tools/python/src/arrays.h"

#include <sinter/dlpack.h>

#include "runtime/format_error.h"
#include "tools/python/src/text.h"

namespace sinter::python {
namespace {

constexpr const char* kArrays = "NumPy arrays, torch and CuPy tensors, and buffers";

[[noreturn]] void refuse(std::string message) { throw usage_error(std::move(message)); }

std::string python_type(nb::handle value) {
  const nb::object type = nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())));
  const std::string module = nb::cast<std::string>(type.attr("__module__"));
  const std::string name = nb::cast<std::string>(type.attr("__qualname__"));
  return module == "builtins" ? name : module + "." + name;
}

/// The element type of a PEP 3118 format with a single item.
std::optional<DType> dtype_of_format(std::string_view format, Py_ssize_t size) {
  if (!format.empty() && std::string_view("@=<").find(format[0]) != std::string_view::npos)
    format.remove_prefix(1);
  else if (!format.empty() && (format[0] == '>' || format[0] == '!')) {
    if (size > 1) return std::nullopt;
    format.remove_prefix(1);
  }
  if (format.size() != 1) return std::nullopt;
  const auto sized = [size](DType one, DType two, DType four, DType eight) -> std::optional<DType> {
    switch (size) {
      case 1: return one;
      case 2: return two;
      case 4: return four;
      case 8: return eight;
      default: return std::nullopt;
    }
  };
  switch (format[0]) {
    case '?': return DType::kBool;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return sized(DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return sized(DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64);
    case 'e': return DType::kFloat16;
    case 'f': return DType::kFloat32;
    case 'd': return DType::kFloat64;
    default: return std::nullopt;
  }
}

/// The ml_dtypes type with this name.
std::optional<DType> foreign_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (const auto dtype = static_cast<DType>(i); !numpy_has(dtype) && python_name(dtype) == name)
      return dtype;
  return std::nullopt;
}

/// NumPy's type for the bits of a type that NumPy lacks.
const char* bits_name(DType dtype) { return size_of(dtype) == 1 ? "uint8" : "uint16"; }

bool is_dense(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (int d = tensor.ndim; d-- > 0;) {
    if (tensor.shape[d] == 0) return true;
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

nb::object shape_tuple(const std::vector<std::int64_t>& shape) {
  nb::object result = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  if (!result.is_valid()) throw nb::python_error();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    PyObject* size = PyLong_FromLongLong(shape[d]);
    if (size == nullptr) throw nb::python_error();
    PyTuple_SetItem(result.ptr(), static_cast<Py_ssize_t>(d), size);
  }
  return result;
}

void* data_of_buffer(nb::handle array) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_SIMPLE | PyBUF_WRITABLE) != 0)
    throw nb::python_error();
  void* data = buffer.buf;
  PyBuffer_Release(&buffer);
  return data;
}

}  // namespace

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  release();
  library_ = other.library_;
  view_ = std::move(other.view_);
  object_ = std::move(other.object_);
  buffer_ = other.buffer_;
  has_buffer_ = std::exchange(other.has_buffer_, false);
  return *this;
}

void Array::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  object_.reset();
}

Array Array::read(nb::handle value, std::string_view what) { return take(value, what, false); }
Array Array::write(nb::handle value, std::string_view what) { return take(value, what, true); }

Array Array::take(nb::handle value, std::string_view what, bool writable) {
  Array array;
  const Modules& modules = Modules::get();
  if (modules.is_numpy(value)) {
    array.take_buffer(value, what, writable);
  } else if (modules.is_torch(value)) {
    array.take_torch(value, what, writable);
  } else if (modules.is_cupy(value) || nb::hasattr(value, "__dlpack__")) {
    array.take_dlpack(value, what, writable);
  } else if (PyObject_CheckBuffer(value.ptr())) {
    array.take_buffer(value, what, writable);
  } else {
    refuse(fmt::format("{} is a {}: taken are {}; numpy.asarray(value, dtype=...) makes one", what,
                       python_type(value), kArrays));
  }
  return array;
}

void Array::take_buffer(nb::handle value, std::string_view what, bool writable) {
  const Modules& modules = Modules::get();
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  nb::object source = nb::borrow(value);
  std::optional<DType> dtype;
  if (PyObject_GetBuffer(source.ptr(), &buffer_, flags) != 0) {
    nb::python_error error;
    if (!modules.is_numpy(value)) throw error;
    const std::string name = nb::cast<std::string>(value.attr("dtype").attr("__str__")());
    // NumPy exports no buffers for types from ml_dtypes.
    dtype = foreign_dtype(name);
    if (!dtype) {
      if (writable && !nb::cast<bool>(value.attr("flags").attr("writeable")))
        refuse(fmt::format("{} is read-only: give memory that may be written", what));
      refuse(fmt::format("{} is an array of {}, which no tensor of a plan holds", what, name));
    }
    source = value.attr("view")(bits_name(*dtype));
    if (PyObject_GetBuffer(source.ptr(), &buffer_, flags) != 0) throw nb::python_error();
  }
  has_buffer_ = true;
  if (!dtype) dtype = dtype_of_format(buffer_.format ? buffer_.format : "B", buffer_.itemsize);
  if (!dtype) {
    const std::string_view format = buffer_.format ? buffer_.format : "";
    if (!format.empty() && (format[0] == '>' || format[0] == '!'))
      refuse(
          fmt::format("{} has another byte order than this machine: convert it with "
                      "array.astype(array.dtype.newbyteorder('='))",
                      what));
    refuse(fmt::format("{} has elements of format '{}', which no tensor of a plan holds", what,
                       format));
  }
  const bool dense = PyBuffer_IsContiguous(&buffer_, 'C') &&
                     reinterpret_cast<std::uintptr_t>(buffer_.buf) % size_of(*dtype) == 0;
  if (!dense) {
    if (writable)
      refuse(fmt::format("{} is not contiguous: outputs are written to dense row-major memory only",
                         what));
    const nb::object copy = modules.dense_copy(source);
    release();
    if (PyObject_GetBuffer(copy.ptr(), &buffer_, flags) != 0) throw nb::python_error();
    has_buffer_ = true;
    source = copy;
  }
  library_ = Library::kNumpy;
  view_.dtype = *dtype;
  view_.shape.assign(buffer_.shape, buffer_.shape + buffer_.ndim);
  view_.data = buffer_.buf;
  object_ = std::move(source);
}

void Array::take_torch(nb::handle value, std::string_view what, bool writable) {
  const Modules& modules = Modules::get();
  if (nb::cast<bool>(value.attr("requires_grad")))
    refuse(fmt::format(
        "{} requires a gradient, and a plan computes none: give it as tensor.detach()", what));
  library_ = Library::kTorch;
  // Without a stream argument, work is ordered on torch's current stream, after the tensor's
  // producer.
  read_capsule(modules.torch_to_dlpack(value), what, writable);
  if (object_.is_valid()) return;
  read_capsule(modules.torch_to_dlpack(modules.torch_copy(value)), what, writable);
}

void Array::take_dlpack(nb::handle value, std::string_view what, bool writable) {
  const Modules& modules = Modules::get();
  const bool cupy = modules.is_cupy(value);
  if (!cupy) {
    const nb::tuple device = nb::cast<nb::tuple>(value.attr("__dlpack_device__")());
    const int type = nb::cast<int>(nb::int_(device[0]));
    if (type != static_cast<int>(dlpack::DeviceType::kCpu) &&
        type != static_cast<int>(dlpack::DeviceType::kCudaHost))
      refuse(
          fmt::format("{} is a {} in device memory: of tensors there, those of torch and CuPy are "
                      "taken, and torch.from_dlpack(value) makes one without a copy",
                      what, python_type(value)));
  }
  library_ = cupy ? Library::kCupy : Library::kNumpy;
  // stream -1 of CuPy: no synchronization, as for torch.
  const auto capsule_of = [cupy](nb::handle array) {
    if (!cupy) return nb::object(array.attr("__dlpack__")());
    nb::object method = array.attr("__dlpack__");
    return nb::object(method(nb::arg("stream") = -1));
  };
  read_capsule(capsule_of(nb::borrow(value)), what, writable);
  if (object_.is_valid()) return;
  const nb::object copy = cupy ? nb::object(value.attr("copy")())  // row-major
                               : modules.dense_copy(modules.numpy().attr("from_dlpack")(value));
  read_capsule(capsule_of(copy), what, writable);
}

/// Leaves object_ empty if the tensor needs a dense, aligned copy.
void Array::read_capsule(nb::object capsule, std::string_view what, bool writable) {
  auto* managed =
      static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) throw nb::python_error();
  dlpack::Tensor tensor = managed->tensor;
  if (!is_dense(tensor)) {
    if (writable)
      refuse(fmt::format("{} is not contiguous: outputs are written to dense row-major memory only",
                         what));
    return;
  }
  tensor.strides = nullptr;
  MutableTensorView view = with_context(what, [&] { return mutable_from_dlpack(tensor); });
  const std::size_t alignment = view.memory == Memory::kDevice ? 16 : size_of(view.dtype);
  if (!writable && reinterpret_cast<std::uintptr_t>(view.data) % alignment != 0) return;
  view_ = std::move(view);
  object_ = std::move(capsule);  // releases the tensor when destroyed
}

NewArray make_array(Library library, DType dtype, const std::vector<std::int64_t>& shape) {
  const Modules& modules = Modules::get();
  NewArray result;
  result.view = {dtype, shape};
  if (library == Library::kTorch) {
    result.object = modules.torch_empty(shape_tuple(shape), dtype);
    const nb::object address = result.object.attr("data_ptr")();
    result.view.data = PyLong_AsVoidPtr(address.ptr());
  } else {
    const bool foreign = !numpy_has(dtype);
    const nb::object type = modules.numpy_dtype(dtype);
    result.object =
        modules.numpy_empty(shape_tuple(shape), foreign ? nb::str(bits_name(dtype)) : type);
    result.view.data = data_of_buffer(result.object);
    if (foreign) result.object = result.object.attr("view")(type);
  }
  return result;
}

nb::object copy_device_output(Library library, Session& session, std::size_t output) {
  const Modules& modules = Modules::get();
  const int device = session.output(output).device;
  dlpack::ManagedTensor* lent = to_dlpack_unversioned(session, output);
  nb::object capsule = nb::steal(PyCapsule_New(lent, "dltensor", [](PyObject* object) {
    if (!PyCapsule_IsValid(object, "dltensor")) return;  // its consumer took it
    auto* tensor = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(object, "dltensor"));
    tensor->deleter(tensor);
  }));
  if (!capsule.is_valid()) {
    lent->deleter(lent);
    throw nb::python_error();
  }
  return modules.copy_lent(library, capsule, device);
}

void* current_stream(Library library, int device) {
  const nb::object number = Modules::get().current_stream(library, device);
  void* stream = PyLong_AsVoidPtr(number.ptr());
  if (stream == nullptr && PyErr_Occurred()) throw nb::python_error();
  // 0 is both libraries' default stream, but a session's own stream for Session::run_async.
  return stream == nullptr ? reinterpret_cast<void*>(1) : stream;  // CU_STREAM_LEGACY
}

void synchronize(Library library, int device) { Modules::get().synchronize(library, device); }

void StreamEvent::record(Library of, int device) {
  if (of != library) event.reset();
  library = of;
  event = Modules::get().record_event(of, device, std::move(event));
}

void StreamEvent::wait(Library on, int device) const {
  if (event.is_valid() && on == library)
    Modules::get().wait_event(on, device, event);
  else
    synchronize(on, device);
}

}  // namespace sinter::python
