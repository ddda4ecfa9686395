// SPDX-License-Identifier: Apache-2.0
// UTF-8 as Oniguruma reads it, with the characters that Unicode has had since Oniguruma's tables.
#pragma once

#include <oniguruma.h>

namespace sinter::tools::unicode {

/// Character classes of Unicode 16, except properties other than categories and scripts.
OnigEncoding pattern_encoding();

}  // namespace sinter::tools::unicode
