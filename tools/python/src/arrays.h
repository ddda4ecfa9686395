// SPDX-License-Identifier: Apache-2.0
// NumPy, torch and CuPy arrays as tensor views, and new arrays for outputs. All functions require
// the GIL.
#pragma once

#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <sinter/sinter.h>

#include "tools/python/src/modules.h"

namespace sinter::python {

/// An array owned by Python: keeps it and its memory alive.
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept { *this = std::move(other); }
  Array& operator=(Array&& other) noexcept;
  ~Array() { release(); }

  /// An array for reading. Copies one that is not dense and row-major. Throws Error(kUsage) naming
  /// `what` if it is no array, or of an unsupported element type; never converts types.
  static Array read(nb::handle value, std::string_view what);
  /// An array for writing: must be dense, row-major and writable.
  static Array write(nb::handle value, std::string_view what);

  Library library() const { return library_; }
  const MutableTensorView& view() const { return view_; }
  bool on_device() const { return view_.memory == Memory::kDevice; }
  explicit operator bool() const { return static_cast<bool>(object_); }

 private:
  static Array take(nb::handle value, std::string_view what, bool writable);
  void take_buffer(nb::handle value, std::string_view what, bool writable);
  void take_torch(nb::handle value, std::string_view what, bool writable);
  void take_dlpack(nb::handle value, std::string_view what, bool writable);
  void read_capsule(nb::object capsule, std::string_view what, bool writable);
  void release();

  Library library_ = Library::kNumpy;
  MutableTensorView view_;
  nb::object object_;  // owner of the memory
  Py_buffer buffer_{};
  bool has_buffer_ = false;
};

/// A new array in host memory and a view of it. Throws Error(kUsage) if the library lacks the type:
/// bfloat16 in NumPy without ml_dtypes.
struct NewArray {
  nb::object object;
  MutableTensorView view;
};
NewArray make_array(Library library, DType dtype, const std::vector<std::int64_t>& shape);

/// Copies an output in device memory to a new array of `library`, on the library's current stream.
nb::object copy_device_output(Library library, Session& session, std::size_t output);

/// The current stream of `library` on a GPU, for Session::run_async.
void* current_stream(Library library, int device);
/// Waits for all work on a GPU, through `library`.
void synchronize(Library library, int device);

/// A point in the work of a library's stream, for which others can wait.
struct StreamEvent {
  Library library = Library::kTorch;
  nb::object event;  // the library's event; empty: nothing recorded

  /// Records the current point of the library's current stream.
  void record(Library of, int device);
  /// Makes later work on the current stream of `on` wait for the point: with the event or, if it is
  /// another library's, by synchronizing the GPU.
  void wait(Library on, int device) const;
};

}  // namespace sinter::python
