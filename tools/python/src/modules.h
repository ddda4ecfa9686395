// SPDX-License-Identifier: Apache-2.0
// What the extension uses of Python's modules, looked up once.
#pragma once

#include <string_view>

#include <nanobind/nanobind.h>
#include <sinter/dtype.h>

namespace sinter::python {

namespace nb = nanobind;

/// The library of a call's arrays, and of its results.
enum class Library { kNumpy, kTorch, kCupy };

/// False for types that only ml_dtypes provides.
constexpr bool numpy_has(DType dtype) { return dtype != DType::kBFloat16 && !is_float8(dtype); }
/// The type's name in Python: "float32", "bfloat16", "float8_e4m3fn".
std::string_view python_name(DType dtype);

/// Python libraries. NumPy is imported at first use; torch and CuPy are used only if the program
/// has imported them. Lives as long as the interpreter.
class Modules {
 public:
  static Modules& get();

  bool is_numpy(nb::handle value) const;
  bool is_torch(nb::handle value) const;
  bool is_cupy(nb::handle value) const;

  nb::handle numpy() const { return numpy_; }
  nb::handle cupy() const { return cupy_; }

  nb::object numpy_dtype(DType dtype) const;
  nb::object numpy_empty(nb::handle shape, nb::handle dtype) const;
  /// An aligned row-major copy.
  nb::object dense_copy(nb::handle array) const;

  nb::object torch_empty(nb::handle shape, DType dtype) const;
  nb::object torch_to_dlpack(nb::handle tensor) const;
  /// An aligned row-major copy, made on torch's current stream.
  nb::object torch_copy(nb::handle tensor) const;

  nb::object current_stream(Library library, int device) const;
  void synchronize(Library library, int device) const;
  /// Records `event` (a new one if empty) on the library's current stream.
  nb::object record_event(Library library, int device, nb::object event) const;
  /// Makes later work on the library's current stream wait for `event`.
  void wait_event(Library library, int device, nb::handle event) const;
  /// Copies a capsule's borrowed tensor to a new array and releases it before returning.
  nb::object copy_lent(Library library, nb::handle capsule, int device) const;

 private:
  Modules();
  void find_torch() const;
  void find_cupy() const;

  nb::object modules_;  // sys.modules
  nb::object numpy_, ndarray_, empty_;
  nb::object dtypes_[kDTypeCount];
  mutable nb::object torch_, tensor_, torch_empty_, contiguous_, to_dlpack_, from_dlpack_,
      raw_stream_;
  mutable nb::object torch_dtypes_[kDTypeCount];
  mutable nb::object cupy_, cupy_array_;
};

}  // namespace sinter::python
