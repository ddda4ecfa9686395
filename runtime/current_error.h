// SPDX-License-Identifier: Apache-2.0
// Converts exceptions of the standard library to errors with a code. Header only: the compiler's
// and the runtime's libraries both need it.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include <sinter/error.h>

namespace sinter {

/// Converts the current exception to an Error. Lack of memory, address space or threads is
/// kOutOfMemory; an exception that is not Sinter's is kInternal. Call it in a catch (...).
inline Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "out of host memory"};
  } catch (const std::length_error&) {
    return {ErrorCode::kOutOfMemory, "out of host memory: more is asked for than there can be"};
  } catch (const std::system_error& error) {
    // pthread_create returns EAGAIN if the stack cannot be allocated, and at the limit of threads.
    if (error.code() == std::errc::resource_unavailable_try_again)
      return {ErrorCode::kOutOfMemory,
              "a thread cannot be started: there is no memory for its stack, or the process has as "
              "many as it may (ulimit -u, -v)"};
    if (error.code() == std::errc::not_enough_memory)
      return {ErrorCode::kOutOfMemory, "out of host memory"};
    return {ErrorCode::kInternal, std::string("defect of Sinter: ") + error.what()};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, std::string("defect of Sinter: ") + error.what()};
  } catch (...) {
    return {ErrorCode::kInternal, "defect of Sinter: an exception of an unknown type"};
  }
}

}  // namespace sinter
