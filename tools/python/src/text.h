// SPDX-License-Identifier: Apache-2.0
// Strings of C++ in Python. Names of a model are bytes that need not be UTF-8: what is not becomes
// U+FFFD instead of an error. Takes the place of nanobind/stl/string.h and string_view.h.
#pragma once

#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

namespace sinter::python {

/// A new reference, or null with Python's error set.
inline PyObject* make_text(std::string_view value) noexcept {
  return PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace");
}

inline nanobind::str text(std::string_view value) {
  PyObject* made = make_text(value);
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal<nanobind::str>(made);
}

}  // namespace sinter::python

namespace nanobind::detail {

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
    if (data == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.assign(data, static_cast<std::size_t>(size));
    return true;
  }

  static handle from_cpp(const std::string& value, rv_policy, cleanup_list*) noexcept {
    return sinter::python::make_text(value);
  }
};

}  // namespace nanobind::detail
