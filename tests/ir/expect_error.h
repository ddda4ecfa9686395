// SPDX-License-Identifier: Apache-2.0
// Errors that tests provoke.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <sinter/error.h>

namespace sinter::ir {

/// The message of the Error that `action` throws, whose code must be `code`.
template <typename Action>
std::string error_of(Action&& action, ErrorCode code = ErrorCode::kInvalidModel) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace sinter::ir
