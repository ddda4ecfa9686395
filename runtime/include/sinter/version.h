// SPDX-License-Identifier: Apache-2.0
// The version of these headers. C and C++.
#pragma once

#include <sinter/export.h>

#define SINTER_VERSION_MAJOR 0
#define SINTER_VERSION_MINOR 2
#define SINTER_VERSION_PATCH 0

#define SINTER_VERSION_TEXT_(major, minor, patch) #major "." #minor "." #patch
#define SINTER_VERSION_TEXT(major, minor, patch) SINTER_VERSION_TEXT_(major, minor, patch)
/// "0.2.0".
#define SINTER_VERSION \
  SINTER_VERSION_TEXT(SINTER_VERSION_MAJOR, SINTER_VERSION_MINOR, SINTER_VERSION_PATCH)
/// Grows with every version, for comparisons in the preprocessor.
#define SINTER_VERSION_NUMBER \
  (SINTER_VERSION_MAJOR * 1000000 + SINTER_VERSION_MINOR * 1000 + SINTER_VERSION_PATCH)

#ifdef __cplusplus
#include <string_view>

namespace sinter {

/// The version of the library that the program is linked with at run time, "0.2.0".
SINTER_API std::string_view version();

}  // namespace sinter
#endif
