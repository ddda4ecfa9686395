// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened when they are called.
#include "runtime/libraries/lazy/lazy_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

namespace sinter::testing {
namespace {

using libraries::LazyLibrary;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(LazyLibrary& library, const char* function) {
  try {
    library.find(function);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    return error.what();
  }
  return "";
}

TEST(LazyLibrary, FindsFunctions) {
  LazyLibrary library("libm.so.6", "numbers", "apt install libc6");
  const auto found = reinterpret_cast<double (*)(double)>(library.find("cos"));
  EXPECT_EQ(found(0), 1);
  EXPECT_EQ(library.find("cos"), reinterpret_cast<void*>(found));
}

TEST(LazyLibrary, SaysWhatIsMissingAndWhereItIs) {
  LazyLibrary library("libnot_there.so.9", "libnot_there (nothing)", "apt install libnot-there9");
  EXPECT_THAT(refusal(library, "cos"),
              AllOf(HasSubstr("libnot_there (nothing) cannot be loaded"),
                    HasSubstr("libnot_there.so.9"), HasSubstr("apt install libnot-there9")));
}

TEST(LazyLibrary, SaysThatAVersionIsAnother) {
  LazyLibrary library("libm.so.6", "numbers", "apt install libc6");
  EXPECT_THAT(refusal(library, "not_a_function"),
              AllOf(HasSubstr("has no function 'not_a_function'"), HasSubstr("libm.so.6")));
}

}  // namespace
}  // namespace sinter::testing
