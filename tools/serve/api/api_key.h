// SPDX-License-Identifier: Apache-2.0
// Keys that clients must have.
#pragma once

#include <string>
#include <vector>

#include <sinter/export.h>

namespace sinter::tools {

/// Whether `authorization` is "Bearer KEY" with one of `keys`, in a time that does not say how much
/// of one is right; true if there are none.
SINTER_API bool is_admitted(const std::vector<std::string>& keys, const std::string& authorization);

/// What who has none is told.
inline constexpr char kNoKey[] =
    "the header 'Authorization: Bearer KEY' is missing, or the key is not known";

}  // namespace sinter::tools
