// SPDX-License-Identifier: Apache-2.0
// A C library's entry point, loaded at run time and checked at every call.
#pragma once

namespace sinter::runtime {

template <typename Library, typename Function>
class LibraryEntry;

/// One entry point of `Library`. A call throws on failure, through `fail(library, status, name)` of
/// the library's header; `raw` returns the status instead. 0 is success.
template <typename Library, typename Status, typename... Args>
class LibraryEntry<Library, Status (*)(Args...)> {
 public:
  LibraryEntry() = default;
  LibraryEntry(const Library* library, const char* name, void* address)
      : library_(library), name_(name), function_(reinterpret_cast<Status (*)(Args...)>(address)) {}

  void operator()(Args... args) const {
    if (const Status status = function_(args...); status != Status{})
      fail(*library_, status, name_);
  }
  Status raw(Args... args) const noexcept { return function_(args...); }

 private:
  const Library* library_ = nullptr;
  const char* name_ = "";
  Status (*function_)(Args...) = nullptr;
};

}  // namespace sinter::runtime
