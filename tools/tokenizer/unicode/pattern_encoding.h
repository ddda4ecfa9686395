// SPDX-License-Identifier: Apache-2.0
// UTF-8 as Oniguruma reads it, with the characters that Unicode has had since Oniguruma's tables.
#pragma once

#include <oniguruma.h>

namespace sinter::tools::unicode {

/// Classes of characters as of Unicode 16, but for properties other than categories and scripts.
OnigEncoding pattern_encoding();

}  // namespace sinter::tools::unicode
