// SPDX-License-Identifier: Apache-2.0
// Arrays of NumPy, torch and CuPy as views of tensors, and new ones for outputs. All of this needs
// the GIL.
#pragma once

#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <sinter/sinter.h>

#include "tools/python/src/modules.h"

namespace sinter::python {

/// An array that somebody else owns: kept, and its memory with it, while this object lives.
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept { *this = std::move(other); }
  Array& operator=(Array&& other) noexcept;
  ~Array() { release(); }

  /// An array to read. One that is not dense and row-major is copied. Throws Error(kUsage) naming
  /// `what` for what is no array, or has elements that no tensor has; types are never converted.
  static Array read(nb::handle value, std::string_view what);
  /// An array to write to, which must be dense, row-major and writable.
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
  nb::object object_;  // what owns the memory
  Py_buffer buffer_{};
  bool has_buffer_ = false;
};

/// A new array in host memory, and a view of it. Throws Error(kUsage) if the library has no such
/// type: bfloat16 in NumPy without ml_dtypes.
struct NewArray {
  nb::object object;
  MutableTensorView view;
};
NewArray make_array(Library library, DType dtype, const std::vector<std::int64_t>& shape);

/// A new array of `library` with what an output of the session holds in device memory. Copied on
/// the library's current stream.
nb::object copy_device_output(Library library, Session& session, std::size_t output);

/// The current stream of `library` on a GPU, as Session::run_async takes it.
void* current_stream(Library library, int device);
/// Waits for all work of a GPU, through `library`.
void synchronize(Library library, int device);

/// A place in the work of one stream of a library, for which others wait.
struct StreamEvent {
  Library library = Library::kTorch;
  nb::object event;  // the library's; empty: nothing was recorded

  /// Here, on the library's current stream.
  void record(Library of, int device);
  /// What is put on the current stream of `on` from now on is behind that place: by the event, or,
  /// if there is none of that library, by waiting for the GPU.
  void wait(Library on, int device) const;
};

}  // namespace sinter::python
