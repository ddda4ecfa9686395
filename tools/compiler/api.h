// SPDX-License-Identifier: Apache-2.0
// The exception boundary of the compiler: converts internal errors to those of <sinter/compiler.h>.
#pragma once

#include <exception>

#include "runtime/current_error.h"
#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// `error` with the reporter's diagnostics and, last, the reason.
CompileError compile_error(const Error& error, const Reporter& reporter);

/// Calls `body` with a Reporter for `monitor`; converts an Error, or a lack of memory, to
/// CompileError. `names`: how messages name options.
template <typename Body>
decltype(auto) at_boundary(const Monitor& monitor, OptionNames names, Body&& body) {
  Reporter reporter(monitor, names);
  try {
    return body(reporter);
  } catch (const CompileError&) {
    throw;
  } catch (const Error& error) {
    std::throw_with_nested(compile_error(error, reporter));  // nested, for more specific types:
                                                             // FileError
  } catch (const std::exception&) {
    // Exceptions of the caller's callbacks pass through, except out-of-memory errors.
    const Error error = current_error();
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    throw compile_error(error, reporter);
  }
}

/// Code of the note that a model was recognised as a decoder and its plan is one for texts.
inline constexpr const char* kPagedNote = "paged";

/// sinter::compile and sinter::compare without the exception boundary. `path`: the plan's file;
/// empty: in memory. Progress of measurements is stage "measuring".
CompileResult compile_model(const BuildOptions& options, const std::string& path,
                            Reporter& reporter);
CompareResult compare_builds(const BuildOptions& options, const CompareOptions& compare,
                             Reporter& reporter);

}  // namespace sinter::tools
