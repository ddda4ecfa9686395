// SPDX-License-Identifier: Apache-2.0
// Shared by all functions of the C ABI: exceptions become status codes, and structures are read and
// written by their struct_size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <sinter/engine.h>
#include <sinter/sinter_c.h>

#include "runtime/current_error.h"
#include "runtime/format_error.h"

namespace sinter::c {

/// Stores `message` for sinter_last_error and returns `status`. Does not throw.
sinter_status fail(sinter_status status, const char* message) noexcept;

/// Runs `body` and converts exceptions to a status.
template <typename Body>
sinter_status guarded(const Body& body) noexcept {
  try {
    body();
    return SINTER_OK;
  } catch (const QueueFullError& error) {
    return fail(SINTER_ERROR_QUEUE_FULL, error.what());
  } catch (const EngineStoppedError& error) {
    return fail(SINTER_ERROR_ENGINE_STOPPED, error.what());
  } catch (...) {
    const Error error = current_error();
    return fail(static_cast<sinter_status>(error.code()), error.what());
  }
}

/// Dereferences `pointer`; throws if it is null.
template <typename T>
T& given(T* pointer, const char* what) {
  if (!pointer) throw usage_error("{} is NULL", what);
  return *pointer;
}

/// The `count` elements of an array, which may be null if `count` is 0.
template <typename T>
std::span<const T> given_array(const T* data, std::size_t count, const char* what) {
  if (count == 0) return {};
  return {&given(data, what), count};
}

/// The strings of such an array; the error for a null element calls it `one`.
inline std::vector<std::string> given_texts(const char* const* data, std::size_t count,
                                            const char* what, const char* one) {
  std::vector<std::string> texts;
  for (const char* text : given_array(data, count, what)) texts.emplace_back(&given(text, one));
  return texts;
}

/// A copy of such an array.
template <typename T>
std::vector<T> copied(const T* data, std::size_t count, const char* what) {
  const std::span<const T> elements = given_array(data, count, what);
  return {elements.begin(), elements.end()};
}

/// Throws unless `size` is a plausible struct_size; the first version had `least` bytes.
inline void check_struct_size(std::size_t size, std::size_t least, const char* what) {
  constexpr std::size_t kMost = 4096;
  if (size < least || size > kMost)
    throw usage_error("{} has a struct_size of {}: set it to sizeof, which is {} or more", what,
                      size, least);
}

/// Copies a program's structure; members unknown to the program are zeros. `least`: the structure's
/// size in its first release.
template <typename T>
T read_struct(const T* from, const char* what, std::size_t least = sizeof(T)) {
  const std::size_t size = given(from, what).struct_size;
  check_struct_size(size, least, what);
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      throw usage_error(
          "{} says something at byte {}, which this library "
          "(version {}) does not know: update Sinter",
          what, i, SINTER_VERSION);
  T result{};
  std::memcpy(&result, from, std::min(size, sizeof(T)));
  return result;
}

/// Copies as much of `value` to a program's structure as its struct_size allows.
template <typename T>
void write_struct(T* to, T value, const char* what, std::size_t least = sizeof(T)) {
  const std::size_t size = given(to, what).struct_size;
  check_struct_size(size, least, what);
  value.struct_size = size;
  std::memcpy(to, &value, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<char*>(to) + sizeof(T), 0, size - sizeof(T));
}

}  // namespace sinter::c
